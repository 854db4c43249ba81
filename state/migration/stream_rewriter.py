"""The blocks of one stored stream on their way to a new one: converted, copied or dropped, as planned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import StateAction
from ...compat.transcode.blocks import BlockTranscoder
from ...serializers.errors import StateShiftError, located
from ..savepoint.keyed_readers import batches, blocks_ahead
from .block_rewriter import BlockRewriter, new_name, whole_runs
from .together import convert_together
from .turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...compat.plan import OperatorPlan, StatePlan
    from ..savepoint.blocks import Block
    from ..savepoint.keyed_readers import KeyedReader
    from ..savepoint.keyed_stream import KeyedStreamHeader
    from ..savepoint.meta_info import StateMetaInfo
    from .block_rewriter import Tally
    from .quarantine import TakesBadValues
    from .together import Step

    Rewriters = list[BlockRewriter | None]


def is_dropped(state: StatePlan | None) -> bool:
    """Whether a state is left out."""
    return state is not None and state.action is StateAction.DROP


def new_state_id(plan: OperatorPlan, info: StateMetaInfo, header: KeyedStreamHeader) -> int | None:
    """Give the place of a stored state in the new header; None where it is dropped."""
    state = plan.state(info.name, keyed=True)
    return None if is_dropped(state) else header.state_id(new_name(info, state))


@attrs.define
class StreamRewriter:
    """Gives the blocks of one stored stream under the ids of the new header, their values converted as planned.

    Attributes:
        plan: Of the operator.
        max_parallelism: Number of key groups of the stored operator.
        reader: Of the stream.
        header: The new one.
        tallies: Counts by stored name, which go on; entries of dropped states are counted, and not given.
        quarantine: Takes values that do not fit, where the plan allows any.
    """

    plan: OperatorPlan
    max_parallelism: int
    reader: KeyedReader
    header: KeyedStreamHeader
    tallies: dict[str, Tally]
    quarantine: TakesBadValues
    _infos: tuple[StateMetaInfo, ...] = attrs.field(init=False)
    _new_ids: list[int | None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._infos = self.reader.header.states
        self._new_ids = [new_state_id(self.plan, info, self.header) for info in self._infos]

    def blocks(self, key_groups: range) -> Iterator[Block]:
        """Give the new blocks of some key groups."""
        return self._one_by_one(key_groups, self._rewriters())

    def write(self, key_groups: range, add: Callable[[Block], object]) -> None:
        """Give the new blocks of some key groups to `add`, in their order.

        Two threads share the work, but for what goes through objects: that is Python's own, and may be a user's.
        """
        rewriters = self._rewriters()
        if not all(rewriter is None or isinstance(rewriter.transcoder, BlockTranscoder) for rewriter in rewriters):
            for block in self._one_by_one(key_groups, rewriters):
                add(block)
            return

        def finish(steps: list[Step]) -> None:
            for block in self._finished(steps):
                add(block)

        def make_worker() -> Callable[[list[Block]], list[Step]]:
            return partial(self._converted, rewriters=made.pop() if made else self._rewriters())

        made = [rewriters]
        Turns(batches(whole_runs(self.reader.blocks(key_groups), rewriters)), finish).carry(make_worker)

    def _one_by_one(self, key_groups: range, rewriters: Rewriters) -> Iterator[Block]:
        for block in whole_runs(blocks_ahead(self.reader, key_groups), rewriters):
            yield from self._finished(self._converted([block], rewriters))

    def _rewriters(self) -> Rewriters:
        """Make who converts the states, by their stored ids; each is for one thread."""
        aside = self.quarantine if self.plan.max_bad_values else None
        key = self.reader.header.key_snapshot
        return [
            BlockRewriter.of(info, self.plan.state(info.name, keyed=True), key, self.max_parallelism, aside)
            for info in self._infos
        ]

    def _converted(self, batch: list[Block], rewriters: Rewriters) -> list[Step]:
        """Convert blocks; what fails is raised by the last of the steps that are left, after those before it."""
        together = convert_together(batch, rewriters, self._new_ids)
        made = {state_id: found.steps(self._tally(state_id)) for state_id, found in together.items()}
        steps: list[Step] = []
        try:
            for block in batch:
                found = made.get(block.state_id)
                steps.append(self._step(block, rewriters) if found is None else next(found))
        except StateShiftError as error:
            steps.append(partial(_raised, error))
        return steps

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
    """Count a block that stays as it is, or is dropped."""
    tally.read += block.entries
    if new_id is None:
        tally.dropped += block.entries
        return None
    tally.written += block.entries
    return attrs.evolve(block, state_id=new_id)


def _raised(error: StateShiftError) -> None:
    raise error
