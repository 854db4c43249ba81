"""A state as a table: its columns, its slices for tasks, and the batches of a slice.

    savepoint = Savepoint.open("/data/savepoint-1")
    table = StateTable.of(savepoint.operator("account-state"), "account")
    for piece in table.slices(8):
        for batch in table.read(piece):
            ...

The table is cut between key groups, also within a subtask.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.former_job import saying_more
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.errors import DeclarationError, OldReaderUnavailable, located
from ...serializers.snapshot import TypeSerializerConfigSnapshot, snapshot_to_bytes
from ..formats.flink.keyed_readers import blocks_ahead, open_keyed
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER
from ..formats.flink.operator_stream import read_operator_stream
from ..formats.flink.sources import open_stream
from ..key_groups import has_checked_hash, key_group, key_hasher
from ..savepoint.chosen_keys import ChosenReader
from ..savepoint.states import keyed_handles
from ..transcode.executor_choice import choose_executor
from .runs import runs_of
from .table_columns import BroadcastColumns, KeyedColumns, ListColumns, broadcast_columns, entry_reader, list_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..savepoint.chosen_keys import ChosenKeys
    from ..savepoint.reader import SavepointOperator
    from ..savepoint.states import SavepointState
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName

Snapshot = TypeSerializerConfigSnapshot[Any]


@attrs.frozen
class KeyedSlice:
    """A range of key groups of one subtask."""

    handle: KeyedHandle = attrs.field(repr=False)
    key_groups: range


@attrs.frozen
class ElementSlice:
    """The operator state of one subtask."""

    handle: OperatorStateHandle = attrs.field(repr=False)
    subtask: int


Slice = KeyedSlice | ElementSlice


@attrs.frozen(slots=False)
class StateTable:
    """A state as a table. Created with `of`; it can be pickled, so that a task can read slices of it.

    Attributes:
        name: The name of the state.
        kind: The kind of the state.
        operator: The uid or id of its operator.
        folder: The folder of the savepoint.
        snapshots: The snapshots of key, namespace and value, merged from all streams.
        max_parallelism: The number of key groups.
        slots: The undivided slices, one for each stream that is read.
        tables: The names of the state in the streams: several while it is migrated lazily.
        exact: Whether big numbers and times become text, and rows have their kind.
        chosen: The keys whose entries are read; None: all.
    """

    name: str
    kind: StateKind
    operator: str
    folder: Folder
    snapshots: tuple[Snapshot | None, Snapshot | None, Snapshot] = attrs.field(repr=False)
    max_parallelism: int
    slots: tuple[Slice, ...] = attrs.field(repr=False)
    tables: tuple[str, ...] = attrs.field(repr=False)
    exact: bool = False
    chosen: ChosenKeys | None = None

    @classmethod
    def of(
        cls, operator: SavepointOperator, name: str, *, exact: bool = False, chosen: ChosenKeys | None = None
    ) -> StateTable:
        """Return the table of a state.

        Raises:
            StateNotFound: There is no such state; the message has the names that exist.
            OldReaderUnavailable: No serializer reads its keys or values.
            DeclarationError: It is migrated lazily, so that its values have several types.
        """
        return cls.over(operator, operator.state(name), exact=exact, chosen=chosen)

    @classmethod
    def over(
        cls,
        operator: SavepointOperator,
        state: SavepointState,
        *,
        exact: bool = False,
        chosen: ChosenKeys | None = None,
    ) -> StateTable:
        """Return the table of a state of an operator; raises as `of`."""
        _require_one_form(operator, state)
        described = state.description
        namespace = None if described.namespace is None else described.namespace.snapshot
        broadcast_key = None if described.key is None else described.key.snapshot
        key = operator.key if state.kind.is_keyed else broadcast_key
        table = cls(
            state.name,
            state.kind,
            operator.title,
            operator.folder,
            (key, namespace, described.value.snapshot),
            operator.max_parallelism,
            tuple(_slots(operator, state)),
            state.tables,
            exact,
            chosen,
        )
        with table.located():
            if state.unsupported:
                raise OldReaderUnavailable(
                    state.unsupported,
                    path=state.unread_path or None,
                    advice="leave it out: only the code of its job can read it",
                )
            table.schema  # noqa: B018 - raises its errors here
        return table

    @property
    def _executor(self) -> ExecutorName:
        """The executor that decodes entries, the same for all slices: chosen by the size of all streams."""
        return choose_executor(sum(slot.handle.size for slot in self.slots))

    def located(self) -> Any:
        """Return a context manager that adds savepoint, operator and state to errors."""
        return located(savepoint=self.folder.place, operator=self.operator, state=self.name)

    @cached_property
    def columns(self) -> KeyedColumns | ListColumns | BroadcastColumns:
        """The columns of the entries or elements."""
        key, namespace, value = self.snapshots
        if self.kind is StateKind.BROADCAST and key is not None:
            return broadcast_columns(key, value, exact=self.exact)
        if key is None:
            return list_columns(self.kind, value, exact=self.exact)
        return KeyedColumns.of(self.kind, key, namespace, value, self.max_parallelism, exact=self.exact)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return self.columns.schema

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "columns"}

    def groups_of(self, keys: Collection[Any]) -> set[int] | None:
        """Return the key groups of some keys; None where they cannot be computed.

        Args:
            keys: The keys as values of the column.
        """
        if not isinstance(self.columns, KeyedColumns) or not has_checked_hash(self.columns.key.serializer):
            return None
        if not self.columns.key.is_plain:
            return None
        hashed = key_hasher(self.columns.key.serializer)
        return {key_group(hashed(key), self.max_parallelism) for key in keys}

    def slices(self, count: int, key_groups: Collection[int] | None = None) -> list[Slice]:
        """Return about `count` slices of similar size.

        Args:
            count: The number of tasks.
            key_groups: The key groups to include; None: all.
        """
        found: list[Slice] = []
        sizes = {
            index: slot.handle.group_sizes(slot.key_groups)
            for index, slot in enumerate(self.slots)
            if isinstance(slot, KeyedSlice)
        }
        wanted = max(sum(size for one in sizes.values() for size in one.values()) // max(count, 1), 1)
        for index, slot in enumerate(self.slots):
            if isinstance(slot, ElementSlice):
                found.append(slot)
                continue
            chosen = slot.key_groups if self.chosen is None else chain(*self.chosen.among(slot.key_groups))
            among = {*chosen} if key_groups is None else {*chosen}.intersection(key_groups)
            filled = {group: size for group, size in sizes[index].items() if group in among}
            found += [KeyedSlice(slot.handle, groups) for groups in _cut(filled, wanted)]
        return found

    def read(
        self,
        piece: Slice,
        *,
        key_groups: Collection[int] | None = None,
        columns: Collection[str] | None = None,
        singly: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a slice.

        Args:
            piece: One of `slices`.
            key_groups: The key groups whose rows to return; None: all.
            columns: The names of the columns to return, in the order of the schema; None: all. Others are not decoded.
            singly: Whether to read each entry as objects, instead of decoding blocks.

        Raises:
            ValueNotConvertible: A column cannot represent a value; the error has key and path.
            CorruptSavepoint: The bytes are damaged; the error has file, offset, key and path.
        """
        with self.located():
            if isinstance(piece, ElementSlice):
                for batch in self._elements(piece, singly=singly):
                    yield (
                        batch if columns is None else batch.select([one for one in self.schema.names if one in columns])
                    )
                return
            wanted = None if columns is None else frozenset(columns)
            opened = open_keyed(piece.handle, self.folder, self.max_parallelism, executor=self._executor)
            with opened as reader, located(file=reader.name):
                if self.chosen is not None:
                    reader = ChosenReader.over(reader, self.chosen, piece.handle, self.max_parallelism)  # noqa: PLW2901
                yield from self._entries(reader, piece.key_groups, key_groups, wanted, singly=singly)

    def _entries(
        self,
        reader: KeyedReader,
        key_groups: range,
        among: Collection[int] | None,
        wanted: frozenset[str] | None,
        *,
        singly: bool,
    ) -> Iterator[pa.RecordBatch]:
        for state_id, info in enumerate(reader.header.states):
            if info.name not in self.tables or not isinstance(self.columns, KeyedColumns):
                continue
            columns = self.columns_for(self.columns, reader, info)
            blocks = blocks_ahead(reader, key_groups, [state_id])
            if among is not None:
                blocks = (block for block in blocks if block.key_group in among)
            one_by_one = singly or columns is not self.columns
            columns = columns if wanted is None else attrs.evolve(columns, wanted=wanted)
            for run in runs_of(blocks, reader.executor):
                yield columns.batch(run, singly=one_by_one)

    def columns_for(self, columns: KeyedColumns, reader: KeyedReader, info: StateMetaInfo) -> KeyedColumns:
        """Return the columns for a stream, with its own reader if its snapshots differ from the merged ones.

        Only the columns themselves decode blocks; others read each entry as objects.
        """
        value = saying_more(info.value, self.snapshots[2])
        own = (reader.header.key_snapshot, info.snapshot(NAMESPACE_SERIALIZER), value)
        if own == self.snapshots:
            return columns
        return attrs.evolve(columns, reader=entry_reader(self.kind, *own, self.max_parallelism))

    def _elements(self, piece: ElementSlice, *, singly: bool) -> Iterator[pa.RecordBatch]:
        with open_stream(piece.handle.stream, self.folder) as source:
            stream = read_operator_stream(source, piece.handle)
            if isinstance(self.columns, ListColumns):
                elements = stream.elements.get(self.name, ())
                if elements:
                    yield self.columns.batch(piece.subtask, elements, self._executor, singly=singly)
            elif isinstance(self.columns, BroadcastColumns) and self.name in stream.broadcast:
                yield self.columns.batch(stream.broadcast[self.name])


def _require_one_form(operator: SavepointOperator, state: SavepointState) -> None:
    stored = {one.name: one.description.value.snapshot for one in operator.states if one.kind.is_keyed}
    tables = [name for name in state.tables if name in stored]
    if len({snapshot_to_bytes(without_ttl_awareness(stored[name])) for name in tables}) > 1:
        raise DeclarationError(
            f"the state {state.name!r} is migrated lazily, so its values have several types, and a table has one",
            advice="finish the migration first; or take `stateshift export`, which says the version of each value",
            operator=operator.title,
        )


def _slots(operator: SavepointOperator, state: SavepointState) -> Iterator[Slice]:
    if state.kind.is_keyed:
        for keyed in keyed_handles(operator.stored):
            yield KeyedSlice(keyed, keyed.key_groups)
        return
    for subtask in sorted(operator.stored.subtasks, key=lambda subtask: subtask.index):
        handle = subtask.managed_operator
        if handle is not None and any(one.name == state.name for one in handle.states):
            yield ElementSlice(handle, subtask.index)
            if state.kind is StateKind.BROADCAST:  # every subtask has the whole map
                return


def _cut(sizes: dict[int, int], wanted: int) -> Iterator[range]:
    """Yield ranges of key groups of about `wanted` bytes."""
    start, size = None, 0
    last = -1
    for group, one in sorted(sizes.items()):
        if start is not None and size + one // 2 > wanted:
            yield range(start, last + 1)
            start, size = None, 0
        start = group if start is None else start
        size, last = size + one, group
    if start is not None:
        yield range(start, last + 1)
