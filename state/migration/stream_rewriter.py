"""Rewriting of the blocks of one stored stream: they are converted, copied or dropped, as planned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import StateAction
from ...serializers.errors import StateShiftError, located
from ..formats.flink.blocks import Block
from ..formats.flink.key_group_ranges import KeyGroupRange
from ..formats.flink.keyed_readers import batches, blocks_ahead
from ..formats.flink.keyed_stream import KeyedStreamReader, KeyedStreamWriter
from ..key_groups import prefix_size
from ..progress import count_bytes
from ..savepoint.entry_checks import DistinctKeys, StreamCheck
from ..transcode.block_transcoder import BlockTranscoder
from ..transcode.executor_choice import ExecutorName
from .block_rewriter import BlockRewriter, new_name, whole_runs
from .joined_tables import JoinedTables
from .key_group_rewriter import KeyGroupRewriter, may_be_whole
from .ordered_pipeline import Turns
from .quarantine import stored_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.plan import OperatorPlan, StatePlan
    from ..formats.flink.keyed_stream import KeyedReader, KeyedStreamHeader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..transcode.entry_check import SeenKeys
    from ..transcode.key_groups import NewKeyGroups
    from .block_rewriter import Tally
    from .outputs import BlockWriter
    from .quarantine import QuarantineLines

    Rewriters = Sequence[BlockRewriter | None]

Batch = KeyGroupRange | list[Block]
Step = Callable[[], Block | None]
"""The final step for a block that was converted, copied or dropped; it returns the new block, if there is one."""
Finish = Callable[[], None]


def is_dropped(state: StatePlan | None) -> bool:
    """Whether a state is left out."""
    return state is not None and state.action is StateAction.DROP


def new_state_id(plan: OperatorPlan, info: StateMetaInfo, header: KeyedStreamHeader) -> int | None:
    """Return the index of a stored state in the new header; None if it is dropped."""
    state = plan.state(info.name, keyed=True)
    return None if is_dropped(state) else header.state_id(new_name(info, state))


@attrs.define
class StreamRewriter:
    """Rewrites the blocks of one stored stream: with the ids of the new header, and values converted as planned.

    Attributes:
        plan: The plan of the operator.
        max_parallelism: The number of key groups of the stored operator.
        reader: The reader of the stream.
        header: The new header.
        tallies: The running counts by stored name; entries of dropped states are counted, but not yielded.
        quarantine: The quarantine for values that do not fit, if the plan allows any.
    """

    plan: OperatorPlan
    max_parallelism: int
    reader: KeyedReader
    header: KeyedStreamHeader
    tallies: dict[str, Tally]
    quarantine: QuarantineLines
    _infos: tuple[StateMetaInfo, ...] = attrs.field(init=False)
    _new_ids: list[int | None] = attrs.field(init=False)
    _keys: DistinctKeys = attrs.field(init=False)
    _joined: JoinedTables | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._infos = self.reader.header.states
        self._new_ids = [new_state_id(self.plan, info, self.header) for info in self._infos]
        self._joined = JoinedTables.of(self.plan, self._infos, self._new_ids)
        self._keys = DistinctKeys(self.reader)

    def blocks(self, key_groups: range) -> Iterator[Block]:
        """Yield the new blocks of some key groups."""
        return self._one_by_one(key_groups, self._worker())

    def write(self, key_groups: range, writer: BlockWriter, *, alone: bool = False) -> None:
        """Write some key groups, in their order.

        Two threads share the work, unless it is to be done `alone`, or a state is converted through objects: that runs
        in Python, and may call user code. So does the joining of tables.
        """
        first = self._worker()
        transcoders = (one.transcoder for one in first.rewriters if one is not None)
        if self._joined is not None or not all(isinstance(one, BlockTranscoder) for one in transcoders):
            for block in self._one_by_one(key_groups, first):
                writer.add(block)
            return

        def make_worker() -> Callable[[Batch], Finish]:
            return partial(self._worked, worker=made.pop() if made else self._worker(), writer=writer)

        made = [first]
        Turns(self._batches(key_groups, first.rewriters, writer), _finish).carry(make_worker, alone=alone)
        self._keys.finish()

    def _batches(self, key_groups: range, rewriters: Rewriters, writer: BlockWriter) -> Iterator[Batch]:
        """Return batches: `KeyGroupRange`s if whole key groups can be converted and written, else lists of blocks."""
        reader, is_compressed = self.reader, self.reader.header.compressed or self.header.compressed
        by_machine_code = reader.executor is ExecutorName.NUMBA and may_be_whole(rewriters)
        by_machine_code &= isinstance(writer, KeyedStreamWriter)
        if not isinstance(reader, KeyedStreamReader) or is_compressed or not by_machine_code:
            return _counted(batches(whole_runs(reader.blocks(key_groups), rewriters)))
        return _counted(_ranges(reader, key_groups))

    def _worked(self, batch: Batch, worker: KeyGroupRewriter, writer: BlockWriter) -> Finish:
        """Convert a batch; return the final step."""
        if isinstance(batch, KeyGroupRange):
            found = worker.convert(batch)
            if found is not None and isinstance(writer, KeyedStreamWriter):
                return partial(self._put, found, batch.key_groups, writer)
            steps = self._by_blocks(batch, worker)
        else:
            steps = self._converted(batch, worker)
        return partial(self._add, steps, writer)

    def _by_blocks(self, stored: KeyGroupRange, worker: KeyGroupRewriter) -> list[Step]:
        steps: list[Step] = []
        try:
            for batch in batches(stored.blocks()):
                steps += self._converted(batch, worker)
        except StateShiftError as error:
            steps.append(partial(_raised, error))
        return steps

    def _add(self, steps: list[Step], writer: BlockWriter) -> None:
        for block in self._finished(steps):
            writer.add(block)

    def _put(self, found: NewKeyGroups, key_groups: list[int], writer: KeyedStreamWriter) -> None:
        """Write new key groups, and count their entries."""
        entries = [0] * len(self.header.states)
        for total in found.totals:
            new_id = self._new_ids[total.state_id]
            self._tally(total.state_id).add_total(total, is_dropped=new_id is None)
            if new_id is not None:
                entries[new_id] += total.entries
        writer.add_key_groups(key_groups, found.offsets, found.data, entries)

    def _one_by_one(self, key_groups: range, worker: KeyGroupRewriter) -> Iterator[Block]:
        found = self._each(key_groups, worker)
        if self._joined is None:
            return (block for _, block in found)
        return self._joined.blocks(found, lambda at, key: self._tally(at).leave_out(key))

    def _each(self, key_groups: range, worker: KeyGroupRewriter) -> Iterator[tuple[int, Block]]:
        """Yield the new blocks, each with the id of its state in the stored stream."""
        for block in whole_runs(blocks_ahead(self.reader, key_groups), worker.rewriters):
            count_bytes(len(block.data))
            for new in self._finished(self._converted([block], worker)):
                yield block.state_id, new
        self._keys.finish()

    def _worker(self) -> KeyGroupRewriter:
        """Return the checker and converter of the states for one thread."""
        aside = self.quarantine if self.plan.max_bad_values else None
        key, executor = self.reader.header.key_snapshot, self.reader.executor
        groups = self.max_parallelism
        rewriters = [
            BlockRewriter.of(
                info,
                self.plan.state(info.name, keyed=True),
                key,
                groups,
                executor,
                aside,
                None if aside is None else stored_types(self.plan, info, key, groups),
            )
            for info in self._infos
        ]
        converted = {
            at: one.plan.user_key is not None and one.plan.transform is None
            for at, one in enumerate(rewriters)
            if one is not None
        }
        check = StreamCheck.of(self.reader.header, self.max_parallelism, executor, converted=converted)
        return KeyGroupRewriter(rewriters, self._new_ids, prefix_size(self.max_parallelism), check)

    def _converted(self, batch: list[Block], worker: KeyGroupRewriter) -> list[Step]:
        """Check and convert blocks; an error is raised by the last of the returned steps, after those before it."""
        looked_at, failure = self._looked_at(batch, worker.check)
        steps: list[Step] = []
        try:
            for block, seen in looked_at:
                step = self._step(block, worker.rewriters)
                steps.append(step if seen is None else partial(self._told_apart, step, block, seen))
        except StateShiftError as error:
            failure = error
        if failure is not None:
            steps.append(partial(_raised, failure))
        return steps

    def _looked_at(
        self, batch: list[Block], check: StreamCheck
    ) -> tuple[list[tuple[Block, SeenKeys | None]], StateShiftError | None]:
        """Check blocks, up to the first damaged one; dropped ones are not checked."""
        found: list[tuple[Block, SeenKeys | None]] = []
        for block in batch:
            try:
                with located(file=self.reader.name, state=self._infos[block.state_id].name):
                    seen = None if self._new_ids[block.state_id] is None else check.look_at(block)
            except StateShiftError as error:
                return found, error
            found.append((block, seen))
        return found, None

    def _told_apart(self, step: Step, block: Block, seen: SeenKeys) -> Block | None:
        self._keys.add(block, seen)
        return step()

    def _step(self, block: Block, rewriters: Rewriters) -> Step:
        rewriter, new_id, tally = rewriters[block.state_id], self._new_ids[block.state_id], self._tally(block.state_id)
        if new_id is None or rewriter is None:
            return partial(_passed, block, new_id, tally)
        return partial(rewriter.count, rewriter.convert(block, new_id), tally)

    def _finished(self, steps: list[Step]) -> Iterator[Block]:
        for step in steps:
            with located(file=self.reader.name):
                block = step()
            if block is not None:
                yield block

    def _tally(self, state_id: int) -> Tally:
        return self.tallies[self._infos[state_id].name]


def _passed(block: Block, new_id: int | None, tally: Tally) -> Block | None:
    """Count a block that is copied or dropped."""
    tally.read += block.entries
    if new_id is None:
        tally.dropped += block.entries
        return None
    tally.written += block.entries
    return attrs.evolve(block, state_id=new_id)


def _raised(error: StateShiftError) -> None:
    raise error


def _ranges(reader: KeyedStreamReader, key_groups: range) -> Iterator[Batch]:
    """Yield `KeyGroupRange`s, and the blocks of key groups that are too long for one."""
    with located(file=reader.name):
        for found in reader.ranges(key_groups):
            if isinstance(found, KeyGroupRange):
                yield found
                del found  # the next one reuses its memory, which is still in the CPU cache
            else:
                yield from batches(found)


def _counted(found: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches, and tell how many bytes they have."""
    for batch in found:
        count_bytes(len(batch.data) if isinstance(batch, KeyGroupRange) else sum(len(block.data) for block in batch))
        yield batch
        del batch  # as above


def _finish(what: Finish) -> None:
    what()
