"""Snapshots of the RocksDB provider, written: all entries of one partition as a database that Spark opens.

    with DatabaseWriter(folder, version=7, unique_id=ids[partition]) as writer:
        writer.write("", keys, values)

`rocksdb_files` has the format, and reads it. Keys may come in any order, each once; an entry is what a reader yields:
without the number of its column family and without checksums, and a list element by element. RocksDB sorts and
compresses in a folder beside the target, or on a local disk for a target on a store, with as much memory as
`buffer_bytes` says. Files with entries get their names first, then the `.zip` that lists them, in one step: until then
there is no such version. What a killed run left is deleted by the next writer of the version.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
import uuid
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from ....serializers.errors import MigrationFailed
from ...rocksdb.database import CURRENT, FileNames, reported_writing, require_library
from ...storage.files import Folder
from .rocksdb_files import METADATA, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray


_NUMBER, _SIZE, _CHECKED = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<Ii")
_LEFT_OUT = {"LOCK", "LOG", "IDENTITY", "rocksdict-config.json"}
_FORMAT, _BITS_PER_KEY = 5, 10
"""What Spark sets: the format of tables, and the size of their filters."""
_NEVER = 1 << 30
_JOBS = 8  # a quarter of them flush
_MOST_FILES = 12
"""A few files are merged in the background once Spark has opened them; from 20 on writes would wait for that."""
_LEAST_BUFFER_BYTES, _BATCH_ENTRIES = 1 << 20, 1 << 10


@attrs.frozen
class WrittenFamily:
    """A column family of a store that is written.

    Attributes:
        number: The number that begins its keys; that of `default` is 1 in Spark's own files.
        is_internal: Whether Spark counts its keys apart, as those of timers and of indexes.
        is_list: Whether entries of one key, which follow each other, are the elements of a list.
    """

    number: int
    is_internal: bool = False
    is_list: bool = False


class DatabaseWriter:
    """Writes a snapshot; it is there when the `with` block ends without an error.

    Args:
        folder: The folder of the partition.
        version: The version: that after batch N is N + 1.
        unique_id: In checkpoint format 2 the id of the version, which the log of commits must have for the partition.
        families: The column families by name; {}: the store has none, and its entries are written to "".
        has_checksums: Whether values get checksums, as the setting of the query says.
        delimiter: What RocksDB puts between a value and what is appended to it, as the setting of the query says.
        buffer_bytes: The memory for entries that are not yet in files; RocksDB may use about twice as much.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        version: int,
        unique_id: str = "",
        families: Mapping[str, WrittenFamily] | None = None,
        has_checksums: bool = False,
        delimiter: bytes = b",",
        buffer_bytes: int = 64 << 20,
    ) -> None:
        self.folder, self.delimiter = folder, delimiter
        self.name = f"{version}_{unique_id}.zip" if unique_id else f"{version}.zip"
        self.families = families or {}
        self._has_checksums, self._buffer_bytes = has_checksums, max(buffer_bytes, _LEAST_BUFFER_BYTES)
        self._library = require_library()
        self._write_options = self._library.WriteOptions()
        self._write_options.disable_wal = True
        self._counts = dict.fromkeys(self.families or [""], 0)
        self._lists: dict[str, tuple[bytes, list[bytes]]] = {}

    def __enter__(self) -> Self:
        self._clear()
        if self.folder.is_local:
            self._work = Path(self.folder.place, self.folder.attempt_name(self.name))
        else:
            self._work = Path(tempfile.mkdtemp(prefix="stateshift-rocksdb-"))
        with reported_writing("create a database"):
            self._database: Any = self._library.Rdict(str(self._work), self._options())
        return self

    def _clear(self) -> None:
        """Delete what a killed run left of a version that is not complete."""
        self.folder.create()
        tables = self.folder.folder(TABLES)
        if tables.exists():
            for name in tables.names():
                tables.delete(name)
        tables.create()

    def _options(self) -> Any:
        """Return options for writing alone: Spark opens the files with its own."""
        library, options, blocks = (
            self._library,
            self._library.Options(raw_mode=True),
            self._library.BlockBasedOptions(),
        )
        blocks.set_format_version(_FORMAT)
        blocks.set_bloom_filter(_BITS_PER_KEY, block_based=False)
        options.set_block_based_table_factory(blocks)
        options.set_compression_type(library.DBCompressionType.lz4())
        options.set_write_buffer_size(self._buffer_bytes)
        options.set_memtable_factory(library.MemtableFactory.vector())
        options.set_allow_concurrent_memtable_write(False)
        options.set_disable_auto_compactions(True)
        options.set_level_zero_slowdown_writes_trigger(_NEVER)
        options.set_level_zero_stop_writes_trigger(_NEVER)
        options.set_stats_dump_period_sec(0)
        options.set_max_background_jobs(_JOBS)
        return options

    def write(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Write entries of a column family."""
        about = self.families.get(family)
        if about is not None:
            prefix = _NUMBER.pack(about.number)
            keys = [prefix + key for key in keys]
        if about is not None and about.is_list:
            self._gather(family, keys, values)
        else:
            self._put(family, keys, self._checked(keys, values))

    def _gather(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Write the lists that are complete, and keep the elements of the last one: more of them may come."""
        last, elements = self._lists.pop(family, (b"", []))
        whole: list[tuple[bytes, bytes]] = []
        for key, value in zip(keys, values, strict=True):
            if elements and key != last:
                whole.append((last, self._listed(last, elements)))
                elements = []
            last = key
            elements.append(value)
        if elements:
            self._lists[family] = last, elements
        self._put(family, [key for key, _ in whole], [value for _, value in whole])

    def _listed(self, key: bytes, elements: list[bytes]) -> bytes:
        """Return the value of a list; each element has a checksum of its own: Spark reads one behind each."""
        return self.delimiter.join(
            self._checked([key] * len(elements), [_SIZE.pack(len(one)) + one for one in elements])
        )

    def _checked(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Sequence[bytes]:
        """Return values with their checksums and sizes, if the query has them."""
        if not self._has_checksums:
            return values
        from google_crc32c import value as crc32c

        return [_CHECKED.pack(crc32c(key + value), len(value)) + value for key, value in zip(keys, values, strict=True)]

    def _put(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self._counts[family] += len(keys)
        for start in range(0, len(keys), _BATCH_ENTRIES):
            batch = self._library.WriteBatch(raw_mode=True)
            stop = start + _BATCH_ENTRIES
            for key, value in zip(keys[start:stop], values[start:stop], strict=True):
                batch[key] = value
            with reported_writing("write entries"):
                self._database.write(batch, self._write_options)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
                self._finish_database()
                self._publish()
            else:
                self._database.close()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def flush(self, *, waits: bool = True) -> None:
        """Write all entries to files; RocksDB sorts and compresses them in threads of its own, for several writers."""
        lists, self._lists = self._lists, {}
        for family, (key, elements) in lists.items():
            self._put(family, [key], [self._listed(key, elements)])
        with reported_writing("write its files"):
            self._database.flush(wait=waits)

    def _finish_database(self) -> None:
        with reported_writing("write its files"):
            if len(self._database.live_files()) > _MOST_FILES:
                self._database.compact_range(None, None)
            self._database.close()

    def _publish(self) -> None:
        """Move or copy the files to their places, and write the list of them."""
        names = FileNames.of([one.name for one in self._work.iterdir() if self._is_kept(one)])
        tables = []
        for name in names.tables:
            stem, _, ending = name.partition(".")
            stored = f"{stem}-{uuid.uuid4()}.{ending}"
            size = (self._work / name).stat().st_size
            if self.folder.is_local:
                self.folder.rename(f"{self._work.name}/{name}", f"{TABLES}/{stored}")
            else:
                Folder.at(self._work).copy(name, self.folder.folder(TABLES), stored)
            tables.append({"localFileName": name, "dfsSstFileName": stored, "sizeBytes": size})
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in (CURRENT, names.manifest, names.options):
                archive.writestr(name, (self._work / name).read_bytes())
            archive.writestr(METADATA, f"v1\n{json.dumps(self._facts(tables), separators=(',', ':'))}")
        self.folder.write(self.name, packed.getvalue())

    def _is_kept(self, file: Path) -> bool:
        """Whether a file is part of a snapshot; the log of what is not in tables must be empty."""
        if file.suffix == ".log":
            if file.stat().st_size:
                raise MigrationFailed("RocksDB left entries in a log", advice="please report this")
            return False
        return file.name not in _LEFT_OUT

    def _facts(self, tables: list[dict[str, Any]]) -> dict[str, Any]:
        internal = {name: one.is_internal for name, one in self.families.items()}
        counted = {True: 0, False: 0}
        for name, count in self._counts.items():
            counted[internal.get(name, False)] += count
        numbers = {name: one.number for name, one in self.families.items()}
        return {
            "sstFiles": tables,
            "numKeys": counted[False],
            "numInternalKeys": counted[True],
            "columnFamilyMapping": numbers,
            "columnFamilyTypeMap": internal,
            "maxColumnFamilyId": max(numbers.values(), default=0),
        }


def write_parts(
    writers: Mapping[int, DatabaseWriter],
    family: str,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    partition: NDArray[Any] | None,
) -> None:
    """Write entries to the writers of their partitions; None: all belong to the only one."""
    if partition is None:
        (writer,) = writers.values()
        writer.write(family, keys, values)
        return
    order, shares = shares_of(partition, writers)
    for number, share in shares:
        at = order[share].tolist()
        writers[number].write(family, [keys[one] for one in at], [values[one] for one in at])


def shares_of(partition: NDArray[Any], numbers: Iterable[int]) -> tuple[NDArray[Any], list[tuple[int, slice]]]:
    """Return the order of entries by partition, and where in it those of some partitions are, if there are any."""
    order = np.argsort(partition, kind="stable")
    ends = [0, *np.cumsum(np.bincount(partition)).tolist()]
    found = [(one, slice(ends[one], ends[one + 1])) for one in numbers if one < len(ends) - 1]
    return order, [(one, share) for one, share in found if share.start < share.stop]
