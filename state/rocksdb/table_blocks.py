"""The blocks of a file with entries: where they are found, their checksums and their compression.

    block: content, u8 compression, u32 little-endian checksum of both
    footer: u8 type of checksum, place of the metaindex, place of the index, filled up to 41 bytes, u32 format, u64
        magic number
    footer of format 6: u8 type of checksum, 3E 00 7A 00, u32 checksum of the footer, u32 base, u32 size of the
        metaindex, which is the block before the footer; filled up to 41 bytes, then as above

A place is a varint offset and a varint size, without the five bytes behind the content. In format 6 a checksum also
depends on the base and on the place of what it is of. Source: the description of the format in RocksDB's wiki.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from xxhash import xxh3_64_intdigest

from ...serializers.errors import CorruptSavepoint, UnsupportedFormat
from ..transcode.executor_choice import ExecutorName, load_machine_code
from ..transcode.table_entries import (
    BROKEN,
    CRAMPED,
    OUT_OF_ORDER,
    READ,
    ROOM_BYTES,
    TRAILER_BYTES,
    parse_table_entries,
)
from .manifest import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence, Sequence

FOOTER = struct.Struct("<B40sIQ")
MAGIC = 0x88E241B785F4CFF7
_FOOTER_6 = struct.Struct("<4sIII")
_EXTENDED_MAGIC, _FORMATS, _PLACED = b"\x3e\0\x7a\0", range(2, 7), 6
_BITS_32, _LAST_BYTE_FACTOR = 0xFFFFFFFF, 0x6B9083D9
_BYTES = tuple(bytes([one]) for one in range(256))
DAMAGED = "use another copy of the snapshot, or another checkpoint"

Place = tuple[int, int]
"""The offset of a block, and the size of its content."""


class TableBytes(Protocol):
    """The bytes of a file, such as `open_stream` gives."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""


@attrs.frozen
class Parsed:
    """The entries of blocks.

    Attributes:
        data: The entries as in canonical streams, in memory with a margin.
        places: The offset of each entry, and the end of the last one.
        firsts: The sequence number of each entry, or the offset of the place that its value is.
        seconds: The type of each entry, or the size of that place.
        types: A bit set of the types.
        repeats: The number of entries with the key of the entry before.
    """

    data: memoryview = attrs.field(repr=False)
    places: Sequence[int] = attrs.field(repr=False)
    firsts: MutableSequence[int] = attrs.field(repr=False)
    seconds: Sequence[int] = attrs.field(repr=False)
    types: int
    repeats: int


@attrs.define
class TableBlocks:
    """The blocks of a file. Created with `open_blocks`.

    Attributes:
        file: The bytes of the file.
        executor: The executor that finds entries.
        metaindex: The place of the block that lists the others.
        index: The place of the index; None: the metaindex has it.
    """

    file: TableBytes
    executor: ExecutorName
    metaindex: Place
    index: Place | None
    _checksum: int
    _base: int
    _growth: int = 3

    def parse(self, places: Sequence[Place], values: int, stored: int) -> Parsed:
        """Read blocks that follow one another, and find their entries.

        Args:
            places: The places of the blocks, ascending.
            values: As in `read_table_entries`.
            stored: As in `read_table_entries`.

        Raises:
            CorruptSavepoint: A block is damaged.
            UnsupportedFormat: It has a compression that is not known.
        """
        data, bounds = self._contents(places)
        size = sum(bounds[1::2]) - sum(bounds[::2])
        capacity, rows = size * self._growth + ROOM_BYTES, size // 16 + 64
        parse = parse_table_entries
        if self.executor is ExecutorName.NUMBA:
            parse = load_machine_code().parse_table_entries
        while True:
            status, (_, types, repeats, block), arrays = parse(data, bounds, values, stored, capacity, rows)
            if status == READ:
                return Parsed(*arrays, types, repeats)
            if status != CRAMPED:
                what = "the keys are not in order" if status == OUT_OF_ORDER else "the entries of a block are damaged"
                raise self.damaged(what, places[block][0])
            self._growth *= 2
            capacity, rows = 2 * capacity, 2 * rows

    def damaged(self, what: str, offset: int = 0) -> CorruptSavepoint:
        """Return the error for damage at an offset."""
        return CorruptSavepoint(what, file=self.file.name, offset=offset, advice=DAMAGED)

    def unsupported(self, what: str) -> UnsupportedFormat:
        """Return the error for what is not known."""
        return UnsupportedFormat(f"a file has {what}, which is not read here without RocksDB", file=self.file.name)

    def _contents(self, places: Sequence[Place]) -> tuple[bytes | bytearray | memoryview, list[int]]:
        """Read blocks; return a buffer with a margin, and the start and the end of each in it."""
        begin, end = places[0][0], sum(places[-1]) + TRAILER_BYTES
        if not 0 <= begin < end <= self.file.size - FOOTER.size:
            raise self.damaged(f"a block should be at {begin} to {end}", begin)
        after = min(end + ROOM_BYTES, self.file.size)
        data, checked = self.file.read_at(begin, after - begin), _CHECKSUMS[self._checksum]
        bounds: list[int] = []
        has_compressed, reached, base = 0, begin, self._base
        for offset, size in places:
            if not reached <= offset <= end - TRAILER_BYTES - size:
                raise self.damaged("blocks are listed that do not follow one another", offset)
            at = offset - begin
            stop = at + size
            kind = data[stop]
            found = checked(data[at:stop], kind)
            if base:
                found = found + _of_place(base, offset) & _BITS_32
            if found != int.from_bytes(data[stop + 1 : stop + TRAILER_BYTES], "little"):
                raise self.damaged("a block does not match its checksum", offset)
            has_compressed |= kind
            bounds += at, stop
            reached = begin + stop + TRAILER_BYTES
        data = data if after - end == ROOM_BYTES else data + bytes(ROOM_BYTES)
        return self._plain(data, bounds, begin) if has_compressed else (data, bounds)

    def _plain(self, data: bytes, bounds: list[int], begin: int) -> tuple[bytearray | memoryview, list[int]]:
        """Return blocks without compression."""
        if self.executor is ExecutorName.NUMBA:
            status, block, content, ends = load_machine_code().unpack_table_blocks(data, bounds)
            if status == READ:
                return content, ends
            if status == BROKEN:
                raise self.damaged("a block cannot be decompressed", begin + bounds[2 * block])
        plain, new = bytearray(), list[int]()
        for at, end in zip(bounds[::2], bounds[1::2], strict=True):
            kind, content = data[end], data[at:end]
            if kind not in _DECOMPRESSIONS:
                raise self.unsupported(f"compression {kind}")
            try:
                content = _DECOMPRESSIONS[kind](content)
            except Exception as error:
                raise self.damaged(f"a block cannot be decompressed ({error})", begin + at) from error
            new += len(plain), len(plain) + len(content)
            plain += content
        plain += bytes(ROOM_BYTES)
        return plain, new


def open_blocks(file: TableBytes, executor: ExecutorName) -> TableBlocks:
    """Read the footer of a file.

    Raises:
        CorruptSavepoint: It is damaged.
        UnsupportedFormat: The format or the checksums are not known.
    """
    at = file.size - FOOTER.size
    if at < 0:
        raise CorruptSavepoint("the file is cut off", file=file.name, advice=DAMAGED)
    footer = file.read_at(at, FOOTER.size)
    checksum, places, form, magic = FOOTER.unpack(footer)
    blocks = TableBlocks(file, executor, (0, 0), None, checksum, 0)
    if magic != MAGIC:
        raise blocks.damaged("the file does not end as one with entries of RocksDB", at)
    if form not in _FORMATS or checksum not in _CHECKSUMS:
        raise blocks.unsupported(f"format {form} and checksums {checksum}")
    if form < _PLACED:
        try:
            blocks.metaindex, end = place_of(places, 0)
            blocks.index, _ = place_of(places, end)
        except IndexError as error:
            raise blocks.damaged("the end of the file is damaged", at) from error
        return blocks
    extended, stored, base, size = _FOOTER_6.unpack_from(places)
    unsigned = footer[:5] + bytes(4) + footer[9:]
    found = _CHECKSUMS[checksum](unsigned[:-1], unsigned[-1]) + _of_place(base, at) & _BITS_32
    if extended != _EXTENDED_MAGIC or stored != found:
        raise blocks.damaged("the end of the file does not match its checksum", at)
    blocks.metaindex, blocks._base = (at - size - TRAILER_BYTES, size), base  # noqa: SLF001 - being made
    return blocks


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint, and its end; raises `IndexError` where it is cut off."""
    found = shift = 0
    while data[at] & 0x80:
        found |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return found | data[at] << shift, at + 1


def place_of(data: bytes, at: int = 0) -> tuple[Place, int]:
    """Return a place, and its end; raises as `varint`."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _of_place(base: int, offset: int) -> int:
    """Return what is added to the checksum of what is at an offset."""
    return base ^ (offset & _BITS_32) + (offset >> 32) & _BITS_32 if base else 0


def _xxh3(data: bytes, last: int) -> int:
    return xxh3_64_intdigest(data) & _BITS_32 ^ last * _LAST_BYTE_FACTOR & _BITS_32


_CHECKSUMS: dict[int, Callable[[bytes, int], int]] = {1: lambda data, last: crc32c(data + _BYTES[last]), 4: _xxh3}
"""The checksum of bytes and of the last one after them, by its type: those of RocksDB 6 and 8, which Flink leaves as
they are."""


def _snappy(data: bytes) -> Any:
    import cramjam

    return cramjam.snappy.decompress_raw(data)


def _zlib(data: bytes) -> bytes:
    import zlib

    return zlib.decompress(data[varint(data, 0)[1] :], -zlib.MAX_WBITS)


def _bzip2(data: bytes) -> bytes:
    import bz2

    return bz2.decompress(data[varint(data, 0)[1] :])


def _lz4(data: bytes) -> Any:
    import cramjam

    size, start = varint(data, 0)
    return cramjam.lz4.decompress_block(data[start:], output_len=size)


def _zstd(data: bytes) -> Any:
    import cramjam

    return cramjam.zstd.decompress(data[varint(data, 0)[1] :])


_DECOMPRESSIONS: dict[int, Callable[[bytes], Any]] = {
    0: lambda data: data,
    1: _snappy,
    2: _zlib,
    3: _bzip2,
    4: _lz4,
    5: _lz4,
    7: _zstd,
}
"""The content of a block by its compression; but for snappy its size is before it."""
