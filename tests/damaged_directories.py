"""Damages to the state directory of a query, by seeds."""

# ruff: noqa: ARG001 - all damages have the same arguments

from __future__ import annotations

import random
import shutil

from streaming_batches import BACKENDS, close_slots
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint
from stateshift.state.directory.directory import STREAM_FILE
from stateshift.state.formats.flink.metadata import METADATA, write_metadata

FACTS = ("manifests", "epochs", "runs", "bases", STREAM_FILE)
"""What says which state there is; `files` and `shared` are the state itself."""


def make(place, backend):
    """A query of two epochs with state in files, in which a batch was repeated, and the last one is not committed."""
    options = {"as_spark": True, "slots": 2, "retained": 2}
    users = {f"user {number:03} {'x' * 900}": number for number in range(120)}
    engine = totals(place, BACKENDS[backend], **options)
    engine.batch(visits(**users))
    engine.batch(visits(**dict.fromkeys(list(users)[:40], 1)))
    savepoint = Savepoint.open(place)
    base = engine.directory.base("2")
    base.create()
    base.write(METADATA, write_metadata(savepoint.metadata))
    digest = engine.directory.digest_of_base("2")
    engine.new_process()
    engine = totals(place, BACKENDS[backend], before=engine, base="2", base_sha256=digest, **options | {"slots": 3})
    engine.batch(visits(**dict.fromkeys(users, 10)))
    engine.batch(visits(**dict.fromkeys(list(users)[:5], 100)))
    engine.batch(visits(**dict.fromkeys(list(users)[:5], 7)), commits=False)
    engine.new_process()
    engine = totals(place, BACKENDS[backend], before=engine, **options)
    engine.batch(visits(**dict.fromkeys(list(users)[:5], 1000)))
    engine.batch(visits(**dict.fromkeys(list(users)[:9], 5000)), commits=False)
    close_slots()
    return totals_in(Savepoint.open(place))


def damage(place, seed):
    """Damage a state directory, and say how."""
    chosen = random.Random(f"directory {seed}")  # noqa: S311 - no secret
    files = sorted(file for file in place.rglob("*") if file.is_file())
    facts = [file for file in files if file.relative_to(place).parts[0] in FACTS]
    file = chosen.choice(facts if seed % 2 else files)
    how = chosen.choice([deleted, cut, emptied, flipped, replaced, exchanged, renamed, edited])
    how(file, chosen, [one for one in files if one.parent == file.parent and one != file])
    return f"{file.relative_to(place)} was {how.__name__}"


def deleted(file, chosen, others):
    file.unlink()


def cut(file, chosen, others):
    data = file.read_bytes()
    file.write_bytes(data[: chosen.randrange(len(data))] if data else b"")


def emptied(file, chosen, others):
    file.write_bytes(b"")


def flipped(file, chosen, others):
    data = bytearray(file.read_bytes())
    if data:
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    file.write_bytes(data)


def replaced(file, chosen, others):
    if others:
        shutil.copy(chosen.choice(others), file)


def exchanged(file, chosen, others):
    if others:
        other = chosen.choice(others)
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)


def renamed(file, chosen, others):
    """Its content stays under the name of another one, which is gone."""
    if others:
        file.rename(chosen.choice(others))


def edited(file, chosen, others):
    """A value in its JSON is another one, and may have another type."""
    data = file.read_bytes()
    words = [b"0", b"1", b"2", b"7", b"null", b'"x"', b"[]", b"{}", b"-1", b"true", b"1e999", b"9" * 400]
    places = [at for at in range(1, len(data)) if data[at - 1 : at] == b":" and data[at : at + 1]]
    if places:
        at = chosen.choice(places)
        end = min((found for found in (data.find(b",", at), data.find(b"}", at)) if found >= 0), default=len(data))
        file.write_bytes(data[:at] + b" " + chosen.choice(words) + data[end:])
