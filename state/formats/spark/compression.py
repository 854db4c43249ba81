"""The compressed streams of Spark, piece by piece, read and written; the first bytes say which codec was used.

    lz4     blocks of "LZ4Block", u8 16 stored | 32 compressed, + level, i32 compressed, i32 raw size, u32 checksum, all
            little-endian; a block of no bytes ends the stream. The checksum is xxHash32 with its upper 4 bits cleared.
    zstd    frames, as zstd's own tools write them
    snappy  82 "SNAPPY" 00, i32 version, i32 compatible version, then: i32 size, raw snappy
    lzf     chunks of "ZV", u8 0, u16 size, bytes as they are; or "ZV", u8 1, u16 size, u16 raw size, raw lzf
    raw lzf u8 below 32: so many bytes and one follow; else a copy from before: 3 bits its length - 2 (7: a byte is
            added), 13 bits how far it is back, less 1

Source: `LZ4BlockOutputStream` of lz4-java, `SnappyOutputStream` of snappy-java, `LZFChunk` of compress-lzf.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

from xxhash import xxh32_intdigest

from ....serializers.errors import CorruptFile, CorruptSavepoint, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.files import FileOutput, FileRange

_LZ4, _ZSTD, _SNAPPY, _LZF = b"LZ4Block", b"\x28\xb5\x2f\xfd", b"\x82SNAPPY\0", b"ZV"
_LZ4_HEAD, _LZ4_SEED, _LZ4_MASK = struct.Struct("<BiiI"), 0x9747B28C, 0x0FFFFFFF
_STORED, _COMPRESSED = 0x10, 0x20
_PIECE_BYTES, _AHEAD_BYTES = 1 << 20, 4 << 20
_BLOCK_LEVEL = 6
_BLOCK_BYTES = 1 << (10 + _BLOCK_LEVEL)
_MOST_GROWTH = 64  # raw snappy has at most 64 bytes for 3
_COPY = "take another copy of the checkpoint; Spark could not read this file either"


class _Ahead(io.RawIOBase):
    """A file that is read from start to end, in pieces of 4 MiB."""

    def __init__(self, file: FileRange) -> None:
        self._file, self._window, self._at, self.position = file, b"", 0, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes: `size` of them, or all that are left."""
        left = self._file.size - self.position
        size = left if size < 0 else min(size, left)
        if self._at + size > len(self._window):
            kept = self._window[self._at :]
            start = self.position + len(kept)
            more = min(max(_AHEAD_BYTES, size - len(kept)), self._file.size - start)
            self._window, self._at = kept + self._file.read_at(start, more), 0
        data = self._window[self._at : self._at + size]
        self._at += size
        self.position += size
        return data

    def take(self, size: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            CorruptFile: There are fewer.
        """
        start = self.position
        data = self.read(size) if size >= 0 else b""
        if size < 0 or len(data) != size:
            raise CorruptFile(f"the file is cut off: {size} bytes were expected", offset=start, advice=_COPY)
        return data


def decompress(file: FileRange) -> Iterator[bytes]:
    """Yield the content of a compressed file, in pieces of some MiB at most.

    Raises:
        CorruptFile: The file is damaged or cut off; the caller knows its place, and adds it.
    """
    import pyarrow as pa  # here and below: it loads numpy, which nobody needs who only looks for what is there

    ahead = _Ahead(file)
    magic = file.read_at(0, min(8, file.size))
    try:
        if magic == _LZ4:
            yield from _lz4(ahead)
        elif magic.startswith(_ZSTD):
            yield from _zstd(ahead)
        elif magic == _SNAPPY:
            yield from _snappy(ahead)
        elif magic.startswith(_LZF):
            yield from _lzf(ahead)
        else:
            raise CorruptFile(f"the file begins with {magic.hex()}, which none of Spark's codecs writes", advice=_COPY)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, CorruptFile | CorruptSavepoint):
            raise
        raise CorruptFile(f"compressed bytes are damaged: {error}", advice=_COPY) from error


def _lz4(ahead: _Ahead) -> Iterator[bytes]:
    import pyarrow as pa

    codec = pa.Codec("lz4_raw")
    while True:
        start = ahead.position
        magic = ahead.take(len(_LZ4))
        token, size, raw_size, checksum = _LZ4_HEAD.unpack(ahead.take(_LZ4_HEAD.size))
        method, most = token & 0xF0, 1 << (10 + (token & 0x0F))
        if magic != _LZ4 or method not in {_STORED, _COMPRESSED} or not 0 <= raw_size <= most or size > 2 * most:
            raise _damaged(start)
        if not raw_size:
            return
        block = ahead.take(size)
        content = block if method == _STORED else codec.decompress(block, decompressed_size=raw_size, asbytes=True)
        if len(content) != raw_size or xxh32_intdigest(content, seed=_LZ4_SEED) & _LZ4_MASK != checksum:
            raise _damaged(start)
        yield content


def _zstd(ahead: _Ahead) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(ahead, mode="r"), "zstd") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


def _snappy(ahead: _Ahead) -> Iterator[bytes]:
    import cramjam

    ahead.take(16)
    while head := ahead.read(4):
        start = ahead.position
        size = int.from_bytes(head, "big", signed=True)
        block = ahead.take(size)
        if len(head) < 4 or _raw_size(block) > _MOST_GROWTH * size:
            raise _damaged(start)
        try:
            yield bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise _damaged(start) from error


def _lzf(ahead: _Ahead) -> Iterator[bytes]:
    while start := ahead.read(3):
        at = ahead.position
        if len(start) < 3 or start[:2] != _LZF or start[2] > 1:
            raise _damaged(at)
        size = int.from_bytes(ahead.take(2), "big")
        if not start[2]:
            yield ahead.take(size)
            continue
        raw_size = int.from_bytes(ahead.take(2), "big")
        try:
            content = _raw_lzf(ahead.take(size))
        except IndexError as error:
            raise _damaged(at) from error
        if len(content) != raw_size:
            raise _damaged(at)
        yield bytes(content)


def _raw_lzf(block: bytes) -> bytearray:
    out, at = bytearray(), 0
    while at < len(block):
        control = block[at]
        at += 1
        if control < 32:
            if at + control >= len(block):
                raise IndexError(at)
            out += block[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += block[at]
            at += 1
        begin = len(out) - ((control & 31) << 8 | block[at]) - 1
        at += 1
        if begin < 0:
            raise IndexError(at)
        for place in range(begin, begin + length + 2):  # it may overlap what it writes
            out.append(out[place])
    return out


def _raw_size(block: bytes) -> int:
    """Return the size that a raw snappy block says it has: a varint at its beginning."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    return size


def _damaged(start: int) -> CorruptFile:
    return CorruptFile("a compressed block is damaged", offset=start, advice=_COPY)


class Compressing:
    """A stream that compresses what is written to it, as one of Spark's codecs does.

    Args:
        file: The file to write to.
        codec: The codec as the setting of Spark names it: `lz4`, `zstd` or `snappy`.

    Raises:
        UnsupportedFormat: The codec is another one.
    """

    def __init__(self, file: FileOutput, codec: str) -> None:
        if codec not in {"lz4", "zstd", "snappy"}:
            raise UnsupportedFormat(
                f"files compressed by {codec!r} are not written by this release", file=file.name,
                advice="run the query on with spark.sql.streaming.stateStore.compression.codec=lz4 in a new"
                " checkpoint",
            )  # fmt: skip
        self._file, self._codec, self._held = file, codec, bytearray()
        if codec == "snappy":
            file.write(_SNAPPY + struct.pack(">ii", 1, 1))
        self._zstd = _zstd_writer(file) if codec == "zstd" else None

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        if self._zstd is not None:
            self._zstd.write(data)
            return
        self._held += data
        whole = len(self._held) - len(self._held) % _BLOCK_BYTES
        for start in range(0, whole, _BLOCK_BYTES):
            self._write_block(bytes(memoryview(self._held)[start : start + _BLOCK_BYTES]))
        del self._held[:whole]

    def finish(self) -> None:
        """Write what is held, and the end of the stream; the file stays open."""
        if self._zstd is not None:
            self._zstd.close()
            return
        if self._held:
            self._write_block(bytes(self._held))
        if self._codec == "lz4":
            self._file.write(_LZ4 + _LZ4_HEAD.pack(_STORED | _BLOCK_LEVEL, 0, 0, 0))

    def _write_block(self, raw: bytes) -> None:
        if self._codec == "snappy":
            import cramjam

            block = bytes(cramjam.snappy.compress_raw(raw))
            self._file.write(len(block).to_bytes(4, "big") + block)
            return
        import pyarrow as pa

        block = pa.Codec("lz4_raw").compress(raw, asbytes=True)
        method = _COMPRESSED
        if len(block) >= len(raw):
            block, method = raw, _STORED
        checksum = xxh32_intdigest(raw, seed=_LZ4_SEED) & _LZ4_MASK
        self._file.write(_LZ4 + _LZ4_HEAD.pack(method | _BLOCK_LEVEL, len(block), len(raw), checksum) + block)


def _zstd_writer(file: FileOutput) -> Any:
    import pyarrow as pa

    return pa.CompressedOutputStream(_Passing(file), "zstd")


class _Passing(io.RawIOBase):
    """A file for pyarrow that passes bytes on and stays open."""

    def __init__(self, file: FileOutput) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._file.write(bytes(data))
