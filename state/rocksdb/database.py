"""A database, opened for reading from a folder with its files; everything that RocksDB can check is checked.

RocksDB verifies the checksum of each block that it reads, the size and the identity of each `.sst` file. It reports
damage only to those that ask: an iterator that meets a damaged block ends as it does after the last entry. So after
each end it is established that no entry follows.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.libraries import library_of
from ...serializers.errors import (
    CorruptSavepoint,
    LibraryNotFound,
    NoSpaceLeft,
    StorageFailed,
    UnsupportedFormat,
    located,
)
from ..storage.files import Folder
from .manifest import read_manifest, require_whole_manifest
from .newest_entries import newest_entries
from .options_file import DEFAULT_FAMILY, print_options, read_options
from .ranges import families_of_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from .manifest import TableFile
    from .options_file import StoredOptions
    from .table_reader import Records

Items = tuple[tuple[bytes, ...], tuple[bytes, ...]]
"""The keys of some entries, and their values."""

CURRENT = "CURRENT"
_TABLE, _MANIFEST, _OPTIONS = (re.compile(name) for name in (r"[0-9]+\.sst", r"MANIFEST-[0-9]+", r"OPTIONS-[0-9]+"))
_MOST_ITEMS, _MOST_BYTES = 256, 8 << 20
_READAHEAD_BYTES = 1 << 20
_DAMAGED = "use another copy of the snapshot, or another checkpoint"
_NEWER = "if a newer RocksDB wrote the files, upgrade rocksdict; if not, the file is damaged: use another copy of it"
_UNKNOWN_VERSION = re.compile(r"Unknown Footer version|unsupported format_version")


def require_library() -> Any:
    """Return the module `rocksdict`.

    Raises:
        LibraryNotFound: It is not installed.
    """
    try:
        import google_crc32c  # noqa: F401 - checks MANIFEST files
        import rocksdict
    except ImportError as error:
        raise LibraryNotFound(
            f"state in files of RocksDB is read by a library that is not installed: {error.name}",
            advice="pip install 'stateshift[rocksdb]'",
        ) from error
    return rocksdict


def is_table(name: str) -> bool:
    """Whether a file of a database has entries, by its name."""
    return _TABLE.fullmatch(name) is not None


@attrs.frozen
class FileNames:
    """The files of a database by their role.

    Attributes:
        tables: The files with entries.
        manifest: The log of the files.
        options: The settings; the latest where there are several.
    """

    tables: tuple[str, ...]
    manifest: str
    options: str

    @classmethod
    def of(cls, names: list[str]) -> FileNames:
        """Return the roles of some files.

        Raises:
            CorruptSavepoint: A file has none of these roles, or one is missing.
        """
        tables = tuple(name for name in names if _TABLE.fullmatch(name))
        manifests = [name for name in names if _MANIFEST.fullmatch(name)]
        options = sorted((int(name.partition("-")[2]), name) for name in names if _OPTIONS.fullmatch(name))
        others = {*names} - {*tables, *manifests, CURRENT} - {name for _, name in options}
        if others:
            raise CorruptSavepoint(
                f"{min(others)!r} is not the name of a file of a RocksDB database that is read here",
                advice="do not trust this snapshot: Flink names such files by numbers",
            )
        if len(manifests) != 1 or not options or CURRENT not in names:
            raise CorruptSavepoint("the snapshot does not list one MANIFEST, an OPTIONS and the CURRENT file")
        return cls(tables, manifests[0], options[-1][1])


class Database:
    """A database that is open for reading. Created with `open_database`.

    Attributes:
        families: The names of the tables: of the column families, without `default`, but for those that are ranges of a
            table, which has its own name.
    """

    def __init__(self, library: Any, families: Mapping[str, Any], versions: str, folder: Folder | None = None) -> None:
        self._library, self._families, self._versions, self._folder = library, families, versions, folder
        self._tables = families_of_tables(families)
        self.families = frozenset(self._tables) - {DEFAULT_FAMILY}

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a table, as `SortedFamilies` has them; raises `CorruptSavepoint` for damage."""
        for part in self._tables[family]:
            yield from self._items(part, start, stop)

    def by_blocks(self, family: str, start: bytes | None, stop: bytes | None) -> Iterator[Records] | None:
        """Return what `items` yields, read from the files by blocks by machine code; None where RocksDB must read it.

        Arguments and errors as in `items`.
        """
        if self._folder is None:  # it has entries that are in no file yet
            return None
        try:
            files = self._files
        except UnsupportedFormat:
            return None
        found = [newest_entries(files[part], self._folder, start, stop) for part in self._tables[family]]
        return None if None in found else chain.from_iterable(part for part in found if part is not None)

    @cached_property
    def _files(self) -> Mapping[str, Sequence[TableFile]]:
        assert self._folder is not None  # noqa: S101 - `by_blocks` asks
        (name,) = (name for name in self._folder.names() if _MANIFEST.fullmatch(name))
        return read_manifest(self._folder.read(name), name).families

    def _items(self, family: str, start: bytes | None, stop: bytes | None) -> Iterator[Items]:
        options = self._read_options(stop)
        with reported(self._versions):
            items = self._families[family].items(from_key=start, read_opt=options)
        last, most, largest = None, 1, 1
        while True:
            with reported(self._versions):
                found = list(islice(items, most))
            if not found:
                break
            keys, values = zip(*found, strict=True)
            last = keys[-1]
            largest = max(largest, *map(len, values))
            yield keys, values
            most = max(1, min(_MOST_ITEMS, 2 * most, _MOST_BYTES // largest))
        self._require_end(family, options, start, last)

    def values(self, family: str, keys: list[bytes]) -> list[bytes | None]:
        """Return the values of some keys of a table, None for a key without one; errors as in `items`."""
        found: list[bytes | None] = [None] * len(keys)
        for part in self._tables[family]:
            with reported(self._versions):
                values = self._families[part].get(keys, read_opt=self._read_options(None))
            found = [before if value is None else value for before, value in zip(found, values, strict=True)]
        return found

    def count(self, family: str) -> int:
        """Return the number of entries of a table; errors as in `items`."""
        return sum(map(self._count, self._tables[family]))

    def _count(self, family: str) -> int:
        options = self._read_options(None)
        count, last = 0, None
        with reported(self._versions):
            for last in self._families[family].keys(read_opt=options):  # noqa: B007 - used below
                count += 1
        self._require_end(family, options, None, last)
        return count

    def _read_options(self, stop: bytes | None) -> Any:
        options = self._library.ReadOptions()
        options.fill_cache(v=False)
        options.set_verify_checksums(True)
        options.set_total_order_seek(True)
        options.set_readahead_size(_READAHEAD_BYTES)
        if stop is not None:
            options.set_iterate_upper_bound(stop)
        return options

    def _require_end(self, family: str, options: Any, start: bytes | None, last: bytes | None) -> None:
        """Raise unless the iteration came to the end of its range, because damage ends it in the same way."""
        with reported(self._versions):
            iterator = self._families[family].iter(options)
            if last is not None:
                iterator.seek(last)
                if iterator.valid():
                    iterator.next()
            elif start is not None:
                iterator.seek(start)
            else:
                iterator.seek_to_first()
            iterator.status()
            if not iterator.valid():
                return
        raise CorruptSavepoint("the entries of a column family ended before their last one", state=family)


@contextmanager
def open_database(folder: Path, names: FileNames, sizes: Mapping[str, int]) -> Iterator[Database]:
    """Open a database for reading, until the `with` block ends.

    Args:
        folder: A folder of our own with the files, as files or links; RocksDB writes a log there, and the OPTIONS file
            is replaced by one with only what reading needs.
        names: The files by role.
        sizes: The expected size of each `.sst` file in bytes.

    Raises:
        CorruptSavepoint: A file is damaged, missing, or of another database.
        UnsupportedFormat: A column family has settings that Flink does not set, or rocksdict is too old for a file.
        LibraryNotFound: `rocksdict` is not installed.
    """
    library = require_library()
    with _opened(folder, names, sizes) as (families, versions):
        yield Database(library, families, versions, Folder.at(folder))


def open_live(
    folder: Path, names: FileNames, sizes: Mapping[str, int], configure: Callable[[Any, Mapping[str, Any]], None]
) -> tuple[Any, frozenset[str]]:
    """Open a database for writing: its files become those of the folder.

    Args:
        folder: A folder of our own with the files, as files or hard links.
        names: The files by role.
        sizes: The expected size of each `.sst` file in bytes.
        configure: Changes the options of the database and those of its column families, by name. What must stay as it
            was written is set in them: the merge operator of list states, by which Flink appends elements.

    Returns:
        The database, and the names of its column families without `default`; the caller closes it. Errors as in
        `open_database`.
    """
    library = require_library()
    # Checked first: a database that is open for writing may replace files by compaction at once.
    with _opened(folder, names, sizes) as (checked, versions):
        found = frozenset(checked) - {DEFAULT_FAMILY}
    with reported(versions):
        loaded, families = library.Options.load_latest(str(folder))
        configure(loaded, families)
        return library.Rdict(str(folder), options=loaded, column_families=families), found


@contextmanager
def _opened(folder: Path, names: FileNames, sizes: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], str]]:
    """Open a database for reading, check it, and yield its column families, and the versions for `reported`."""
    library = require_library()
    options = _prepared(folder, names)
    versions = f"RocksDB {options.version} wrote them, and {library_of('rocksdict')} reads them"
    with reported(versions):
        loaded, families = library.Options.load_latest(str(folder))
        access = library.AccessType.read_only()
        opened = library.Rdict(str(folder), options=loaded, column_families=families, access_type=access)
    found: dict[str, Any] = {}
    try:
        with reported(versions):
            found |= {family.name: opened.get_column_family(family.name) for family in options.families}
            tables = opened.live_files()
            require_same({table["name"].lstrip("/"): table["size"] for table in tables}, names, sizes)
            _require_within(found.values(), tables, library.ReadOptions())
            require_same_families({*library.Rdict.list_cf(str(folder))}, {*found})
        yield found, versions
    finally:
        for one in (*found.values(), opened):  # the last one closes the database
            one.close()


def _prepared(folder: Path, names: FileNames) -> StoredOptions:
    """Check the files that RocksDB does not check itself, and put an OPTIONS file of our own in place of the stored."""
    manifest = (folder / names.manifest).read_bytes()
    require_whole_manifest(manifest, names.manifest)
    require_current((folder / CURRENT).read_bytes(), names)
    with located(file=names.options):
        options = read_options((folder / names.options).read_bytes(), names.options)
    (folder / names.options).unlink()
    (folder / names.options).write_text(print_options(options), encoding="utf-8")
    return options


def require_current(current: bytes, names: FileNames) -> None:
    """Refuse a file CURRENT that names another MANIFEST.

    Raises:
        CorruptSavepoint: It does.
    """
    if current != f"{names.manifest}\n".encode():
        raise CorruptSavepoint(f"the file does not name {names.manifest}", file=CURRENT, advice=_DAMAGED)


def require_same_families(stored: AbstractSet[str], listed: AbstractSet[str]) -> None:
    """Refuse a MANIFEST and an OPTIONS file of other column families; raises `CorruptSavepoint`."""
    for other in sorted(stored ^ listed)[:1]:
        raise CorruptSavepoint(
            f"the MANIFEST and the OPTIONS file do not agree on the column family {other!r}", advice=_DAMAGED
        )


def require_same(found: Mapping[str, int], names: FileNames, sizes: Mapping[str, int]) -> None:
    """Refuse a MANIFEST that does not list the files of the snapshot, with their sizes; raises `CorruptSavepoint`."""
    for other in sorted(found.keys() ^ {*names.tables})[:1]:
        whose = "of the MANIFEST is not in the snapshot" if other in found else "is not in the MANIFEST"
        raise CorruptSavepoint(f"the file {other} {whose}", file=names.manifest, advice=_DAMAGED)
    for name, size in found.items():
        if size != sizes[name]:
            raise CorruptSavepoint(
                f"the file has {sizes[name]} bytes, and should have {size} by the MANIFEST", file=name, advice=_DAMAGED
            )


def _require_within(families: Iterable[Any], tables: list[dict[str, Any]], options: Any) -> None:
    """Refuse entries outside the keys of the MANIFEST: RocksDB 6 writes no identities of files, which would show it."""
    least = min((table["start_key"] for table in tables), default=b"")
    most = max((table["end_key"] for table in tables), default=b"")
    for family in families:
        for seek in ("seek_to_first", "seek_to_last"):
            iterator = family.iter(options)
            getattr(iterator, seek)()
            if iterator.valid() and not least <= iterator.key() <= most:
                raise CorruptSavepoint("a file has keys that the MANIFEST does not list for any", advice=_DAMAGED)


@contextmanager
def reported(versions: str) -> Iterator[None]:
    """Convert the errors of rocksdict, which have no class of their own.

    Args:
        versions: What wrote the files, and what reads them, with their versions.

    Raises:
        UnsupportedFormat: A file has a format with a version number that rocksdict does not know.
        CorruptSavepoint: A file is damaged.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        what = re.sub(r" +in \S*/|\S*/(?=\d+\.sst|MANIFEST-|OPTIONS-|CURRENT)", " ", str(error))
        what = re.sub(r"The file +MANIFEST-\d+ may be corrupted\.", "", what)  # RocksDB says it of any other file, too
        told = f"RocksDB cannot read the files: {' '.join(what.split())} ({versions})"
        if _UNKNOWN_VERSION.search(what):
            raise UnsupportedFormat(told, advice=_NEWER) from error
        raise CorruptSavepoint(told, advice=_DAMAGED) from error


@contextmanager
def reported_writing(what: str) -> Iterator[None]:
    """Convert the errors of rocksdict in a database of our own; they have no class of their own.

    Args:
        what: What the database cannot do then.

    Raises:
        NoSpaceLeft: The disk is full.
        StorageFailed: Anything else.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        kind = NoSpaceLeft if "No space left" in str(error) else StorageFailed
        raise kind(f"RocksDB cannot {what}: {' '.join(str(error).split())}") from error
