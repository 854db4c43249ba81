"""The statistics of states as they grow; those of several tasks are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from .distributions import DistributionTally
from .fields import AgesTally, FieldTallies
from .key_weights import Top

if TYPE_CHECKING:
    from ...serializers.columns.bytes_at import Places
    from ..columnar.runs import Run
    from ..formats.flink.blocks import Block
    from .plans import StatePlan

_FRAME_BYTES = 8


@attrs.define
class PartSums:
    """The entries and bytes of each key group, or of each partition.

    Attributes:
        start: The first key group or partition.
        entries: The numbers of entries.
        sizes: Their bytes.
    """

    start: int
    entries: Any
    sizes: Any

    @classmethod
    def of(cls, parts: range) -> PartSums:
        """Return the sums of some parts, which are 0."""
        return cls(parts.start, np.zeros(len(parts), np.int64), np.zeros(len(parts), np.int64))

    def add(self, parts: Places, sizes: Places) -> None:
        """Add entries, ordered by their parts."""
        begins = np.concatenate([[0], 1 + np.flatnonzero(np.diff(parts))]).astype(np.int64)
        at = parts[begins] - self.start
        self.entries[at] += np.diff(np.append(begins, len(parts)))
        self.sizes[at] += np.add.reduceat(sizes, begins)

    def merge(self, other: PartSums) -> None:
        """Add the sums of some of these parts."""
        among = slice(other.start - self.start, other.start - self.start + len(other.entries))
        self.entries[among] += other.entries
        self.sizes[among] += other.sizes


@attrs.define
class StateTally:
    """The statistics of one state.

    Attributes:
        parts: The sums of its key groups; None: it has none, as operator state.
        fields: The fields of its entries.
        entries: The number of entries.
        size_bytes: Their bytes with framing.
        key_bytes: The bytes of their keys.
        value_bytes: The bytes of their values.
        value_sizes: The distribution of the bytes of values.
        top: Its heaviest keys.
        unknown: Why keys cannot be told apart, or "".
        lengths: How many entries its maps have.
        not_decoded: Why not all values were decoded, or "".
        not_counted: Why entries could not be counted, or "".
    """

    parts: PartSums | None
    fields: FieldTallies
    entries: int = 0
    size_bytes: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    value_sizes: DistributionTally = attrs.field(factory=DistributionTally)
    top: Top = attrs.field(factory=Top)
    unknown: str = ""
    lengths: DistributionTally | None = None
    not_decoded: str = ""
    not_counted: str = ""

    @classmethod
    def of(cls, plan: StatePlan, reference_ms: int, parts: range | None) -> StateTally:
        """Return the statistics of a state that was not read yet, with some key groups or partitions; None: none."""
        sums = None if parts is None else PartSums.of(parts)
        fields = FieldTallies(AgesTally(reference_ms, plan.time_to_live_ms, is_left=plan.stores_expiry))
        lengths = DistributionTally() if plan.kind.has_user_keys and parts is not None else None
        return cls(sums, fields, lengths=lengths, not_decoded=plan.not_decoded)

    def add_run(self, run: Run) -> None:
        """Add the sizes of a run."""
        keys, values = run.key_ends - run.key_starts, run.value_ends - run.value_starts
        self.add_sizes(keys, values, run.key_groups, _FRAME_BYTES)

    def add_sizes(self, keys: Places, values: Places, parts: Places | None, frame_bytes: int = 0) -> None:
        """Add the sizes of some entries: of their keys, of their values, and of what frames each."""
        if not len(values):
            return
        self.entries += len(values)
        sizes = keys + values + frame_bytes
        self.key_bytes += int(keys.sum())
        self.value_bytes += int(values.sum())
        self.size_bytes += int(sizes.sum())
        self.value_sizes.add(values)
        if self.parts is not None and parts is not None:
            self.parts.add(parts, sizes)

    def add_oversized(self, block: Block, why: str) -> None:
        """Add an entry whose value was skipped."""
        keys = np.array([len(block.data) - _FRAME_BYTES // 2])
        self.add_sizes(keys, np.array([block.oversized]), np.array([block.key_group]), _FRAME_BYTES)
        self.not_decoded = self.unknown = why

    def merge(self, other: StateTally) -> None:
        """Add what another tally has counted."""
        for name in ("entries", "size_bytes", "key_bytes", "value_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("unknown", "not_decoded", "not_counted"):
            setattr(self, name, getattr(self, name) or getattr(other, name))
        self.value_sizes.merge(other.value_sizes)
        self.fields.merge(other.fields)
        self.top.add(other.top.keys, other.top.missing_bytes)
        if self.parts is not None and other.parts is not None:
            self.parts.merge(other.parts)
        if self.lengths is not None and other.lengths is not None:
            self.lengths.merge(other.lengths)
        else:  # keys were forgotten, so that some maps may have been counted in parts
            self.lengths = None


@attrs.define
class OperatorTally:
    """The statistics of an operator.

    Attributes:
        states: Those of its states, by scope and name: a keyed state and a list may have one name.
        top: The heaviest keys over all keyed states.
    """

    states: dict[tuple[str, str], StateTally] = attrs.field(factory=dict)
    top: Top = attrs.field(factory=Top)

    def merge(self, other: OperatorTally) -> None:
        """Add what another tally has counted."""
        for place, state in other.states.items():
            self.states[place].merge(state)
        self.top.add(other.top.keys, other.top.missing_bytes)
