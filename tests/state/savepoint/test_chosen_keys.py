"""`SavepointState.get`: what is stored under one key, as Python has it."""

from __future__ import annotations

import pytest

from stateshift import Job, Operator, Savepoint, ValueStateDescriptor
from stateshift.serializers.errors import ValueNotConvertible
from stateshift.state.formats.flink.database_stream import following
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
