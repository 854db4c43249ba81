"""Handles of the heap backend that hold values against their types when they are handed over, as RocksDB does.

They write each value and drop its bytes, which takes long: for tests, in which a fault is to be found where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....compat.description import StateKind
from ..sorted.key_bytes import encoder
from .identity import Identity
from .states import HeapAggregatingState, HeapListState, HeapMapState, HeapReducingState, HeapValueState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ....serializers.serializer import TypeSerializer
    from .states import HeapState
    from .tables import CurrentKey


class CheckedValueState(HeapValueState):
    """Value state whose values are checked."""

    __slots__ = ("_check",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._check = encoder(descriptor.state_serializer(), descriptor.name)

    def update(self, value: Any) -> None:
        if value is not None:
            self._check(value)
        super().update(value)


class CheckedReducingState(HeapReducingState):
    """Reducing state whose values are checked, when they are reduced."""

    __slots__ = ("_check",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._check = encoder(descriptor.state_serializer(), descriptor.name)

    def _reduced(self, before: Any, value: Any) -> Any:
        reduced = super()._reduced(before, value)
        self._check(reduced)
        return reduced


class CheckedAggregatingState(HeapAggregatingState):
    """Aggregating state whose accumulators are checked."""

    __slots__ = ("_check",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._check = encoder(descriptor.state_serializer(), descriptor.name)

    def _added(self, value: Any, accumulator: Any) -> Any:
        added = super()._added(value, accumulator)
        self._check(added)
        return added


class CheckedListState(HeapListState):
    """List state whose elements are checked."""

    __slots__ = ("_check",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._check = encoder(descriptor.state_serializer().element, descriptor.name)

    def _present(self, value: Any) -> Any:
        present = super()._present(value)
        self._check(present)
        return present


class CheckedMapState(HeapMapState):
    """Map state whose keys and values are checked."""

    __slots__ = ("_check",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        serializer = descriptor.state_serializer()
        self._check = encoder(serializer.value, descriptor.name)
        self.user_keys = _CheckedIdentity(serializer.key, descriptor.name)

    def _checked(self, value: Any) -> Any:
        if super()._checked(value) is not None:
            self._check(value)
        return value


class _CheckedIdentity(Identity):
    """Refuses values that do not fit the type, also where they are their own identity."""

    __slots__ = ("_check",)

    def __init__(self, serializer: TypeSerializer[Any], state: str) -> None:
        super().__init__(serializer)
        self._check = encoder(serializer, state)

    def of(self, value: Any) -> Hashable:
        self._check(value)
        return super().of(value)


CHECKED_HANDLES: dict[StateKind, type[HeapState]] = {
    StateKind.VALUE: CheckedValueState,
    StateKind.LIST: CheckedListState,
    StateKind.MAP: CheckedMapState,
    StateKind.REDUCING: CheckedReducingState,
    StateKind.AGGREGATING: CheckedAggregatingState,
}
"""The handle of each kind of state, whose values are checked."""
