"""A database of ours with the converted entries of one subtask, which grows while the job runs.

It begins with files that are written from nothing, some key groups at a time. Later changes go through RocksDB, which
writes them to files of its own. All of them have the format that Flink's RocksDB reads: a migration links them.
Nothing is in a write-ahead log: what was not flushed when the process died is applied again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..key_groups import prefix_size
from ..rocksdb.database import CURRENT, reported_writing, require_library
from ..rocksdb.manifest import read_manifest, write_manifest
from ..rocksdb.options_file import DEFAULT_FAMILY, Family, print_stored_options
from ..rocksdb.table_writer import options_of
from ..storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..migration.outputs import Written
    from ..rocksdb.manifest import TableFile
    from ..rocksdb.options_file import StoredOptions

_BUFFER_BYTES, _OPEN_FILES = 64 << 20, 512


class ConvertedDatabase:
    """A database of converted entries in a local folder.

    Args:
        folder: The folder.
        options: The settings of its states.
        max_parallelism: The number of key groups of the operator.
    """

    def __init__(self, folder: Path, options: StoredOptions, max_parallelism: int) -> None:
        self.folder, self._options, self._prefix = folder, options, prefix_size(max_parallelism)
        self._database: Any = None
        self._families: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}
        self._dirty: set[str] = set()

    def tables(self) -> dict[str, tuple[TableFile, ...]]:
        """Return the files of each state; the database must be closed."""
        name = (self.folder / CURRENT).read_text(encoding="ascii").strip()
        found = read_manifest((self.folder / name).read_bytes(), name).families
        return {state: files for state, files in found.items() if state != DEFAULT_FAMILY}

    def add(self, written: Written, place: Folder, first_key_group: int) -> None:
        """Add files that were written for some key groups, the first of which is given; the database is closed.

        Files of these and later key groups, which a process left that died, are left out.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        start = first_key_group.to_bytes(self._prefix, "big")
        before = self.tables() if (self.folder / CURRENT).exists() else {}
        files = {name: [file for file in tables if file.least < start] for name, tables in before.items()}
        number = 1 + max((file.number for tables in files.values() for file in tables), default=0)
        parts = {part.name: part.stored for part in written.database}
        manifest = next(name for name in parts if name.startswith("MANIFEST-"))
        listed = read_manifest(parts[manifest].data or place.read(parts[manifest].attempt), manifest).families
        for name, tables in listed.items():
            for table in tables if name != DEFAULT_FAMILY else ():
                stored, added = parts[table.name], attrs.evolve(table, number=number)
                if stored.data is not None:
                    Folder.at(self.folder).write(added.name, stored.data)
                else:
                    Path(place.place, stored.attempt).replace(self.folder / added.name)
                files.setdefault(name, []).append(added)
                number += 1
        self._list(files, number)
        for stored in parts.values():
            if stored.attempt:
                place.delete(stored.attempt)

    def _list(self, files: Mapping[str, Sequence[TableFile]], number: int) -> None:
        """Write the files that make some files a database; CURRENT last."""
        folder, manifest = Folder.at(self.folder), f"MANIFEST-{number:06d}"
        names = [family.name for family in self._options.families]
        folder.write(manifest, write_manifest([(name, files.get(name, ())) for name in names], number + 2))
        folder.write(f"OPTIONS-{number + 1:06d}", print_stored_options(self._options).encode())
        folder.write(CURRENT, f"{manifest}\n".encode())
        folder.sync()

    def write(self, state: str, puts: Mapping[bytes, bytes], deleted: Iterable[bytes]) -> None:
        """Put and delete entries of a state.

        Raises:
            NoSpaceLeft, StorageFailed: They cannot be written.
        """
        self._open()
        library = require_library()
        batch, handle = library.WriteBatch(raw_mode=True), self._handles[state]
        for key in deleted:
            batch.delete(key, handle)
        for key, value in puts.items():
            batch.put(key, value, handle)
        options = library.WriteOptions()
        options.disable_wal = True
        with reported_writing("write converted entries"):
            self._database.write(batch, options)
        self._dirty.add(state)

    def flush(self) -> None:
        """Write all changes to files, which survive a power cut."""
        with reported_writing("write converted entries"):
            for state in sorted(self._dirty):
                self._families[state].flush(wait=True)
        self._dirty.clear()

    def close(self) -> None:
        """Close the database, if it is open."""
        if self._database is not None:
            self.flush()
            for family in self._families.values():
                family.close()
            self._families.clear()
            self._handles.clear()
            self._database.close()
            self._database = None

    def _open(self) -> None:
        if self._database is not None:
            return
        library = require_library()
        options = library.Options(raw_mode=True)
        options.set_max_open_files(_OPEN_FILES)
        options.set_db_write_buffer_size(_BUFFER_BYTES)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        families = {family.name: _family_options(family) for family in self._options.families}
        with reported_writing("open the database of converted entries"):
            self._database = library.Rdict(str(self.folder), options=options, column_families=families)
            for name in families:
                self._families[name] = self._database.get_column_family(name)
                self._handles[name] = self._database.get_column_family_handle(name)


def _family_options(family: Family) -> Any:
    options = options_of(family)
    options.set_num_levels(family.levels)
    options.set_level_compaction_dynamic_level_bytes(False)
    return options
