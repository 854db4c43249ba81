"""The snappy framing format, written in pieces."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.state.formats.flink.snappy import STREAM_HEADER, FrameWriter, decompress
from stateshift.state.formats.flink.sources import InlineBytes

BLOCK = 1 << 16
MASK = 0xFFFFFFFF


def crc32c(data):
    """CRC-32C (Castagnoli), bit by bit."""
    code = MASK
    for byte in data:
        code ^= byte
        for _ in range(8):
            code = code >> 1 ^ (0x82F63B78 if code & 1 else 0)
    return code ^ MASK


def noise(size):
    return hashlib.shake_128(b"noise").digest(size)


def framed(pieces, *, flushed=False):
    data = bytearray()
    writer = FrameWriter(data.extend)
    for piece in pieces:
        writer.write(piece)
        if flushed:
            writer.flush()
    writer.flush()
    return bytes(data)


def content(data, start=0):
    return b"".join(decompress(InlineBytes(data), start, len(data)))


def chunks(data):
    at = len(STREAM_HEADER)
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "little")
        yield at, data[at], data[at + 4 : at + 4 + size]
        at += 4 + size


@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
def test_what_was_written_is_read_again(pieces, flushed):
    data = framed(pieces, flushed=flushed)

    assert data.startswith(STREAM_HEADER)
    assert b"".join(pieces) == content(data)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 40 * BLOCK + 5])
def test_a_stream_does_not_depend_on_how_its_content_is_cut(size):
    whole = (noise(size // 50 + 1) * 50)[:size]

    assert framed([whole]) == framed([whole[at : at + 9999] for at in range(0, size, 9999)])
    assert whole == content(framed([whole]))


def test_chunks_are_real_snappy_and_hold_64_kib_at_most():
    data = framed([b"abcdefgh" * 20000])
    (_, first, body), *others = chunks(data)

    assert {0} == {first, *(kind for _, kind, _ in others)}
    assert 3 == 1 + len(others)
    assert len(data) < 160000 / 10
    size, shift = 0, 0
    for byte in body[4:]:  # raw snappy begins with the size of the content, seven bits at a time
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    assert BLOCK == size


def test_what_cannot_be_compressed_is_stored_under_its_masked_checksum():
    content = noise(1000)
    ((_, kind, body),) = chunks(framed([content]))
    code = crc32c(content)

    assert (1, content) == (kind, body[4:])
    assert ((code >> 15 | code << 17 & MASK) + 0xA282EAD8) & MASK == struct.unpack("<I", body[:4])[0]


def test_a_flushed_stream_can_be_read_from_each_flush():
    data = framed([b"one" * 30, b"two" * 30, b"three" * 30], flushed=True)
    (first, *_), (second, *_), (third, *_) = chunks(data)

    assert len(STREAM_HEADER) == first
    assert b"two" * 30 == b"".join(decompress(InlineBytes(data), second, third))
    assert b"three" * 30 == content(data, third)
