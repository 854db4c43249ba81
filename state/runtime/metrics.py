"""Metrics of a function, with PyFlink's names. They are kept in memory; an engine may report them."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from ...serializers.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

_M = TypeVar("_M", "Counter", "Meter", "Distribution")


class Counter:
    """A number that goes up and down."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add to the number."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract from the number."""
        self._count -= n

    def get_count(self) -> int:
        """Return the number."""
        return self._count


class Meter:
    """Counts events, and their rate.

    Args:
        time_span_in_seconds: The time over which the rate is taken.
    """

    __slots__ = ("_count", "_events", "_span_s")

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        self._span_s = time_span_in_seconds
        self._count = 0
        self._events: deque[tuple[int, int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """Count events that happen now."""
        now_s = int(time.monotonic())
        self._count += value
        if self._events and self._events[-1][0] == now_s:
            value += self._events.pop()[1]
        self._events.append((now_s, value))
        self._forget(now_s)

    def get_count(self) -> int:
        """Return the number of all events."""
        return self._count

    def get_rate(self) -> float:
        """Return the number of events a second, over the time span."""
        self._forget(int(time.monotonic()))
        return sum(count for _, count in self._events) / self._span_s

    def _forget(self, now_s: int) -> None:
        while self._events and self._events[0][0] <= now_s - self._span_s:
            self._events.popleft()


class Distribution:
    """The count, sum, smallest and largest of the values that it was updated with.

    Attributes:
        count: The number of values.
        sum: Their sum.
        min: The smallest one; None: there is none yet.
        max: The largest one; None: there is none yet.
    """

    __slots__ = ("count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        """Take a value into account."""
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class MetricGroup:
    """A named container of metrics and of further groups. Asking twice for one name returns the same metric.

    Attributes:
        metrics: The metrics by name; a gauge is its function.
        groups: The groups in it by name.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, Counter | Meter | Distribution | Callable[[], int]] = {}
        self.groups: dict[str, MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of a name; with `extra`, the group of that name in it, as for a key and a value."""
        group = self.groups.setdefault(name, MetricGroup())
        return group if extra is None else group.add_group(extra)

    def counter(self, name: str) -> Counter:
        """Return the counter of a name; raises `DeclarationError` where a metric of another kind has the name."""
        return self._of(name, Counter())

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a function that returns the current value of a gauge."""
        self.metrics[name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of a name."""
        return self._of(name, Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a name."""
        return self._of(name, Distribution())

    def _of(self, name: str, new: _M) -> _M:
        known = self.metrics.setdefault(name, new)
        if type(known) is not type(new):
            raise DeclarationError(f"the metric {name!r} is a {type(known).__name__}, not a {type(new).__name__}")
        return known
