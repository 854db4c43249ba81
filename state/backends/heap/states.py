"""The handles of the heap backend: each is the table of its state, at the current key and namespace.

A handle may hold values against their types when they are handed over, as RocksDB does.

Handles that do so write each value and drop its bytes, which takes long: for tests, in which a fault is to be found
where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....compat.description import StateKind
from ....serializers.errors import ValueNotConvertible, located
from ...runtime.states import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from ...transcode.entry_layout import map_value
from ...value_copies import copier, handing_out
from ..key_bytes import encoder
from .tables import Identity, StateTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from ....serializers.serializer import TypeSerializer
    from .tables import CurrentKey


class HeapState(StateTable, State):
    """What all handles have in common.

    A value that is read while a snapshot reads the table is a copy, unless it never changes: so a function may change
    it and hand it over again, and the snapshot has it as it was.
    """

    __slots__ = ("_check", "_copy", "_name")

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor.namespace)
        self._name = descriptor.name
        copied = self._copied_type(descriptor.state_serializer())
        self._copy: Callable[[Any], Any] | None = copier(copied)
        self._check: Callable[[Any], Any] | None = encoder(copied, descriptor.name) if backend.checks_values else None

    @staticmethod
    def _copied_type(serializer: Any) -> TypeSerializer[Any]:
        """Return the serializer of what is copied: a value, an element, or a value of a map."""
        return serializer  # type: ignore[no-any-return]

    def _passed(self, value: Any) -> Any:
        """Return a value, element or accumulator that fits, if that is checked."""
        if self._check is not None:
            self._check(value)
        return value

    def _read_out(self, value: Any) -> Any:
        """Return a value of the table for the function."""
        is_shared = self._copy is not None and self._backend.snapshots and value is not None
        return self._copy(value) if is_shared else value  # type: ignore[misc]  # there is one

    def _all_read_out(self, values: Iterable[Any]) -> list[Any]:
        """Return values of the table for the function."""
        shared = self._copy is not None and self._backend.snapshots
        return list(map(self._read_out, values) if shared else values)

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
        self._default = handing_out(descriptor.value_serializer, descriptor.default_value)

    def value(self) -> Any:
        backend = self._backend
        address = backend.address if self.namespaces is None else (self._namespace, backend.address)
        value = self.groups[backend.slot].get(address)
        if value is None:
            return self._default()
        return value if self._copy is None or not backend.snapshots else self._copy(value)

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
        return self._read_out(self._found())

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        before = self._found()
        reduced = value if before is None else self._reduce(before, value)
        self.writable(self._backend.slot)[self._address()] = self._passed(reduced)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merged(target, sources, self._reduce)


class HeapAggregatingState(_Merging, AggregatingState[Any, Any]):
    """Aggregating state on the heap.

    Its function may change an accumulator. So one that a snapshot reads is copied before, and a result is that of a
    copy: often it is the accumulator itself, which would change with the next value.
    """

    __slots__ = ("_function",)

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        found = self._found()
        if found is None:
            return None
        return self._function.get_result(found if self._copy is None else self._copy(found))

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        slot, address = self._backend.slot, self._address()
        found = self._read_out(self.groups[slot].get(address))
        accumulator = self._function.create_accumulator() if found is None else found
        self.writable(slot)[address] = self._passed(self._function.add(value, accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merged(
            target, sources, lambda one, other: self._function.merge(self._read_out(one), self._read_out(other))
        )


class HeapListState(HeapState, ListState[Any]):
    """List state on the heap."""

    __slots__ = ()

    @staticmethod
    def _copied_type(serializer: Any) -> TypeSerializer[Any]:
        return serializer.element  # type: ignore[no-any-return]

    def get(self) -> list[Any]:
        return self._all_read_out(self._found() or ())

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
        return self._passed(value)


class HeapMapState(HeapState, MapState[Any, Any]):
    """Map state on the heap: a dict from the identity of a map key to the value."""

    __slots__ = ("_serializer", "user_keys")

    def __init__(self, backend: CurrentKey, descriptor: Any) -> None:
        super().__init__(backend, descriptor)
        self._serializer = descriptor.state_serializer()
        key = self._serializer.key
        self.user_keys = Identity(key) if self._check is None else _CheckedIdentity(key, descriptor.name)

    @staticmethod
    def _copied_type(serializer: Any) -> TypeSerializer[Any]:
        return serializer.value  # type: ignore[no-any-return]

    def get(self, key: Any) -> Any:
        return self._read_out((self._found() or {}).get(self.user_keys.of(key)))

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
        found = self._found() or {}
        return list(zip(map(value, found), self._all_read_out(found.values()), strict=True))

    def keys(self) -> list[Any]:
        return list(map(self.user_keys.value, self._found() or ()))

    def values(self) -> list[Any]:
        return self._all_read_out((self._found() or {}).values())

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
            return None
        return self._passed(value)


class _CheckedIdentity(Identity):
    """Refuses values that do not fit the type, also where they are their own identity."""

    __slots__ = ("_check",)

    def __init__(self, serializer: TypeSerializer[Any], state: str) -> None:
        super().__init__(serializer)
        self._check = encoder(serializer, state)

    def of(self, value: Any) -> Hashable:
        self._check(value)
        return super().of(value)


class CheckedValueState(HeapValueState):
    """Value state whose values are checked: a class of its own, since the other asks nothing that costs time."""

    __slots__ = ()

    def update(self, value: Any) -> None:
        super().update(None if value is None else self._passed(value))


HANDLES: dict[StateKind, type[HeapState]] = {
    one.kind: one for one in (HeapValueState, HeapListState, HeapMapState, HeapReducingState, HeapAggregatingState)
}
"""The handle of each kind of state."""
CHECKED_HANDLES = HANDLES | {StateKind.VALUE: CheckedValueState}
"""The same where values are checked."""
