"""The tasks of a migration, each of which writes one stream, and their results.

Tasks of an operator whose keys are all rewritten cannot read only their own key groups: an entry may come from any of
them. So their work has two halves with a shuffle between them; see `rekeying`. Source: rule ROLE-4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..formats.flink.handles import DatabaseFile, RelativeFileHandle
from ..publication.lineage import StateFiles
from ..runner import READING_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...compat.plan import OperatorPlan
    from ..formats.flink.handles import (
        DatabaseHandle,
        KeyedHandle,
        KeyGroupsHandle,
        OperatorStateHandle,
        OperatorStateOffsets,
        StreamHandle,
    )
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..formats.flink.operator_stream import OperatorStreamHeader
    from ..formats.flink.redistribution import Share
    from ..publication.lineage import StateCount
    from ..publication.sink import StoredBytes
    from ..rocksdb.manifest import TableFile
    from ..storage.files import Folder


Digests = dict[str, str]
"""The 128-bit XXH3 digests of files, in hexadecimal, by path."""


@attrs.frozen
class KeptFamilies:
    """Column families that stay as they are.

    Attributes:
        files: The files of each family, by the new name of its state.
        stored: All files of the stored database, by name.
        next_file: A number above those of all files.
        left: The database with the other families; empty if there are none.
        places: The folders of the files of states that were converted while the job ran, by the new name of the state.
        counts: The counts of these states, and of those that were dropped with them (rule RUN-2).
    """

    files: dict[str, tuple[TableFile, ...]] = attrs.field(factory=dict)
    stored: dict[str, DatabaseFile] = attrs.field(factory=dict)
    next_file: int = 1
    left: tuple[KeyedHandle, ...] = ()
    places: dict[str, Folder] = attrs.field(factory=dict)
    counts: tuple[StateCount, ...] = ()

    def states(self, plan: OperatorPlan) -> tuple[StateFiles, ...]:
        """Return what is kept of each state, under the new names of the operator's plan."""
        return tuple(
            StateFiles(plan.new_id or plan.operator_id, plan.uid, state, len(tables), sum(one.size for one in tables))
            for state, tables in self.files.items()
            if state not in self.places
        )

    def joined(
        self,
        converted: Mapping[str, Iterable[TableFile]],
        place: Folder,
        counts: tuple[StateCount, ...],
        left: tuple[KeyedHandle, ...],
        next_file: int,
    ) -> KeptFamilies:
        """Return these families and those that were converted while the job ran.

        Args:
            converted: The files of each state, by its new name; they get numbers of their own.
            place: The folder of these files.
            counts: The counts of these states.
            left: The database with what is neither kept nor converted.
            next_file: A number above those of all files of the stored database.
        """
        files, stored, number = dict(self.files), dict(self.stored), next_file
        for state, tables in converted.items():
            renumbered = []
            for table in tables:
                renumbered.append(attrs.evolve(table, number=number))
                stored[renumbered[-1].name] = DatabaseFile(table.name, RelativeFileHandle(table.name, table.size))
                number += 1
            files[state] = tuple(renumbered)
        return KeptFamilies(files, stored, number, left, dict.fromkeys(converted, place), counts)


NOTHING_KEPT = KeptFamilies()


@attrs.frozen
class _SubtaskTask:
    """A task that writes the keyed state of one new subtask.

    Attributes:
        plan: The plan of the operator.
        title: The name of the operator in messages.
        subtask: The index of the new subtask.
        parallelism: The number of new subtasks.
        key_groups: The key groups of the new subtask.
        max_parallelism: The number of key groups of the result.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    parallelism: int
    key_groups: range
    max_parallelism: int


@attrs.frozen
class KeyedTask(_SubtaskTask):
    """A task that rewrites the keyed state of a range of key groups into the stream of one new subtask.

    Attributes:
        handles: The stored streams that have any of these key groups.
        digests: The expected digests of the files of streams that this task checks as a whole, by path.
        for_rocksdb_6: Whether the RocksDB that restores the result reads no newer files than those of RocksDB 6.
        kept: The column families of its database that stay as they are.
    """

    handles: tuple[KeyedHandle, ...] = attrs.field(repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)
    for_rocksdb_6: bool = False
    kept: KeptFamilies = attrs.field(default=NOTHING_KEPT, repr=False)

    @property
    def kept_states(self) -> tuple[StateFiles, ...]:
        """What is kept of each state, under its new name."""
        return self.kept.states(self.plan)

    @property
    def read(self) -> tuple[KeyedHandle, ...]:
        """What is read: the stored streams, or of a database the families that are not kept."""
        return self.handles if self.kept == NOTHING_KEPT else self.kept.left

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read, in proportion to the key groups of each stream."""
        return sum(
            handle.size * len(_common(handle.key_groups, self.key_groups)) // len(handle.key_groups)
            for handle in self.read
        )


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


@attrs.frozen
class KeepTask(_SubtaskTask):
    """A task that links or copies all files of a database whose header cannot be read.

    Attributes:
        handle: The database.
        digests: The expected digest of the header, by its path.
    """

    handle: DatabaseHandle = attrs.field(repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read: all but the files with entries."""
        return self.handle.size - self.kept_states[0].size

    @property
    def kept_states(self) -> tuple[StateFiles, ...]:
        """What is kept: of all states together, which are not known."""
        size, plan = sum(file.stream.size for file in self.handle.shared), self.plan
        return (StateFiles(plan.new_id or plan.operator_id, plan.uid, "", len(self.handle.shared), size),)


@attrs.frozen
class Reading:
    """A piece of the stored keyed state of an operator.

    Attributes:
        handle: A stored stream.
        key_groups: The part of its key groups that is read.
    """

    handle: KeyedHandle
    key_groups: range

    @property
    def is_first(self) -> bool:
        """Whether it is the first piece of its stream: its reader checks the digest of the whole stream."""
        return self.key_groups.start == self.handle.key_groups.start


@attrs.frozen
class RekeyTask(_SubtaskTask):
    """A task that writes the stream of one subtask of an operator whose keys are all rewritten.

    Attributes:
        stored_max_parallelism: The number of key groups of the source.
        handles: All stored streams of the operator.
        header: The header of every new stream.
        digests: The expected digests of the stored streams' files, by path.
    """

    stored_max_parallelism: int
    handles: tuple[KeyedHandle, ...] = attrs.field(repr=False)
    header: KeyedStreamHeader = attrs.field(repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to write: an even share."""
        return sum(handle.size for handle in self.handles) // self.parallelism

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The pieces that are read for all subtasks of the operator together."""
        return tuple(
            Reading(handle, handle.key_groups[start : start + step])
            for handle in self.handles
            for step in [_key_groups_at_once(handle)]
            for start in range(0, len(handle.key_groups), step)
        )


def _key_groups_at_once(handle: KeyedHandle) -> int:
    return max(1, len(handle.key_groups) * READING_BYTES // max(handle.size, 1))


def digest_of(digests: Digests, stream: StreamHandle) -> str:
    """Return the expected digest of a stream's file; "" if it is not checked."""
    return digests.get(stream.path, "") if isinstance(stream, RelativeFileHandle) else ""


@attrs.frozen
class OperatorTask:
    """A task that rewrites list and broadcast states into the stream of one new subtask.

    Attributes:
        plan: The plan of the operator.
        title: The name of the operator in messages.
        subtask: The index of the new subtask.
        shares: The shares of the subtask in stored streams.
        header: The common header of all subtasks if state is redistributed; None for that of its one stored stream.
        digests: The expected digests of the stored streams' files, by path.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    shares: tuple[Share, ...] = attrs.field(repr=False)
    header: OperatorStreamHeader | None = attrs.field(default=None, repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read."""
        return sum(share.size_bytes for share in self.shares)


@attrs.frozen
class CopyTask:
    """A task that copies a file unchanged.

    Attributes:
        title: The name of the operator in messages.
        name: The name of the copy.
        stream: The file; never inline.
        xxh128: The expected digest, if the source's lineage has it, or "".
        handle: The handle by which its entries or elements are checked; None for raw state, whose format is unknown.
        max_parallelism: The number of key groups of the operator.
    """

    title: str
    name: str
    stream: StreamHandle
    xxh128: str = ""
    handle: KeyGroupsHandle | OperatorStateHandle | None = attrs.field(default=None, repr=False)
    max_parallelism: int = 0

    @property
    def size_bytes(self) -> int:
        """The number of bytes to copy."""
        return self.stream.size


Task = KeyedTask | RekeyTask | KeepTask | OperatorTask | CopyTask


@attrs.frozen
class DatabasePart:
    """A file of a database that a task wrote.

    Attributes:
        name: The name that the database gives it, such as `000012.sst`.
        stored: The file.
    """

    name: str
    stored: StoredBytes


@attrs.frozen
class TaskResult:
    """The result of a task.

    Attributes:
        stored: The stream, in memory or in a file of the attempt; of a database its header.
        offsets: The offsets of the key groups of a keyed stream.
        states: The offsets of the elements of an operator stream, by state.
        counts: The counts of each state (rule RUN-2).
        quarantine: The file with values that do not fit, with the name of the attempt; None if there were none.
        sent: The counts of all entries that were read for all subtasks, if keys were rewritten; only in the result of
            the first subtask. The subtasks together must have received these entries.
        lacks_numba: Whether objects were used only because numba is not installed where the task ran.
        foreign: The number of stored entries of other key groups, which were left out (`KeyedReader.foreign`).
        database: The files of the database, if keyed state was written as one.
        kept: The states whose files were linked or copied without being read.
    """

    stored: StoredBytes
    offsets: tuple[int, ...] = attrs.field(default=(), repr=False)
    states: tuple[OperatorStateOffsets, ...] = attrs.field(default=(), repr=False)
    counts: tuple[StateCount, ...] = ()
    quarantine: StoredBytes | None = None
    sent: tuple[StateCount, ...] = ()
    lacks_numba: bool = False
    foreign: int = 0
    database: tuple[DatabasePart, ...] = attrs.field(default=(), repr=False)
    kept: tuple[StateFiles, ...] = ()

    @property
    def entries(self) -> int:
        """The number of entries that were read."""
        return sum(count.read for count in self.counts)

    @property
    def size_bytes(self) -> int:
        """The number of bytes written, without a quarantine."""
        return self.stored.size + sum(part.stored.size for part in self.database)

    @property
    def files(self) -> tuple[StoredBytes, ...]:
        """The files written: the stream, those of a database, and the quarantine if there is one."""
        aside = () if self.quarantine is None else (self.quarantine,)
        return (self.stored, *(part.stored for part in self.database), *aside)
