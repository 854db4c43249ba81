"""A column family, written from nothing: files of the last level with values that have no sequence number.

What reads them may be RocksDB 6.20, so they have the format and the checksums of that, never those that are usual now.
They are written by blocks, as `table_blocks` describes them, with an index of whole keys and without filters.
"""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ...serializers.errors import StorageFailed, UnsupportedFormat
from ..transcode.executor_choice import ExecutorName, load_machine_code
from ..transcode.table_entries import OUT_OF_ORDER, READ, ROOM_BYTES, TRAILER_BYTES, make_table_blocks
from ..transcode.table_packing import NO_COMPRESSION, SNAPPY
from .database import require_library
from .manifest import TableFile, crc32c, numbers
from .options_file import TABLE_FORMAT
from .table_blocks import FOOTER, MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .options_file import Family
    from .table_blocks import Place

_FILE_BYTES = 64 << 20
"""The bytes of a file: as many as RocksDB's own files have."""
_RUN_BYTES = 1 << 20
_MOST_BLOCK_BYTES = 16 << 20
_CRC32C = 1
_OF_VALUES = (1).to_bytes(8, "little")
_WORTH_IT = 7, 8
"""A block is stored compressed if that takes less than this part of its bytes."""


class TableSink(Protocol):
    """Takes the bytes of a file."""

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes."""

    def finish(self) -> object:
        """Finish the file."""


@attrs.define
class _File:
    """A file that is being written."""

    number: int
    sink: TableSink
    first: bytes
    last: bytes = b""
    size: int = 0
    entries: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    index: list[bytes] = attrs.field(factory=list)
    index_sizes: list[int] = attrs.field(factory=list)

    def put(self, content: bytes) -> Place:
        """Write a block that is not compressed; return its place."""
        self.write(content + _trailer(content, 0))
        return self.size - len(content) - TRAILER_BYTES, len(content)

    def write(self, data: bytes | memoryview) -> None:
        self.sink.write(data)
        self.size += len(data)


class TableWriter:
    """Writes the files of a column family.

    Args:
        family: The column family.
        new_file: Returns the number of a new file, and what takes its bytes.
        executor: The executor that makes blocks.

    Attributes:
        files: The finished files.
        last: The last key that was added; b"": there is none.

    Raises:
        UnsupportedFormat: As `require_writable`.
    """

    def __init__(
        self,
        family: Family,
        new_file: Callable[[], tuple[int, TableSink]],
        executor: ExecutorName = ExecutorName.OBJECTS,
    ) -> None:
        require_writable(family)
        tables = family.tables
        self._compression = _COMPRESSIONS[tables.compression]
        self._block_bytes, self._interval = min(tables.block_bytes, _MOST_BLOCK_BYTES), tables.restart_interval
        self._level, self._new_file, self._executor = family.levels - 1, new_file, executor
        self._waiting: list[bytes | memoryview] = []
        self._size = self._entries = 0
        self._file: _File | None = None
        self.files: list[TableFile] = []

    def add(self, data: bytes | memoryview, entries: int) -> None:
        """Add entries, framed as in canonical streams, whose keys ascend and are greater than all before.

        Raises:
            StorageFailed: They are not, or they cannot be written.
        """
        self._waiting.append(data)
        self._size += len(data)
        self._entries += entries
        if self._size >= _RUN_BYTES:
            self._write(is_last=False)

    def cut(self) -> None:
        """Finish the file: what is added later goes into another one."""
        self._write(is_last=True)
        self._close()

    def finish(self) -> list[TableFile]:
        """Finish the last file; return all."""
        self.cut()
        return self.files

    def _write(self, *, is_last: bool) -> None:
        if not self._entries:
            return
        data = bytearray().join((*self._waiting, bytes(ROOM_BYTES)))
        make = load_machine_code().make_table_blocks if self._executor is ExecutorName.NUMBA else make_table_blocks
        status, result, made, ends, lasts = make(
            data, self._entries, self._block_bytes, self._interval, is_last=is_last
        )
        blocks, _, at, entries, key_bytes = result
        if status == OUT_OF_ORDER or (self._file is not None and _key(data, 0) <= self._file.last and blocks):
            raise StorageFailed("the keys of a state are not in order", advice=_BUG)
        if status != READ or (is_last and at < self._size):
            raise StorageFailed("the entries of a state are damaged", advice=_BUG)
        if blocks:
            self._put(data, made, ends[:blocks], lasts[:blocks], key_bytes)
            file = self._file
            assert file is not None  # noqa: S101 - it was opened
            file.entries += entries
            file.key_bytes += key_bytes
            file.value_bytes += at - 8 * entries - key_bytes
        self._waiting, self._size, self._entries = (
            [bytes(data[at:-ROOM_BYTES])],
            self._size - at,
            self._entries - entries,
        )
        if self._file is not None and self._file.size >= _FILE_BYTES:
            self._close()

    def _put(self, data: bytearray, made: memoryview, ends: list[int], lasts: list[int], key_bytes: int) -> None:
        """Write blocks."""
        if self._file is None:
            self._file = _File(*self._new_file(), _key(data, 0))
        file, kind = self._file, self._compression.kind
        if self._executor is ExecutorName.NUMBA and kind in {NO_COMPRESSION, SNAPPY}:
            code = load_machine_code()
            stored, index, sizes = code.pack_table_blocks(made, ends, kind, file.size, data, lasts, key_bytes)
        else:
            stored, index, sizes = self._stored(made, ends, file.size, [_key(data, last) for last in lasts])
        file.write(stored)
        file.index.append(index)
        file.index_sizes += sizes
        file.last = _key(data, lasts[-1])

    def _stored(
        self, made: memoryview, ends: list[int], offset: int, keys: list[bytes]
    ) -> tuple[bytes, bytes, list[int]]:
        """Return stored blocks, the entries of the index, and their sizes; as `pack_table_blocks` in machine code."""
        begin, pieces, index, compress = 0, list[bytes](), list[bytes](), self._compression.compress
        for end, key in zip(ends, keys, strict=True):
            content = bytes(made[begin:end])
            packed, how = content, NO_COMPRESSION
            if compress is not None:
                packed, how = compress(content), self._compression.kind
                if len(packed) * _WORTH_IT[1] >= len(content) * _WORTH_IT[0]:
                    packed, how = content, NO_COMPRESSION
            pieces += packed, _trailer(packed, how)
            place = numbers(offset, len(packed))
            index.append(numbers(0, len(key) + len(_OF_VALUES), len(place)) + key + _OF_VALUES + place)
            offset += len(packed) + TRAILER_BYTES
            begin = end + TRAILER_BYTES
        return b"".join(pieces), b"".join(index), [*map(len, index)]

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        data_bytes = file.size
        index = file.put(_of_entries(file.index, file.index_sizes))
        properties = file.put(_of_items({
            b"rocksdb.block.based.table.index.type": struct.pack("<I", 0),
            b"rocksdb.block.based.table.prefix.filtering": b"0",
            b"rocksdb.block.based.table.whole.key.filtering": b"1",
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.compression": self._compression.name,
            b"rocksdb.data.size": numbers(data_bytes),
            b"rocksdb.deleted.keys": numbers(0),
            b"rocksdb.filter.size": numbers(0),
            b"rocksdb.fixed.key.length": numbers(0),
            b"rocksdb.format.version": numbers(0),
            b"rocksdb.index.key.is.user.key": numbers(0),
            b"rocksdb.index.size": numbers(index[1] + TRAILER_BYTES),
            b"rocksdb.index.value.is.delta.encoded": numbers(0),
            b"rocksdb.merge.operands": numbers(0),
            b"rocksdb.merge.operator": b"nullptr",
            b"rocksdb.num.data.blocks": numbers(len(file.index_sizes)),
            b"rocksdb.num.entries": numbers(file.entries),
            b"rocksdb.num.range-deletions": numbers(0),
            b"rocksdb.prefix.extractor.name": b"nullptr",
            b"rocksdb.property.collectors": b"[]",
            b"rocksdb.raw.key.size": numbers(file.key_bytes + 8 * file.entries),
            b"rocksdb.raw.value.size": numbers(file.value_bytes),
        }))  # fmt: skip
        metaindex = file.put(_of_items({b"rocksdb.properties": numbers(*properties)}))
        file.write(FOOTER.pack(_CRC32C, numbers(*metaindex, *index), TABLE_FORMAT, MAGIC))
        file.sink.finish()
        self.files.append(TableFile.written(file.number, file.size, self._level, file.first, file.last))


def require_writable(family: Family) -> None:
    """Refuse a column family whose files cannot be written.

    Raises:
        UnsupportedFormat: They have a compression that is not known, or may not be on the last level.
    """
    tables = family.tables
    if tables.is_fifo or tables.compression not in _COMPRESSIONS:
        what = "compaction FIFO" if tables.is_fifo else tables.compression
        raise UnsupportedFormat(
            f"the files of a column family with {what} cannot be written", advice=_CANONICAL, state=family.name
        )


_CANONICAL = "write a canonical savepoint instead, which any backend restores"
_BUG = "this is a bug in stateshift; nothing is published"


def options_of(family: Family) -> Any:
    """Return the options by which the files of a family are written."""
    library, tables = require_library(), family.tables
    options, blocks = library.Options(raw_mode=True), library.BlockBasedOptions()
    options.set_compression_type(getattr(library.DBCompressionType, _COMPRESSIONS[tables.compression].option)())
    blocks.set_format_version(TABLE_FORMAT)
    blocks.set_checksum_type(library.ChecksumType.crc32c())
    blocks.set_block_size(tables.block_bytes)
    blocks.set_block_restart_interval(tables.restart_interval)
    options.set_block_based_table_factory(blocks)
    return options


def _key(data: bytearray, at: int) -> bytes:
    """Return the key of the entry at an offset."""
    return bytes(data[at + 4 : at + 4 + int.from_bytes(data[at : at + 4], "big")])


def _trailer(content: bytes, kind: int) -> bytes:
    """Return what is behind the content of a block."""
    how = kind.to_bytes(1, "little")
    return how + crc32c(content + how).to_bytes(4, "little")


def _of_items(items: Mapping[bytes, bytes]) -> bytes:
    """Return a block with some entries, of which each has a whole key."""
    entries = [numbers(0, len(key), len(value)) + key + value for key, value in sorted(items.items())]
    return _of_entries(entries, [*map(len, entries)])


def _of_entries(entries: Iterable[bytes], sizes: Sequence[int]) -> bytes:
    """Return a block with encoded entries of some sizes, of which each has a whole key."""
    places = accumulate(sizes[:-1], initial=0)
    return b"".join((*entries, struct.pack(f"<{len(sizes) + 1}I", *places, len(sizes))))


@attrs.frozen
class _Compression:
    option: str
    name: bytes
    kind: int
    compress: Callable[[bytes], bytes] | None


def _snappy(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def _sized(compress: Callable[[bytes], Any]) -> Callable[[bytes], bytes]:
    """Return what puts the size of the content before what is compressed."""
    return lambda data: numbers(len(data)) + bytes(compress(data))


def _zlib(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-14)
    return stream.compress(data) + stream.flush()


def _bzip2(data: bytes) -> bytes:
    import bz2

    return bz2.compress(data)


def _lz4(data: bytes) -> Any:
    import cramjam

    return cramjam.lz4.compress_block(data, store_size=False)


def _lz4hc(data: bytes) -> Any:
    import cramjam

    return cramjam.lz4.compress_block(data, mode="high_compression", compression=9, store_size=False)


def _zstd(data: bytes) -> Any:
    import cramjam

    return cramjam.zstd.compress(data, 3)


_COMPRESSIONS = {
    "kNoCompression": _Compression("none", b"NoCompression", 0, None),
    "kSnappyCompression": _Compression("snappy", b"Snappy", 1, _snappy),
    "kZlibCompression": _Compression("zlib", b"Zlib", 2, _sized(_zlib)),
    "kBZip2Compression": _Compression("bz2", b"BZip2", 3, _sized(_bzip2)),
    "kLZ4Compression": _Compression("lz4", b"LZ4", 4, _sized(_lz4)),
    "kLZ4HCCompression": _Compression("lz4hc", b"LZ4HC", 5, _sized(_lz4hc)),
    "kZSTD": _Compression("zstd", b"ZSTD", 7, _sized(_zstd)),
}
