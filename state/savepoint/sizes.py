"""Sizes of state: entries and bytes of each state and each key group, and the largest keys.

They are counted in one pass over the blocks of an operator's keyed streams. Nothing is decoded; keys are cut out of
entries only if the largest keys are requested (`largest_keys`).
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import attrs

from ...compat.spread import Share
from ...serializers.errors import StateShiftError, located, without_locals
from ..formats.flink.meta_info import MetaInfoKind
from ..key_groups import key_group_range
from .entry_pass import observe
from .largest_keys import KeyTally, LargestKeys
from .states import Measure, keyed_handles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..formats.flink.blocks import Block
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.meta_info import StateMetaInfo
    from .reader import SavepointOperator
    from .states import SavepointState

BINS = 16
_TELL_EVERY_BYTES = 1 << 20
_OVERSIZED = "keys are not compared: one has a value over 2 GB"
_ASYNCHRONOUS = "keys cannot be distinguished: the state belongs to the asynchronous state API"


@attrs.frozen
class StateSizes:
    """The size of one state.

    Attributes:
        state: The state.
        measure: The total; None where it cannot be counted: see `error` and `state.is_hidden`.
        key_groups: For keyed state the size in each key group that has entries.
        largest: The largest keys, if they were requested and the state has keys.
        error: Why the state cannot be counted: damage, or a missing file.
    """

    state: SavepointState
    measure: Measure | None
    key_groups: Mapping[int, Measure] = attrs.field(factory=dict, repr=False)
    largest: LargestKeys | None = None
    error: StateShiftError | None = None


@attrs.frozen(slots=False)
class OperatorSizes:
    """The sizes of an operator's states, and the distribution of its keyed state.

    Attributes:
        operator: The operator.
        states: The measured states, in the order of `operator.states`.
        foreign: The number of entries in files of databases that are of other subtasks' key groups, and left out.
    """

    operator: SavepointOperator
    states: tuple[StateSizes, ...]
    foreign: int = 0

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries that could be counted; for compressed streams more than the size of their files."""
        return sum(sizes.measure.size_bytes for sizes in self.states if sizes.measure is not None)

    @cached_property
    def key_groups(self) -> tuple[Share, ...]:
        """The size of each key group, including empty ones, over all measured keyed states."""
        groups, nothing = range(self.operator.max_parallelism), Measure()
        sums = [sum((state.key_groups.get(group, nothing) for state in self.states), nothing) for group in groups]
        return tuple(Share(groups[at : at + 1], one.entries, one.size_bytes) for at, one in enumerate(sums))

    @property
    def subtasks(self) -> tuple[Share, ...]:
        """The size of each subtask's keyed state, by its index."""
        count, groups = self.operator.parallelism, self.operator.max_parallelism
        return tuple(self._share(key_group_range(index, count, groups)) for index in range(count))

    def bins(self, count: int = BINS) -> tuple[Share, ...]:
        """Return the sizes of at most `count` consecutive ranges of key groups of about the same length."""
        groups = self.operator.max_parallelism
        count = min(count, groups)
        return tuple(self._share(range(at * groups // count, (at + 1) * groups // count)) for at in range(count))

    def _share(self, key_groups: range) -> Share:
        shares = self.key_groups[key_groups.start : key_groups.stop]
        return Share(key_groups, sum(one.entries for one in shares), sum(one.size_bytes for one in shares))


def measure_operator(
    operator: SavepointOperator,
    *,
    states: Collection[str] | None = None,
    keys: int = 0,
    progress: Callable[[int], None] | None = None,
) -> OperatorSizes:
    """Return the sizes of an operator's states; states that cannot be counted have a reason instead.

    Args:
        operator: The operator.
        states: The names of the states to measure; None: all.
        keys: How many of the largest keys to find in each keyed state.
        progress: Called at intervals with the number of bytes of entries read so far.

    Raises:
        CorruptSavepoint: The header of a stream is damaged, so that its states are not known.
        SavepointNotFound: A file is missing.
    """
    chosen = [state for state in operator.states if states is None or state.name in states]
    walk = _Walk(operator, progress)
    walked = _walked(walk, [state for state in chosen if _has_key_groups(state)], keys)
    sizes = {found.state.name: found for found in walked}
    measured = tuple(sizes[state.name] if _has_key_groups(state) else _not_walked(state) for state in chosen)
    return OperatorSizes(operator, measured, walk.foreign)


def _has_key_groups(state: SavepointState) -> bool:
    return state.kind.is_keyed and not state.is_hidden


def _not_walked(state: SavepointState) -> StateSizes:
    """Return the size of an operator state, or of a hidden state, which has no measure."""
    if state.is_hidden:
        return StateSizes(state, None)
    try:
        return StateSizes(state, state.measure())
    except StateShiftError as error:
        return StateSizes(state, None, error=without_locals(error))


def _walked(walk: _Walk, states: list[SavepointState], keys: int) -> list[StateSizes]:
    """Return the sizes of keyed states, counted in one pass; damage anywhere leaves none of them counted."""
    operator = walk.operator
    counts = {state.name: _Counts(state, _tally(operator, state, keys)) for state in states}
    try:
        with located(savepoint=operator.folder.place, operator=operator.title):
            walk.over(counts)
            return [count.result() for count in counts.values()]
    except StateShiftError as error:
        return [StateSizes(state, None, error=without_locals(error)) for state in states]


@attrs.define
class _Walk:
    """One pass over an operator's keyed state.

    Attributes:
        operator: The operator.
        progress: As in `measure_operator`.
        foreign: The number of entries of other key groups that were found.
    """

    operator: SavepointOperator
    progress: Callable[[int], None] | None
    foreign: int = 0
    _seen: int = 0
    _told: int = 0

    def over(self, counts: Mapping[str, _Counts]) -> None:
        """Add up the blocks of some states, subtask after subtask."""

        def observers(reader: KeyedReader) -> dict[int, _Counts]:
            self.foreign += reader.foreign
            found = {at: counts[one.name] for at, one in enumerate(reader.header.states) if one.name in counts}
            for at, count in found.items():
                count.begin(reader.header.states[at])
            return found

        for handle in keyed_handles(self.operator.stored):
            observe(handle, self.operator.folder, self.operator.max_parallelism, observers, take=self._take)

    def _take(self, size_bytes: int) -> None:
        self._seen += size_bytes
        if self.progress is not None and self._seen - self._told >= _TELL_EVERY_BYTES:
            self.progress(self._seen)
            self._told = self._seen


def _tally(operator: SavepointOperator, state: SavepointState, keys: int) -> KeyTally | str | None:
    """Return the tally of the largest keys, or why they cannot be found; None if they are not requested."""
    if not keys or operator.key is None:
        return None
    try:
        return KeyTally(state.kind, operator.key, operator.max_parallelism, keys)
    except StateShiftError as error:
        return f"keys cannot be distinguished: {error.what.splitlines()[0]}"


class _Counts:
    """Adds up the blocks of one state."""

    needs_whole_run: ClassVar[bool] = False

    def __init__(self, state: SavepointState, tally: KeyTally | str | None) -> None:
        self._state = state
        self._tally = tally
        self._key_groups: dict[int, Measure] = defaultdict(Measure)

    def begin(self, info: StateMetaInfo) -> None:
        """Go on with a stream, which describes the state so."""
        if self._tally is not None and info.kind is MetaInfoKind.KEY_VALUE_V2:
            self._tally = _ASYNCHRONOUS

    def look(self, block: Block) -> None:
        self._key_groups[block.key_group] += Measure.of(block)
        if isinstance(self._tally, KeyTally):
            if block.oversized:
                self._tally = _OVERSIZED
            else:
                self._tally.add(block)

    def result(self) -> StateSizes:
        measure = sum(self._key_groups.values(), Measure())
        largest = self._tally.result() if isinstance(self._tally, KeyTally) else None
        if isinstance(self._tally, str):
            largest = LargestKeys(unknown=self._tally)
        return StateSizes(self._state, measure, self._key_groups, largest)
