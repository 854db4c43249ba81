"""States whose values only Kryo reads: carried as bytes where entries or offsets frame them, refused elsewhere."""

import pytest

from stateshift import (
    Decision,
    Job,
    KryoBytes,
    OldReaderUnavailable,
    Operator,
    Savepoint,
    TtlValue,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.description import operator_id_of_uid
from stateshift.serializers.containers.lists import ListSerializerSnapshot, MapSerializerSnapshot
from stateshift.serializers.containers.ttl import TtlSerializerSnapshot
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializerSnapshot
from stateshift.serializers.flink.opaque import KryoSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import CANONICAL, InlineHandle, KeyGroupsHandle, OperatorStateHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamHeader, write_keyed_stream
from stateshift.state.formats.flink.meta_info import keyed_state, list_state
from stateshift.state.formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState, write_metadata
from stateshift.state.formats.flink.operator_stream import OperatorStreamHeader, write_operator_stream
from stateshift.state.savepoint.verify import Outcome, verify

VOID, LONG, STRING = VoidNamespaceSerializerSnapshot(), LongSerializerSnapshot(), StringSerializerSnapshot()
KRYO = KryoSerializerSnapshot("fx.Thing")
STATES = {
    "value": ("VALUE", KRYO),
    "folded": ("AGGREGATING", KRYO),
    "map": ("MAP", MapSerializerSnapshot((STRING, KRYO))),
    "ttl": ("VALUE", TtlSerializerSnapshot((LONG, KRYO))),
    "ttl map": ("MAP", MapSerializerSnapshot((STRING, TtlSerializerSnapshot((LONG, KRYO))))),
    "list": ("LIST", ListSerializerSnapshot((KRYO,))),
    "value of maps": ("VALUE", MapSerializerSnapshot((STRING, KRYO))),
    "by thing": ("MAP", MapSerializerSnapshot((KRYO, STRING))),
    "plain": ("VALUE", LONG),
}
GROUP, KEY = 7, b"\x07" + (4).to_bytes(8, "big") + b"\0"  # the key 4 lies in key group 7 of 128
STAMP = (99).to_bytes(8, "big")
ENTRIES = {
    "value": [(KEY, b"kryo")],
    "folded": [(KEY, b"")],
    "map": [(KEY + b"\2a", b"\0one"), (KEY + b"\2b", b"\1")],
    "ttl": [(KEY, STAMP + b"kryo")],
    "ttl map": [(KEY + b"\2a", b"\0" + STAMP + b"one")],
    "list": [(KEY, b"kryo,kryo")],
    "value of maps": [(KEY, b"\0\0\0\0")],
    "by thing": [(KEY + b"thing", b"\0\2a")],
    "plain": [(KEY, bytes(8))],
}


def thing(data):
    return KryoBytes("fx.Thing", data)


@pytest.fixture
def folder(tmp_path):
    """A savepoint with a state of every place in which a Kryo value may stand."""
    header = KeyedStreamHeader(
        LONG, tuple(keyed_state(name, kind, VOID, value) for name, (kind, value) in STATES.items())
    )
    blocks = [Block.of(GROUP, state_id, ENTRIES[name]) for state_id, name in enumerate(STATES)]
    data, offsets = write_keyed_stream(header, range(128), blocks)
    keyed = KeyGroupsHandle(CANONICAL, 0, offsets, InlineHandle("keyed", data))
    lists = bytearray()
    header = OperatorStreamHeader((list_state("things", "SPLIT_DISTRIBUTE", KRYO),))
    states = write_operator_stream(header, {"things": [b"first", b"", b"third"]}, {}, lists.extend)
    handle = OperatorStateHandle(states, InlineHandle("lists", bytes(lists)))
    subtask = SubtaskState(0, managed_keyed=keyed, managed_operator=handle)
    operator = OperatorState(operator_id_of_uid("op"), 1, 128, uid="op", subtasks=(subtask,))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "_metadata").write_bytes(write_metadata(SavepointMetadata.new((operator,))))
    return tmp_path / "old"


READ = {
    "value": thing(b"kryo"),
    "folded": thing(b""),
    "map": {"a": thing(b"one"), "b": None},
    "ttl": TtlValue(99, thing(b"kryo")),
    "ttl map": {"a": TtlValue(99, thing(b"one"))},
    "plain": 0,
}


def test_where_a_frame_has_the_end_values_are_opaque_bytes(folder):
    operator = Savepoint.open(folder).operator("op")

    assert READ == {name: entry.value for name in READ for entry in operator.state(name).read_entries()}
    assert [[thing(b"first"), thing(b""), thing(b"third")]] == operator.state("things").read_elements()


@pytest.mark.parametrize(("name", "path"), [("list", "$[]"), ("value of maps", "${}"), ("by thing", "$<key>")])
def test_where_none_does_operator_state_path_and_class_are_reported(folder, name, path):
    state = Savepoint.open(folder).operator("op").state(name)

    assert state.unsupported.startswith("values of kryo<fx.Thing> can only be read by Kryo")
    assert state.unsupported.endswith(f"at {path}")
    with pytest.raises(OldReaderUnavailable, match=r"kryo<fx\.Thing>") as caught:
        list(state.read_entries())
    assert {"operator": "op", "state": name, "path": path}.items() <= caught.value.where.items()


def test_the_check_of_what_is_unchanged_says_start(folder):
    stored = Savepoint.open(folder).describe()

    assert Decision.START == check(stored, stored.as_probe()).decision


def test_a_state_of_another_class_is_refused_and_the_others_are_not(folder, tmp_path):
    old = Savepoint.open(folder).describe()
    (tmp_path / "new").mkdir()
    data = (folder / "_metadata").read_bytes()
    (tmp_path / "new" / "_metadata").write_bytes(data.replace(b"fx.Thing", b"fx.Thong"))
    report = check(old, Savepoint.open(tmp_path / "new").describe().as_probe())

    refused = {state.name for _, state in report.states() if state.decision is Decision.REFUSE}
    assert {*STATES, "things"} - {"plain"} == refused


def test_all_of_it_is_intact_and_the_ends_of_its_values_are_unproven(folder):
    report = verify(Savepoint.open(folder))

    assert report.ok
    unproven = {check.name: check.detail for check in report.checks if check.status is Outcome.UNPROVEN}
    assert "things" in unproven["elements"]
    assert all(name in unproven["values"] for name in set(STATES) - {"plain"})


def test_its_bytes_are_copied_when_another_state_is_converted(folder, migrate, tmp_path):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("plain", str, converter=str)])])
    found = migrate(folder, tmp_path / "new", job).operator("op")

    assert READ | {"plain": "0"} == {name: entry.value for name in READ for entry in found.state(name).read_entries()}
    before = Savepoint.open(folder).operator("op")
    for name in STATES.keys() - {"plain"}:
        assert before.state(name).measure() == found.state(name).measure()
    assert before.state("things").read_elements() == found.state("things").read_elements()
