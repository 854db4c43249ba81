"""`SavepointState.get`: what is stored under one key, as Python has it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stateshift import Job, Operator, Savepoint, ValueStateDescriptor
from stateshift.serializers.errors import ValueNotConvertible
from stateshift.serializers.sql.serializers import RowDataSerializerSnapshot
from stateshift.serializers.sql.values import RowData, TimestampData
from stateshift.state.entry_keys import decode
from stateshift.state.formats.flink.database_stream import following
from stateshift.state.plans.column_types import type_of
from stateshift.state.savepoint.written_keys import WrittenKey, choose
from stateshift.state.testing import write_savepoint


def test_a_value_is_found_by_its_key(tmp_path):
    job = Job([Operator("accounts", key=int, states=[ValueStateDescriptor("account", str)])])
    write_savepoint(tmp_path / "sp", job, {"accounts/account": {number: f"a{number}" for number in range(1000)}})
    state = Savepoint.open(tmp_path / "sp").operator("accounts").state("account")

    assert [state.get(number) for number in (0, 42, 999)] == ["a0", "a42", "a999"]
    assert (state.get(1000), state.get(1000, "none")) == (None, "none")
    with pytest.raises(ValueNotConvertible):
        state.get("42")


def test_windows_are_a_dict_and_timers_a_list(savepoint_of):
    operator = Savepoint.open(savepoint_of("hashmap-windows-p2-m128")).operator("window-list")
    (windows,) = (one for one in operator.states if one.name == "window-contents")
    (queue,) = (one for one in operator.states if "event" in one.name)
    key = next(iter(windows.read_entries())).key

    assert windows.get(key) == {one.namespace: one.value for one in windows.read_entries() if one.key == key}
    assert queue.get(key) == [one for one in queue.read_timers() if one.key == key]


def test_a_key_that_ends_with_the_highest_byte_is_followed_by_one_that_does_not():
    assert [following(one) for one in (b"\0\1", b"\0\xff", b"\1\xff\xff")] == [b"\0\2", b"\1", b"\2"]


@pytest.mark.parametrize(
    ("hint", "written", "is_possible"),
    [
        (int, "42", True), (int, "42.0", True), (int, "4.5", False), (int, "true", False), (int, str(1 << 63), False),
        (float, "1", True), (float, '{"$double": "NaN"}', True), (float, "1" + "0" * 400, False),
        (str, "word", True), (str, '"42"', True), (str, "42", False), (bool, "true", True), (bool, "1", False),
        (tuple[int, str], '[1, "a"]', True), (tuple[int, str], '{"$tuple": [1, "a"]}', True),
        (tuple[int, str], '["a", 1]', False), (tuple[int, str], "[1]", False), (str, "[" * 10_000, True),
    ],
)  # fmt: skip
def test_a_written_key_is_one_of_a_type_or_is_not(hint, written, is_possible):
    snapshot = Job([Operator("o", key=hint)]).describe().operators[0].key

    assert (choose(snapshot.snapshot, [WrittenKey.of(written)], 128) is not None) is is_possible


@pytest.mark.parametrize(
    ("of", "written", "value"),
    [
        ("DECIMAL(38, 2)", '"123456789012345678901234567890123456.78"', Decimal(f"{'1234567890' * 3}123456.78")),
        ("DECIMAL(38, 2)", '{"$decimal": ["12345678901234567890123456789012345678", 2]}',
         Decimal(f"{'1234567890' * 3}123456.78")),
        ("TIMESTAMP(9)", '"1970-01-01T00:00:01.001000007"', TimestampData(1001, 7)),
        ("TIMESTAMP_LTZ(3)", '"1970-01-01T01:00:01+01:00"', TimestampData(1000)),
        ("VARBINARY(9)", '"0x00ff"', b"\0\xff"),
    ],
)  # fmt: skip
def test_decimals_times_and_bytes_are_written_as_they_are_shown(of, written, value):
    snapshot = RowDataSerializerSnapshot.of([type_of(of, "")])

    (encoded,) = choose(snapshot, [WrittenKey.of(written)], 128).encoded

    assert decode(snapshot.restore_serializer(), encoded) == RowData(value)
