"""Distributions of numbers by their binary digits, and the heaviest of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ...compat.profiles import Distribution

if TYPE_CHECKING:
    from ...serializers.columns.bytes_at import Places

_BUCKETS = 65
_POWERS = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64)).astype(np.uint64)[:63].astype(np.int64)


@attrs.define
class DistributionTally:
    """Counts whole numbers that are not negative."""

    count: int = 0
    total: int = 0
    smallest: int | None = None
    largest: int | None = None
    buckets: Any = attrs.field(factory=lambda: np.zeros(_BUCKETS, np.int64))

    def add(self, numbers: Places) -> None:
        """Add numbers."""
        if not len(numbers):
            return
        smallest, largest = int(numbers.min()), int(numbers.max())
        self.count += len(numbers)
        # A sum of int64 may overflow only where the numbers are times that nobody has written.
        is_safe = largest < 1 << 62 - len(numbers).bit_length()
        self.total += int(numbers.sum()) if is_safe else sum(numbers.tolist())
        self._widen(smallest, largest)
        self.buckets += np.bincount(np.searchsorted(_POWERS, numbers, side="right"), minlength=_BUCKETS)

    def merge(self, other: DistributionTally) -> None:
        """Add what another tally has counted."""
        if other.smallest is None or other.largest is None:
            return
        self.count += other.count
        self.total += other.total
        self._widen(other.smallest, other.largest)
        self.buckets += other.buckets

    def _widen(self, smallest: int, largest: int) -> None:
        self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        self.largest = largest if self.largest is None else max(self.largest, largest)

    def result(self) -> Distribution:
        """Return the distribution."""
        used = np.flatnonzero(self.buckets)
        buckets = self.buckets[: used[-1] + 1].tolist() if len(used) else ()
        return Distribution(self.count, self.total, self.smallest, self.largest, tuple(buckets))
