"""Timers on the heap: a table of those that are set, and a heap of their times.

A timer that is removed stays in the heap until its time, unless there are too many such.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from ....serializers.errors import ValueNotConvertible
from .tables import StateTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....serializers.serializer import TypeSerializer
    from .tables import CurrentKey

_LEAST, _PAST = -(1 << 63), 1 << 63
_FEW = 1 << 10


class HeapTimerQueue(StateTable):
    """A timer queue. Its table has (time, address) -> the number of the timer's registration."""

    __slots__ = ("_count", "_heap", "_registered")

    def __init__(self, backend: CurrentKey, namespace: TypeSerializer[Any]) -> None:
        super().__init__(backend, namespace)
        self._heap: list[tuple[int, int, int, Any]] = []
        self._count = self._registered = 0

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Add a timer; return False where there is the same one already.

        Raises:
            ValueNotConvertible: The time does not fit 64 bits, or as `set_current_key`.
        """
        if not _LEAST <= timestamp < _PAST:
            raise ValueNotConvertible(f"{timestamp} does not fit the time of a timer (64 bits)")
        slot, address = self._place(timestamp, key, namespace)
        return self.add_at(slot, address)

    def add_at(self, slot: int, address: Any) -> bool:
        """Add a timer at an address of the table; return False where there is one."""
        if address in self.groups[slot]:
            return False
        self._registered += 1
        self._count += 1
        self.writable(slot)[address] = self._registered
        heapq.heappush(self._heap, (address[0], self._registered, slot, address))
        return True

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove a timer; there may be none."""
        if self.remove_at(*self._place(timestamp, key, namespace)) is None:
            return
        self._count -= 1
        if len(self._heap) > 2 * self._count + _FEW:
            self._heap = list(filter(self._is_set, self._heap))
            heapq.heapify(self._heap)

    def first_timestamp(self) -> int | None:
        """Return the time of the first timer in milliseconds; None where there is none."""
        while self._heap and not self._is_set(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def poll(self, until: int) -> tuple[int, Any, Any] | None:
        """Remove and return the first timer that fires at `until` or before, as (time, key, namespace); else None."""
        first = self.first_timestamp()
        if first is None or first > until:
            return None
        _, _, slot, address = heapq.heappop(self._heap)
        self.remove_at(slot, address)
        self._count -= 1
        return first, *self.split(address[1])

    def timers(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield all timers, in no order."""
        for slot in range(len(self.groups)):
            for timestamp, address in list(self.groups[slot]):
                yield timestamp, *self.split(address)

    def _place(self, timestamp: int, key: Any, namespace: Any) -> tuple[int, tuple[int, Any]]:
        slot, key = self._backend.locate(key)
        return slot, (timestamp, self.address_in(namespace, key))

    def _is_set(self, timer: tuple[int, int, int, Any]) -> bool:
        _, registration, slot, address = timer
        return bool(self.groups[slot].get(address) == registration)
