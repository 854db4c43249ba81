"""Damages to checkpoints of Spark, by seeds, and what a migration that changes no type makes of them."""

from __future__ import annotations

import io
import random
import shutil
import struct
import zlib
from contextlib import redirect_stderr, redirect_stdout

import attrs
from spark_checkpoints import place
from spark_copies import with_a_note

from stateshift.cli import main
from stateshift.state.formats.spark.reader import SparkCheckpoint

HDFS = ["aggregation", "checksums", "zstd", "snappy", "lzf", "join-outer", "session", "snapshots", "two"]
ROCKSDB = ["rocksdb", "rocksdb-changelog", "rocksdb-checksums", "rocksdb-format-2", "rocksdb-zips-2", "rocksdb-join",
           "rocksdb-session", "transform", "transform-checksums", "join-v3"]  # fmt: skip
WITH_A_NOTE = {
    "aggregation",
    "checksums",
    "zstd",
    "snappy",
    "lzf",
    "snapshots",
    "rocksdb",
    "rocksdb-changelog",
    "rocksdb-checksums",
}
UNWRITTEN = {"lzf"}
CHUNK = 512


def with_sums(folder):
    """Put checksums beside all files, as Hadoop does on a local disk."""
    for file in [one for one in folder.rglob("*") if one.is_file()]:
        data = file.read_bytes()
        sums = b"".join(struct.pack(">I", zlib.crc32(data[at : at + CHUNK])) for at in range(0, len(data), CHUNK))
        (file.parent / f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(">i", CHUNK) + sums)


@attrs.define
class Damage:
    """A damage to a file of a checkpoint."""

    kind: str
    file: str


def damaged(folder, chance, files):
    """Damage one of some files."""
    kind = chance.choice(["flip", "flip", "blot", "cut", "emptied", "appended", "missing", "of another"])
    file = chance.choice(files)
    data, path = file.read_bytes(), file.relative_to(folder).as_posix()
    if not data:
        kind = "appended"
    at = chance.randrange(len(data)) if data else 0
    if kind == "missing":
        file.unlink()
        return Damage(kind, path)
    others = [one for one in files if one.suffix == file.suffix and one.read_bytes() != data]
    if kind == "of another" and not others:
        kind = "flip"
    size = chance.randint(1, 32)
    new = {
        "flip": lambda: data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
        "blot": lambda: data[:at] + chance.choice([b"\0", b"\xff"]) * len(data[at : at + size]) + data[at + size :],
        "cut": lambda: data[:at],
        "emptied": lambda: b"",
        "appended": lambda: data + chance.randbytes(chance.randint(1, 9)),
        "of another": lambda: chance.choice(others).read_bytes(),
    }[kind]()
    file.write_bytes(new)
    return Damage(kind, path)


def stored(folder):
    """All entries as they are stored, by operator and store."""
    found = {}
    for operator in SparkCheckpoint.open(folder).operators:
        for store in operator.stores:
            entries = found.setdefault((operator.number, store.name), [])
            for partition in range(store.partitions):
                for keys, values in store.stored_blocks(partition):
                    entries += [(partition, bytes(key), bytes(value)) for key, value in zip(keys, values, strict=True)]
            entries.sort()
    return found


def logs(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] != "state" and not file.name.startswith(("_", "."))
    }


def run(*arguments):
    """Run a command in this process; return its status and what it said."""
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            main(list(map(str, arguments)))
    except SystemExit as ended:
        return ended.code, said.getvalue()
    return 0, said.getvalue()


def outcome(name, seed, scratch, *, sums):
    """Damage a copy and migrate it.

    Returns:
        The damage, the status, what was said, and what of the copy differs from what the sound source has.
    """
    source, target = scratch / f"{name}-{seed}", scratch / f"{name}-{seed}-copy"
    shutil.copytree(place(name), source)
    chance = random.Random(f"{name} {seed} {sums}")  # noqa: S311 - repeatable
    files = sorted(file for file in source.rglob("*") if file.is_file() and file.suffix != ".crc")
    if sums:
        with_sums(source)
    else:
        files = [one for one in files if "state" in one.relative_to(source).parts and "_" not in one.parent.name]
        for one in source.rglob("*.crc"):
            one.unlink()
    damage = damaged(source, chance, files)
    before = {file: file.read_bytes() for file in source.rglob("*") if file.is_file()}
    status, told = run("migrate", f"spark:{source}", f"spark:{target}", "--like", f"spark:{place(name)}")
    assert before == {file: file.read_bytes() for file in source.rglob("*") if file.is_file()}
    changed = []
    if status == 0:
        was, now = stored(place(name)), stored(target)
        changed = [key for key in was.keys() | now.keys() if was.get(key) != now.get(key)]
        was, now = logs(place(name)), logs(target)
        changed += [key for key in was.keys() | now.keys() if was.get(key) != now.get(key)]
    else:
        data = (target / "metadata").read_bytes() if (target / "metadata").exists() else b""
        changed += ["metadata"] * bool(data and data.startswith(b"{"))
    shutil.rmtree(source)
    shutil.rmtree(target, ignore_errors=True)
    return damage, status, told, changed


def copied(name, scratch):
    """A migrated copy of a fixture, with a new field where its values are plain fields; else with the types it has."""
    if name in WITH_A_NOTE:
        return with_a_note(name, scratch)
    assert run("migrate", f"spark:{place(name)}", f"spark:{scratch / 'copy'}", "--like", f"spark:{place(name)}")[0] == 0
    return scratch / "copy"


def verified(sound, seed, scratch):
    """Damage a file of a migrated copy, or the record of the migration, and verify it.

    Returns:
        The damage, the status, what was said, and what of the damaged copy differs from what the sound one has.
    """
    copy = scratch / str(seed)
    shutil.copytree(sound, copy)
    chance = random.Random(f"{sound.parent.name} {seed}")  # noqa: S311 - repeatable
    files = sorted(file for file in copy.rglob("*") if file.is_file() and file.suffix != ".crc")
    state = [file for file in files if file.relative_to(copy).parts[0] == "state"]
    damage = damaged(copy, chance, state if chance.random() < 0.7 else files)
    status, told = run("verify", f"spark:{copy}")
    changed = []
    if status == 0:
        for found in (stored, logs):
            was, now = found(sound), found(copy)
            changed += [key for key in was.keys() | now.keys() if was.get(key) != now.get(key)]
    shutil.rmtree(copy)
    return damage, status, told, changed
