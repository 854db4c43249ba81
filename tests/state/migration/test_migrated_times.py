"""State of dates and times that real Flink wrote, migrated to finer types; and what stops such a run."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from stateshift import (
    Instant,
    Int32,
    Job,
    NaiveDatetime,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
    ValueStateDescriptor,
    check,
    record,
)
from stateshift.state.entry_keys import decode, encode
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.savepoint.states import keyed_handles

TIMES = {"date", "instant", "localdate", "localdatetime", "localtime", "sqldate", "sqltime", "sqltimestamp"}


def one_state(hint):
    return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", hint)])])


@pytest.mark.parametrize("version", ["2.3", "1.20"])
def test_what_flink_wrote_is_written_again_byte_by_byte(savepoint_of, version):
    operator = Savepoint.open(savepoint_of("hashmap-zoo-p1-m128", version=version)).operator("keyed-op")
    (handle,) = keyed_handles(operator.stored)
    seen = set()
    with open_keyed(handle, operator.folder, operator.max_parallelism) as reader:
        for block in reader.blocks(state_ids=range(len(reader.header.states))):
            state = reader.header.states[block.state_id]
            if state.name in TIMES | {"char", "chars"}:
                serializer = state.value.restore_serializer()
                seen.add(state.name)
                for key, data in block.items():
                    assert data == encode(serializer, decode(serializer, data)), key

    assert TIMES | {"char", "chars"} == seen


@pytest.mark.parametrize("name", ["hashmap-zoo-p1-m128", "rocksdb-zoo-p1-m200"])
def test_moments_of_all_classes_become_instants(savepoint_of, migrate, contents, flink_read, tmp_path, name):
    source = savepoint_of(name)
    states = [ValueStateDescriptor(state, dt.datetime) for state in ("date", "instant")]
    job = Job([Operator("keyed-op", key=Int32, states=[*states, ValueStateDescriptor("sqltimestamp", Instant)])])

    found = migrate(source, tmp_path / "new", job)

    operator = found.operator("keyed-op").operator_id
    before, after = flink_read(source)[operator]["keyed"], contents(found)[operator]["keyed"]
    for _, value in before["date"]["entries"]:
        value["$instant"] = [value.pop("$date") // 1000, 0]
    for _, value in before["sqltimestamp"]["entries"]:
        millis, nanos = value.pop("$sqltimestamp")
        value["$instant"] = [millis // 1000, nanos]
    assert before == after


@pytest.mark.parametrize(
    ("state", "hint", "rule"),
    [
        ("instant", NaiveDatetime, "TIME-4"),
        ("localdatetime", dt.datetime, "TIME-4"),
        ("sqldate", dt.date, "TIME-4"),
        ("localdate", dt.datetime, "TIME-5"),
        ("date", int, "FAM-2"),
    ],
)
def test_what_a_person_must_say_first_is_refused(savepoint_of, state, hint, rule):
    job = Job([Operator("keyed-op", key=Int32, states=[ValueStateDescriptor(state, hint)])])

    report = check(Savepoint.open(savepoint_of("hashmap-zoo-p1-m128")).describe(), job.describe())

    assert [(state, rule)] == [(checked.name, finding.rule) for _, checked, finding in report.findings()]
    assert "refuse" == report.decision


@attrs.frozen
class Exact:
    at: Instant


@record(aliases=(f"{__name__}.Exact",))
@attrs.frozen
class Rounding:
    at: dt.datetime
    more: int = 0


def test_a_run_that_would_leave_a_class_unreadable_ends_with_the_path_and_the_type_that_is_not(migrate, tmp_path):
    with SavepointWriter(tmp_path / "old", one_state(Exact)) as writer:
        writer.put("op", "s", 7, Exact(Instant(0, 1)))

    with pytest.raises(
        ValueNotConvertible, match="has nanoseconds, but Python's datetime holds microseconds"
    ) as caught:
        migrate(tmp_path / "old", tmp_path / "new", one_state(Rounding))

    assert "$.at" == caught.value.where["path"]
    assert "declare the type stateshift.Instant, which is exact" == caught.value.advice
