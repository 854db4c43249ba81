"""What real PyFlink stored, read by the coders that its job declared, and written again as the same bytes."""

import json
from decimal import Decimal

import pytest

from stateshift import Row, Savepoint
from stateshift.compat.description import StateKind
from stateshift.pyflink.common import Types
from stateshift.serializers.pickled.values import PickledValue
from stateshift.serializers.pyflink import coder_for
from stateshift.serializers.pyflink.contents import PyFlinkBytes, PyFlinkElements, PyFlinkKey
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG, STRING = Types.LONG(), Types.STRING()
PICKLE = snapshot_from_bytes(
    snapshot_to_bytes(coder_for(Types.PICKLED_BYTE_ARRAY()).snapshot_configuration())
).restore_serializer()
DECLARED = {
    "count": LONG, "n": LONG, "sum": LONG, "name": STRING, "kept": STRING, "events": STRING, "counts_map": LONG,
    "row": Types.ROW_NAMED(["id", "name", "score"], [Types.INT(), STRING, Types.DOUBLE()]),
    "tuple": Types.TUPLE([LONG, STRING]), "avg": Types.TUPLE([LONG, LONG]), "account": PICKLE, "picked": PICKLE,
}  # fmt: skip
OPENED = {"account", "picked"}


@pytest.fixture(params=["hashmap", "rocksdb", "rocksdb-native"])
def fixture(request, root):
    return root / "tests/fixtures/pyflink-2.3" / request.param


def told(value):
    """A value in the words of expected.json."""
    if isinstance(value, tuple):
        return {"$tuple": [*map(told, value)]}
    if isinstance(value, Row):
        return {"$row": [*map(told, value)]}
    return value


def test_each_value_is_read_and_written_as_it_is(fixture, read, write):
    expected = {
        one["key"]: one for one in json.loads((fixture / "expected.json").read_text(encoding="utf-8"))["entries"]
    }
    (operator,) = (one for one in Savepoint.open(fixture / "savepoint").operators if one.stored.has_state)
    seen = set()

    def decoded(serializer, data):
        framed = len(data).to_bytes(4, "big") + data
        value = read(serializer, framed)
        assert framed == write(serializer, value)
        return value

    for state in operator.states:
        if state.kind is StateKind.TIMERS:
            continue
        name = state.name.removeprefix("python-state-")
        seen.add(name)
        one, each = PyFlinkBytes(coder_for(DECLARED[name])), PyFlinkElements(coder_for(DECLARED[name]))
        for entry in state.read_entries():
            wanted = expected[entry.key[0]]
            if state.kind is StateKind.MAP:
                key = PyFlinkKey(coder_for(STRING))
                found = {decoded(key, was): decoded(one, data) for was, data in entry.value.items()}
                assert dict(wanted["maps"][name]["$map"]) == found
                continue
            is_list = name in wanted["lists"]
            held = [decoded(each if is_list else one, getattr(data, "value", data)) for data in entry.value]
            found = [item for items in held for item in items] if is_list else held[0]
            if name not in OPENED:
                assert (wanted["lists"] if is_list else wanted["values"])[name] == (found if is_list else told(found))
                continue
            pickles = found if is_list else [found]
            assert all(isinstance(pickled, PickledValue) for pickled in pickles)
            assert len(pickles) == (len(wanted["lists"][name]) if is_list else 1)
    assert set(DECLARED) == seen


def test_the_pickles_within_are_opened_only_for_a_caller_that_trusts_them(fixture, read):
    (operator,) = (one for one in Savepoint.open(fixture / "savepoint").operators if one.stored.has_state)
    state = next(one for one in operator.states if one.name == "python-state-picked")
    coder = PyFlinkElements(coder_for(Types.PICKLED_BYTE_ARRAY()))

    for entry in state.read_entries():
        for data in entry.value:
            for value in read(coder, len(data).to_bytes(4, "big") + data):
                assert Decimal("1.50") == value["d"]
