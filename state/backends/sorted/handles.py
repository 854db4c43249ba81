"""Handles over a sorted table: the key of an entry is the canonical one, the value the canonical value.

    value, reducing, aggregating   key group, key, namespace -> value
    list                           key group, key, namespace -> elements with one byte between them
    map                            key group, key, namespace, user key -> null flag, value

Source: format notes 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....serializers.errors import ValueNotConvertible, located, shown
from ....serializers.limits import MAX_VALUE_BYTES, require_room
from ....serializers.views import SEPARATOR, DataInputView, DataOutputView
from ...entry_keys import is_ambiguous, length_bytes
from ...formats.flink.database_stream import following
from ...formats.flink.entries import each_separated
from ...runtime.states import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from ...value_copies import handing_out
from ..key_bytes import VOID_BYTES, codec, decoder, encoder, exact_integers, namespace_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ....compat.description import StateKind
    from ....serializers.serializer import TypeSerializer
    from ...runtime.descriptors import StateDescriptor
    from ..key_bytes import CurrentKey
    from .write_cache import CachedTable


class _SortedState(State):
    """What all handles have in common: the address of the current key and namespace in a table."""

    __slots__ = ("_current", "_is_framed", "_is_void", "_name", "_namespace", "_table", "_tail")

    def __init__(
        self, descriptor: StateDescriptor, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable
    ) -> None:
        self._name, self._current, self._table = descriptor.name, current, table
        self._namespace = descriptor.namespace
        self._is_framed = is_ambiguous(descriptor.kind, key, descriptor.namespace)
        self._tail = b""
        self._is_void = False
        if descriptor.namespace.length == 0:
            self.set_current_namespace(None)

    def set_current_namespace(self, namespace: Any) -> None:
        self._tail = self._framed(namespace)
        self._is_void = not self._is_framed and self._tail == VOID_BYTES

    def _framed(self, namespace: Any) -> bytes:
        data = namespace_bytes(self._namespace, namespace)
        return data + length_bytes(len(data)) if self._is_framed else data

    def _address(self) -> bytes:
        """Return key group, key and namespace of the current entry."""
        current = self._current
        return (current.framed if self._is_framed else current.plain) + self._tail

    def _addresses(self, namespaces: Iterable[Any]) -> list[bytes]:
        """Return the addresses of the current key in some namespaces."""
        current = self._current
        start = current.framed if self._is_framed else current.plain
        return [start + self._framed(namespace) for namespace in namespaces]

    def clear(self) -> None:
        self._table.put(self._address(), None)

    def _put(self, address: bytes, data: bytes) -> None:
        if len(data) > MAX_VALUE_BYTES:
            self._refuse(len(data))
        self._table.put(address, data)

    def _refuse(self, size: int, *, is_key: bool = False) -> None:
        with located(state=self._name, key=shown(self._current.key)):
            require_room(size, is_key=is_key)


class _SortedSingle(_SortedState):
    """A handle with one value for each key."""

    __slots__ = ("_decode", "_encode")

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        serializer = descriptor.state_serializer()
        self._encode, self._decode = codec(serializer, descriptor.name)

    def _get(self, address: bytes) -> Any:
        data = self._table.get(address)
        return None if data is None else self._decode(data)

    def _merge(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        (into,), others = self._addresses([target]), self._addresses(sources)
        merged = found = self._get(into)
        for address in others:
            value = self._get(address)
            if value is not None and address != into:
                merged = value if merged is None else merge(merged, value)
                self._table.put(address, None)
        if merged is not found:
            self._put(into, self._encode(merged))


class SortedValueState(_SortedSingle, ValueState[Any]):
    """Value state in a sorted store. Its two hot methods do without helpers.

    A number that was written last is an object until another key is written: a number that changes with every element
    of a key is encoded once for all of them.
    """

    __slots__ = ("_default", "_least", "_most")

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        self._default = handing_out(descriptor.value_serializer, descriptor.default_value)
        self._least, self._most = exact_integers(descriptor.state_serializer())

    def value(self) -> Any:
        table, address = self._table, self._current.void if self._is_void else self._address()
        if table.held_at is address:
            return table.held
        data = table.get(address)
        return self._default() if data is None else self._decode(data)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        table, address = self._table, self._current.void if self._is_void else self._address()
        is_held = type(value) is int and self._least <= value <= self._most
        if is_held and table.held_at is address:
            table.held, table.owed = value, self._encode
            return
        data = self._encode(value)
        if len(data) > MAX_VALUE_BYTES:
            self._refuse(len(data))
        table.put(address, data)
        if is_held:
            table.held, table.held_at = value, address


class SortedReducingState(_SortedSingle, ReducingState[Any]):
    """Reducing state in a sorted store."""

    __slots__ = ("_reduce",)

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        self._reduce = descriptor.reduce_function

    def get(self) -> Any:
        return self._get(self._address())

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        address = self._address()
        found = self._get(address)
        self._put(address, self._encode(value if found is None else self._reduce(found, value)))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merge(target, sources, self._reduce)


class SortedAggregatingState(_SortedSingle, AggregatingState[Any, Any]):
    """Aggregating state in a sorted store."""

    __slots__ = ("_function",)

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        found = self._get(self._address())
        return None if found is None else self._function.get_result(found)

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        address = self._address()
        found = self._get(address)
        accumulator = self._function.create_accumulator() if found is None else found
        self._put(address, self._encode(self._function.add(value, accumulator)))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merge(target, sources, self._function.merge)


class SortedListState(_SortedState, ListState[Any]):
    """List state in a sorted store; an element is appended to the bytes of the list, which are not decoded."""

    __slots__ = ("_element", "_encode")

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        self._element = descriptor.state_serializer().element
        self._encode = encoder(self._element, descriptor.name)

    def get(self) -> list[Any]:
        data = self._table.get(self._address())
        return [] if data is None else list(each_separated(self._element, DataInputView(bytes(data))))

    def add(self, value: Any) -> None:
        if value is None:
            self._refuse_null()
        data = self._encode(value)
        try:
            self._table.append(self._current.void if self._is_void else self._address(), data)
        except ValueNotConvertible as error:
            raise self._placed(error) from None

    def add_all(self, values: list[Any]) -> None:
        data = self._joined(values)
        if data is not None:
            self._append(self._address(), data)

    def update(self, values: list[Any]) -> None:
        data = self._joined(values)
        if data is None:
            self.clear()
        else:
            self._put(self._address(), data)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        (into,), others = self._addresses([target]), self._addresses(sources)
        for address in others:
            data = self._table.get(address)
            if data is not None and address != into:
                self._append(into, bytes(data))
                self._table.put(address, None)

    def _joined(self, values: Iterable[Any]) -> bytes | None:
        """Return the bytes of some elements; None where there is none."""
        pieces = list(map(self._encode, map(self._present, values)))
        return SEPARATOR.join(pieces) if pieces else None

    def _append(self, address: bytes, data: bytes) -> None:
        try:
            self._table.append(address, data)
        except ValueNotConvertible as error:
            raise self._placed(error) from None

    def _placed(self, error: ValueNotConvertible) -> ValueNotConvertible:
        error.where |= {"state": self._name, "key": shown(self._current.key)}
        return error

    def _present(self, value: Any) -> Any:
        return self._refuse_null() if value is None else value

    def _refuse_null(self) -> None:
        raise ValueNotConvertible(
            "a list has no None as an element", state=self._name, advice="leave it out, as Flink requires"
        )


class SortedMapState(_SortedState, MapState[Any, Any]):
    """Map state in a sorted store: each entry of a map is an entry of the table."""

    __slots__ = ("_decode_value", "_encode_key", "_encode_value", "_read_key")

    def __init__(self, descriptor: Any, key: TypeSerializer[Any], current: CurrentKey, table: CachedTable) -> None:
        super().__init__(descriptor, key, current, table)
        serializer = descriptor.state_serializer()
        self._encode_key, self._read_key = encoder(serializer.key, descriptor.name), serializer.key.deserialize
        self._encode_value = encoder(_MapValue(serializer), descriptor.name)
        self._decode_value = decoder(serializer.value)

    def get(self, key: Any) -> Any:
        data = self._table.get(self._address() + self._encode_key(key))
        return None if data is None else self._value(data)

    def put(self, key: Any, value: Any) -> None:
        address = self._address() + self._encode_key(key)
        if len(address) > MAX_VALUE_BYTES:
            self._refuse(len(address), is_key=True)
        self._put(address, self._encode_value((key, value)))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.put(self._address() + self._encode_key(key), None)

    def contains(self, key: Any) -> bool:
        return self._table.get(self._address() + self._encode_key(key)) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        start, read = len(self._address()), self._read_key
        return ((read(DataInputView(key, start)), self._value(value)) for key, value in self._entries())

    def keys(self) -> Iterator[Any]:
        start, read = len(self._address()), self._read_key
        return (read(DataInputView(key, start)) for key, _ in self._entries())

    def values(self) -> Iterator[Any]:
        return (self._value(value) for _, value in self._entries())

    def is_empty(self) -> bool:
        return next(self._entries(), None) is None

    def clear(self) -> None:
        for key, _ in self._entries():
            self._table.put(key, None)

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        address = self._address()
        batches = self._table.items(address, following(address))
        return (entry for batch in batches for entry in zip(*batch, strict=True))

    def _value(self, data: bytes | bytearray) -> Any:
        return None if data[0] else self._decode_value(data[1:])


class _MapValue:
    """Writes the value of a pair of key and value: what follows the key in a map."""

    def __init__(self, serializer: Any) -> None:
        self._write = serializer.write_value

    def serialize(self, value: tuple[Any, Any], target: DataOutputView) -> None:
        """Write the null flag and the value."""
        self._write(*value, target)


HANDLES: dict[StateKind, Callable[..., Any]] = {
    one.kind: one
    for one in (SortedValueState, SortedListState, SortedMapState, SortedReducingState, SortedAggregatingState)
}
"""The handle of each kind of state."""
