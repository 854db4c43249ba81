"""What was worked out for one of many things that are much alike, kept for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Answers by what was asked. Those that one turn and the next did not need are forgotten: memory stays flat."""

    def __init__(self) -> None:
        """Begin the first turn, knowing nothing."""
        self._before: dict[K, V] = {}
        self._now: dict[K, V] = {}

    def once(self, key: K, make: Callable[[], V]) -> V:
        """Return the answer that is known, else make it."""
        if key in self._now:
            return self._now[key]
        value = self._now[key] = self._before[key] if key in self._before else make()
        return value

    def turn(self) -> None:
        """Begin the next turn."""
        self._before, self._now = self._now, {}
