"""The heap backend's native format as we write it: read back, it is what canonical and native streams of Flink hold."""

import attrs
import pytest

from stateshift import MigrationFailed, Savepoint
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import NATIVE, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.heap_native_stream import NativeStreamReader
from stateshift.state.formats.flink.heap_native_writer import NativeStreamWriter
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.savepoint.states import keyed_handles

NAMES = [
    "hashmap-native-long-p2-m128", "hashmap-native-string-snappy", "rocksdb-zoo-p1-m200", "hashmap-tuple-p2-m200",
    "rocksdb-namespaced-p2-m200", "hashmap-windows-p2-m128", "hashmap-collections",
]  # fmt: skip


def contents(blocks):
    """The entries by key group and state; the heap backend writes a value beside the flag of a null in a map."""
    found = {}
    for block in blocks:
        items = [(key, value[:1] if value[:1] == b"\1" else value) for key, value in block.items()]
        found.setdefault((block.key_group, block.state_id), []).extend(items)
    return {place: sorted(items) for place, items in found.items()}


def written(header, key_groups, max_parallelism, blocks):
    """A reader of what the writer makes of blocks."""
    data = bytearray()
    writer = NativeStreamWriter(header, key_groups, max_parallelism, data.extend)
    for block in blocks:
        writer.add(block)
    offsets = writer.finish()
    assert writer.size == len(data)
    handle = KeyGroupsHandle(NATIVE, key_groups.start, offsets, InlineHandle("n", bytes(data)), "id")
    return NativeStreamReader.open(InlineBytes(bytes(data)), handle, max_parallelism)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_entry_of_a_stream_is_read_back(savepoint_of, name, compressed):
    savepoint = Savepoint.open(savepoint_of(name))
    handles = [(stored, handle) for stored in savepoint.metadata.operators for handle in keyed_handles(stored)]
    assert handles
    for stored, handle in handles:
        with open_keyed(handle, savepoint.folder, stored.max_parallelism) as reader:
            header, expected = attrs.evolve(reader.header, compressed=compressed), contents(reader.blocks())
            again = written(header, handle.key_groups, stored.max_parallelism, reader.blocks())

        assert header == again.header
        assert expected == contents(again.blocks())


def test_key_groups_out_of_order_or_of_another_subtask_are_refused(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-long-p1-m128"))
    (handle,) = (handle for stored in savepoint.metadata.operators for handle in keyed_handles(stored))
    with open_keyed(handle, savepoint.folder, 128) as reader:
        first = next(reader.blocks())
        writer = NativeStreamWriter(reader.header, range(4, 8), 128, bytearray().extend)
    for key_group, refused in ((6, False), (5, True), (8, True), (3, True)):
        block = Block(key_group, first.state_id, first.data, first.entries)
        if refused:
            with pytest.raises(MigrationFailed, match=f"key group {key_group} came for a stream that goes on at 6"):
                writer.add(block)
        else:
            writer.add(block)
