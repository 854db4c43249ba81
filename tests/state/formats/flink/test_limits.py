"""Limits of the format: values past 2 GB, key groups, names."""

from itertools import chain, repeat

import pytest

from stateshift import (
    CorruptSavepoint,
    DeclarationError,
    Job,
    ListStateDescriptor,
    Operator,
    SavepointWriter,
    UnsupportedFormat,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.serializers import limits
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.state.formats.flink.blocks import Block, BlockWalker, join_pieces
from stateshift.state.formats.flink.keyed_stream import KeyedStreamHeader, write_keyed_stream
from stateshift.state.formats.flink.meta_info import keyed_state
from stateshift.state.key_groups import key_group_range

MIB = 1 << 20
PIECE = bytes(64 * MIB)
KEY = b"\x07key"
SIZE = 3 << 30
FEW = (b"\x07a", b"1"), (b"\x07b", b"22")


def framed(items, *, ends=False):
    """Entries as they lie in a stream; where they end their state, with the flag."""
    data = bytearray(Block.of(7, 0, items).data)
    if ends:
        last = Block.of(7, 0, items).find_last_entry()
        data[last + 4] |= 0x80
    return bytes(data)


def huge(*, is_last):
    """A block of a state with an entry of 3 GiB among others, whose bytes are never all there at once."""
    head = len(KEY).to_bytes(4, "big") + bytes([KEY[0] | 0x80 * is_last]) + KEY[1:] + SIZE.to_bytes(4, "big")
    tail = b"" if is_last else framed(FEW, ends=True)
    pieces = chain([b"\0\0" + framed(FEW) + head], repeat(PIECE, SIZE // len(PIECE)), [tail + b"\xff\xff"])
    return (memoryview(bytearray(piece) if piece is not PIECE else piece) for piece in pieces)


@pytest.mark.parametrize("is_last", [True, False])
def test_a_value_past_2_gb_is_counted_and_passed_without_holding_it(is_last):
    blocks = list(BlockWalker(7, 1, huge(is_last=is_last)).blocks())

    assert [2, 1, 2][: len(blocks)] == [block.entries for block in blocks]
    assert (2 if is_last else 3) == len(blocks)
    assert [0, SIZE, 0][: len(blocks)] == [block.oversized for block in blocks]
    assert 4 + len(KEY) + 4 + SIZE == blocks[1].size_bytes
    others = [list(block.items()) for block in blocks if not block.oversized]
    assert [list(FEW)] * len(others) == others


def test_it_can_be_neither_read_nor_written():
    block = list(BlockWalker(7, 1, huge(is_last=True)).blocks())[1]
    header = KeyedStreamHeader(
        LongSerializerSnapshot(),
        (keyed_state("s", "VALUE", VoidNamespaceSerializerSnapshot(), LongSerializerSnapshot()),),
    )

    for attempt in (
        lambda: list(block.items()),
        lambda: list(join_pieces([block])),
        lambda: write_keyed_stream(header, range(128), [block]),
    ):
        with pytest.raises(UnsupportedFormat, match="a value has 3,221,225,472 bytes, past the 2 GB") as caught:
            attempt()
        assert KEY.hex() in caught.value.where["key"]
        assert "shorten the list" in caught.value.advice


def test_a_length_that_goes_past_the_stream_is_damage():
    head = len(KEY).to_bytes(4, "big") + KEY + SIZE.to_bytes(4, "big")

    for size in (None, 2 + len(head) + 100):
        with pytest.raises(CorruptSavepoint, match="a value has -1073741824 bytes"):
            list(BlockWalker(7, 1, iter(map(memoryview, [bytearray(b"\0\0" + head), bytearray(100)])), size).blocks())


class TestWriting:
    """The limit patched down; what it is, tests/serializers/test_limits.py says."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(limits, "MAX_VALUE_BYTES", 100)

    def test_a_new_savepoint_refuses_a_value_without_room(self, tmp_path):
        job = Job([Operator("op", key=int, states=[ListStateDescriptor("all", int)])])

        with SavepointWriter(tmp_path / "fits", job) as writer:
            writer.put("op", "all", 1, [0] * 11)  # 11 longs and 10 separators
        with (
            pytest.raises(ValueNotConvertible, match="takes 107 bytes, but an entry holds at most 100") as caught,
            SavepointWriter(tmp_path / "sp", job) as writer,
        ):
            writer.put("op", "all", 1, [0] * 12)
        assert not (tmp_path / "sp" / "_metadata").exists()
        assert {"operator": "op", "state": "all"}.items() <= caught.value.where.items()

    def test_a_migration_refuses_a_value_that_grows_past_it(self, tmp_path, migrate):
        old = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", str)])])
        grown = ValueStateDescriptor("s", bytes, converter=lambda text: text.encode() * 9)
        new = Job([Operator("op", key=int, states=[grown])])
        with SavepointWriter(tmp_path / "old", old) as writer:
            writer.put("op", "s", 1, "a" * 20)

        with pytest.raises(ValueNotConvertible, match="an entry holds at most 100") as caught:
            migrate(tmp_path / "old", tmp_path / "new", new)
        assert {"operator": "op", "state": "s", "key": "1"}.items() <= caught.value.where.items()
        assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.parametrize(("parallelism", "groups"), [(1, 32769), (129, 128), (0, 128)])
def test_more_key_groups_than_flink_has_are_refused_before_anything_is_written(tmp_path, parallelism, groups):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)])])

    with pytest.raises(DeclarationError, match="is not possible") as caught:
        SavepointWriter(tmp_path / "sp", job, parallelism=parallelism, max_parallelism=groups)
    assert "32768" in caught.value.advice
    assert not (tmp_path / "sp").exists()
    assert range(32768) == key_group_range(0, 1, 32768)


def test_names_that_are_too_long_are_refused_where_they_are_declared():
    name = "é" * 32768

    for declare in (
        lambda: ValueStateDescriptor(name, int),
        lambda: Operator(name),
        lambda: Operator("op", name=name),
    ):
        with pytest.raises(DeclarationError, match="takes 65,536 bytes, but the format allows 65,535"):
            declare()
