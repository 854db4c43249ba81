"""A cache for work on many similar things, done one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Cached answers by key. Those not used in the last two rounds are dropped, so that memory use stays flat."""

    def __init__(self) -> None:
        """Start the first round with an empty cache."""
        self._before: dict[K, V] = {}
        self._now: dict[K, V] = {}

    def once(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached answer, or compute and cache it."""
        if key in self._now:
            return self._now[key]
        value = self._now[key] = self._before[key] if key in self._before else make()
        return value

    def turn(self) -> None:
        """Start the next round."""
        self._before, self._now = self._now, {}
