"""The heaviest keys of the states of one operator, found in one pass in bounded memory.

The entries of a key lie in one key group, but not together: those of its states follow one another, and so may those of
its namespaces. So sums are kept until all of a key group is read (`settle`). Where one state has one entry for each
key, as most have, there is nothing to sum up. If a key group has more than `MOST_KEYS` keys, the lighter half of the
sums is forgotten, and `missing_bytes` says how much a sum can lack by that.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from .distributions import DistributionTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...serializers.columns.bytes_at import Places

MOST_KEYS = 1 << 19
HEAVIEST = 10
Heavy = tuple[int, int, int, bytes]
"""The bytes of a key, its key group, its entries, and its bytes."""


@attrs.frozen
class Weights:
    """The sums of keys.

    Attributes:
        keys: The bytes of the keys, as an array of binary.
        parts: Their key groups.
        entries: Their numbers of entries.
        sizes: Their bytes.
    """

    keys: pa.Array
    parts: Places
    entries: Places
    sizes: Places

    def __len__(self) -> int:
        return len(self.sizes)

    def together(self) -> Weights:
        """Return the sums of equal keys."""
        columns = [self.keys, *map(pa.array, (self.parts, self.entries, self.sizes))]
        table = pa.table(columns, names=["key", "part", "entries", "size"])
        sums = [("part", "min"), ("entries", "sum"), ("size", "sum")]
        found = table.group_by("key", use_threads=False).aggregate(sums).combine_chunks()
        if not len(found):
            return self
        key, *numbers = (found[name].chunk(0) for name in ("key", "part_min", "entries_sum", "size_sum"))
        return Weights(key, *(one.to_numpy() for one in numbers))

    def picked(self, rows: Places) -> Weights:
        """Return some of them."""
        return Weights(self.keys.take(pa.array(rows)), self.parts[rows], self.entries[rows], self.sizes[rows])

    def heaviest(self, count: int) -> list[Heavy]:
        """Return the heaviest keys."""
        rows = heaviest_rows(self.sizes, count)
        keys = self.keys.take(pa.array(rows)).to_pylist()
        numbers = (one[rows].tolist() for one in (self.sizes, self.parts, self.entries))
        return [(size, part, entries, key) for size, part, entries, key in zip(*numbers, keys, strict=True)]


def joined(some: Sequence[Weights]) -> Weights:
    """Return weights one behind the other."""
    if len(some) == 1:
        return some[0]
    numbers = (np.concatenate([getattr(one, name) for one in some]) for name in ("parts", "entries", "sizes"))
    return Weights(pa.concat_arrays([one.keys for one in some]), *numbers)


def heaviest_rows(sizes: Places, count: int, above: int = -1) -> Places:
    """Return the rows of the largest sizes; of equal ones the first.

    Args:
        sizes: The sizes.
        count: How many rows are wanted.
        above: Only sizes above this one count.
    """
    rows = np.flatnonzero(sizes > above)
    if len(rows) <= count:
        return rows
    among = sizes[rows]
    last = np.partition(among, len(among) - count)[len(among) - count]
    more = rows[among > last]
    return np.sort(np.concatenate([more, rows[among == last][: count - len(more)]]))


@attrs.define
class Top:
    """The heaviest keys so far.

    Attributes:
        keys: The keys, heaviest first.
        missing_bytes: How much a sum can lack.
    """

    keys: list[Heavy] = attrs.field(factory=list)
    missing_bytes: int = 0

    @property
    def least(self) -> int:
        """The size above which a key is one of the heaviest."""
        return self.keys[-1][0] if len(self.keys) == HEAVIEST else -1

    def add(self, keys: Iterable[Heavy], missing_bytes: int = 0) -> None:
        """Add keys that have all their entries, apart from `missing_bytes`."""
        self.keys = heapq.nlargest(HEAVIEST, [*self.keys, *keys], key=lambda one: one[0])
        self.missing_bytes = max(self.missing_bytes, missing_bytes)


@attrs.define
class _Pending:
    """What is known of a state's keys in key groups that are not read to their end."""

    weights: list[Weights] = attrs.field(factory=list)
    missing_bytes: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.weights))


@attrs.define
class KeyWeights:
    """The heaviest keys of an operator and its states, in one stream.

    Attributes:
        is_alone: Whether the operator has one state alone.
        tops: The heaviest keys of each state.
        lengths: How many entries each key has in the states that were asked for.
        all: The heaviest keys over all states.
    """

    is_alone: bool
    tops: dict[str, Top] = attrs.field(factory=dict)
    lengths: dict[str, DistributionTally | None] = attrs.field(factory=dict)
    all: Top = attrs.field(factory=Top)
    _pending: dict[str, _Pending] = attrs.field(factory=dict)
    _unique: set[str] = attrs.field(factory=set)

    def count_lengths(self, state: str) -> None:
        """Count how many entries each key of a state has."""
        self.lengths[state] = DistributionTally()

    def needed_above(self, state: str) -> int | None:
        """Return the size above which single entries of a state matter, whose keys have one each; None: all do."""
        return self.tops.setdefault(state, Top()).least if self.is_alone else None

    def add(self, state: str, weights: Weights, *, is_unique: bool) -> None:
        """Add entries of a state.

        Args:
            state: The state.
            weights: Its keys, in the order in which they are stored.
            is_unique: Whether no key comes twice.
        """
        top = self.tops.setdefault(state, Top())
        if is_unique:
            self._unique.add(state)
            top.add(weights.heaviest(HEAVIEST))
            if self.is_alone:
                return
        self._pending.setdefault(state, _Pending()).weights.append(weights)
        if sum(map(len, self._pending.values())) > MOST_KEYS:
            self._shorten()

    def settle(self) -> None:
        """Finish the sums of keys of which all entries have been added."""
        found = {state: self._summed(state) for state in self._pending}
        for state, weights in found.items():
            if state in self._unique:
                continue
            missing = self._pending[state].missing_bytes
            self.tops[state].add(weights.heaviest(HEAVIEST), missing)
            lengths = self.lengths.get(state)
            if lengths is not None:
                lengths.add(weights.entries)
        if found and not self.is_alone:
            whole = joined([*found.values()])
            whole = whole.together() if len(found) > 1 else whole
            self.all.add(whole.heaviest(HEAVIEST), sum(one.missing_bytes for one in self._pending.values()))
        self._pending = {}

    def _summed(self, state: str) -> Weights:
        weights = joined(self._pending[state].weights)
        return weights if state in self._unique else weights.together()

    def _shorten(self) -> None:
        """Sum up what is pending; if it is still very much, forget the lighter half of each state's sums."""
        for state, pending in self._pending.items():
            pending.weights = [self._summed(state)]
        if sum(map(len, self._pending.values())) <= MOST_KEYS // 2:
            return
        for state, pending in self._pending.items():
            (weights,) = pending.weights
            kept = heaviest_rows(weights.sizes, max(len(weights) // 2, HEAVIEST))
            is_lost = np.ones(len(weights), bool)
            is_lost[kept] = False
            pending.missing_bytes += int(weights.sizes[is_lost].max(initial=0))
            pending.weights = [weights.picked(kept)]
            if state in self.lengths and is_lost.any():
                self.lengths[state] = None

    def result(self) -> Top:
        """Return the heaviest keys over all states."""
        return next(iter(self.tops.values()), Top()) if self.is_alone else self.all
