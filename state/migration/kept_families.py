"""Column families that stay as they are: their files are linked or copied, and neither opened nor read.

A family is kept whole or rewritten whole. It is kept where every byte of its entries stays, in a database whose key
groups stay: the MANIFEST of the new database has the same entries for its files as the stored one. What else the task
reads is a database with the other families, which has a MANIFEST of its own. It is decided when the tasks are made,
from headers, MANIFEST and OPTIONS files; for RocksDB 6, from the ends of files, too. So a plan says what is kept.
Source: notes on native snapshots.
"""

from __future__ import annotations

import struct
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import StateAction
from ...serializers.errors import CorruptSavepoint, StateShiftError, UnsupportedFormat, located
from ...serializers.views import DataInputView, DataOutputView
from ..formats.flink.handles import DatabaseFile, DatabaseHandle, InlineHandle
from ..formats.flink.keyed_stream import KeyedStreamHeader, read_keyed_header, write_keyed_header
from ..formats.flink.sources import open_proven, open_stream
from ..publication.lineage import StateFiles, add_files
from ..publication.publish import INLINE_BYTES, part_name, stream_name, table_name
from ..publication.sink import copied_stream, linked_stream
from ..rocksdb.database import CURRENT, FileNames, require_library
from ..rocksdb.manifest import Manifest, read_manifest, require_whole_manifest, write_manifest
from ..rocksdb.options_file import DEFAULT_FAMILY, StoredOptions, print_stored_options, read_options
from ..rocksdb.ranges import families_of_tables, table_of
from ..savepoint.states import keyed_handles
from .block_rewriter import new_name
from .outputs import require_writable_families
from .stream_rewriter import is_dropped
from .tasks import DatabasePart, KeptFamilies, KeyedTask, TaskResult, digest_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..formats.flink.metadata import OperatorState
    from ..publication.sink import StoredBytes
    from ..storage.files import Folder
    from .tasks import KeepTask, Task

_FOOTER = struct.Struct("<B40xIQ")
_MAGIC, _FORMATS = 0x88E241B785F4CFF7, range(6)
_CHECKSUMS = {1, 2, 3}
"""Of RocksDB 6: CRC-32C, and xxHash of 32 and 64 bits."""
_AT_A_TIME = 8
"""How many databases of a store are looked at at a time."""


def with_kept(tasks: Iterable[KeyedTask], source: Folder) -> Iterator[KeyedTask]:
    """Yield the tasks of an operator with the families that each of them keeps; there may be none.

    Args:
        tasks: The tasks.
        source: The folder of the stored state: headers, MANIFEST and OPTIONS files are read, several at a time.

    Raises:
        LibraryNotFound: The library that reads databases is not installed.
        CorruptSavepoint: One of these files is damaged.
        UnsupportedFormat: A column family has settings that Flink does not set, or cannot be written as it must be.
    """
    if source.is_local:
        yield from (_looked_at(task, source) for task in tasks)
        return
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        yield from threads.map(_looked_at, tasks, repeat(source))


def _looked_at(task: KeyedTask, source: Folder) -> KeyedTask:
    made = _with_kept(task, source)
    require_writable_families(made.plan, made.read, source)
    return made


def _with_kept(task: KeyedTask, source: Folder) -> KeyedTask:
    handle = task.handles[0]
    if not task.plan.is_native or not isinstance(handle, DatabaseHandle) or handle.key_groups != task.key_groups:
        return task
    found = StoredParts.read(handle, source, digest_of(task.digests, handle.stream))
    if found is None:
        return task
    header, manifest, stored = found.header, found.manifest, {file.name: file for file in handle.files}
    kept = {
        info.name: new_name(info, task.plan.state(info.name, keyed=True))
        for info in header.states
        if info.name in manifest.families and _stays(task, header, info.name)
    }
    if task.for_rocksdb_6:
        kept = {
            name: renamed
            for name, renamed in kept.items()
            if all(_is_of_6(stored[file.name], source) for file in manifest.families[name])
        }
    if not kept:
        return task
    families = KeptFamilies(
        {renamed: manifest.families[name] for name, renamed in kept.items()},
        {file.name: stored[file.name] for name in kept for file in manifest.families[name]},
        found.next_file,
        () if len(kept) == len(header.states) else (found.without(kept),),
    )
    return attrs.evolve(task, kept=families)


@attrs.frozen
class StoredParts:
    """What describes a stored database, beside its files with entries.

    Attributes:
        handle: From `_metadata`.
        header: The states.
        manifest: The files of each family.
        options: The settings of each family.
    """

    handle: DatabaseHandle
    header: KeyedStreamHeader
    manifest: Manifest
    options: StoredOptions

    @classmethod
    def read(cls, handle: DatabaseHandle, source: Folder, xxh128: str = "") -> StoredParts | None:
        """Read what describes a database; None if only its own reader can say what is in it, or what is wrong with it.

        Args:
            handle: From `_metadata`.
            source: The folder of that.
            xxh128: The expected digest of the header; "": it is not checked.

        Raises:
            LibraryNotFound, CorruptSavepoint, UnsupportedFormat: As in `with_kept`.
        """
        require_library()
        with open_proven(handle.stream, source, xxh128) as stream:
            header = read_keyed_header(DataInputView(stream.read_at(0, stream.size)))
        names = FileNames.of([file.name for file in handle.files])
        stored = {file.name: file for file in handle.files}
        try:
            manifest = read_manifest(_content(stored[names.manifest], source), names.manifest)
        except UnsupportedFormat:
            return None
        with located(file=names.options):
            options = read_options(_content(stored[names.options], source), names.options)
        return cls(handle, header, manifest, options) if _agree(header, manifest, options, handle) else None

    @property
    def next_file(self) -> int:
        """A number above those of all files."""
        names = FileNames.of([file.name for file in self.handle.files])
        numbers = (int(name.partition("-")[2]) for name in (names.manifest, names.options))
        return max(self.manifest.next_file, *numbers) + 1

    def without(self, kept: Collection[str]) -> DatabaseHandle:
        """Return the handle of the database without some families, of which no file is needed."""
        handle, families = self.handle, self.manifest.families
        others = {name: files for name, files in families.items() if name not in {DEFAULT_FAMILY, *kept}}
        listed = [(DEFAULT_FAMILY, families[DEFAULT_FAMILY]), *others.items()]
        tables = {file.name for _, files in listed for file in files}
        left = tuple(one for one in self.options.families if one.name not in kept)
        names = FileNames.of([file.name for file in handle.files])
        contents = {
            names.manifest: write_manifest(listed, self.manifest.next_file),
            names.options: print_stored_options(StoredOptions(self.options.version, left)).encode(),
            CURRENT: f"{names.manifest}\n".encode(),
        }
        view = DataOutputView()
        states = tuple(info for info in self.header.states if info.name not in kept)
        write_keyed_header(attrs.evolve(self.header, states=states), view)
        return attrs.evolve(
            handle,
            stream=InlineHandle("header", view.getvalue()),
            shared=tuple(file for file in handle.shared if file.name in tables),
            private=tuple(DatabaseFile(name, InlineHandle(name, data)) for name, data in contents.items()),
        )


def files_of(
    stored: OperatorState, tasks: Iterable[Task], source: Folder
) -> tuple[tuple[StateFiles, ...], tuple[StateFiles, ...]]:
    """Return the files of each stored state of an operator in databases: those that are kept, and those that are read.

    Of a database whose MANIFEST cannot be read here nothing is returned.

    Args:
        stored: The operator.
        tasks: The tasks of the migration; those of other operators have other databases.
        source: The folder of the stored state, of which only MANIFEST files are read.

    Raises:
        LibraryNotFound, CorruptSavepoint: As in `with_kept`.
    """
    kept = {task.handles[0]: task.kept.stored for task in tasks if isinstance(task, KeyedTask) and task.kept.files}
    operator_id = stored.operator_id.hex()
    found: tuple[list[StateFiles], list[StateFiles]] = [], []
    for handle in keyed_handles(stored):
        if not isinstance(handle, DatabaseHandle):
            continue
        require_library()
        name = FileNames.of([file.name for file in handle.files]).manifest
        content = _content(next(file for file in handle.private if file.name == name), source)
        with suppress(UnsupportedFormat):
            for family, tables in read_manifest(content, name).families.items():
                for table in tables:
                    side = found[table.name not in kept.get(handle, ())]
                    side.append(StateFiles(operator_id, stored.uid, table_of(family), 1, table.size))
    return add_files(found[0]), add_files(found[1])


def keep_whole(task: KeepTask, source: Folder, target: Folder) -> TaskResult:
    """Link or copy all files of a database.

    Args:
        task: The task.
        source: The folder of the stored state.
        target: The folder to write to.

    Raises:
        CorruptSavepoint: The header has another digest than expected, a file another size, or the MANIFEST lists other
            files than the snapshot.
    """
    handle, name = task.handle, stream_name(task.plan.operator_id, "keyed", task.subtask)
    names, stored = FileNames.of([file.name for file in handle.files]), {file.name: file for file in handle.files}
    manifest = _content(stored[names.manifest], source)
    require_library()
    require_whole_manifest(manifest, names.manifest)
    with suppress(UnsupportedFormat):
        if _listed(read_manifest(manifest, names.manifest)) != _there(handle):
            raise CorruptSavepoint("the MANIFEST lists other files than the snapshot", file=names.manifest)
    written: list[StoredBytes] = []
    try:
        with open_proven(handle.stream, source, digest_of(task.digests, handle.stream)) as stream:
            written.append(copied_stream(stream, target, name, inline_bytes=INLINE_BYTES))
        for file in handle.shared:
            with located(file=file.name):
                number = int(file.name.partition(".")[0])
                written.append(linked_stream(file.stream, source, target, table_name(name, number)))
        for part, file_name in (("manifest", names.manifest), ("options", names.options), ("current", CURRENT)):
            with open_stream(stored[file_name].stream, source) as stream:
                written.append(copied_stream(stream, target, part_name(name, part), inline_bytes=INLINE_BYTES))
    except BaseException:
        for one in written:
            with suppress(StateShiftError):  # the original failure is the one to report
                target.delete(one.attempt)
        raise
    header, *files = written
    own = [*(file.name for file in handle.shared), names.manifest, names.options, CURRENT]
    parts = tuple(map(DatabasePart, own, files))
    return TaskResult(header, database=parts, kept=task.kept_states)


def require_of_6(handle: DatabaseHandle, source: Folder) -> None:
    """Refuse a database that is kept whole and has a file that RocksDB 6 does not read.

    Args:
        handle: The database.
        source: The folder of the stored state.

    Raises:
        UnsupportedFormat: It has such a file.
    """
    for file in handle.shared:
        if not _is_of_6(file, source):
            raise UnsupportedFormat(
                f"the file {file.name} of a database was written for a newer RocksDB than the target has, and cannot "
                "be rewritten, because the header of the state cannot be read",
                advice="register the snapshot classes that `stateshift inspect` names as unknown",
            )


def _content(file: DatabaseFile, source: Folder) -> bytes:
    with open_stream(file.stream, source) as stream:
        return stream.read_at(0, stream.size)


def _agree(header: KeyedStreamHeader, manifest: Manifest, options: StoredOptions, handle: DatabaseHandle) -> bool:
    """Whether the parts of a database are of one snapshot."""
    tables = families_of_tables(manifest.families)
    return (
        tables.keys() - {DEFAULT_FAMILY} == {info.name for info in header.states}
        and manifest.families.keys() == {family.name for family in options.families}
        and _listed(manifest) == _there(handle)
    )


def _listed(manifest: Manifest) -> set[tuple[str, int]]:
    return {(file.name, file.size) for files in manifest.families.values() for file in files}


def _there(handle: DatabaseHandle) -> set[tuple[str, int]]:
    return {(file.name, file.stream.size) for file in handle.shared}


def _stays(task: KeyedTask, header: KeyedStreamHeader, name: str) -> bool:
    """Whether every byte of the entries of a state stays, and no other state gets its name."""
    plans = {info.name: task.plan.state(info.name, keyed=True) for info in header.states}
    names = Counter(new_name(info, plans[info.name]) for info in header.states if not is_dropped(plans[info.name]))
    state = plans[name]
    becomes = new_name(header.states[header.state_id(name)], state)
    is_written = state is not None and state.action is StateAction.CONVERT
    return not is_dropped(state) and not is_written and names[becomes] == 1


def _is_of_6(file: DatabaseFile, source: Folder) -> bool:
    """Whether RocksDB 6 reads a file with entries."""
    with open_stream(file.stream, source) as stream:
        if stream.size < _FOOTER.size:
            return False
        checksum, form, magic = _FOOTER.unpack(stream.read_at(stream.size - _FOOTER.size, _FOOTER.size))
    return magic == _MAGIC and form in _FORMATS and checksum in _CHECKSUMS
