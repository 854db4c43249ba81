"""The snappy framing format, piece by piece.

    FF 06 00 00 "sNaPpY", then chunks: u8 type, u24 little-endian length, body
    type 00: u32 masked CRC-32C of the content, raw snappy; type 01: the same CRC, stored content

A chunk has at most 64 KiB of content, so the memory for a piece is bounded even if the bytes are damaged. cramjam
handles the chunks, raw snappy and CRC-32C; this module handles the start and the flush points of a stream. Source:
format notes 5.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....serializers.errors import CorruptSavepoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .sources import ByteSource

STREAM_HEADER = b"\xff\x06\x00\x00sNaPpY"
_READ_BYTES = 1 << 20
_CHUNKS_AT_ONCE = 32
_CHUNK_HEADER_BYTES = 4
_CHUNK_BYTES = 1 << 16
_SKIPPABLE_FROM = 0x80
_STREAM_HEADER_TYPE = 0xFF


def decompress(source: ByteSource, start: int, end: int) -> Iterator[memoryview]:
    """Yield the content of the chunks in `[start, end)`, in pieces of at most 2 MiB, in writable memory.

    Raises:
        CorruptSavepoint: A chunk is damaged (a checksum is wrong) or cut off.
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


def _content(chunks: bytes, source: ByteSource, start: int) -> memoryview:
    import cramjam

    framed = chunks if chunks.startswith(STREAM_HEADER) else STREAM_HEADER + chunks
    try:
        return memoryview(bytearray(cramjam.snappy.decompress(framed)))
    except cramjam.DecompressionError as error:
        raise CorruptSavepoint(f"compressed bytes are damaged: {error}", file=source.name, offset=start) from error


class FrameWriter:
    """Writes one framed stream, in bounded memory.

    The output does not depend on how the content is cut into pieces (rule RUN-5).

    Args:
        write: Takes the compressed bytes.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._waiting = bytearray()
        write(STREAM_HEADER)

    def write(self, data: bytes | memoryview) -> None:
        """Append content; full chunks are written from time to time."""
        self._waiting += data
        if len(self._waiting) >= _CHUNKS_AT_ONCE * _CHUNK_BYTES:
            self._compress(len(self._waiting) // _CHUNK_BYTES * _CHUNK_BYTES)

    def flush(self) -> None:
        """Write all pending content, so that the next content begins a new chunk and can be read from there."""
        if self._waiting:
            self._compress(len(self._waiting))

    def _compress(self, size: int) -> None:
        import cramjam

        framed = bytes(cramjam.snappy.compress(bytes(self._waiting[:size])))
        del self._waiting[:size]
        self._write(framed.removeprefix(STREAM_HEADER))
