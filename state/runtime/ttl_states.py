"""Handles of states with TTL: they stamp what a function writes, and hide what has expired from what it reads.

The backend's handle holds `TtlValue` objects. A value expires when its time stamp plus the time to live is reached.
Source: Flink's documentation, "State Time-To-Live (TTL)".
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.ttl import TtlValue
from ...serializers.errors import ValueNotConvertible
from .functions import AggregateFunction
from .states import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from .time_to_live import StateTtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..backends.keyed_backend import KeyedStateBackend

_MILLISECOND = timedelta(milliseconds=1)


class Expiry:
    """Decides what has expired, and stamps values.

    Args:
        config: How long the values live.
        clock: Returns the processing time in milliseconds since 1970 UTC.

    Attributes:
        now: The clock.
        renews_on_read: Whether a read renews the time stamp.
        shows_expired: Whether expired values can be read until they are removed.
    """

    __slots__ = ("_ttl_ms", "now", "renews_on_read", "shows_expired")

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int]) -> None:
        self._ttl_ms = config.get_ttl() // _MILLISECOND
        self.now = clock
        self.renews_on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        shows = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        self.shows_expired = config.get_state_visibility() is shows

    def stamp(self, value: Any) -> TtlValue[Any]:
        """Return a value with the current time."""
        return TtlValue(self.now(), value)

    def has_expired(self, stamped: TtlValue[Any]) -> bool:
        """Whether a value has expired by now."""
        return stamped.last_access_ms <= self.now() - self._ttl_ms

    def is_past(self, stamp_ms: int) -> bool:
        """Whether values with this time stamp have expired by now."""
        return stamp_ms <= self.deadline()

    def deadline(self) -> int:
        """Return the time stamp in milliseconds up to which values have expired by now."""
        return self.now() - self._ttl_ms


class _TtlState(State):
    """What all handles with TTL have in common.

    Args:
        stored: The backend's handle of the stamped values.
        expiry: Decides what has expired.
    """

    __slots__ = ("_cleaner", "_expiry", "_stored")

    def __init__(self, stored: Any, expiry: Expiry) -> None:
        self._stored = stored
        self._expiry = expiry
        self._cleaner: Cleaner | None = None

    def clear(self) -> None:
        self._stored.clear()

    def set_current_namespace(self, namespace: Any) -> None:
        self._stored.set_current_namespace(namespace)

    def clean_up_at_accesses(self, cleaner: Cleaner) -> None:
        """Clean up at accesses: each of them looks at some further keys."""
        self._cleaner = cleaner

    @staticmethod
    def past_of(held: Iterable[tuple[Any, Any]], deadline: int) -> list[Any]:
        """Return the keys of which the backend holds something with a time stamp (ms) up to this one."""
        return [key for key, stamped in held if stamped.last_access_ms <= deadline]

    @abstractmethod
    def remove_expired(self, deadline: int) -> None:
        """Remove what the current key has with time stamps up to this one, in milliseconds."""

    def _accessed(self) -> None:
        if self._cleaner is not None:
            self._cleaner.step()

    def _read(
        self, stamped: TtlValue[Any] | None, remove: Callable[[], None], renew: Callable[[TtlValue[Any]], None]
    ) -> TtlValue[Any] | None:
        """Return a stored value if it can be seen; an expired one is removed, another may get a new stamp."""
        if stamped is None:
            return None
        if self._expiry.has_expired(stamped):
            remove()
            return stamped if self._expiry.shows_expired else None
        if self._expiry.renews_on_read:
            renew(self._expiry.stamp(stamped.value))
        return stamped


class TtlValueState(_TtlState, ValueState[Any]):
    """Value state with TTL.

    Args:
        stored: The backend's handle.
        expiry: Decides what has expired.
        default: Returns the result where there is no value.
    """

    __slots__ = ("_default",)

    def __init__(self, stored: ValueState[TtlValue[Any]], expiry: Expiry, default: Callable[[], Any]) -> None:
        super().__init__(stored, expiry)
        self._default = default

    def value(self) -> Any:
        self._accessed()
        found = self._read(self._stored.value(), self._stored.clear, self._stored.update)
        return self._default() if found is None else found.value

    def update(self, value: Any) -> None:
        self._accessed()
        self._stored.update(None if value is None else self._expiry.stamp(value))

    def remove_expired(self, deadline: int) -> None:
        found = self._stored.value()
        if found is not None and found.last_access_ms <= deadline:
            self._stored.clear()


class TtlListState(_TtlState, ListState[Any]):
    """List state with TTL: each element expires by itself."""

    __slots__ = ()

    def get(self) -> list[Any]:
        self._accessed()
        stored = self._stored.get()
        expiry = self._expiry
        living = [element for element in stored if not expiry.has_expired(element)]
        if expiry.renews_on_read and living:
            self._stored.update([expiry.stamp(element.value) for element in living])
        elif stored and len(living) < len(stored):
            self._stored.update(living)
        return [element.value for element in (stored if expiry.shows_expired else living)]

    def add(self, value: Any) -> None:
        self._accessed()
        self._stored.add(self._stamped(value))

    def add_all(self, values: list[Any]) -> None:
        self._accessed()
        self._stored.add_all([self._stamped(value) for value in values])

    def update(self, values: list[Any]) -> None:
        self._accessed()
        self._stored.update([self._stamped(value) for value in values])

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._stored.merge_namespaces(target, sources)

    @staticmethod
    def past_of(held: Iterable[tuple[Any, Iterable[TtlValue[Any]]]], deadline: int) -> list[Any]:
        return [key for key, elements in held if any(element.last_access_ms <= deadline for element in elements)]

    def remove_expired(self, deadline: int) -> None:
        stored = self._stored.get()
        living = [element for element in stored if element.last_access_ms > deadline]
        if len(living) < len(stored):
            self._stored.update(living)

    def _stamped(self, value: Any) -> TtlValue[Any]:
        if value is None:
            raise ValueNotConvertible("a list has no None as an element", advice="leave it out, as Flink requires")
        return self._expiry.stamp(value)


class TtlMapState(_TtlState, MapState[Any, Any]):
    """Map state with TTL: each value expires by itself."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        found = self._at(key)
        return None if found is None else found.value

    def contains(self, key: Any) -> bool:
        return self._at(key) is not None

    def put(self, key: Any, value: Any) -> None:
        self._accessed()
        self._stored.put(key, self._expiry.stamp(value))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        self._accessed()
        self._stored.put_all({key: self._expiry.stamp(value) for key, value in dict_value.items()})

    def remove(self, key: Any) -> None:
        self._accessed()
        self._stored.remove(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        self._accessed()
        for key, stamped in list(self._stored.items()):
            found = self._seen(key, stamped)
            if found is not None:
                yield key, found.value

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        return next(self.items(), None) is None

    @staticmethod
    def past_of(held: Iterable[tuple[Any, dict[Any, TtlValue[Any]]]], deadline: int) -> list[Any]:
        found = ((key, entries.values()) for key, entries in held)
        return TtlListState.past_of(found, deadline)

    def remove_expired(self, deadline: int) -> None:
        for key, stamped in list(self._stored.items()):
            if stamped.last_access_ms <= deadline:
                self._stored.remove(key)

    def _at(self, key: Any) -> TtlValue[Any] | None:
        self._accessed()
        return self._seen(key, self._stored.get(key))

    def _seen(self, key: Any, stamped: TtlValue[Any] | None) -> TtlValue[Any] | None:
        return self._read(stamped, lambda: self._stored.remove(key), lambda renewed: self._stored.put(key, renewed))


@attrs.frozen
class _Renewal:
    """Is added to the backend's state to renew the time stamp of what it has."""


_RENEWAL = _Renewal()


@attrs.frozen
class TtlReduce:
    """The reduce function of stamped values: one that has expired gives way to the other.

    Attributes:
        reduce: The function of the values.
        expiry: Decides what has expired.
    """

    reduce: Callable[[Any, Any], Any]
    expiry: Expiry

    def __call__(self, one: TtlValue[Any], other: TtlValue[Any]) -> TtlValue[Any]:
        if other.value is _RENEWAL:
            return self.expiry.stamp(one.value)
        if self.expiry.has_expired(one):
            return other
        if self.expiry.has_expired(other):
            return one
        return self.expiry.stamp(self.reduce(one.value, other.value))


@attrs.frozen
class TtlAggregate(AggregateFunction[Any, TtlValue[Any], TtlValue[Any]]):
    """The aggregate function of stamped accumulators. Its result is the accumulator.

    Attributes:
        function: The function of the accumulators.
        expiry: Decides what has expired.
    """

    function: AggregateFunction[Any, Any, Any]
    expiry: Expiry

    def create_accumulator(self) -> TtlValue[Any]:
        return self.expiry.stamp(self.function.create_accumulator())

    def add(self, value: Any, accumulator: TtlValue[Any]) -> TtlValue[Any]:
        if value is _RENEWAL:
            return self.expiry.stamp(accumulator.value)
        expired = self.expiry.has_expired(accumulator)
        begun = self.function.create_accumulator() if expired else accumulator.value
        return self.expiry.stamp(self.function.add(value, begun))

    def get_result(self, accumulator: TtlValue[Any]) -> TtlValue[Any]:
        return accumulator

    def merge(self, acc_a: TtlValue[Any], acc_b: TtlValue[Any]) -> TtlValue[Any]:
        if self.expiry.has_expired(acc_a):
            return acc_b
        if self.expiry.has_expired(acc_b):
            return acc_a
        return self.expiry.stamp(self.function.merge(acc_a.value, acc_b.value))


class _TtlMergingState(_TtlState):
    """A handle of one stamped value into which others are merged."""

    __slots__ = ()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the state of the namespaces `sources` into that of `target`, and remove the sources."""
        self._stored.merge_namespaces(target, sources)

    def remove_expired(self, deadline: int) -> None:
        found = self._stored.get()
        if found is not None and found.last_access_ms <= deadline:
            self._stored.clear()

    def _found(self, renewal: Any) -> TtlValue[Any] | None:
        self._accessed()
        return self._read(self._stored.get(), self._stored.clear, lambda _: self._stored.add(renewal))


class TtlReducingState(_TtlMergingState, ReducingState[Any]):
    """Reducing state with TTL; the backend's handle has a `TtlReduce`."""

    __slots__ = ()

    def get(self) -> Any:
        found = self._found(TtlValue(0, _RENEWAL))
        return None if found is None else found.value

    def add(self, value: Any) -> None:
        self._accessed()
        self._stored.add(None if value is None else self._expiry.stamp(value))


class TtlAggregatingState(_TtlMergingState, AggregatingState[Any, Any]):
    """Aggregating state with TTL; the backend's handle has a `TtlAggregate`.

    Args:
        stored: The backend's handle.
        expiry: Decides what has expired.
        function: Makes the results.
    """

    __slots__ = ("_function",)

    def __init__(self, stored: Any, expiry: Expiry, function: AggregateFunction[Any, Any, Any]) -> None:
        super().__init__(stored, expiry)
        self._function = function

    def get(self) -> Any:
        found = self._found(_RENEWAL)
        return None if found is None else self._function.get_result(found.value)

    def add(self, value: Any) -> None:
        self._accessed()
        self._stored.add(value)


class Cleaner:
    """Looks for expired values of any keys, some at a time, again and again. The state has no namespaces.

    It looks at what the backend holds, and goes by way of the key only to what has expired: so a look costs little.

    Args:
        backend: Has the keys.
        name: The name of the state.
        state: Its handle.
        expiry: Decides what has expired.
        count: How many keys are looked at in a step.
    """

    __slots__ = ("_backend", "_count", "_expiry", "_held", "_name", "_state")

    def __init__(self, backend: KeyedStateBackend, name: str, state: _TtlState, expiry: Expiry, count: int) -> None:
        self._backend, self._name, self._state, self._expiry, self._count = backend, name, state, expiry, count
        self._held: Iterator[tuple[Any, Any]] = iter(())

    def step(self) -> None:
        """Look at the next keys; the current key stays."""
        current = self._backend.current_key
        if current is None:
            return
        found = list(islice(self._held, self._count))
        if len(found) < self._count:
            self._held = self._backend.get_held(self._name)
        deadline = self._expiry.deadline()
        past = self._state.past_of(found, deadline)
        if past:
            for key in past:
                self._backend.set_current_key(key)
                self._state.remove_expired(deadline)  # looks again: the key may have another value by now
            self._backend.set_current_key(current)
