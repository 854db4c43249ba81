"""No damage of a source comes out as a savepoint that is unsound, and with digests none comes out at all.

2,000 damages by seeds, each to another savepoint, in one of the ways of a migration.
"""

from __future__ import annotations

import random
import shutil
from typing import Annotated

import attrs
import pytest
from damaging import Places, damage_of

from stateshift import (
    Compression,
    Edits,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateShiftError,
    ValueStateDescriptor,
    record,
)
from stateshift.compat.description import StateKind
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.testing import migrate_in_process
from stateshift.state.transcode.executor_choice import VARIABLE, has_numba

FIXTURES = [
    "hashmap-long-p2-m128-snappy", "rocksdb-string-p1-m200-snappy", "rocksdb-long-p2-m200-files",
    "hashmap-tuple-p2-m200", "hashmap-operator-only-p2-m128", "hashmap-windows-p2-m128", "rocksdb-namespaced-p2-m200",
    "hashmap-account-v1",
]  # fmt: skip
OWN = ["own-inline", "own-files", "own-snappy"]
MODES = ["copy", "rename", "drop", "compress", "rescale", "rekey"]
DAMAGES, AT_ONCE = 2000, 50
EXECUTORS = ["auto", "numba", "objects"]


@attrs.define
class Old:
    name: str
    number: Int32
    tags: list[str]


@record(aliases=[f"{__name__}.Old"])
@attrs.define
class New:
    number: int
    tags: list[str]
    title: Annotated[str, Field(aliases=["name"])]


def job_of(row, number):
    keyed = [
        ValueStateDescriptor("row", row), ListStateDescriptor("rows", row), MapStateDescriptor("map", str, number),
        ValueStateDescriptor("stamped", number, time_to_live=True), ValueStateDescriptor("text", str),
    ]  # fmt: skip
    lists, maps = [ListStateDescriptor("split", row)], [MapStateDescriptor("rules", str, number)]
    return Job([
        Operator("keyed", key=str, states=keyed),
        Operator("numbers", key=int, states=[ValueStateDescriptor("n", number)]),
        Operator("other", list_states=lists, broadcast_states=maps),
    ])  # fmt: skip


def write_own(name, place):
    with SavepointWriter(place, job_of(Old, Int32), parallelism=2, max_parallelism=16) as writer:
        for number in range(60):
            key, row = f"key{number}", Old("é" * (number % 3) + "name", number, ["a"] * (number % 4))
            writer.put("keyed", "row", key, row)
            writer.put("keyed", "rows", key, [row] * (number % 3 + 1))
            writer.put("keyed", "map", key, {"one": 1, f"k{number}": number})
            writer.put("keyed", "text", key, "text" * (100 if name == "own-files" else 2))
            writer.put("numbers", "n", number * 31, number)
            writer.add("other", "split", row, subtask=number % 2)
        writer.put_broadcast("other", "rules", "rule", 7)


class Source:
    """A savepoint that is damaged and corrected again."""

    def __init__(self, name, place, with_digests):
        self.name, self.place, self.with_digests = name, place, with_digests
        self.places = Places(place)
        self._sound = {}

    @property
    def modes(self):
        found = [*MODES, "convert"] if self.name in OWN else MODES
        return [mode for mode in found if mode not in {"rename", "drop", "rekey"} or self._keyed()]

    def _keyed(self):
        """A keyed state, and the uid of its operator."""
        kinds = {StateKind.VALUE, StateKind.LIST, StateKind.MAP}
        states = [
            (operator, state.name)
            for operator in Savepoint.open(self.place).operators
            for state in operator.states
            if state.kind in kinds
        ]
        return min(((state, operator.uid or operator.operator_id) for operator, state in states), default=None)

    def asked(self, mode):
        if mode == "convert":
            return job_of(New, int), MigrationOptions()
        state, uid = self._keyed() or ("", "")
        options = {
            "copy": {},
            "rename": {"edits": Edits(rename_states=((f"{uid}/{state}", "renamed"),))},
            "drop": {"edits": Edits(drop=(f"{uid}/{state}",))},
            "compress": {"compression": Compression.NONE if "snappy" in self.name else Compression.SNAPPY},
            "rescale": {"parallelism": 3},
            "rekey": {"repartition": Repartition(max_parallelism={uid: 60})},
        }
        return None, MigrationOptions(**options[mode])

    def sound(self, mode, scratch):
        """What comes out where nothing is damaged."""
        if mode not in self._sound:
            self._sound[mode] = contents(self.migrated(mode, self.asked(mode), scratch))
            shutil.rmtree(scratch)
        return self._sound[mode]

    def migrated(self, mode, asked, scratch):
        return migrate_in_process(Savepoint.open(self.place), scratch, *asked)


@pytest.fixture(scope="module")
def sources(tmp_path_factory, savepoint_of):
    """Each savepoint with digests and without: none of Flink's has any, so these are those of what becomes of them."""
    folder, made = tmp_path_factory.mktemp("damaged"), []
    for name in [*FIXTURES, *OWN]:
        plain, proven = folder / f"{name}-plain", folder / f"{name}-proven"
        if name in OWN:
            write_own(name, proven)
            if name == "own-snappy":
                migrate_in_process(
                    Savepoint.open(proven), folder / name, None, MigrationOptions(compression=Compression.SNAPPY)
                )
                shutil.rmtree(proven)
                (folder / name).rename(proven)
            shutil.copytree(proven, plain)
            (plain / LINEAGE).unlink()
        else:
            shutil.copytree(savepoint_of(name), plain)
            migrate_in_process(Savepoint.open(plain), proven)
        made += [Source(name, plain, False), Source(name, proven, True)]
    return made


def contents(savepoint):
    """Everything that can be read, by operator and state; reading fails as an export does."""
    found = {}
    for operator in savepoint.operators:
        for state in operator.states:
            if state.unsupported:
                continue
            read = {StateKind.TIMERS: state.read_timers}.get(
                state.kind, state.read_entries if state.kind.is_keyed else state.read_elements
            )
            values = [*map(repr, read())]
            found[operator.operator_id, str(state.kind), state.name] = sorted(values) if state.kind.is_keyed else values
    return found


def look(source, seed, scratch):
    """Damage a savepoint, migrate it, and look at what comes out; give whether it was refused."""
    damage, mode = damage_of(source.places, seed), random.Random(seed).choice(source.modes)  # noqa: S311 - no secret
    sound, asked = source.sound(mode, scratch), source.asked(mode)
    file = source.place / damage.file
    file.write_bytes(damage.data)
    what = f"seed {seed}: {damage.kind} in {damage.file} of {source.place.name}, {mode}"
    try:
        result = source.migrated(mode, asked, scratch)
    except StateShiftError:
        return True
    except Exception as error:
        raise AssertionError(what) from error
    else:
        assert not source.with_digests, what
        assert [] == [check for check in verify(result).checks if check.status is Outcome.FAILED], what
        try:
            found = contents(result)
        except StateShiftError as error:
            raise AssertionError(what) from error
        told = {operator.operator_id for operator in result.operators if operator.unreadable}
        same = all(found.get(place) == sound.get(place) for place in {*found, *sound} if place[0] not in told)
        assert damage.kind == "type" or source.places.are_free(damage.file, damage.data, told) or same, what
        return False
    finally:
        file.write_bytes(source.places.files[damage.file])
        shutil.rmtree(scratch, ignore_errors=True)


def look_at_all(sources, seeds, scratch):
    """Damage one savepoint after the other; give how many were refused."""
    return sum(look(sources[seed % len(sources)], seed, scratch) for seed in seeds)


def batches():
    """The first of each batch; each executor has one in every run, a slow one, and the others with the faults."""
    firsts = range(0, DAMAGES, AT_ONCE)
    each = len(EXECUTORS)
    marks = [[], [pytest.mark.slow]] + [[pytest.mark.faults]] * (len(firsts) // each)
    return [pytest.param(first, marks=marks[number // each]) for number, first in enumerate(firsts)]


@pytest.mark.parametrize("first", batches())
def test_no_damage_comes_out_as_an_unsound_savepoint(sources, monkeypatch, tmp_path, first):
    executor = EXECUTORS[first // AT_ONCE % len(EXECUTORS)]
    monkeypatch.setenv(VARIABLE, executor if executor != "numba" or has_numba() else "")

    refused = look_at_all(sources, range(first, first + AT_ONCE), tmp_path / "out")

    assert refused > AT_ONCE / 2
