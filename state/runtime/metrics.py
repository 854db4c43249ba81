"""Metrics of a function, with PyFlink's names. They are kept in memory; an engine may report them."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import attrs

from ...serializers.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Metric: TypeAlias = "Counter | Meter | Distribution | Callable[[], int]"
    """A gauge is its function."""

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
        self.reset()

    def reset(self) -> None:
        """Forget all values: what follows is reported by itself."""
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
        self.metrics: dict[str, Metric] = {}
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


@attrs.frozen
class Figure:
    """A figure of a metric, for an interval.

    Attributes:
        name: The name of the metric, with those of its groups before it, and of the part of a distribution or gauge.
        how: How the figures of several subtasks become one: "sum", "min" or "max".
        value: The value.
    """

    name: str
    how: str
    value: int


class MetricReporter:
    """Reports the metrics of a group for one interval after the other, such as batches.

    Args:
        group: The group.
    """

    def __init__(self, group: MetricGroup) -> None:
        self._group = group
        self._counts: dict[str, int] = {}

    def report(self) -> Iterator[Figure]:
        """Yield what was counted since the last report, and what gauges return now.

        A counter or meter is one figure. A distribution is `NAME.count`, `NAME.sum`, `NAME.min` and `NAME.max`, and
        is reset by a report; a gauge is a distribution of one value for each subtask.
        """
        for name, metric in _named(self._group):
            if isinstance(metric, Counter | Meter):
                count = metric.get_count()
                yield Figure(name, "sum", count - self._counts.get(name, 0))
                self._counts[name] = count
                continue
            if isinstance(metric, Distribution):
                yield from _spread(name, metric)
                metric.reset()
            else:
                values = Distribution()
                values.update(_value_of(name, metric))
                yield from _spread(name, values)


def _spread(name: str, values: Distribution) -> Iterator[Figure]:
    yield Figure(f"{name}.count", "sum", values.count)
    yield Figure(f"{name}.sum", "sum", int(values.sum))
    if values.min is not None and values.max is not None:
        yield Figure(f"{name}.min", "min", int(values.min))
        yield Figure(f"{name}.max", "max", int(values.max))


def _named(group: MetricGroup, before: str = "") -> Iterator[tuple[str, Metric]]:
    """Yield the metrics of a group and of the groups in it, with their full names."""
    for name, metric in group.metrics.items():
        yield before + name, metric
    for name, inner in group.groups.items():
        yield from _named(inner, f"{before}{name}.")


def _value_of(name: str, gauge: Callable[[], int]) -> int:
    try:
        return gauge()
    except Exception as error:
        error.add_note(f"in the gauge {name!r}")
        raise
