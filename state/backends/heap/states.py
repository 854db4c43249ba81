"""The handles of the heap backend: each is the table of its state, at the current key and namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....compat.description import StateKind
from ....serializers.errors import ValueNotConvertible, located
from ....serializers.views import DataInputView, DataOutputView
from ...runtime.states import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from ...transcode.entry_values import map_value
from .identity import Identity
from .tables import StateTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...descriptors import StateDescriptor
    from .tables import CurrentKey


class HeapState(StateTable, State):
    """What all handles have in common."""

    __slots__ = ("_name",)

    def __init__(self, backend: CurrentKey, descriptor: StateDescriptor) -> None:
        super().__init__(backend, descriptor.namespace)
        self._name = descriptor.name

    def clear(self) -> None:
        self.remove_at(self._backend.slot, self._address())

    def _found(self) -> Any:
        """Return the value of the current key, which belongs to the table; None where it has none."""
        return self.groups[self._backend.slot].get(self._address())


class HeapValueState(HeapState, ValueState[Any]):
    """Value state on the heap. Its two hot methods do without helpers."""

    __slots__ = ("_default",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._default = descriptor.default_value

    def value(self) -> Any:
        backend = self._backend
        address = backend.address if self.namespaces is None else (self._namespace, backend.address)
        value = self.groups[backend.slot].get(address)
        return self._default if value is None else value

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        backend = self._backend
        address = backend.address if self.namespaces is None else (self._namespace, backend.address)
        group = self._writable[backend.slot]
        if group is None:
            group = self.writable(backend.slot)
        group[address] = value


class _Merging(HeapState):
    """A handle with one value for each key, which is merged from several."""

    __slots__ = ()

    def _merged(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        slot, key = self._backend.slot, self._backend.address
        into = self.address_in(target, key)
        for namespace in sources:
            address = self.address_in(namespace, key)
            value = None if address == into else self.remove_at(slot, address)
            if value is not None:
                before = self.groups[slot].get(into)
                self.writable(slot)[into] = value if before is None else merge(before, value)


class HeapReducingState(_Merging, ReducingState[Any]):
    """Reducing state on the heap."""

    __slots__ = ("_reduce",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._reduce = descriptor.reduce_function

    def get(self) -> Any:
        return self._found()

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        before = self._found()
        self.writable(self._backend.slot)[self._address()] = value if before is None else self._reduce(before, value)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merged(target, sources, self._reduce)


class HeapAggregatingState(_Merging, AggregatingState[Any, Any]):
    """Aggregating state on the heap. Its function may change an accumulator, so one that a snapshot reads is copied."""

    __slots__ = ("_function", "_serializer")

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._function, self._serializer = descriptor.agg_function, descriptor.state_serializer()

    def get(self) -> Any:
        found = self._found()
        return None if found is None else self._function.get_result(found)

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        slot, address = self._backend.slot, self._address()
        found = self._own(self.groups[slot].get(address))
        accumulator = self._function.create_accumulator() if found is None else found
        self.writable(slot)[address] = self._function.add(value, accumulator)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merged(target, sources, lambda one, other: self._function.merge(self._own(one), self._own(other)))

    def _own(self, accumulator: Any) -> Any:
        if accumulator is None or not self._backend.snapshots:
            return accumulator
        target = DataOutputView()
        self._serializer.serialize(accumulator, target)
        return self._serializer.deserialize(DataInputView(target.getvalue()))


class HeapListState(HeapState, ListState[Any]):
    """List state on the heap."""

    __slots__ = ()

    def get(self) -> list[Any]:
        return list(self._found() or ())

    def add(self, value: Any) -> None:
        self._extend(self._address(), (self._present(value),))

    def add_all(self, values: list[Any]) -> None:
        present = [self._present(value) for value in values]
        if present:
            self._extend(self._address(), present)

    def update(self, values: list[Any]) -> None:
        present = [self._present(value) for value in values]
        if present:
            self.set_at(self._backend.slot, self._address(), present)
        else:
            self.clear()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        slot, key = self._backend.slot, self._backend.address
        into = self.address_in(target, key)
        for namespace in sources:
            address = self.address_in(namespace, key)
            if address != into:
                self._extend(into, self.remove_at(slot, address) or ())

    def _extend(self, address: Any, values: Iterable[Any]) -> None:
        slot = self._backend.slot
        found = self.container(slot, address)
        if found is not None:
            found += values
        elif values:
            self.set_at(slot, address, list(values))

    def _present(self, value: Any) -> Any:
        if value is None:
            raise ValueNotConvertible(
                "a list has no None as an element", state=self._name, advice="leave it out, as Flink requires"
            )
        return value


class HeapMapState(HeapState, MapState[Any, Any]):
    """Map state on the heap: a dict from the identity of a map key to the value."""

    __slots__ = ("_serializer", "user_keys")

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._serializer = descriptor.state_serializer()
        self.user_keys = Identity(self._serializer.key)

    def get(self, key: Any) -> Any:
        return (self._found() or {}).get(self.user_keys.of(key))

    def put(self, key: Any, value: Any) -> None:
        self._put_all({self.user_keys.of(key): self._checked(value)})

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        self._put_all({self.user_keys.of(key): self._checked(value) for key, value in dict_value.items()})

    def remove(self, key: Any) -> None:
        slot, address, name = self._backend.slot, self._address(), self.user_keys.of(key)
        if name not in self.groups[slot].get(address, ()):
            return
        entries = self.container(slot, address)
        del entries[name]
        if not entries:  # as in a savepoint: an empty map is none
            self.clear()

    def contains(self, key: Any) -> bool:
        return self.user_keys.of(key) in (self._found() or ())

    def items(self) -> list[tuple[Any, Any]]:
        value = self.user_keys.value
        return [(value(name), item) for name, item in (self._found() or {}).items()]

    def keys(self) -> list[Any]:
        return list(map(self.user_keys.value, self._found() or ()))

    def values(self) -> list[Any]:
        return list((self._found() or {}).values())

    def is_empty(self) -> bool:
        return not self._found()

    def _put_all(self, new: dict[Any, Any]) -> None:
        slot, address = self._backend.slot, self._address()
        found = self.container(slot, address)
        if found is not None:
            found.update(new)
        elif new:
            self.set_at(slot, address, new)

    def _checked(self, value: Any) -> Any:
        if value is None:
            with located(state=self._name):
                map_value(self._serializer, None)  # refuses it where the values are not declared optional
        return value


HANDLES: dict[StateKind, type[HeapState]] = {
    StateKind.VALUE: HeapValueState,
    StateKind.LIST: HeapListState,
    StateKind.MAP: HeapMapState,
    StateKind.REDUCING: HeapReducingState,
    StateKind.AGGREGATING: HeapAggregatingState,
}
"""The handle of each kind of state."""
