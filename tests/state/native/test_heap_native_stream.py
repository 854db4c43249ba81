"""The heap backend's native format: what real Flink wrote, and canonical savepoints rewritten natively, are read."""

import attrs
import pytest

from stateshift import CorruptSavepoint, OldReaderUnavailable, Savepoint
from stateshift.serializers.containers.lists import ListSerializerSnapshot
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializerSnapshot
from stateshift.serializers.flink.opaque import KryoSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.state.formats.flink.handles import NATIVE, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.heap_native_stream import NativeStreamReader
from stateshift.state.formats.flink.keyed_stream import KeyedStreamHeader
from stateshift.state.formats.flink.meta_info import keyed_state
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.savepoint.verify import Outcome, verify

REWRITTEN = ["hashmap-long-p1-m128", "hashmap-tuple-p2-m200", "hashmap-account-v1", "rocksdb-namespaced-p2-m200",
             "hashmap-windows-p2-m128", "rocksdb-subclass-unregistered"]  # fmt: skip
VOID, LONG, STRING = VoidNamespaceSerializerSnapshot(), LongSerializerSnapshot(), StringSerializerSnapshot()
KRYO = KryoSerializerSnapshot("fx.Thing")
NAMES = ("first", "odd", "list")
HEADER = KeyedStreamHeader(
    LONG,
    (
        keyed_state("first", "VALUE", VOID, LONG),
        keyed_state("odd", "VALUE", VOID, KRYO),
        keyed_state("list", "LIST", VOID, ListSerializerSnapshot((STRING,))),
    ),
)
KEY = (7).to_bytes(8, "big")
FIRST = b"\0" + KEY + (70).to_bytes(8, "big")
ODD = b"\0" + KEY + b"kryo"
LIST = b"\0" + KEY + b"\0\0\0\2" + b"\3ab" + b"\2c"
FULL = {(g, s): [entry] for g in range(2) for s, entry in enumerate((FIRST, ODD, LIST))}


@pytest.fixture
def opened(native_stream):
    """`opened(header, entries, order=None, damage=…)`: a reader of a crafted stream with key groups 0 and 1."""

    def make(header=HEADER, entries=FULL, order=None, damage=lambda data, offsets: (data, offsets)):
        data, offsets = damage(*native_stream(header, range(2), entries, order))
        return NativeStreamReader.open(
            InlineBytes(data), KeyGroupsHandle(NATIVE, 0, offsets, InlineHandle("n", data), "id"), 128
        )

    return make


def found(reader, names):
    """The entries of some states, by key group and name."""
    states = [state.name for state in reader.header.states]
    wanted = [states.index(name) for name in names]
    return [
        (b.key_group, states[b.state_id], key, value)
        for b in reader.blocks(state_ids=wanted)
        for key, value in b.items()
    ]


def test_native_savepoints_of_flink_are_read_as_flink_read_them(native_heap, contents, flink_read):
    savepoint = Savepoint.open(native_heap)

    assert all(op.is_native for op in savepoint.operators if op.key is not None)
    assert flink_read(native_heap) == contents(savepoint)


@pytest.mark.parametrize(("name", "compressed"), [*((name, False) for name in REWRITTEN), ("hashmap-account-v1", True)])
def test_what_was_canonical_is_read_the_same_natively(savepoint_copy, as_native, contents, name, compressed):
    folder = savepoint_copy(name)
    expected = contents(folder)
    as_native(folder, compressed=compressed, order=lambda states: range(len(states))[::-1])

    savepoint = Savepoint.open(folder)
    assert all(op.is_native for op in savepoint.operators if op.key is not None)
    assert expected == contents(savepoint)
    measured = {(op.operator_id, s.name): s.measure() for op in savepoint.operators for s in op.states}
    assert any(measure.entries for measure in measured.values())
    report = verify(savepoint)
    assert report.ok
    assert {Outcome.OK} == {check.status for check in report.checks if check.name == "key groups"}


def test_entries_are_framed_as_canonical_ones(opened):
    reader = opened(order=(2, 0, 1))

    place = b"\0" + KEY + b"\0"
    assert [(0, "list", place, b"\3ab,\2c"), (0, "first", place, FIRST[9:])] == found(reader, ["list", "first"])[:2]


def test_a_state_that_nothing_frames_hides_those_behind_it(opened):
    reader = opened(order=(0, 1, 2))

    assert {"odd", "list"} == reader.hidden.keys()
    assert "kryo<fx.Thing>" in reader.hidden["odd"]
    assert "behind the state 'odd'" in reader.hidden["list"]
    assert [(0, "first"), (1, "first")] == [(group, name) for group, name, _, _ in found(reader, ["first"])]
    with pytest.raises(OldReaderUnavailable, match=r"kryo<fx\.Thing>") as caught:
        found(reader, ["list"])
    assert "odd" == caught.value.where["state"]


def test_what_comes_before_it_is_read_whatever_the_header_says(opened):
    reader = opened(order=(2, 0, 1))

    assert {"odd"} == reader.hidden.keys()
    assert 4 == len(found(reader, ["first", "list"]))


def test_compressed_each_state_stands_for_itself(opened):
    reader = opened(attrs.evolve(HEADER, compressed=True), order=(1, 0, 2))

    assert {"odd"} == reader.hidden.keys()
    assert 4 == len(found(reader, ["first", "list"]))
    with pytest.raises(OldReaderUnavailable):
        found(reader, ["odd"])


def test_a_state_without_entries_hides_nothing(opened):
    entries = {place: items for place, items in FULL.items() if place[1] != 1}
    reader = opened(entries=entries, order=(0, 1, 2))

    assert 4 == len(found(reader, NAMES))


def test_empty_lists_have_no_entry(opened):
    empty = {(0, 2): [b"\0" + KEY + bytes(4)]}
    reader = opened(entries=empty)

    assert [] == found(reader, ["list"])


def test_a_key_group_of_another_number_is_corrupt(opened):
    reader = opened(damage=lambda data, offsets: (data, offsets[::-1]))

    with pytest.raises(CorruptSavepoint, match="key group 1 lies where key group 0 should") as caught:
        found(reader, ["first"])
    assert {"file", "offset"} <= caught.value.where.keys()


def test_a_key_group_without_a_place_is_corrupt(opened):
    with pytest.raises(CorruptSavepoint, match="key group 1 has no place"):
        opened(damage=lambda data, offsets: (data, (offsets[0], 0)))


@pytest.mark.parametrize("order", [(0, 0, 2), (0, 2, 2), (0, 2)])
def test_each_state_is_there_once(opened, order):
    with pytest.raises(CorruptSavepoint, match=r"occurs twice|ends before the state|is not in the header"):
        found(opened(entries={}, order=order), NAMES)


def test_bytes_after_the_last_state_are_corrupt(opened):
    reader = opened(entries={}, damage=lambda data, offsets: (data + b"\0\0", offsets))

    with pytest.raises(CorruptSavepoint, match="occurs twice"):
        found(reader, NAMES)


@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_is_corrupt_and_shows_where(native_stream, compressed):
    header = attrs.evolve(HEADER, compressed=compressed)
    entries = {place: items for place, items in FULL.items() if place[1] != 1}
    data, offsets = native_stream(header, range(2), entries, (0, 2, 1))

    for size in range(len(data)):
        cut = data[:size]
        handle = KeyGroupsHandle(NATIVE, 0, offsets, InlineHandle("n", cut), "id")
        with pytest.raises(CorruptSavepoint) as caught:
            found(NativeStreamReader.open(InlineBytes(cut), handle, 128), NAMES)
        assert {"file", "offset"} <= caught.value.where.keys(), size
