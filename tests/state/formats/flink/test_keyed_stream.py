import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    MigrationFailed,
    StateShiftError,
    UnsupportedFormat,
)
from stateshift.serializers.primitives.numeric import IntSerializerSnapshot, LongSerializerSnapshot
from stateshift.serializers.registry import Additions, registry
from stateshift.serializers.snapshot import SkippedSnapshot
from stateshift.state.formats.flink import keyed_stream
from stateshift.state.formats.flink.blocks import Block, BlockWalker, join_pieces
from stateshift.state.formats.flink.handles import CANONICAL, NATIVE, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_stream import (
    KeyedStreamHeader,
    KeyedStreamReader,
    KeyedStreamWriter,
    read_keyed_header,
    read_stream_header,
    write_keyed_header,
    write_keyed_stream,
)
from stateshift.state.formats.flink.meta_info import keyed_state
from stateshift.state.formats.flink.snappy import STREAM_HEADER
from stateshift.state.formats.flink.sources import InlineBytes

HEADER = KeyedStreamHeader(
    LongSerializerSnapshot(),
    tuple(keyed_state(name, "VALUE", IntSerializerSnapshot(), LongSerializerSnapshot()) for name in "abc"),
)


def header_bytes(header):
    target = DataOutputView()
    write_keyed_header(header, target)
    return target.getvalue()


def handle_of(offsets, first=0, tag=CANONICAL):
    return KeyGroupsHandle(tag, first, tuple(offsets), InlineHandle("", b""))


def open_bytes(data, offsets, first=0):
    return KeyedStreamReader.open(InlineBytes(data), handle_of(offsets, first))


def items_of(blocks):
    found = {}
    for block in blocks:
        found.setdefault((block.key_group, block.state_id), []).extend(block.items())
    return found


@st.composite
def contents(draw):
    """Key group -> state id -> entries, as a writer may get them."""
    found = {}
    for group in sorted(draw(st.sets(st.integers(10, 20), max_size=4))):
        ids = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True))
        found[group] = {
            state_id: draw(
                st.lists(
                    st.tuples(st.binary(max_size=6).map(lambda key, g=group: bytes([g]) + key), st.binary(max_size=6)),
                    min_size=1,
                    max_size=5,
                )
            )
            for state_id in ids
        }
    return found


def blocks_of(content):
    return [Block.of(group, state_id, items) for group, states in content.items() for state_id, items in states.items()]


def test_every_header_is_written_again_byte_for_byte(canonical, keyed_streams_of):
    for _, _, handle, source in keyed_streams_of(canonical):
        header = read_stream_header(source, handle)
        data = header_bytes(header)

        assert data == source.read_at(0, len(data))


def test_headers_of_native_heap_streams_are_the_same(native_heap, keyed_streams_of):
    found = list(keyed_streams_of(native_heap))

    assert found
    for _, _, handle, source in keyed_streams_of(native_heap):
        data = header_bytes(read_stream_header(source, handle))
        assert handle.tag == NATIVE
        assert data == source.read_at(0, len(data))


def test_uncompressed_streams_are_written_again_byte_for_byte_from_their_blocks(canonical, keyed_streams_of):
    for _, _, handle, source in keyed_streams_of(canonical):
        reader = KeyedStreamReader.open(source, handle)
        data, offsets = write_keyed_stream(reader.header, handle.key_groups, reader.blocks())
        if reader.header.compressed:
            again = open_bytes(data, offsets, handle.first_key_group)
            assert again.header == reader.header
            assert items_of(again.blocks()) == items_of(reader.blocks())
            assert len(data) < 1.1 * source.size
        else:
            assert data == source.read_at(0, source.size)
            assert offsets == handle.offsets


def test_key_groups_can_be_read_one_by_one(canonical, keyed_streams_of):
    for _, _, handle, source in keyed_streams_of(canonical):
        reader = KeyedStreamReader.open(source, handle)
        one_by_one = [
            block for group in handle.key_groups for block in reader.blocks(range(group, group + 1))
        ]  # fmt: skip

        assert one_by_one == list(reader.blocks())


@pytest.mark.parametrize("run_bytes", [1, 7, 100])
def test_long_blocks_come_in_pieces_and_are_the_same_together(canonical, keyed_streams_of, run_bytes, monkeypatch):
    for _, _, handle, source in keyed_streams_of(canonical):
        whole = list(KeyedStreamReader.open(source, handle).blocks())
        monkeypatch.setattr(keyed_stream, "RUN_BYTES", run_bytes)
        reader = KeyedStreamReader.open(source, handle)
        pieces = list(reader.blocks())
        assert list(join_pieces(pieces)) == whole
        data, offsets = write_keyed_stream(reader.header, handle.key_groups, pieces)
        monkeypatch.undo()

        assert (data, offsets) == write_keyed_stream(reader.header, handle.key_groups, whole)


@settings(deadline=None)
@given(contents())
def test_what_was_written_is_read_again(content):
    data, offsets = write_keyed_stream(HEADER, range(10, 21), blocks_of(content))
    reader = open_bytes(data, offsets, first=10)

    assert items_of(reader.blocks()) == {(g, s): items for g, states in content.items() for s, items in states.items()}
    assert [group for group, offset in zip(range(10, 21), offsets, strict=True) if offset] == list(content)


@settings(deadline=None)
@given(contents())
def test_blocks_know_their_number_of_entries_and_their_last_one(content):
    data, offsets = write_keyed_stream(HEADER, range(10, 21), blocks_of(content))
    for block in open_bytes(data, offsets, first=10).blocks():
        assert block.entries == len(list(block.items()))
        assert block.find_last_entry() == attrs.evolve(block, last_entry=-1).find_last_entry()


@settings(max_examples=200, deadline=None)
@given(contents(), st.data())
def test_damaged_streams_are_an_error_of_ours_or_harmless(content, data):
    written, offsets = write_keyed_stream(HEADER, range(10, 21), blocks_of(content))
    damaged = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(0, len(damaged)))
    try:
        for block in open_bytes(bytes(damaged[:cut]), offsets, first=10).blocks():
            list(block.items())
    except StateShiftError as error:
        assert error.where["file"]  # noqa: PT017 - it may also succeed


def test_a_stream_that_is_cut_off_anywhere_is_corrupt():
    content = {10: {0: [(b"\x0akey", b"value")], 2: [(b"\x0a", b"")]}, 12: {1: [(b"\x0c1", b"x"), (b"\x0c2", b"y")]}}
    data, offsets = write_keyed_stream(HEADER, range(10, 21), blocks_of(content))

    for size in range(len(data)):
        with pytest.raises(CorruptSavepoint):
            list(open_bytes(data[:size], offsets, first=10).blocks())


def test_a_lost_offset_is_noticed():
    content = {10: {0: [(b"\x0akey", b"value")]}, 12: {1: [(b"\x0c1", b"x")]}}
    data, offsets = write_keyed_stream(HEADER, range(10, 13), blocks_of(content))

    for lost in (0, 2):
        with pytest.raises(CorruptSavepoint, match="belong to no key group"):
            list(open_bytes(data, (*offsets[:lost], 0, *offsets[lost + 1 :]), first=10).blocks())
    with pytest.raises(CorruptSavepoint, match="listed with the same offset"):
        open_bytes(data, (offsets[0], offsets[0], offsets[2]), first=10)
    with pytest.raises(CorruptSavepoint, match="is listed at byte"):
        open_bytes(data, (offsets[0], 0, len(data)), first=10)


def test_a_stream_without_entries_ends_after_its_header():
    data, offsets = write_keyed_stream(HEADER, range(4), [])

    assert offsets == (0, 0, 0, 0)
    assert data == header_bytes(HEADER)
    assert list(open_bytes(data, offsets).blocks()) == []


def test_an_empty_block_leaves_no_trace():
    assert write_keyed_stream(HEADER, range(4), [Block(1, 0, b"", 0)]) == write_keyed_stream(HEADER, range(4), [])


def test_the_end_of_a_state_is_flagged_on_its_last_entry_only():
    data, offsets = write_keyed_stream(HEADER, range(1), [Block.of(0, 1, [(b"\0a", b""), (b"\0b", b"v")])])

    assert data[offsets[0] :].hex() == "0001000000020061000000000000000280620000000176ffff"


@settings(deadline=None)
@given(contents())
def test_compressed_streams_hold_the_same_blocks(content):
    data, offsets = write_keyed_stream(attrs.evolve(HEADER, compressed=True), range(10, 21), blocks_of(content))
    reader = open_bytes(data, offsets, first=10)

    assert reader.header.compressed
    assert items_of(reader.blocks()) == {(g, s): items for g, states in content.items() for s, items in states.items()}
    assert all(data[offset:].startswith(STREAM_HEADER) for offset in offsets if offset)


def test_a_compressed_stream_does_not_depend_on_the_pieces_in_which_it_comes():
    items = [(b"\x01" + number.to_bytes(4, "big"), b"value" * 20) for number in range(3000)]
    pieces = [Block.of(1, 0, items[start : start + 100]) for start in range(0, 3000, 100)]
    header = attrs.evolve(HEADER, compressed=True)
    whole = write_keyed_stream(header, range(2), [Block.of(1, 0, items)])

    assert write_keyed_stream(header, range(2), pieces) == whole
    assert len(whole[0]) < sum(len(piece.data) for piece in pieces) / 4


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([(4, 0)], "came for a stream of key groups 0 to 3"),
        ([(0, 3)], "3 states"),
        ([(2, 0), (1, 0)], "key group 1 came after key group 2"),
        ([(2, 0), (2, 1), (2, 0)], "state 0 came twice in key group 2"),
    ],
)
def test_blocks_out_of_order_are_refused(blocks, problem):
    made = [Block.of(group, state_id, [(bytes([group]), b"")]) for group, state_id in blocks]

    with pytest.raises(MigrationFailed, match=problem):
        write_keyed_stream(HEADER, range(4), made)


def test_a_writer_counts_entries_by_state():
    writer = KeyedStreamWriter(HEADER, range(4), bytearray().extend)
    writer.add(Block.of(0, 0, [(b"\0a", b""), (b"\0b", b"")]))
    writer.add(Block.of(0, 2, [(b"\0a", b"")]))
    writer.add(Block.of(3, 0, [(b"\3a", b"")]))
    writer.finish()

    assert writer.entries == [3, 0, 1]


def whole(*key_groups):
    """Key groups as they lie in a stream, each with an entry of the first state, and where they begin."""
    parts = [write_keyed_stream(HEADER, range(group, group + 1), [Block.of(group, 0, [(bytes([group]), b"v")])])
             for group in key_groups]  # fmt: skip
    data = [part[offset:] for part, (offset,) in parts]
    return memoryview(bytearray(b"".join(data))), [sum(map(len, data[:at])) for at in range(len(data))]


def test_whole_key_groups_lie_between_blocks_as_blocks_do():
    blocks = [Block.of(group, 0, [(bytes([group]), b"v")]) for group in range(6)]
    data, offsets = whole(1, 2, 4)
    written = bytearray()
    writer = KeyedStreamWriter(HEADER, range(6), written.extend)

    writer.add(blocks[0])
    writer.add_key_groups([1, 2, 3, 4], [*offsets[:2], -1, offsets[2]], data, [3, 0, 0])
    writer.add(blocks[5])

    places = writer.finish()
    assert (bytes(written), places) == write_keyed_stream(
        HEADER, range(6), [block for block in blocks if block.key_group != 3]
    )
    assert [5, 0, 0] == writer.entries


@pytest.mark.parametrize(
    ("first", "then", "problem"),
    [
        ([2], [1], "key group 1 came after key group 2"),
        ([2], [2], "key group 2 came after key group 2"),
        ([], [3, 1], "key group 1 came after key group 3"),
        ([], [4], "key group 4 came for a stream of key groups 0 to 3"),
    ],
)
def test_whole_key_groups_out_of_order_are_refused(first, then, problem):
    writer = KeyedStreamWriter(HEADER, range(4), bytearray().extend)
    data, offsets = whole(*first)
    writer.add_key_groups(first, offsets, data, [len(first), 0, 0])
    data, offsets = whole(*then)

    with pytest.raises(MigrationFailed, match=problem):
        writer.add_key_groups(then, offsets, data, [len(then), 0, 0])


def test_a_writer_flushes_as_it_goes(monkeypatch):
    monkeypatch.setattr(keyed_stream, "RUN_BYTES", 100)
    pieces = []
    writer = KeyedStreamWriter(HEADER, range(100), pieces.append)
    for group in range(100):
        writer.add(Block.of(group, 0, [(bytes([group]), bytes(50))]))
    offsets = writer.finish()

    assert len(pieces) > 50
    assert writer.size == sum(map(len, pieces))
    assert (b"".join(pieces), offsets) == write_keyed_stream(
        HEADER, range(100), [Block.of(group, 0, [(bytes([group]), bytes(50))]) for group in range(100)]
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("0003 ffff", "id 3 is not in the header"),
        ("ffff", "no entry"),
        ("0000 00000000 00000000 ffff", "a key has 0 bytes"),
        ("0000 ffffffff 00000000 ffff", "a key has -1 bytes"),
        ("0000 00000001 80 ffffffff ffff", "a value has -1 bytes"),
        ("0000 7fffffff 80 00000000 ffff", "declared"),
        ("0000 00000001 80 7fffffff ffff", "declared"),
        ("0000 00000001 80 00000000 0000 00000001 80 00000000 ffff", "id 0 occurs twice"),
        ("0000 00000001 80 00000000 ffff 00", "after|follow"),
        ("0000 00000001 00 00000000", "declared"),
    ],
)
@pytest.mark.parametrize("knows_size", [True, False])
def test_broken_framing_is_reported(data, problem, knows_size):
    content = bytes.fromhex(data)
    walker = BlockWalker(5, 3, iter((memoryview(bytearray(content)),)), len(content) if knows_size else None)

    with pytest.raises(CorruptSavepoint, match=problem) as caught:
        list(walker.blocks())

    assert "key group 5" in str(caught.value)


def test_a_damaged_checksum_of_a_compressed_stream_is_reported(savepoint_of, keyed_streams_of):
    damaged = 0
    for _, _, handle, source in keyed_streams_of(savepoint_of("hashmap-long-p2-m128-snappy")):
        data = bytearray(source.read_at(0, source.size))
        start = min(offset for offset in handle.offsets if offset)
        data[start + 14] ^= 1
        with pytest.raises(CorruptSavepoint, match="compressed bytes are damaged"):
            list(KeyedStreamReader.open(InlineBytes(bytes(data)), handle).blocks())
        damaged += 1

    assert damaged == 2


def test_a_state_of_unknown_kind_is_named():
    data = header_bytes(HEADER).replace(b"\0\1b\0\0\0\0", b"\0\1b\0\0\0\x09")

    with pytest.raises(UnsupportedFormat, match="a state is of kind 9") as caught:
        read_keyed_header(DataInputView(data))

    assert "b" == caught.value.where["state"]


def test_another_version_of_the_stream_is_refused():
    with pytest.raises(UnsupportedFormat, match="version 7"):
        read_keyed_header(DataInputView(b"\0\0\0\7" + header_bytes(HEADER)[4:]))


def test_a_state_that_lacks_its_value_serializer_is_corrupt():
    info = attrs.evolve(HEADER.states[0], serializers=HEADER.states[0].serializers[1:])

    with pytest.raises(CorruptSavepoint, match="VALUE_SERIALIZER"):
        read_keyed_header(DataInputView(header_bytes(attrs.evolve(HEADER, states=(info,)))))


def test_two_states_of_one_name_are_corrupt():
    twice = attrs.evolve(HEADER, states=(HEADER.states[0], HEADER.states[0]))

    with pytest.raises(CorruptSavepoint, match="same name"):
        read_keyed_header(DataInputView(header_bytes(twice)))


def test_snapshots_are_replaced_in_place():
    changed = HEADER.states[0].with_snapshots(VALUE_SERIALIZER=IntSerializerSnapshot())

    assert changed.value == IntSerializerSnapshot()
    assert [role for role, _ in changed.serializers] == [role for role, _ in HEADER.states[0].serializers]
    assert HEADER.state_id("c") == 2


def test_a_header_is_parsed_once_for_all_its_states_and_subtasks():
    """Else a header of some thousand states, in a few hundred kilobytes, would keep an export busy for hours."""
    states = tuple(keyed_state(f"s{n}", "VALUE", IntSerializerSnapshot(), LongSerializerSnapshot()) for n in range(9))
    data = header_bytes(KeyedStreamHeader(LongSerializerSnapshot(), states))

    first, second = (open_bytes(bytes(bytearray(data)), [0], first=at).header for at in (0, 1))

    assert first is second


def test_a_snapshot_that_was_skipped_is_read_once_its_class_is_registered():
    @attrs.define
    class Late(LongSerializerSnapshot):
        snapshot_id = "stateshift/late-for-a-header"

    data = header_bytes(KeyedStreamHeader(Late(), ()))
    before = open_bytes(data, [0]).header.key_snapshot
    registry.add(Additions({Late.snapshot_id: Late}))
    try:
        after = open_bytes(data, [0]).header.key_snapshot
    finally:
        del registry._snapshots[Late.snapshot_id]

    assert (type(before), type(after)) == (SkippedSnapshot, Late)


@pytest.mark.parametrize("overlap", [0, 3, 5, 24, 1_000])
@pytest.mark.parametrize("size", [1, 7, 30, 100])
def test_damage_is_reported_at_its_place_however_pieces_are_cut(size, overlap):
    data = b"\0\0" + Block.of(5, 0, [(b"\x05key%02d" % n, b"value") for n in range(40)]).data
    damaged = bytearray(data + data[2:] + b"\xff\xff")
    place = len(data) + 20 * (4 + 6 + 4 + 5)
    damaged[place : place + 4] = (-1).to_bytes(4, "big", signed=True)
    cuts = range(0, len(damaged), size)
    pieces = (memoryview(bytearray(damaged[max(at - overlap, 0) : at + size])) for at in cuts)

    with pytest.raises(CorruptSavepoint, match=f"key group 5, {place} bytes after its start: a key has -1 bytes"):
        list(BlockWalker(5, 3, pieces, len(damaged), overlap).blocks())
