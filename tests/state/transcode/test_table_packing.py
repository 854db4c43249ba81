"""Blocks of RocksDB's files as they are stored: packed by snappy, with checksums, and read back."""

import random

import cramjam
import google_crc32c
import pytest

from stateshift.state.rocksdb.table_blocks import place_of
from stateshift.state.transcode import memory, numba_kernels, table_packing
from stateshift.state.transcode.table_entries import BROKEN, CRAMPED, READ, ROOM_BYTES, TRAILER_BYTES
from stateshift.state.transcode.table_packing import NO_COMPRESSION, OTHER, SNAPPY, TABLE_BYTES

SIZES = (0, 1, 3, 4, 15, 16, 59, 60, 61, 70, 255, 256, 257, 4000, 65_535, 65_536, 65_537, 200_000)
MARGIN = bytes(ROOM_BYTES)


def contents(seed):
    """Yield contents of many sizes: random, of few letters, of repeated pieces, and of zeros."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for size in SIZES:
        piece = chance.randbytes(chance.choice([1, 2, 5, 30, 100, 3000]))
        yield chance.randbytes(size)
        yield bytes(chance.choices(b"abc", k=size))
        yield (piece * (size // len(piece) + 1))[:size]
        yield bytes(size)
        yield bytes(chance.choices([*range(4), 200], k=size // 2)) + chance.randbytes(size - size // 2)


def unpacked_in_python(data, bounds):
    ends, result, target = [0] * len(bounds), [0, 0], bytearray()
    status = CRAMPED
    while status == CRAMPED:
        target = bytearray(result[0] + ROOM_BYTES)
        status = table_packing.unpack_blocks(data, bounds, len(bounds) // 2, target, len(target), ends, result)
    return status, result[1], memoryview(target), ends


def packed_in_python(made, ends, kind, start, data, lasts, key_bytes):
    target, index = bytearray(2 * len(made) + 100), bytearray(key_bytes + 100 * len(ends))
    sizes, result = [0] * len(ends), [0, 0]
    table = bytearray(TABLE_BYTES)
    table_packing.pack_blocks(
        made, ends, len(ends), kind, start, data, lasts, target, table, index, sizes, result
    )  # fmt: skip
    return memoryview(target)[: result[0]], bytes(index[: result[1]]), sizes


UNPACKED = pytest.mark.parametrize(
    "unpacked", [unpacked_in_python, numba_kernels.unpack_table_blocks], ids=["python", "machine code"]
)
PACKED = pytest.mark.parametrize(
    "packed", [packed_in_python, numba_kernels.pack_table_blocks], ids=["python", "machine code"]
)


def stored(packed, wanted, kind, start=0):
    """Return stored blocks, with the entries of the index."""
    made, ends, data, lasts = bytearray(), [], bytearray(), []
    for number, content in enumerate(wanted):
        made += content
        ends.append(len(made))
        made += bytes(TRAILER_BYTES)
        lasts.append(len(data))
        key = b"k" * number
        data += len(key).to_bytes(4, "big") + key + bytes(4)
    found, index, sizes = packed(
        memoryview(made + MARGIN), ends, kind, start, data + MARGIN, lasts, sum(range(len(wanted)))
    )
    return bytes(found), index, sizes


@PACKED
@pytest.mark.parametrize("kind", [SNAPPY, NO_COMPRESSION])
def test_blocks_are_stored_as_libraries_read_them(packed, kind):
    wanted = [content for content in contents(kind) if packed is not packed_in_python or len(content) < 5000]
    data, index, sizes = stored(packed, wanted, kind, start=(1 << 20) + 3)

    at = 0
    for number, (content, size) in enumerate(zip(wanted, sizes, strict=True)):
        entry, at = index[at : at + size], at + size
        key = b"k" * number + (1).to_bytes(8, "little")
        assert key in entry
        offset, length = place_of(entry, entry.index(key) + len(key))[0]
        offset -= (1 << 20) + 3
        block, how = data[offset : offset + length], data[offset + length]
        assert content == (bytes(cramjam.snappy.decompress_raw(block)) if how else block)
        libraries = bytes(cramjam.snappy.compress_raw(content))
        is_worth_it = kind == SNAPPY and 8 * len(libraries) < 7 * len(content)
        assert (libraries if is_worth_it else content) == block
        code = google_crc32c.value(data[offset : offset + length + 1])
        code = ((code >> 15 | code << 17) + 0xA282EAD8) & 0xFFFFFFFF
        assert code == int.from_bytes(data[offset + length + 1 : offset + length + 5], "little")
    assert at == len(index)
    assert offset + length + TRAILER_BYTES == len(data)
    packs = [len(content) for content in wanted if len(content) > 100]
    assert len(data) < (0.7 if kind == SNAPPY else 2) * sum(packs)


@UNPACKED
def test_what_libraries_pack_is_read(unpacked):
    wanted = [content for content in contents(5) if unpacked is not unpacked_in_python or len(content) < 5000]
    data, bounds = bytearray(), []
    for number, content in enumerate(wanted):
        block = content if number % 7 == 0 else bytes(cramjam.snappy.compress_raw(content))
        bounds += len(data), len(data) + len(block)
        data += block + bytes([number % 7 != 0]) + bytes(4)

    status, _, found, ends = unpacked(bytes(data + MARGIN), bounds)

    assert READ == status
    assert wanted == [bytes(found[begin:end]) for begin, end in zip(ends[::2], ends[1::2], strict=True)]


@UNPACKED
def test_damage_is_found_as_libraries_find_it(unpacked):
    """It writes nothing outside its buffer, and says which block it was."""
    chance = random.Random(1)  # noqa: S311 - no secret
    sound = [content for content in contents(2) if 16 <= len(content) < 5000]
    for _ in range(600):
        block = bytearray(cramjam.snappy.compress_raw(chance.choice(sound)))
        for _ in range(chance.randrange(1, 4)):
            block[chance.randrange(len(block))] = chance.randrange(256)
        del block[len(block) - chance.choice([0, 0, 1, 5]) :]
        data = b"ab\0\0\0\0\0" + bytes(block) + bytes([SNAPPY]) + MARGIN

        status, at, found, ends = unpacked(data, [0, 2, 7, 7 + len(block)])

        try:
            wanted = bytes(cramjam.snappy.decompress_raw(bytes(block)))
        except cramjam.DecompressionError:
            assert (BROKEN, 1) == (status, at)
        else:
            assert READ == status
            assert b"ab" + wanted == bytes(found[: ends[-1]])


@UNPACKED
@pytest.mark.parametrize(
    "block",
    [b"", b"\x80", b"\xff\xff\xff\xff\x7f" + b"\0a", b"\x04\xf8", b"\x04\x01", b"\x05\0a\x01\0", b"\x05\0a\x01\x02"],
    ids=["nothing", "no size", "a huge size", "no literal", "no offset", "an offset of 0", "before the beginning"],
)
def test_a_broken_block(unpacked, block):
    assert (BROKEN, 0) == unpacked(block + bytes([SNAPPY]) + MARGIN, [0, len(block)])[:2]


@UNPACKED
def test_another_compression_is_left_to_libraries(unpacked):
    assert (OTHER, 1) == unpacked(b"a\0a\7" + MARGIN, [0, 1, 2, 3])[:2]


def test_the_checksum_is_that_of_libraries():
    data = random.Random(3).randbytes(100)  # noqa: S311 - no secret
    assert [google_crc32c.value(data[:size]) for size in range(100)] == [
        memory.crc32c(data, 0, size) for size in range(100)
    ]
