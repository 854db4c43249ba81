"""The files of the RocksDB provider: the entries of one partition of a store.

    V.zip         a snapshot of version V: small files of a database, and `metadata`: which files of SSTs/ are its own
    V.changelog   what changed from version V - 1 to V, compressed

    [UTF version, v2 to v4] [UTF lineage, v3 and v4], then
    v1, v3    as in `store_files`: i32 size, key, i32 size (-1: the key is removed), value; at the end i32 -1
    v2, v4    the same behind u8 1 put, 16 remove or 17 append; at the end u8 0

In checkpoint format 2 the names are V_ID.zip and V_ID.changelog: the log of commits has the id of the last version, and
the lineage those before it, back to a snapshot. In a store with column families a key begins with the number of its
family, i16 little-endian. With row checksums a value is u32 CRC-32C of key and value, i32 size, value, and so is each
appended part; a removed key has the checksum in front.

The changes are applied to a copy of the snapshot, as Spark does it: a partition may be larger than memory. Source:
`RocksDBFileManager`, `StateStoreChangelog` and `KeyValueChecksumEncoder` of Spark 4.3.
"""

from __future__ import annotations

import io
import json
import re
import struct
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import CorruptFile, SavepointNotFound, UnsupportedFormat, cause_text, located, shown
from ...rocksdb.database import (
    CURRENT,
    Database,
    FileNames,
    open_database,
    open_live,
    reported,
    reported_writing,
    require_library,
)
from ...rocksdb.options_file import DEFAULT_FAMILY
from ...storage.files import Folder
from .checksums import require_sums, sums_of
from .compression import decompress
from .store_files import APPEND, changes_in, elements_of, in_blocks, joined_blocks, require_checksum

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from .store_files import Entries

_NAME = re.compile(r"(\d+)(?:_([\w-]+))?\.(zip|changelog)")
_KEPT = re.compile(r"CURRENT|MANIFEST-[0-9]+|OPTIONS-[0-9]+")
_TABLE = re.compile(r"[0-9]+\.sst")
_PLAIN = re.compile(r"[\w.-]+")
TABLES, METADATA = "SSTs", "metadata"
_VERSION, _CHECKED = re.compile(b"\0\2v([2-4])"), struct.Struct("<Ii")
_MOST_SMALL_BYTES = 256 << 20
_MOST_PENDING_BYTES = 16 << 20
_WRITTEN = "Spark wrote them"
_WHOLE = "take the whole folder of the checkpoint; a copy or a download may be incomplete"


@attrs.frozen
class _Snapshot:
    """What a `.zip` contains.

    Attributes:
        small: The files of the database that lie in it.
        tables: The names of the others in SSTs/, by the names that the database has for them.
        sizes: Their sizes.
        families: The numbers of column families by name.
    """

    small: Mapping[str, bytes]
    tables: Mapping[str, str]
    sizes: Mapping[str, int]
    families: Mapping[str, int]


@attrs.frozen(slots=False)
class DatabaseFiles:
    """The files that together are one version of one partition.

    Attributes:
        folder: The folder of the partition.
        label: The folder's name within the checkpoint, for messages.
        version: The version.
        ids: In checkpoint format 2 the ids of the version's files, one for each store of the partition; else ().
        has_checksums: Whether values have checksums.
        delimiter: What is between a value and what is appended to it.
        lists: The column families whose values consist of several elements.
    """

    folder: Folder
    label: str
    version: int
    ids: tuple[str, ...] = ()
    has_checksums: bool = False
    delimiter: bytes = b""
    lists: frozenset[str] = frozenset()
    _sound: set[str] = attrs.field(factory=set, init=False, eq=False, repr=False)

    def blocks(self, family: str = "") -> Iterator[Entries]:
        """Yield all entries of the version, or those of a column family without its number, in the order of their keys.

        Raises:
            SavepointNotFound: A file is missing.
            CorruptFile: A file is damaged.
            CorruptSavepoint: A file of the database is damaged.
            LibraryNotFound: `rocksdict` is not installed.
        """
        base, changelogs = self._names
        prefix = self._prefix(family) if family else b""
        if prefix is None:
            return
        with located(file=f"{self.label}/{base or 'changelogs'}"), self._opened(self._snapshot, changelogs) as database:
            found = self._unprotected(database, prefix)
            if family in self.lists:
                entries = chain.from_iterable(zip(keys, values, strict=True) for keys, values in found)
                yield from in_blocks(elements_of(entries, self.delimiter))
            else:
                yield from joined_blocks(found)

    def count(self) -> int:
        """Return the number of entries of the version; errors as in `blocks`."""
        base, changelogs = self._names
        with located(file=f"{self.label}/{base or 'changelogs'}"), self._opened(self._snapshot, changelogs) as database:
            return database.count(DEFAULT_FAMILY)

    def _unprotected(self, database: Database, prefix: bytes) -> Iterator[Entries]:
        """Yield the entries whose keys begin with a prefix, without it and without checksums."""
        skipped = len(prefix)
        for keys, values in database.items(DEFAULT_FAMILY, prefix or None, _next(prefix)):
            yield (
                [key[skipped:] for key in keys] if skipped else [*keys],
                [*map(self._unchecked, keys, values)] if self.has_checksums else [*values],
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, below that of the partition."""
        base, changelogs = self._names
        tables = () if self._snapshot is None else sorted({*self._snapshot.tables.values()})
        return (*(f"{TABLES}/{name}" for name in tables), *([base] if base else ()), *changelogs)

    @property
    def without_sums(self) -> tuple[str, ...]:
        """The changelogs that have no checksum beside them; everything in a snapshot has one."""
        return tuple(name for name in self._names[1] if not sums_of(self.folder, name, self._beside))

    @property
    def unique_id(self) -> str:
        """The id in the name of the last file, "" with checkpoint format 1."""
        return self.files[-1].partition(".")[0].partition("_")[2]

    def size_of(self, family: str) -> tuple[int, int]:
        """Return the number of elements of a column family and their bytes; errors as in `blocks`."""
        prefix = self._prefix(family)
        return (0, 0) if prefix is None else self._sizes.get(prefix, (0, 0))

    @cached_property
    def _sizes(self) -> dict[bytes, tuple[int, int]]:
        """The sizes of all column families, by the number that begins their keys: the files are read once for all."""
        lists = {*map(self._prefix, self.lists)}
        found: dict[bytes, tuple[int, int]] = {}
        for key, value in chain.from_iterable(zip(*block, strict=True) for block in self.blocks()):
            prefix, entry = key[:2], iter([(key, value)])
            count, size = found.get(prefix, (0, 0))
            for _, one in elements_of(entry, self.delimiter) if prefix in lists else entry:
                count, size = count + 1, size + len(key) - len(prefix) + len(one)
            found[prefix] = count, size
        return found

    def _prefix(self, family: str) -> bytes | None:
        """Return the number of a column family, with which its keys begin; None: it has none yet."""
        families = {} if self._snapshot is None else self._snapshot.families
        if family in families:
            return families[family].to_bytes(2, "little")
        if not families or not family.startswith("$"):  # the first batch with it writes a snapshot
            raise CorruptFile(
                f"the last snapshot has no column family {family!r}: it is of another store, or a later one is missing",
                file=f"{self.label}/{self._names[0] or '*.zip'}",
                advice=_WHOLE,
            )
        return None  # Spark lists the length of lists with a time to live among the families, and makes none

    @cached_property
    def _beside(self) -> frozenset[str]:
        """The names of all files in the folder of the partition."""
        return frozenset(self.folder.names())

    def _require_sums(self, folder: Folder, name: str, beside: Container[str]) -> None:
        """Compare a file with its checksums once, however often it is read; raises `CorruptFile`."""
        if name not in self._sound:
            with located(file=f"{self.label}/{f'{TABLES}/' * name.endswith('.sst')}{name}"):
                require_sums(folder, name, beside)
            self._sound.add(name)

    @cached_property
    def _names(self) -> tuple[str, list[str]]:
        """The name of the last snapshot, or "", and of the changelogs behind it."""
        names = {name for name in self._beside if _NAME.fullmatch(name)}
        stems = self._lineage(names) if self.ids else [str(one) for one in range(1, self.version + 1)]
        base = max((at for at, stem in enumerate(stems) if f"{stem}.zip" in names), default=-1)
        changelogs = [f"{stem}.changelog" for stem in stems[base + 1 :]]
        missing = [name for name in changelogs if name not in names]
        if base < 0 and stems[0].partition("_")[0] != "1":
            missing.insert(0, f"{stems[0]}.zip")
        if missing:
            raise SavepointNotFound(
                f"{len(missing)} files of version {self.version} of a state store are missing, the first is"
                f" {missing[0]}",
                file=f"{self.label}/{missing[0]}",
                advice=_WHOLE,
            )
        return f"{stems[base]}.zip" if base >= 0 else "", changelogs

    def _lineage(self, names: set[str]) -> list[str]:
        """Return the versions up to this one with their ids, back to the last snapshot."""
        own = [f"{self.version}_{one}" for one in self.ids]
        last = next((one for one in own if {f"{one}.zip", f"{one}.changelog"} & names), own[0])
        if f"{last}.zip" in names or f"{last}.changelog" not in names:
            return [last]
        file = f"{self.label}/{last}.changelog"
        self._require_sums(self.folder, f"{last}.changelog", self._beside)
        with located(file=file), self.folder.open_range(f"{last}.changelog") as opened:
            _, lineage, _ = _head(decompress(opened))
        try:
            return [*(f"{int(one['version'])}_{one['checkpointUniqueId']}" for one in json.loads(lineage)), last]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(f"the lineage is damaged: {cause_text(error)}", file=file) from error

    @cached_property
    def _snapshot(self) -> _Snapshot | None:
        """The last snapshot; everything in it has a checksum."""
        name, _ = self._names
        if not name:
            return None
        with located(file=f"{self.label}/{name}"):
            self._require_sums(self.folder, name, self._beside)
            files = _unzipped(self.folder.read(name))
            try:
                version, _, text = files.pop(METADATA).decode().partition("\n")
                if version != "v1":
                    raise UnsupportedFormat(f"a snapshot has version {version[:20]!r}; this release reads v1")
                said = json.loads(text)
                tables = {str(one["localFileName"]): str(one["dfsSstFileName"]) for one in said["sstFiles"]}
                sizes = {str(one["localFileName"]): int(one["sizeBytes"]) for one in said["sstFiles"]}
                families = {str(one): int(number) for one, number in (said.get("columnFamilyMapping") or {}).items()}
                logs = [one for one in said.get("logFiles") or () if one["sizeBytes"]]
                if not all(0 <= number < 1 << 16 for number in families.values()):
                    raise ValueError("the number of a column family has not two bytes")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CorruptFile(f"the list of files is damaged: {cause_text(error)}") from error
            strange = [name for name in tables if not _TABLE.fullmatch(name)]
            strange += [name for name in tables.values() if not _PLAIN.fullmatch(name)]
            if strange:
                raise CorruptFile(f"the snapshot lists {shown(strange[0])}, which is not a RocksDB file")
            if logs or any(data for file, data in files.items() if not _KEPT.fullmatch(file)):
                raise UnsupportedFormat("the snapshot has files that Spark 4.3 does not write", advice=_WHOLE)
            small = {file: data for file, data in files.items() if _KEPT.fullmatch(file)}
            return _Snapshot(small, tables, sizes, families)

    @contextmanager
    def _opened(self, snapshot: _Snapshot | None, changelogs: list[str]) -> Iterator[Database]:
        library = require_library()
        with tempfile.TemporaryDirectory(prefix="stateshift-rocksdb-", ignore_cleanup_errors=True) as folder:
            ours = Path(folder)
            names = None if snapshot is None else self._placed(snapshot, ours)
            if snapshot is not None and names is not None and not changelogs:
                with open_database(ours, names, snapshot.sizes) as database:
                    yield database
                return
            if snapshot is not None and names is not None:
                opened, _ = open_live(ours, names, snapshot.sizes, _without_compactions)
            else:
                opened = library.Rdict(folder, library.Options(raw_mode=True))
            try:
                for name in changelogs:
                    with located(file=f"{self.label}/{name}"):
                        self._apply(name, library, opened)
                yield Database(library, {DEFAULT_FAMILY: opened}, _WRITTEN)
            finally:
                opened.close()

    def _placed(self, snapshot: _Snapshot, ours: Path) -> FileNames:
        """Put the files of a snapshot into a folder of our own: links to local ones, and copies of others."""
        names = FileNames.of([*snapshot.small, *snapshot.tables])
        for name in (CURRENT, names.manifest, names.options):
            (ours / name).write_bytes(snapshot.small[name])
        if snapshot.tables:
            stored = self.folder.folder(TABLES)
            beside = frozenset(stored.names())
            missing = sorted({*snapshot.tables.values()}.difference(beside))
            if missing:
                raise SavepointNotFound(
                    f"{len(missing)} files of a snapshot are missing, the first is {TABLES}/{missing[0]}",
                    file=f"{self.label}/{TABLES}/{missing[0]}",
                    advice=_WHOLE,
                )
            for name, stored_name in snapshot.tables.items():
                self._require_sums(stored, stored_name, beside)
                if stored.is_local:
                    (ours / name).symlink_to(Path(stored.place, stored_name))
                else:
                    stored.copy(stored_name, Folder.at(ours), name)
        return names

    def _apply(self, name: str, library: Any, database: Any) -> None:
        """Apply the changes of a changelog to an opened database."""
        options = library.WriteOptions()
        options.disable_wal = True
        pending: dict[bytes, bytes | None] = {}
        size = 0

        def flush() -> None:
            batch = library.WriteBatch(raw_mode=True)
            for key, value in pending.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch[key] = value
            with reported_writing("apply changelogs"):
                database.write(batch, options)
            pending.clear()

        self._require_sums(self.folder, name, self._beside)
        with self.folder.open_range(name) as file:
            version, _, content = _head(decompress(file))
            changes = changes_in(content, has_kinds=version in {2, 4})
            for kind, key, value in chain.from_iterable(zip(*block, strict=True) for block in changes):
                if value is None and self.has_checksums:
                    key = require_checksum(key[:4], key[4:])  # noqa: PLW2901
                elif kind == APPEND:
                    with reported(_WRITTEN):
                        before = pending[key] if key in pending else database.get(key)
                    value = value if before is None else before + self.delimiter + (value or b"")  # noqa: PLW2901
                pending[key] = value
                size += len(key) + len(value or b"")
                if size > _MOST_PENDING_BYTES:
                    flush()
                    size = 0
            flush()

    def _unchecked(self, key: bytes, value: bytes) -> bytes:
        """Check the checksums of a value and of the parts that were appended to it, and remove them."""
        parts, at = [], 0
        while at < len(value):
            start = at + _CHECKED.size
            _, size = _CHECKED.unpack_from(value, at) if start <= len(value) else (0, -1)
            if size < 0 or start + size > len(value):
                raise CorruptFile("an entry should begin with a checksum and its size", advice=_WHOLE)
            parts.append(require_checksum(value[at : at + 4], key, value[start : start + size]))
            at = start + size + len(self.delimiter)
        return self.delimiter.join(parts)


@attrs.frozen
class Databases:
    """The partitions of a store.

    Attributes:
        lists: The column families whose values consist of several elements.
        of: The files of each partition that was asked for.
    """

    lists: frozenset[str] = frozenset()
    of: dict[int, DatabaseFiles] = attrs.field(factory=dict)


def _next(prefix: bytes) -> bytes | None:
    """Return the first key behind all that begin with a prefix; None: there is none."""
    number = int.from_bytes(prefix, "big") + 1
    return number.to_bytes(len(prefix), "big") if number < 1 << 8 * len(prefix) else None


def _without_compactions(options: Any, families: Mapping[str, Any]) -> None:
    """Change options so that nothing is rewritten: the database is read once and deleted."""
    for one in (options, *families.values()):
        one.set_disable_auto_compactions(True)


def _unzipped(data: bytes) -> dict[str, bytes]:
    """Return the files in an archive.

    Raises:
        CorruptFile: It is damaged, or of unlikely size.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(one.file_size for one in archive.infolist()) > _MOST_SMALL_BYTES:
                raise CorruptFile(f"the snapshot unpacks to more than {_MOST_SMALL_BYTES >> 20} MiB")
            return {one.filename: archive.read(one) for one in archive.infolist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(f"the snapshot is damaged: {cause_text(error)}", advice=_WHOLE) from error


def _head(pieces: Iterator[bytes]) -> tuple[int, str, Iterator[bytes]]:
    """Return the version of a changelog, its lineage, and what follows."""
    start = b""
    while len(start) < 4 and (piece := next(pieces, None)) is not None:
        start += piece
    found = _VERSION.match(start)
    if found is None:
        return 1, "[]", chain([start], pieces)
    version, at = int(found[1]), 4
    if version < 3:
        return version, "[]", chain([start[at:]], pieces)
    end = at + 2
    while len(start) < end or len(start) < (end := at + 2 + int.from_bytes(start[at : at + 2], "big")):
        piece = next(pieces, None)
        if piece is None:
            raise CorruptFile("the file ends within its lineage", advice=_WHOLE)
        start += piece
    return version, start[at + 2 : end].decode("utf-8", "replace"), chain([start[end:]], pieces)
