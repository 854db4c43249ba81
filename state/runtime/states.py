"""The handles through which a function meets its state, as in `pyflink.datastream.state`.

A handle follows the current key, and the current namespace where the state has one. A value that was handed over must
not be changed afterwards: on the heap it is the state itself. Source: runtime notes, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...compat.description import StateKind
from ...serializers.serializer import K, V

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """The base class of handles."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove the value of the current key."""

    @abstractmethod
    def set_current_namespace(self, namespace: Any) -> None:
        """Set the namespace that the handle follows, such as a window."""


class ValueState(State, Generic[V]):
    """State with one value for each key."""

    __slots__ = ()
    kind: ClassVar[StateKind] = StateKind.VALUE

    @abstractmethod
    def value(self) -> V | None:
        """Return the value of the current key; where it has none, the descriptor's default, else None."""

    @abstractmethod
    def update(self, value: V | None) -> None:
        """Replace the value of the current key; None removes it, as in Flink."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added and from which a result is read."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the result for the current key."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add an element for the current key."""


class MergingState(AppendingState[IN, OUT]):
    """State whose namespaces can be merged, as session windows need it."""

    __slots__ = ()

    @abstractmethod
    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the current key's state of the namespaces `sources` into that of `target`, and remove the sources."""


class ListState(MergingState[V, "Iterable[V]"], Generic[V]):
    """State with a list for each key. Where a key has none, `get` returns an empty list."""

    __slots__ = ()
    kind: ClassVar[StateKind] = StateKind.LIST

    @abstractmethod
    def get(self) -> list[V]:
        """Return the elements of the current key. A change of this list does not change the state."""

    @abstractmethod
    def update(self, values: list[V]) -> None:
        """Replace the list of the current key; an empty list removes it."""

    @abstractmethod
    def add_all(self, values: list[V]) -> None:
        """Append elements for the current key, which are written at once."""

    def __iter__(self) -> Iterator[V]:
        return iter(self.get())


class ReducingState(MergingState[V, V], Generic[V]):
    """State with one value for each key, into which added elements are reduced. Adding None removes it, as in Flink."""

    __slots__ = ()
    kind: ClassVar[StateKind] = StateKind.REDUCING


class AggregatingState(MergingState[IN, OUT]):
    """State with one accumulator for each key, from which the result is made when it is read.

    Adding None removes it, as in Flink.
    """

    __slots__ = ()
    kind: ClassVar[StateKind] = StateKind.AGGREGATING


class ReadOnlyBroadcastState(ABC, Generic[K, V]):
    """A map that is equal in every subtask, to read. Its values must not be changed."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of a map key; None where there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is such a map key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return the entries of the map."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values of the map."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the map has no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A map that is equal in every subtask, as long as each subtask changes it in the same way."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set the values of several map keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a map key; there may be none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(State, BroadcastState[K, V]):
    """State with a map for each key."""

    __slots__ = ()
    kind: ClassVar[StateKind] = StateKind.MAP
