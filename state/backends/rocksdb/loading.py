"""Entries that RocksDB takes as files: many in order take less time so than written one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...rocksdb.database import require_library

if TYPE_CHECKING:
    from pathlib import Path

    from ...formats.flink.blocks import Block
    from ...rocksdb.database import Items
    from .tables import ColumnFamily

_FILE_BYTES, _FEW_ENTRIES = 64 << 20, 256
"""Of the files that are loaded: their size, as RocksDB's own, and how many entries of a key group are worth one."""


class Loading:
    """Puts entries into a column family as files, which RocksDB takes as they are.

    Args:
        family: The column family.
        path: The path of the first file; a number is appended to it.
        options: The options of the column family, as those of a database.
    """

    def __init__(self, family: ColumnFamily, path: Path, options: Any) -> None:
        self._library, self._family, self._path, self._options = require_library(), family, path, options
        self._files: list[str] = []
        self._writer: Any = None
        self._size, self._last = 0, b""

    def add(self, block: Block) -> None:
        """Add entries; those that come after greater ones are written, because a file is in order."""
        if self._writer is None and block.entries < _FEW_ENTRIES:
            self._family.write(dict(block.items()))
            return
        writer, last, late = self._begun(), self._last, dict[bytes, bytes]()
        for key, value in block.items():
            if key > last:
                writer[key] = value
                last = key
            else:
                late[key] = value
        self._last = last
        if late:
            self._family.write(late)
        self._grown(block.size_bytes)

    def add_in_order(self, items: Items) -> None:
        """Add entries whose keys are in order, and greater than all before."""
        writer = self._begun()
        for key, value in zip(*items, strict=True):
            writer[key] = value
        self._grown(sum(map(len, items[0])) + sum(map(len, items[1])))

    def ingest(self) -> None:
        """Hand the files over to the database, which moves them."""
        if self._writer is not None:
            self._finish()
        if self._files:
            options = self._library.IngestExternalFileOptions()
            options.set_move_files(True)
            self._family.ingest(self._files, options)

    def _begun(self) -> Any:
        if self._writer is None:
            self._files.append(f"{self._path}-{len(self._files)}.sst")
            self._writer, self._size = self._library.SstFileWriter(self._options), 0
            self._writer.open(self._files[-1])
        return self._writer

    def _grown(self, size: int) -> None:
        self._size += size
        if self._size > _FILE_BYTES:
            self._finish()

    def _finish(self) -> None:
        self._writer.finish()
        self._writer = None
