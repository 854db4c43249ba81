"""How state is spread over key groups, subtasks or partitions."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection


@attrs.frozen
class Share:
    """The size of a range of key groups: those of a subtask, or of a bar in a chart.

    Attributes:
        key_groups: The range of key groups.
        entries: The number of entries of keyed state.
        size_bytes: The bytes of these entries.
    """

    key_groups: range
    entries: int
    size_bytes: int


@attrs.frozen
class Spread:
    """The distribution of sizes, in bytes.

    Attributes:
        smallest: The smallest size.
        median: The median.
        largest: The largest size.
        average: The average.
    """

    smallest: int
    median: float
    largest: int
    average: float

    @classmethod
    def of(cls, sizes: Collection[int]) -> Spread:
        """Return the distribution of sizes; at least one is required."""
        return cls(min(sizes), statistics.median(sizes), max(sizes), statistics.fmean(sizes))

    @property
    def skew(self) -> float | None:
        """The ratio of the largest size to the average: 1 where all are equal; None where all are 0."""
        return self.largest / self.average if self.average else None
