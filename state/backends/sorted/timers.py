"""Timer queues over a sorted table.

    key group, i64 time with the sign bit flipped, key, namespace -> no bytes

In a table the timers of a key group are in the order of their time, so the first timer of a subtask is the least of
the first ones of its key groups. A queue holds the first timers of each key group in memory, and a heap of the key
groups by their first timer. A queue that holds all of them (`timer-service.factory: heap`) never reads the table
again. Source: format notes 5.5.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from ....serializers.errors import ValueNotConvertible, shown
from ....serializers.flink.namespaces import VoidNamespaceSerializer
from ....serializers.views import DataInputView
from ..key_bytes import VOID_BYTES, encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ....serializers.serializer import TypeSerializer
    from ..key_bytes import CurrentKey
    from .write_cache import CachedTable

_SIGN = 1 << 63
_TIME_BYTES = 8
HELD_TIMERS = 64
"""How many timers of a key group are held in memory by default, and are read at once."""


class _Group:
    """The first timers of a key group, as the bytes behind the key group in ascending order.

    Attributes:
        first: The timers.
        is_all: Whether the table has no other timers of this key group.
    """

    __slots__ = ("first", "is_all")

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self.is_all = False


class SortedTimerQueue:
    """The timers of a service and a time domain in a sorted table.

    Args:
        table: Their table.
        current: The key of the backend, which encodes keys.
        key_groups: The key groups of the subtask.
        key: The serializer of the keys.
        namespace: The serializer of the namespaces.
        held: How many timers of a key group are held in memory, by and large.
    """

    def __init__(
        self,
        table: CachedTable,
        current: CurrentKey,
        key_groups: range,
        key: TypeSerializer[Any],
        namespace: TypeSerializer[Any],
        held: int = HELD_TIMERS,
    ) -> None:
        self._table, self._current, self._prefix, self._held = table, current, current.prefix, held
        self._key, self._namespace = key, namespace
        is_void = isinstance(namespace, VoidNamespaceSerializer)
        self._encode_namespace: Callable[[Any], bytes] = (lambda _: VOID_BYTES) if is_void else encoder(namespace)
        self._groups = {number: _Group() for number in key_groups}
        self._heap: list[tuple[bytes, int]] = []
        for number in key_groups:
            self._read_first(number)

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Add a timer; return False where there is the same one already."""
        timer = self._encoded(timestamp, key, namespace)
        number, rest = self._split(timer)
        if self._has(number, rest, timer):
            return False
        self._table.put(timer, b"")
        group = self._groups[number]
        first = group.first
        if group.is_all or rest < first[-1]:
            insort(first, rest)
            if len(first) > 2 * self._held:
                del first[self._held :]
                group.is_all = False
            if first[0] == rest:
                heappush(self._heap, (rest, number))
        return True

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove a timer; there may be none."""
        timer = self._encoded(timestamp, key, namespace)
        number, rest = self._split(timer)
        if not self._has(number, rest, timer):
            return
        self._table.put(timer, None)
        first = self._groups[number].first
        at = bisect_left(first, rest)
        if at < len(first):
            del first[at]
            if at == 0:
                self._push_first(number)

    def first_timestamp(self) -> int | None:
        """Return the time of the first timer in milliseconds; None where there is none."""
        number = self._first_group()
        return None if number is None else _time_of(self._groups[number].first[0])

    def poll(self, until: int) -> tuple[int, Any, Any] | None:
        """Remove and return the first timer that fires at `until` or before, as (time, key, namespace); else None."""
        number = self._first_group()
        if number is None:
            return None
        first = self._groups[number].first
        if _time_of(first[0]) > until:
            return None
        rest = first.pop(0)
        self._table.put(number.to_bytes(self._prefix, "big") + rest, None)
        heappop(self._heap)
        self._push_first(number)
        return self._decoded(rest)

    def timers(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield all timers, in no order."""
        for number, group in self._groups.items():
            if group.is_all:
                yield from map(self._decoded, tuple(group.first))
            else:
                for keys, _ in self._table.items(*self._bounds(number)):
                    yield from (self._decoded(key[self._prefix :]) for key in keys)

    def _encoded(self, timestamp: int, key: Any, namespace: Any) -> bytes:
        if not isinstance(timestamp, int) or not -_SIGN <= timestamp < _SIGN:
            raise ValueNotConvertible(f"{shown(timestamp)} is not the time of a timer: milliseconds in 64 bits")
        current, at = self._current, self._prefix
        plain = current.plain if key is current.key else current.encoded(key)[0]
        time = (timestamp + _SIGN).to_bytes(_TIME_BYTES, "big")
        return plain[:at] + time + plain[at:] + self._encode_namespace(namespace)

    def _decoded(self, rest: bytes) -> tuple[int, Any, Any]:
        view = DataInputView(rest, _TIME_BYTES)
        key = self._key.deserialize(view)
        return _time_of(rest), key, self._namespace.deserialize(view)

    def _split(self, timer: bytes) -> tuple[int, bytes]:
        return int.from_bytes(timer[: self._prefix], "big"), timer[self._prefix :]

    def _bounds(self, number: int) -> tuple[bytes, bytes]:
        """Return the bounds of a key group's entries."""
        return number.to_bytes(self._prefix, "big"), (number + 1).to_bytes(self._prefix, "big")

    def _has(self, number: int, rest: bytes, timer: bytes) -> bool:
        """Whether there is a timer, given its key group, what follows that, and both."""
        group = self._groups[number]
        if not group.is_all and rest > group.first[-1]:
            return self._table.get(timer) is not None
        at = bisect_left(group.first, rest)
        return at < len(group.first) and group.first[at] == rest

    def _read_first(self, number: int) -> None:
        """Read the first timers of a key group, of which none is held, and put it on the heap."""
        group, found = self._groups[number], list[bytes]()
        for keys, _ in self._table.items(*self._bounds(number)):
            found += keys
            if len(found) > self._held:
                break
        group.first = [key[self._prefix :] for key in found[: self._held]]
        group.is_all = len(found) <= self._held
        self._push_first(number)

    def _push_first(self, number: int) -> None:
        """Put a key group on the heap by its first timer, which may have to be read."""
        group = self._groups[number]
        if group.first:
            heappush(self._heap, (group.first[0], number))
        elif not group.is_all:
            self._read_first(number)

    def _first_group(self) -> int | None:
        """Return the key group with the first timer; entries of the heap whose timer was removed are dropped."""
        heap = self._heap
        while heap:
            rest, number = heap[0]
            first = self._groups[number].first
            if first and first[0] == rest:
                return number
            heappop(heap)
        return None


def _time_of(rest: bytes) -> int:
    return int.from_bytes(rest[:_TIME_BYTES], "big") - _SIGN
