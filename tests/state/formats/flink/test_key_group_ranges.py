"""Whole key groups that are converted at once come out as block by block: bytes, counts, and what is said of damage."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest
from by_executor import agreed
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    BadValues,
    Compression,
    Edits,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    record,
)
from stateshift.state.formats.flink import keyed_stream
from stateshift.state.migration import block_rewriter, key_group_rewriter
from stateshift.state.migration.preparation import prepare
from stateshift.state.storage import files

pytest.importorskip("numba")


@attrs.define
class Old:
    name: str
    number: Int32


@record(aliases=[f"{__name__}.Old"])
@attrs.define
class New:
    number: int
    title: Annotated[str, Field(aliases=["name"])]
    added: bytes = b"x" * 40


def job_of(row, number, *more):
    return Job([Operator("o", key=str, states=[
        ValueStateDescriptor("even", number), ValueStateDescriptor("row", row), ListStateDescriptor("rows", row),
        MapStateDescriptor("map", str, number), ValueStateDescriptor("copied", str), *more,
    ])])  # fmt: skip


OLD, NEW = job_of(Old, Int32, ValueStateDescriptor("dropped", str)), job_of(New, int)
DROPPING = Edits(drop=("dropped",))
TIMES = 2
"""So often machine code goes through what executors agree on: with two threads, and with one."""


def write(place, keys, **shape):
    """A savepoint whose keys have values in all states, or in some."""
    with SavepointWriter(place, OLD, **shape) as writer:
        for number in range(keys):
            key, row = f"k{number:05}", Old("é" * (number % 4) + "abc", number)
            writer.put("o", "even", key, number)
            for name, value in {"row": row, "rows": [row] * (number % 3 + 1), "map": {"a": 1, "bc": number}}.items():
                if number % 5:
                    writer.put("o", name, key, value)
            if number % 7:
                writer.put("o", "copied", key, "y" * (number % 90))
            writer.put("o", "dropped", key, "z")
    return place


@pytest.fixture
def converted(monkeypatch):
    """How many key groups were converted in ranges, and how many ranges were left to blocks."""
    counts, convert = {"at once": 0, "left": 0}, key_group_rewriter.KeyGroupRewriter.convert

    def counting(self, stored):
        found = convert(self, stored)
        counts["left" if found is None else "at once"] += 1 if found is None else len(stored.extents)
        return found

    monkeypatch.setattr(key_group_rewriter.KeyGroupRewriter, "convert", counting)
    return counts


@pytest.mark.parametrize("most_bytes", [1, 3_000, 20_000])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_ranges_of_many_states_come_out_as_block_by_block(tmp_path, monkeypatch, converted, most_bytes, parallelism):
    write(tmp_path / "old", 600, max_parallelism=64, parallelism=2)
    monkeypatch.setattr(files, "_LOCAL_PIECE_BYTES", most_bytes)
    options = MigrationOptions(edits=DROPPING, parallelism=parallelism)

    outcome = agreed(prepare(Savepoint.open(tmp_path / "old"), NEW, options))

    counts = [count for *_, result in outcome for count in result.counts]
    assert 600 == sum(count.written for count in counts if count.state == "even")
    assert 600 == sum(count.dropped for count in counts if count.state == "dropped")
    assert {"at once": 64 * TIMES, "left": 0} == converted


def test_key_groups_of_which_nothing_stays_are_empty(tmp_path, monkeypatch, converted):
    monkeypatch.setattr(files, "_LOCAL_PIECE_BYTES", 1)
    old = Job([Operator("o", key=str, states=[ValueStateDescriptor("a", str), ValueStateDescriptor("b", Int32)])])
    new = Job([Operator("o", key=str, states=[ValueStateDescriptor("b", int)])])
    with SavepointWriter(tmp_path / "old", old, max_parallelism=32) as writer:
        for number in range(200):
            writer.put("o", "a", f"{number}", "x" * 200)
        for number in range(5):
            writer.put("o", "b", f"{number}", number)

    (outcome,) = agreed(prepare(Savepoint.open(tmp_path / "old"), new, MigrationOptions(edits=Edits(drop=("a",)))))

    assert sum(offset > 0 for offset in outcome[-1].offsets) <= 5
    assert converted["at once"] > 20


def test_entries_that_are_not_plain_are_left_to_blocks_until_it_does_not_pay(tmp_path, monkeypatch, converted):
    """A null where there should be none, in some key groups or in all."""

    @record(java_class="com.acme.Person")
    @attrs.define
    class Person:
        name: str | None
        number: Int32

    @record(java_class="com.acme.Person")
    @attrs.define
    class Named:
        name: str
        number: int

    monkeypatch.setattr(files, "_LOCAL_PIECE_BYTES", 1)
    old, new = (Job([Operator("o", key=int, states=[ValueStateDescriptor("s", row)])]) for row in (Person, Named))
    left = []
    for name, odd in {"few": {70, 1_300}, "many": range(0, 2_000, 2)}.items():
        with SavepointWriter(tmp_path / name, old, max_parallelism=64) as writer:
            for number in range(2_000):
                writer.put("o", "s", number, Person(None if number in odd else "abc", number))
        converted["at once"] = converted["left"] = 0
        options = MigrationOptions(bad_values=BadValues.QUARANTINE)

        (outcome,) = agreed(prepare(Savepoint.open(tmp_path / name), new, options))

        assert len(odd) == outcome[-1].counts[0].quarantined
        left.append((converted["left"], converted["at once"]))
    assert left[0][0] <= len({70, 1_300}) * TIMES
    assert (64 * TIMES, 0) == left[1]


def test_what_the_new_serializer_reads_otherwise_is_reported_as_by_blocks(tmp_path, monkeypatch, converted):
    def refuse(plan, value):
        if plan.name == "row":
            raise MigrationFailed(f"the new serializer does not write the same bytes that it read: {value.hex()}")

    monkeypatch.setattr(block_rewriter, "prove_readable", refuse)
    write(tmp_path / "old", 100, max_parallelism=8)
    options = MigrationOptions(edits=DROPPING)

    (outcome,) = agreed(prepare(Savepoint.open(tmp_path / "old"), NEW, options))

    assert (MigrationFailed, "RUN-7") == (outcome[0], outcome[2]["rule"])
    assert converted["left"] > 0


@pytest.mark.parametrize("compression", [Compression.SNAPPY, Compression.KEEP])
def test_what_is_compressed_is_converted_by_blocks(tmp_path, converted, compression):
    write(tmp_path / "old", 100, max_parallelism=8, compression=Compression.SNAPPY)
    options = MigrationOptions(edits=DROPPING, compression=compression)

    agreed(prepare(Savepoint.open(tmp_path / "old"), NEW, options))

    assert {"at once": 0, "left": 0} == converted


@pytest.fixture(scope="module")
def to_be_damaged(tmp_path_factory):
    """A savepoint, ready to be migrated, with the file of its stream and what lies there."""
    place = write(tmp_path_factory.mktemp("ranges") / "old", 120, max_parallelism=8)
    ready = prepare(Savepoint.open(place), NEW, MigrationOptions(edits=DROPPING, bad_values=BadValues.QUARANTINE))
    (task,) = ready.tasks
    (handle,) = task.handles
    return ready, place / handle.stream.path, min(filter(None, handle.offsets))


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 20), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, None])), min_size=1, max_size=3
    ),
    st.sampled_from([1, 2_000]),
)
def test_of_damaged_bytes_the_same_is_said(to_be_damaged, damages, most_bytes):
    ready, file, start = to_be_damaged
    sound = file.read_bytes()
    damaged = bytearray(sound)
    for number, byte in damages:
        place = start + number % (len(sound) - start)
        damaged[place] = damaged[place] ^ 0x80 if byte is None else byte
    file.write_bytes(damaged)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_LOCAL_PIECE_BYTES", most_bytes)
            patch.setattr(keyed_stream, "_WHOLE_BYTES", 4_000)
            agreed(ready)
    finally:
        file.write_bytes(sound)
