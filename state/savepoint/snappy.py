"""The snappy framing format, piece by piece.

    FF 06 00 00 "sNaPpY", then chunks: u8 type, u24 little-endian length, body
    type 00: u32 masked CRC-32C of the content, raw snappy; type 01: the same CRC, stored content

A chunk holds at most 64 KiB, so the memory for a piece is bounded whatever the bytes say. Source: format notes 5.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.errors import CorruptSavepoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import ByteSource

STREAM_HEADER = b"\xff\x06\x00\x00sNaPpY"
_READ_BYTES = 1 << 20
_CHUNKS_AT_ONCE = 32
_CHUNK_HEADER_BYTES = 4
_SKIPPABLE_FROM = 0x80
_STREAM_HEADER_TYPE = 0xFF


def decompress(source: ByteSource, start: int, end: int) -> Iterator[bytes]:
    """Give the content of the chunks in `[start, end)`, in pieces of at most 2 MiB.

    Raises:
        CorruptSavepoint: They are damaged (a checksum is wrong) or cut off.
    """
    chunks, count, begin = bytearray(), 0, start
    position = start
    window, window_start = b"", start
    while position < end:
        if position + _CHUNK_HEADER_BYTES > window_start + len(window):
            size = min(_READ_BYTES, end - position)
            window, window_start = source.read_at(position, size), position
        at = position - window_start
        header = window[at : at + _CHUNK_HEADER_BYTES]
        size = _CHUNK_HEADER_BYTES + int.from_bytes(header[1:], "little")
        if len(header) < _CHUNK_HEADER_BYTES or position + size > end:
            raise CorruptSavepoint("a compressed chunk is cut off", file=source.name, offset=position)
        chunk = window[at : at + size] if at + size <= len(window) else source.read_at(position, size)
        if header[0] == _STREAM_HEADER_TYPE or header[0] < _SKIPPABLE_FROM:
            chunks += chunk
            count += 1
        position += size
        if count >= _CHUNKS_AT_ONCE:
            yield _content(bytes(chunks), source, begin)
            chunks, count, begin = bytearray(), 0, position
    if count:
        yield _content(bytes(chunks), source, begin)


def _content(chunks: bytes, source: ByteSource, start: int) -> bytes:
    import cramjam

    framed = chunks if chunks.startswith(STREAM_HEADER) else STREAM_HEADER + chunks
    try:
        return bytes(cramjam.snappy.decompress(framed))
    except cramjam.DecompressionError as error:
        raise CorruptSavepoint(f"compressed bytes are damaged: {error}", file=source.name, offset=start) from error
