"""The pass over a keyed stream that makes its statistics: blocks become runs, and runs become columns.

The blocks of a state wait until they are a run of some MiB, so that small key groups do not lead to small columns. All
states wait together for the end of a key group, by which the sums of its keys are complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...compat.description import StateKind
from ...serializers.columns.bytes_at import MOST_BYTES, byte_strings
from ...serializers.errors import OldReaderUnavailable, StateShiftError, UnsupportedFormat, ValueNotConvertible
from ..columnar.runs import Run
from ..columnar.table_columns import KeyedColumns, KeySpans
from ..entry_keys import EntryKeyFormat
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER, MetaInfoKind
from ..formats.flink.state_kinds import info_snapshot
from ..savepoint.entry_pass import observe
from .key_weights import HEAVIEST, KeyWeights, Weights, heaviest_rows
from .tallies import OperatorTally, StateTally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...serializers.columns.bytes_at import Places
    from ..columnar.table import StateTable
    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .plans import OperatorPlan, StatePlan

_FRAME_BYTES = 8
_SMALL_BYTES = 1 << 16
"""A block of fewer bytes is copied, so that it does not hold the memory of the piece in which it was read."""
_LEAST_BYTES = 64
_RUN_BYTES = 1 << 20
"""Runs of four times as many bytes, as for data frames, are hardly faster here, and need more memory."""
_MOST_RUNS = 16
"""How many runs wait at most, of operators with many states."""
_ASYNCHRONOUS = "keys cannot be distinguished: the state belongs to the asynchronous state API"
_OVERSIZED = "a value has over 2 GB: Flink writes it, and cannot read it again"


def pass_keyed(
    plan: OperatorPlan,
    handle: KeyedHandle,
    folder: Folder,
    executor: ExecutorName,
    *,
    key_groups: range | None,
    reference_ms: int,
    take: Callable[[int], None],
) -> OperatorTally:
    """Return the statistics of a keyed stream, or of some of its key groups.

    Raises:
        CorruptSavepoint: The bytes are damaged; the error has file, state and key.
    """
    done = _KeyedPass(plan, handle.key_groups if key_groups is None else key_groups, reference_ms)
    observe(handle, folder, plan.max_parallelism, done.observers, key_groups=key_groups, executor=executor, take=take)
    return done.result()


@attrs.define
class _KeyedPass:
    """The pass over a stream.

    Attributes:
        plan: The operator.
        key_groups: The key groups that are read.
        reference_ms: The time to which ages are counted.
    """

    plan: OperatorPlan
    key_groups: range
    reference_ms: int
    _looks: dict[int, _Look] = attrs.field(factory=dict)
    _weights: KeyWeights = attrs.field(init=False)
    _key_group: int = -1
    _held: int = 0

    def observers(self, reader: KeyedReader) -> Mapping[int, _Look]:
        """Return what looks at the states of a stream."""
        infos = {at: info for at, info in enumerate(reader.header.states) if info.name not in reader.hidden}
        plans = {plan.name: plan for plan in self.plan.states.values() if plan.kind.is_keyed}
        wanted = {at: (info, plans[info.name]) for at, info in infos.items() if info.name in plans}
        self._weights = KeyWeights(is_alone=len(reader.header.states) == 1)
        self._looks = {at: _Look.make(self, reader, info, plan, self._weights) for at, (info, plan) in wanted.items()}
        return self._looks

    def add(self, look: _Look, block: Block) -> None:
        """Add a block."""
        if block.key_group != self._key_group:
            if self._held >= _RUN_BYTES * min(len(self._looks), _MOST_RUNS):
                self._settle()
            self._key_group = block.key_group
        if block.oversized:
            look.tally.add_oversized(block, _OVERSIZED)
            return
        data = bytes(block.data) if len(block.data) < _SMALL_BYTES else block.data
        look.blocks.append(attrs.evolve(block, data=data))
        size = max(len(data), _LEAST_BYTES * block.entries)
        look.held += size
        self._held += size
        if look.held >= _RUN_BYTES:
            self._held -= look.held
            look.flush()

    def _settle(self) -> None:
        for look in self._looks.values():
            look.flush()
        self._held = 0
        self._weights.settle()
        for look in self._looks.values():
            look.settle()

    def result(self) -> OperatorTally:
        """Return the statistics; call it once, after the last block."""
        if not self._looks:
            return OperatorTally()
        self._settle()
        for look in self._looks.values():
            look.finish()
        return OperatorTally({look.plan.place: look.tally for look in self._looks.values()}, self._weights.result())


@attrs.define
class _Look:
    """What looks at the entries of one state.

    Attributes:
        of: The pass.
        plan: The state.
        executor: The executor that decodes entries.
        weights: The sums of keys of the operator.
        columns: The columns of the state in this stream, those that can hold all values after those that are usual;
            none: values are not decoded.
        spans: Returns where the keys of a run lie, without columns; None: keys cannot be told apart.
        is_unique: Whether each key has one entry.
        tally: The statistics.
        places: The entries of each map, where a state has namespaces.
        blocks: The blocks that wait.
        held: About how many bytes they have.
    """

    of: _KeyedPass
    plan: StatePlan
    executor: ExecutorName
    weights: KeyWeights
    columns: list[tuple[KeyedColumns, bool]]
    spans: Callable[[Run], KeySpans] | None
    is_unique: bool
    tally: StateTally
    places: KeyWeights | None = None
    blocks: list[Block] = attrs.field(factory=list)
    held: int = 0

    needs_whole_run: ClassVar[bool] = False

    @classmethod
    def make(
        cls, of: _KeyedPass, reader: KeyedReader, info: StateMetaInfo, plan: StatePlan, weights: KeyWeights
    ) -> _Look:
        """Return what looks at a state of a stream."""
        columns = [_columns_of(table, reader, info) for table in plan.tables]
        tally = StateTally.of(plan, of.reference_ms, of.key_groups)
        spans = None
        if info.kind is MetaInfoKind.KEY_VALUE_V2:
            tally.unknown = _ASYNCHRONOUS
        else:
            try:
                spans = _splitter(plan.kind, reader, info, of.plan.max_parallelism)
            except StateShiftError as error:
                tally.unknown = f"keys cannot be distinguished: {error.what.splitlines()[0]}"
        has_space = not columns or columns[0][0].is_namespaced
        is_unique = not (plan.kind is StateKind.TIMERS or plan.kind.has_user_keys or has_space)
        look = cls(of, plan, reader.executor, weights, columns, spans, is_unique, tally)
        if plan.kind.has_user_keys and has_space:
            look.places = KeyWeights(is_alone=True)
        if plan.kind.has_user_keys:
            (look.places or weights).count_lengths(plan.name)
        return look

    def look(self, block: Block) -> None:
        """Take a block."""
        self.of.add(self, block)

    def flush(self) -> None:
        """Make statistics of the blocks that wait."""
        if not self.blocks:
            return
        run = Run.of(self.blocks, self.executor)
        self.blocks, self.held = [], 0
        self.tally.add_run(run)
        spans = self._decoded(run)
        if spans is None and self.spans is not None:
            spans = self.spans(run)
        if spans is None:
            return
        sizes = (run.key_ends - run.key_starts) + (run.value_ends - run.value_starts) + _FRAME_BYTES
        if self.is_unique:
            self._add_unique(run, spans, sizes)
            return
        self.weights.add(self.plan.name, _summed(run, spans.starts, spans.ends, sizes), is_unique=False)
        if self.places is not None:
            self.places.add(self.plan.name, _summed(run, spans.starts, spans.places, sizes), is_unique=False)

    def _add_unique(self, run: Run, spans: KeySpans, sizes: Places) -> None:
        above = self.weights.needed_above(self.plan.name)
        rows = np.arange(len(run)) if above is None else heaviest_rows(sizes, HEAVIEST, above)
        if len(rows):
            keys = _strings(run, spans.starts[rows], spans.ends[rows])
            entries = np.ones(len(rows), np.int64)
            found = Weights(keys, run.key_groups[rows], entries, sizes[rows])
            self.weights.add(self.plan.name, found, is_unique=True)

    def _decoded(self, run: Run) -> KeySpans | None:
        """Add the columns of a run, and return where its keys lie; None: it was not decoded."""
        while self.columns:
            columns, singly = self.columns[0]
            try:
                batch, spans = columns.batch_and_spans(run, singly=singly)
            except ValueNotConvertible as error:  # it does not fit the usual column
                if len(self.columns) == 1:
                    self.tally.not_decoded = error.what.splitlines()[0]
                self.columns.pop(0)
                continue
            except (OldReaderUnavailable, UnsupportedFormat) as error:
                self.tally.not_decoded = error.what.splitlines()[0]
                self.columns = []
                continue
            for name, codec in columns.codecs.items():
                self.tally.fields.add(name, batch.column(name), codec)
            return spans
        return None

    def settle(self) -> None:
        """Finish the maps of which all entries were read."""
        if self.places is not None:
            self.places.settle()

    def finish(self) -> None:
        """Take the heaviest keys, and the lengths of maps."""
        name = self.plan.name
        if name in self.weights.tops:
            self.tally.top = self.weights.tops[name]
        self.tally.lengths = (self.places or self.weights).lengths.get(name)


def _columns_of(table: StateTable, reader: KeyedReader, info: StateMetaInfo) -> tuple[KeyedColumns, bool]:
    """Return the columns of a stream without `key_group`, and whether entries are read singly."""
    whole: Any = table.columns
    own = table.columns_for(whole, reader, info)
    return attrs.evolve(own, wanted=frozenset(whole.codecs)), own is not whole


def _splitter(
    kind: StateKind, reader: KeyedReader, info: StateMetaInfo, max_parallelism: int
) -> Callable[[Run], KeySpans]:
    """Return the function that finds keys by their layout alone, one by one, for values that cannot be read."""
    key = reader.header.key_snapshot.restore_serializer()
    if kind is StateKind.TIMERS:
        space: Any = info.value.children()[1].restore_serializer()
    else:
        space = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
    keys = EntryKeyFormat.of(kind, key, space, max_parallelism)

    def split(run: Run) -> KeySpans:
        spans = KeySpans.unknown(len(run))
        for row in range(len(run)):
            spans.put(row, int(run.key_starts[row]), run.item(row)[0], keys)
        return spans

    return split


def _strings(run: Run, starts: Places, ends: Places) -> pa.Array:
    if len(run.raw) <= MOST_BYTES:
        return byte_strings(run.data, starts, ends)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([run.raw[start:end] for start, end in pairs], pa.binary())


def _summed(run: Run, starts: Places, ends: Places, sizes: Places) -> Weights:
    """Return the sums of adjacent equal keys."""
    keys = _strings(run, starts, ends)
    differs = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    begins = np.concatenate([[0], 1 + np.flatnonzero(differs)]).astype(np.int64)
    entries = np.diff(np.append(begins, len(run)))
    return Weights(keys.take(pa.array(begins)), run.key_groups[begins], entries, np.add.reduceat(sizes, begins))
