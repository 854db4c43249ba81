"""States of a savepoint: values read and written again, entries gathered, damage named."""

import json

import attrs
import pytest

from stateshift import (
    CorruptSavepoint,
    DataInputView,
    OldReaderUnavailable,
    Savepoint,
    StateShiftError,
    ValueNotConvertible,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import DecimalSerializer
from stateshift.serializers.views import SEPARATOR
from stateshift.state.entry_keys import EntryKeyFormat, decode, encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.entries import read_separated
from stateshift.state.formats.flink.handles import CANONICAL, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_stream import (
    KeyedStreamHeader,
    KeyedStreamReader,
    read_stream_header,
    write_keyed_stream,
)
from stateshift.state.formats.flink.meta_info import NAMESPACE_SERIALIZER, keyed_state
from stateshift.state.formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState, write_metadata
from stateshift.state.formats.flink.operator_stream import read_operator_stream
from stateshift.state.formats.flink.state_kinds import info_snapshot, keyed_kind
from stateshift.state.savepoint.json_lines import json_rows
from stateshift.state.storage.files import Folder

REWRITTEN = [
    ("2.3", "hashmap-account-v1"),
    ("2.3", "hashmap-account-v2"),
    ("2.3", "hashmap-account-v3"),
    ("2.3", "rocksdb-account-v1"),
    ("1.20", "hashmap-account-v1"),
    ("2.3", "hashmap-collections"),
    ("2.3", "hashmap-subclass-registered"),
    ("2.3", "rocksdb-subclass-unregistered"),
    ("2.3", "rocksdb-zoo-p1-m200"),
    ("2.3", "rocksdb-namespaced-p2-m200"),
    ("2.3", "rocksdb-windows-p1-m200"),
]


def again(kind, serializer, data):
    """Read a value as its entry holds it, and write it."""
    if kind is StateKind.LIST:
        return b"\x2c".join(encode(serializer.element, item) for item in read_separated(serializer.element, data))
    if kind is StateKind.MAP:
        return data if data[:1] == b"\x01" else b"\x00" + encode(serializer.value, decode(serializer.value, data[1:]))
    return encode(serializer, decode(serializer, data))


@pytest.mark.parametrize(("version", "name"), REWRITTEN)
def test_values_of_flink_are_written_again_byte_for_byte(savepoint_of, keyed_streams_of, version, name):
    compared = 0
    for operator, _, handle, source in keyed_streams_of(savepoint_of(name, version=version)):
        reader = KeyedStreamReader.open(source, handle)
        key = reader.header.key_snapshot.restore_serializer()
        serializers = {}
        for state_id, info in enumerate(reader.header.states):
            try:
                serializers[state_id] = info.value.restore_serializer()
            except OldReaderUnavailable:
                continue
        for block in reader.blocks():
            if block.state_id not in serializers:
                continue
            info, serializer = reader.header.states[block.state_id], serializers[block.state_id]
            kind = keyed_kind(info)
            if kind is StateKind.TIMERS:
                continue
            namespace = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
            form = EntryKeyFormat.of(kind, key, namespace, operator.max_parallelism)
            for entry_key, value in block.items():
                parts = form.split(entry_key)
                assert parts.key == encode(key, decode(key, parts.key))
                assert parts.namespace == encode(namespace, decode(namespace, parts.namespace))
                if kind is StateKind.MAP:
                    assert parts.user_key == encode(serializer.key, decode(serializer.key, parts.user_key))
                assert same_but_for_order(serializer, value, again(kind, serializer, value)), info.name
                compared += 1
    assert compared


def same_but_for_order(serializer, old, new):
    """Equal, or equal sets of bytes where a Java set gave its elements another order."""
    if "set<" not in serializer.snapshot_configuration().describe() and not has_set(
        serializer.snapshot_configuration()
    ):
        return old == new
    return sorted(old) == sorted(new)


def has_set(snapshot):
    return snapshot.kind == "set" or any(map(has_set, snapshot.children()))


@pytest.mark.parametrize(("version", "name"), [("2.3", "hashmap-account-v1"), ("2.3", "hashmap-operator-only-p2-m128")])
def test_elements_of_flink_are_written_again_byte_for_byte(savepoint_of, operator_streams_of, version, name):
    compared = 0
    for _, _, handle, source in operator_streams_of(savepoint_of(name, version=version)):
        stream = read_operator_stream(source, handle)
        for info in stream.header.list_states:
            serializer = info.value.restore_serializer()
            for element in stream.elements[info.name]:
                assert element == encode(serializer, decode(serializer, element))
                compared += 1
    assert compared


def test_restored_serializers_describe_themselves_as_they_were_stored(canonical, keyed_streams_of):
    for _, _, handle, source in keyed_streams_of(canonical):
        for info in read_stream_header(source, handle).states:
            for role, snapshot in info.serializers:
                try:
                    restored = snapshot.restore_serializer()
                except StateShiftError:
                    continue
                assert snapshot == restored.snapshot_configuration(), (info.name, role)


def savepoint_with(folder, key, state, items, *, max_parallelism=128):
    """A savepoint of one operator and one state, whose entries are given as bytes."""
    header = KeyedStreamHeader(key.snapshot_configuration(), (state,))
    data, offsets = write_keyed_stream(header, range(max_parallelism), [Block.of(0, 0, items)])
    handle = KeyGroupsHandle(CANONICAL, 0, offsets, InlineHandle("here", data))
    operator = OperatorState(bytes(16), 1, max_parallelism, "", "op", subtasks=(SubtaskState(0, managed_keyed=handle),))
    Folder.at(folder).create()
    Folder.at(folder).write("_metadata", write_metadata(SavepointMetadata.new((operator,))))
    return Savepoint.open(folder).operator("op").state(state.name)


def map_state(key, value):
    return keyed_state(
        "m",
        "MAP",
        VoidNamespaceSerializer().snapshot_configuration(),
        serializer_for(dict[key, value]).snapshot_configuration(),
    )


def exported(folder, state):
    """The entries of a state as `export` writes them."""
    rows = json_rows(Savepoint.open(folder).operator("op"), state)
    return [(place, json.loads("".join(texts))) for place, texts in rows]


def test_entries_of_a_map_are_gathered_in_whatever_order_they_lie(tmp_path):
    key = serializer_for(int)
    form = [(1, "a", 1), (2, "a", 2), (1, "b", 3), (2, "c", 4), (1, "c", 5)]
    items = [
        (b"\0" + encode(key, k) + b"\0" + encode(serializer_for(str), u), b"\0" + encode(key, v)) for k, u, v in form
    ]
    state = savepoint_with(tmp_path / "sp", key, map_state(str, int), items)

    found = {entry.key: entry.value for entry in state.read_entries()}
    assert {1: {"a": 1, "b": 3, "c": 5}, 2: {"a": 2, "c": 4}} == found
    assert 5 == state.measure().entries
    assert [
        ([1], {"$map": [["a", 1], ["b", 3], ["c", 5]]}), ([2], {"$map": [["a", 2], ["c", 4]]}),
    ] == exported(tmp_path / "sp", state)  # fmt: skip


def test_user_keys_that_are_equal_in_python_and_not_in_the_bytes_are_not_lost_in_silence(tmp_path):
    key, decimal = serializer_for(int), DecimalSerializer()
    # BigDecimal 1.0 and 1.00 are two keys in Java
    names = [bytes.fromhex("000000050a00000001"), bytes.fromhex("000000056400000002")]
    items = [(b"\0" + encode(key, 1) + b"\0" + name, b"\0" + encode(key, 9)) for name in names]
    info = map_state(int, int)
    snapshot = attrs.evolve(info.value, nested=(decimal.snapshot_configuration(), key.snapshot_configuration()))
    state = savepoint_with(tmp_path / "sp", key, info.with_snapshots(VALUE_SERIALIZER=snapshot), items)

    with pytest.raises(ValueNotConvertible, match="same") as caught:
        list(state.read_entries())
    assert {"operator", "state", "key", "path"} <= caught.value.where.keys()
    both = [[{"$bigdec": ["10", 1]}, 9], [{"$bigdec": ["100", 2]}, 9]]
    assert [([1], {"$map": both})] == exported(tmp_path / "sp", state)


def test_user_keys_that_python_cannot_look_up_are_an_error_that_says_so(tmp_path):
    key, lists = serializer_for(int), serializer_for(list[int])
    items = [(b"\0" + encode(key, 1) + b"\0" + encode(lists, [1, 2]), b"\0" + encode(key, 9))]
    info = map_state(int, int)
    snapshot = attrs.evolve(info.value, nested=(lists.snapshot_configuration(), key.snapshot_configuration()))
    state = savepoint_with(tmp_path / "sp", key, info.with_snapshots(VALUE_SERIALIZER=snapshot), items)

    with pytest.raises(ValueNotConvertible, match="not hashable"):
        list(state.read_entries())


def test_what_follows_a_null_flag_of_a_map_value_carries_no_meaning(tmp_path):
    key = serializer_for(int)
    name = encode(serializer_for(str), "a")
    items = [(b"\0" + encode(key, 1) + b"\0" + name, b"\x01\x01")]
    state = savepoint_with(tmp_path / "sp", key, map_state(str, int), items)

    assert [{"a": None}] == [entry.value for entry in state.read_entries()]


def test_an_empty_map_value_is_corrupt_and_no_index_error(tmp_path):
    key = serializer_for(int)
    items = [(b"\0" + encode(key, 1) + b"\0" + encode(serializer_for(str), "a"), b"")]
    state = savepoint_with(tmp_path / "sp", key, map_state(str, int), items)

    with pytest.raises(CorruptSavepoint) as caught:
        list(state.read_entries())
    assert "1" == caught.value.where["key"]


def test_bytes_after_a_value_are_corrupt(tmp_path):
    key = serializer_for(int)
    info = keyed_state("v", "VALUE", VoidNamespaceSerializer().snapshot_configuration(), key.snapshot_configuration())
    state = savepoint_with(tmp_path / "sp", key, info, [(b"\0" + encode(key, 1) + b"\0", encode(key, 5) + b"\0")])

    with pytest.raises(CorruptSavepoint, match="1 bytes follow a value"):
        list(state.read_entries())


def test_separated_elements_are_read_and_not_split():
    element = serializer_for(int)
    values = [0x2C, 0x2C2C2C2C2C2C2C2C, -1]
    data = b"\x2c".join(encode(element, value) for value in values)

    assert values == list(read_separated(element, data))
    assert len(SEPARATOR) == 1
    assert DataInputView(data).remaining() == 26


def test_an_unknown_kind_of_state_names_the_state(savepoint_copy):
    folder = savepoint_copy("hashmap-account-v1")
    data = (folder / "_metadata").read_bytes()
    (folder / "_metadata").write_bytes(data.replace(b"KEYED_STATE_TYPE\x00\x05VALUE", b"KEYED_STATE_TYPE\x00\x05VALUX"))

    with pytest.raises(CorruptSavepoint, match="'VALUX'") as caught:
        _ = Savepoint.open(folder).operator("account-state").states
    assert caught.value.where["state"] in {"account", "version-free"}
