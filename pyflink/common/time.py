"""PyFlink's words for lengths of time: each is a function that returns a timedelta."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError
from ...serializers.temporal.values import Instant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Duration", "Instant", "Time"]


def _of(unit: str) -> staticmethod[[int], timedelta]:
    """Return a function from a number of such units to a timedelta."""
    return staticmethod(lambda count: timedelta(**{unit: count}))


class Time:
    """Functions that return a timedelta: `Time.seconds(1)`."""

    milliseconds: Callable[[int], timedelta] = _of("milliseconds")
    seconds: Callable[[int], timedelta] = _of("seconds")
    minutes: Callable[[int], timedelta] = _of("minutes")
    hours: Callable[[int], timedelta] = _of("hours")
    days: Callable[[int], timedelta] = _of("days")


class Duration:
    """Functions that return a timedelta: `Duration.of_seconds(1)`."""

    of_millis: Callable[[int], timedelta] = _of("milliseconds")
    of_seconds: Callable[[int], timedelta] = _of("seconds")
    of_minutes: Callable[[int], timedelta] = _of("minutes")
    of_hours: Callable[[int], timedelta] = _of("hours")
    of_days: Callable[[int], timedelta] = _of("days")

    @staticmethod
    def of_nanos(nanos: int) -> timedelta:
        """Return a timedelta.

        Raises:
            DeclarationError: It is no whole number of microseconds, which is the finest that a timedelta has.
        """
        micros, rest = divmod(nanos, 1000)
        if rest:
            raise DeclarationError(f"{nanos} ns is finer than a timedelta", advice="round it to microseconds")
        return timedelta(microseconds=micros)
