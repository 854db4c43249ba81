"""A column family, written from nothing: files of the last level with values that have no sequence number.

What reads them may be RocksDB 6.20, so they have the format and the checksums of that, never those that are usual now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import UnsupportedFormat
from .database import reported_writing, require_library
from .manifest import TableFile
from .options_file import TABLE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from .options_file import Family

_FILE_BYTES = 64 << 20
"""The bytes of entries in a file: as many as RocksDB's own files have."""
_COMPRESSIONS = {
    "kNoCompression": "none",
    "kSnappyCompression": "snappy",
    "kZlibCompression": "zlib",
    "kBZip2Compression": "bz2",
    "kLZ4Compression": "lz4",
    "kLZ4HCCompression": "lz4hc",
    "kZSTD": "zstd",
}


class TableWriter:
    """Writes the files of a column family.

    Args:
        family: The column family.
        new_file: Returns the number of a new file, and its path.

    Attributes:
        files: The finished files.

    Raises:
        UnsupportedFormat: Its files have a compression that is not known, or may not be on the last level.
        LibraryNotFound: `rocksdict` is not installed.
    """

    def __init__(self, family: Family, new_file: Callable[[], tuple[int, Path]]) -> None:
        if family.tables.is_fifo or family.tables.compression not in _COMPRESSIONS:
            what = "compaction FIFO" if family.tables.is_fifo else family.tables.compression
            raise UnsupportedFormat(
                f"the files of a column family with {what} cannot be written", advice=_CANONICAL, state=family.name
            )
        self._library, self._options = require_library(), options_of(family)
        self._level, self._new_file = family.levels - 1, new_file
        self._writer: Any = None
        self._size, self._number, self._first, self._last = 0, 0, b"", b""
        self.files: list[TableFile] = []

    def add(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add entries, whose keys are greater than all before, and in order.

        Raises:
            StorageFailed: They are not, or they cannot be written.
        """
        with reported_writing("write a file"):
            for key, value in items:
                if self._writer is None:
                    self._open(key)
                self._writer[key] = value
                self._last = key
                self._size += len(key) + len(value)
                if self._size > _FILE_BYTES:
                    self._close()

    def finish(self) -> list[TableFile]:
        """Finish the last file; return all."""
        if self._writer is not None:
            with reported_writing("write a file"):
                self._close()
        return self.files

    def _open(self, first: bytes) -> None:
        self._number, self._path = self._new_file()
        self._writer = self._library.SstFileWriter(self._options)
        self._writer.open(str(self._path))
        self._size, self._first = 0, first

    def _close(self) -> None:
        self._writer.finish()
        self._writer = None
        size = self._path.stat().st_size
        self.files.append(TableFile.written(self._number, size, self._level, self._first, self._last))


_CANONICAL = "write a canonical savepoint instead, which any backend restores"


def options_of(family: Family) -> Any:
    """Return the options by which the files of a family are written."""
    library, tables = require_library(), family.tables
    options, blocks = library.Options(raw_mode=True), library.BlockBasedOptions()
    options.set_compression_type(getattr(library.DBCompressionType, _COMPRESSIONS[tables.compression])())
    blocks.set_format_version(TABLE_FORMAT)
    blocks.set_checksum_type(library.ChecksumType.crc32c())
    blocks.set_block_size(tables.block_bytes)
    blocks.set_block_restart_interval(tables.restart_interval)
    options.set_block_based_table_factory(blocks)
    return options
