"""Writing of encoded rows, sorted by key group, state and key, to the keyed streams of subtasks.

Blocks are built in Arrow, a batch at a time; only the rows of the last key of a batch are held back, since the next
batch may have more of them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...compat.description import StateKind
from ...serializers.columns.codec import join_pieces, number_bytes, offsets_of, spread_bytes
from ...serializers.errors import MigrationFailed, ValueNotConvertible, located, shown
from ...serializers.flink.namespaces import GlobalWindowSerializer, VoidNamespaceSerializer
from ...serializers.views import SEPARATOR
from ...serializers.ways_out import WayOut
from ..entry_keys import EntryKeyFormat, decode
from ..formats.flink.blocks import Block
from ..formats.flink.handles import CANONICAL, KeyGroupsHandle
from ..formats.flink.keyed_stream import KeyedStreamHeader, KeyedStreamWriter
from ..key_groups import key_group_range
from ..publication.publish import stream_name
from ..publication.sink import StoredBytes, StreamSink
from ..savepoint.new_streams import keyed_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...compat.description import StateDescription
    from ...serializers.serializer import TypeSerializer
    from ..job import Operator
    from ..publication.commit import Commit
    from ..storage.files import Folder
    from .stored_forms import KeptBlocks

SORTED_ROWS = ("operator", "key_group", "state", "key", "value")
PASS_AGGREGATE = WayOut("pass aggregate=…")
_WORDS = {
    StateKind.VALUE: "a value state has one value per key",
    StateKind.LIST: "each row is the whole list of its key",
    StateKind.REDUCING: "a reducing state has one value per key",
    StateKind.AGGREGATING: "an aggregating state has one accumulator per key",
    StateKind.MAP: "a map state has one value per key and user key",
}


@attrs.frozen
class NewOperator:
    """A keyed operator of the new savepoint.

    Attributes:
        operator_id: The id, 32 hexadecimal digits.
        title: The name of the operator in messages.
        key: The serializer of the key.
        states: The descriptions of its keyed states, by state id.
        header: The header of its keyed streams.
        parallelism: The number of its subtasks.
        max_parallelism: The number of its key groups.
        whole_lists: The ids of the list states whose rows have all elements of a key; rows of others have one element.
    """

    operator_id: str
    title: str
    key: TypeSerializer[Any]
    states: tuple[StateDescription, ...]
    header: KeyedStreamHeader
    parallelism: int
    max_parallelism: int
    whole_lists: frozenset[int] = frozenset()

    @classmethod
    def of(cls, operator: Operator, parallelism: int, max_parallelism: int) -> NewOperator | None:
        """Return a declared operator; None if it has no keyed state."""
        header = keyed_header(operator)
        if header is None or operator.key is None:
            return None
        states = tuple(state for state in operator.describe().states if state.kind.is_keyed)
        title = operator.uid or operator.id
        return cls(operator.id, title, operator.key, states, header, parallelism, max_parallelism)

    @property
    def key_groups(self) -> list[range]:
        """The key groups of each subtask."""
        return [key_group_range(at, self.parallelism, self.max_parallelism) for at in range(self.parallelism)]

    def sink(self, folder: Folder, subtask: int) -> StreamSink:
        """Return the sink for the stream of a subtask."""
        return StreamSink(folder, stream_name(self.operator_id, "keyed", subtask))


@attrs.frozen
class RowCount:
    """The count of the rows of one state, to compare rows encoded with rows written.

    Attributes:
        rows: The number of rows.
        checksum: The sum of the CRC-32 of each row's key followed by its value.
    """

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: RowCount) -> RowCount:
        return RowCount(self.rows + other.rows, self.checksum + other.checksum)


@attrs.frozen
class StreamResult:
    """A stream that was written.

    Attributes:
        operator: The index of the operator.
        subtask: The index of the subtask.
        first_key_group: The first key group of the subtask.
        stored: The bytes, in memory or in a file of the attempt.
        offsets: The offsets of its key groups.
        entries: The number of entries, by state id.
        rows: The count of rows, by state id.
    """

    operator: int
    subtask: int
    first_key_group: int
    stored: StoredBytes
    offsets: tuple[int, ...] = attrs.field(repr=False)
    entries: tuple[int, ...]
    rows: tuple[RowCount, ...] = attrs.field(repr=False)

    def handle(self, commit: Commit) -> KeyGroupsHandle:
        """Return the handle of the stream in the new savepoint."""
        return KeyGroupsHandle(CANONICAL, self.first_key_group, self.offsets, commit.stream(self.stored))


def checksums(rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the CRC-32 of each row, whose sum is `RowCount.checksum`."""
    whole = join_pieces([rows.column("key"), rows.column("value")])
    return np.fromiter(map(zlib.crc32, whole.to_pylist()), np.int64, len(whole))


def write_streams(
    batches: Iterable[pa.RecordBatch],
    operators: dict[int, NewOperator],
    folder: Folder,
    kept: Callable[[int, int], KeptBlocks | None] = lambda _, __: None,
) -> Iterator[StreamResult]:
    """Write the streams of the subtasks that have rows, and yield the result of each.

    Args:
        batches: Batches of `SORTED_ROWS`, sorted by operator, key group, state and key, with all rows of a subtask.
        operators: The operators, by index.
        folder: The target.
        kept: A function that returns the stored blocks to merge into the stream of an operator's subtask, or None.

    Raises:
        ValueNotConvertible: There are two rows for a key where one is allowed.
        StorageFailed: The store failed; the task may be tried again.
    """
    pending: _Stream | None = None
    try:
        for batch in batches:
            for (place, subtask), rows in _by_subtask(batch, operators):
                if pending is not None and (pending.place, pending.subtask) != (place, subtask):
                    yield pending.finish()
                    pending = None
                if pending is None:
                    pending = _Stream(operators[place], place, subtask, folder, kept(place, subtask))
                pending.add(rows)
        if pending is not None:
            yield pending.finish()
            pending = None
    except BaseException:
        if pending is not None:
            pending.abandon()
        raise


def write_rowless(
    operator: NewOperator, place: int, subtask: int, folder: Folder, kept: KeptBlocks | None = None
) -> StreamResult:
    """Write the stream of a subtask without rows: its header, and the kept blocks."""
    return _Stream(operator, place, subtask, folder, kept).finish()


def _by_subtask(
    batch: pa.RecordBatch, operators: dict[int, NewOperator]
) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    """Yield the parts of a batch by operator and subtask."""
    if not batch.num_rows:
        return
    places = batch.column("operator").to_numpy()
    groups = batch.column("key_group").to_numpy().astype(np.int64)
    for start, end in _runs(places[1:] != places[:-1]):
        operator = operators[int(places[start])]
        subtasks = groups[start:end] * operator.parallelism // operator.max_parallelism
        for first, last in _runs(subtasks[1:] != subtasks[:-1]):
            yield (int(places[start]), int(subtasks[first])), batch.slice(start + first, last - first)


def _runs(changes: np.ndarray[Any, np.dtype[np.bool_]]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of rows; `changes` has for each row but the first whether a run starts there."""
    edges = (np.flatnonzero(changes) + 1).tolist()
    yield from zip([0, *edges], [*edges, len(changes) + 1], strict=True)


class _Stream:
    """The writer of the stream of one subtask."""

    def __init__(
        self, operator: NewOperator, place: int, subtask: int, folder: Folder, kept: KeptBlocks | None
    ) -> None:
        self.place, self.subtask = place, subtask
        self._operator = operator
        lists = {at for at, state in enumerate(operator.states) if state.kind.has_elements}
        self._has_elements = np.isin(np.arange(len(operator.states)), [*(lists - operator.whole_lists)])
        self._sink = operator.sink(folder, subtask)
        self._writer = KeyedStreamWriter(operator.header, operator.key_groups[subtask], self._sink.write)
        self._kept = kept
        self._held: list[pa.RecordBatch] = []
        self._rows = [RowCount()] * len(operator.states)

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows; hold back those of the last key."""
        if self._held and _key_of(rows, 0) == _key_of(rows, -1) == _key_of(self._held[0], 0):
            self._held.append(rows)
            return
        rows = joined([*self._held, rows])
        starts = np.flatnonzero(_starts(rows))
        self._write(rows.slice(0, int(starts[-1])))
        self._held = [rows.slice(int(starts[-1]))]

    def finish(self) -> StreamResult:
        """Write the rows held back and the remaining kept blocks, and close the stream."""
        with located(operator=self._operator.title), self._sink:
            if self._held:
                self._write(joined(self._held))
            if self._kept is not None:
                self._put_kept(self._kept.rest())
            offsets = self._writer.finish()
            stored = self._sink.finish()
        first, entries = self._operator.key_groups[self.subtask].start, tuple(self._writer.entries)
        return StreamResult(self.place, self.subtask, first, stored, offsets, entries, tuple(self._rows))

    def abandon(self) -> None:
        """Remove what was written."""
        self._sink.discard()

    def _write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        states = rows.column("state").to_numpy()
        starts = _starts(rows)
        self._refuse_doubles(rows, states, starts)
        data, offsets = _framed(rows, starts)
        groups = rows.column("key_group").to_numpy()
        for first, end in _runs((groups[1:] != groups[:-1]) | (states[1:] != states[:-1])):
            entries = np.flatnonzero(starts[first:end])
            begin = int(offsets[first])
            block = Block(
                int(groups[first]),
                int(states[first]),
                bytes(data[begin : int(offsets[end])]),
                len(entries),
                int(offsets[first + entries[-1]]) - begin,
            )
            if self._kept is not None:
                self._put_kept(self._kept.up_to(block.key_group))
                self._refuse_taken(block, self._kept)
                block = self._kept.as_stored(block)
            self._writer.add(block)
        self._count(rows, states)

    def _put_kept(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._writer.add(block)

    def _refuse_taken(self, block: Block, kept: KeptBlocks) -> None:
        """Raise if the key of a row has an entry already."""
        key = kept.taken_by(block)
        if key is not None:
            raise ValueNotConvertible(
                "the key already has an entry in the state",
                advice="remove rows with such keys (a left_anti join); or rewrite the whole state, with overwrite",
                operator=self._operator.title,
                state=self._operator.states[block.state_id].name,
                key=self._shown(key, block.state_id),
            )

    def _refuse_doubles(
        self, rows: pa.RecordBatch, states: np.ndarray[Any, Any], starts: np.ndarray[Any, np.dtype[np.bool_]]
    ) -> None:
        doubled = np.flatnonzero(~starts & ~self._has_elements[states])
        if not len(doubled):
            return
        row, state_id = int(doubled[0]), int(states[doubled[0]])
        state = self._operator.states[state_id]
        raise ValueNotConvertible(
            f"two rows for one key, but {_WORDS[state.kind]}",
            advice=("reduce to one row for each key (groupBy, dropDuplicates)", PASS_AGGREGATE),
            operator=self._operator.title,
            state=state.name,
            key=self._shown(rows.column("key")[row].as_py(), state_id),
        )

    def _shown(self, data: bytes, state_id: int) -> str:
        operator = self._operator
        key, state = operator.key, operator.states[state_id]
        assert state.namespace is not None  # noqa: S101 - described by a descriptor, or read from a savepoint
        space = state.namespace.new_side()
        parts = EntryKeyFormat.of(state.kind, key, space, operator.max_parallelism).split(data)
        text = shown(decode(key, parts.key))
        if not isinstance(space, VoidNamespaceSerializer | GlobalWindowSerializer):
            text = f"{text}, namespace {shown(decode(space, parts.namespace))}"
        if not state.kind.has_user_keys:
            return text
        serializer: Any = state.value.new_side()
        return f"{text}, user key {shown(decode(serializer.key, parts.user_key))}"

    def _count(self, rows: pa.RecordBatch, states: np.ndarray[Any, Any]) -> None:
        sums = checksums(rows)
        for state_id in np.unique(states).tolist():
            chosen = states == state_id
            self._rows[state_id] += RowCount(int(chosen.sum()), int(sums[chosen].sum()))


def _key_of(rows: pa.RecordBatch, row: int) -> tuple[int, bytes]:
    return rows.column("state")[row].as_py(), rows.column("key")[row].as_py()


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows in one batch."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _starts(rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows start another key or state."""
    keys, states = rows.column("key"), rows.column("state").to_numpy()
    starts = np.ones(rows.num_rows, dtype=bool)
    same = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    starts[1:] = ~np.asarray(same, dtype=bool) | (states[1:] != states[:-1])
    return starts


def _framed(
    rows: pa.RecordBatch, starts: np.ndarray[Any, np.dtype[np.bool_]]
) -> tuple[memoryview, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the bytes of the entries, `i32 n, key, i32 m, value` each, and the offsets of the rows in them.

    Rows that do not start a key are further elements of a list: they follow a separator.
    """
    keys, values = rows.column("key"), rows.column("value")
    sizes = pc.binary_length(values).to_numpy().astype(np.int64)
    sizes[~starts] += len(SEPARATOR)
    totals = np.add.reduceat(sizes, np.flatnonzero(starts))
    if totals.max() > np.iinfo(np.int32).max:
        raise MigrationFailed(f"a value takes {totals.max()} bytes, but the format allows {np.iinfo(np.int32).max}")
    first_keys = keys if starts.all() else keys.filter(pa.array(starts))
    head = join_pieces(
        [number_bytes(pc.binary_length(first_keys).to_numpy(), ">i4"), first_keys, number_bytes(totals, ">i4")]
    )
    if not starts.all():
        head = spread_bytes(head, ~starts, SEPARATOR)
    data = join_pieces([head, values])
    return memoryview(data.buffers()[2]), offsets_of(data)
