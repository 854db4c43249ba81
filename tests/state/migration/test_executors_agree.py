"""Whoever rewrites blocks, whole tasks come to the same streams, offsets, counts and errors; so do objects."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated

import attrs
import pytest
from by_executor import agreed
from later_types import later_version

from stateshift import (
    BadValues,
    Compression,
    Edits,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    record,
)
from stateshift.compat.description import StateKind
from stateshift.compat.plan import StateAction
from stateshift.compat.reference_time import milliseconds
from stateshift.serializers.primitives.numeric import IntSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.state.formats.flink.keyed_stream import RUN_BYTES
from stateshift.state.migration.preparation import prepare
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.factory import program_of

pytest.importorskip("numba")

AT, DAY = datetime(2026, 6, 15, 12, tzinfo=UTC), timedelta(days=1)


def ways(ready):
    """How many of the keyed states whose values change have an op list, and how many none."""
    states = [state for operator in ready.plan.operators for state in operator.states if state.kind.is_keyed]
    framing = entry_framing(StateKind.MAP, key=StringSerializer(), namespace=IntSerializer(), max_parallelism=128)
    return Counter(program_of(state, framing) is not None for state in states if state.action is StateAction.CONVERT)


def later(place):
    """The migration of a savepoint to a later version of every type of it."""
    savepoint = Savepoint.open(place)
    return prepare(savepoint, later_version(savepoint.describe()), MigrationOptions())


def test_of_every_state_that_flink_wrote(canonical):
    assert agreed(later(canonical))


def test_of_every_state_in_the_native_format_of_flink(native_heap):
    assert agreed(later(native_heap))


def test_of_the_later_versions_that_flink_itself_would_refuse(savepoint_of, accounts):
    for name in ("hashmap-account-v1", "rocksdb-account-v1", "hashmap-account-v2"):
        assert agreed(prepare(Savepoint.open(savepoint_of(name)), accounts(3), MigrationOptions()))


def test_most_types_that_flink_wrote_have_an_op_list(savepoint_of):
    """Else there would be nothing to agree on."""
    found = ways(later(savepoint_of("hashmap-zoo-p1-m128")))

    assert found[True] > 4 * found[False]


@attrs.define
class Old:
    name: str
    number: Int32
    data: bytes = b""


@record(aliases=[f"{__name__}.Old"])
@attrs.define
class New:
    title: Annotated[str, Field(aliases=["name"])]
    number: int
    data: bytes = b""
    added: bool = True


def job_of(row, number, *more, gains=False, loses=None):
    """Seven states that are converted, where `row` or `number` is another one; one of them gains TTL, and one loses it.

    Args:
        row: A type of records.
        number: A type of numbers.
        more: Further states.
        gains: Whether values of one state are stamped from now on.
        loses: For how long values of another one lived, which are not stamped any more.
    """
    stays = {"time_to_live": True}
    was = {"time_to_live": loses is None, "former_time_to_live": loses}
    return Job([Operator("o", key=str, states=[
        ValueStateDescriptor("record", row), ListStateDescriptor("list", row), MapStateDescriptor("map", str, row),
        ValueStateDescriptor("stamped", number, **stays), ListStateDescriptor("stamped list", row, **stays),
        MapStateDescriptor("stamped map", str, number, **stays),
        ValueStateDescriptor("gains", row, time_to_live=gains), MapStateDescriptor("loses", str, number, **was),
        ValueStateDescriptor("copied", str), *more,
    ])])  # fmt: skip


OLD = job_of(Old, Int32, ValueStateDescriptor("dropped", str))
NEW = job_of(New, int, gains=True, loses=DAY)


def job_of_one(row):
    return Job([Operator("o", key=str, states=[ValueStateDescriptor("record", row), ListStateDescriptor("list", row)])])


OPTIONS = MigrationOptions(reference_time=AT, edits=Edits(drop=("dropped",)))


def put(writer, key, number, text="abc", data=b""):
    """Give a key a value in every state."""
    row, stamp = Old(text, number, data), milliseconds(AT) - number % 2 * milliseconds(AT) // 2
    for name, value in {
        "record": row, "list": [row, Old("é", -number)], "map": {text[:5]: row, "": Old("", 7)},
        "stamped": TtlValue(stamp, number), "stamped list": [TtlValue(stamp, row)] * 2,
        "stamped map": {"a": TtlValue(stamp, number)}, "gains": row, "loses": {"a": TtlValue(stamp, -number)},
        "copied": text, "dropped": text,
    }.items():  # fmt: skip
        writer.put("o", name, key, value)


@pytest.mark.parametrize(
    "shape",
    [
        {"max_parallelism": 4, "parallelism": 2},  # many entries in a key group, of all states
        {"max_parallelism": 128},  # most key groups empty
        {"max_parallelism": 32_768, "parallelism": 3},  # very many of them, and two bytes of each
        {"compression": Compression.SNAPPY, "parallelism": 2},
    ],
    ids=["full", "empty", "tiny", "snappy"],
)
def test_of_states_next_to_one_another_copied_converted_and_dropped(tmp_path, shape):
    with SavepointWriter(tmp_path / "old", OLD, **shape) as writer:
        for number in range(40):
            put(writer, f"key {number}" + "ü" * (number % 3), number, "x" * number + "ß" * (number % 5))

    ready = prepare(Savepoint.open(tmp_path / "old"), NEW, OPTIONS)

    assert ways(ready) == {True: 8}
    counts = [count for *_, result in agreed(ready) for count in result.counts]
    assert 40 == sum(count.written for count in counts if count.state == "record")
    assert 40 == sum(count.dropped for count in counts if count.state == "dropped")


def test_of_entries_that_are_larger_than_what_a_task_reads_at_a_time(tmp_path):
    text, data = "x" * (RUN_BYTES + 17), b"\xff" * (2 * RUN_BYTES + 17)
    with SavepointWriter(tmp_path / "old", job_of_one(Old), max_parallelism=2) as writer:
        for number in range(9):
            writer.put("o", "record", str(number), Old(text if number == 5 else "short", number))
            writer.put("o", "list", str(number), [Old("é", 1), Old("", number, data if number == 3 else b"")])

    ready = prepare(Savepoint.open(tmp_path / "old"), job_of_one(New), MigrationOptions())

    assert {2} == {len(result.counts) for *_, result in agreed(ready)}


@record(java_class="com.acme.Person")
@attrs.define
class Person:
    name: str | None
    number: Int32


@record(java_class="com.acme.Person")
@attrs.define
class NamedPerson:
    name: str
    number: int


@pytest.mark.parametrize("bad_values", BadValues)
def test_of_values_that_do_not_fit(tmp_path, bad_values):
    """A null that Flink's snapshot does not mention: the op list leaves it to objects."""
    old, new = (job_of_one(row) for row in (Person, NamedPerson))
    with SavepointWriter(tmp_path / "old", old, max_parallelism=4) as writer:
        for number in range(300):
            row = Person(None if number % 100 == 7 else "abc", number)
            writer.put("o", "record", str(number), row)
            writer.put("o", "list", str(number), [Person("é", 1), row])

    ready = prepare(Savepoint.open(tmp_path / "old"), new, MigrationOptions(bad_values=bad_values))
    (outcome,) = agreed(ready)

    assert ways(ready) == {True: 2}
    if bad_values is BadValues.ABORT:
        assert outcome[0] is ValueNotConvertible
    else:
        assert [(300, 3), (300, 3)] == [(count.read, count.quarantined) for count in outcome[-1].counts]
