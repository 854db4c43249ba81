"""The tables of the heap backend, which are copied on write.

    table   for each key group of the subtask a dict: address -> value
    address the identity of the key; with namespaces (identity of the namespace, identity of the key)

A snapshot takes the dicts of a table as they are. From then on a dict is copied before the first write to it, unless
all snapshots have been released by then. A list or map in a copied dict is itself copied before its first change.

Keys, namespaces and map keys are told apart by their bytes, or by the object itself where that comes to the same.
Numbers, strings and windows are equal in Python exactly if their bytes are, so they are looked up as they are. Others
are not: 0.0 equals -0.0, a NaN does not equal itself, a list cannot be hashed, and a record read without its class does
not equal an object of that class.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from ....serializers.flink.namespaces import VOID_NAMESPACE
from ...entry_keys import decode
from ...key_groups import key_group, key_hasher
from ..key_bytes import encoder, no_current_key, require_own

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from ....serializers.serializer import TypeSerializer
    from ....serializers.snapshot import TypeSerializerConfigSnapshot

_BY_OBJECT = frozenset({"byte", "short", "int", "long", "bigint", "char", "string"})
_WINDOWS = "namespace"


def _is_by_object(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    if snapshot.kind == "tuple":
        return all(map(_is_by_object, snapshot.children()))
    return snapshot.is_flink and (snapshot.kind == _WINDOWS or snapshot.describe() in _BY_OBJECT)


class Identity:
    """Turns the values of one type into identities: hashable objects that are equal where the bytes are.

    Args:
        serializer: The serializer of the type.

    Attributes:
        by_bytes: Returns the bytes of a value, where they are its identity; None where a value is its own identity.
    """

    __slots__ = ("_serializer", "_written", "by_bytes")

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        self._serializer, self._written = serializer, encoder(serializer)
        by_object = _is_by_object(serializer.snapshot_configuration())
        self.by_bytes: Callable[[Any], bytes] | None = None if by_object else self._written

    def of(self, value: Any) -> Hashable:
        """Return the identity of a value; raises `ValueNotConvertible` where it does not fit the type."""
        return value if self.by_bytes is None else self.by_bytes(value)

    def value(self, identity: Any) -> Any:
        """Return the value with this identity."""
        return identity if self.by_bytes is None else decode(self._serializer, identity)

    def stored(self, data: bytes) -> Hashable:
        """Return the identity of a value that is given by its bytes."""
        return decode(self._serializer, data) if self.by_bytes is None else data

    def to_bytes(self, identity: Any) -> bytes:
        """Return the bytes of the value with this identity."""
        return self._written(identity) if self.by_bytes is None else identity


_MOST_KNOWN_KEYS = 1 << 20


class _NoKey:
    """The slot before there is a current key: a list that is indexed by it raises."""

    def __index__(self) -> NoReturn:
        raise no_current_key()


class CurrentKey:
    """The part of the heap backend that its tables see: the current key, and whether a snapshot reads their dicts.

    Args:
        key: The serializer of the keys.
        max_parallelism: The number of key groups.
        key_groups: Those of the subtask.

    Attributes:
        current_key: The key.
        address: Its identity.
        slot: The index of its key group among those of the subtask.
        identity: Tells keys apart.
        snapshots: The snapshots that have not been released: while there is any, dicts are copied on write.
        checks_values: Whether values are held against their types when they are handed over.
    """

    checks_values = False
    current_key: Any
    address: Any
    slot: Any  # an index, and before there is a key what raises in its place

    def __init__(self, key: TypeSerializer[Any], max_parallelism: int, key_groups: range) -> None:
        self.key, self.max_parallelism, self.key_groups = key, max_parallelism, key_groups
        self.identity, self.snapshots = Identity(key), set[object]()
        self._hash, self._by_bytes = key_hasher(key), self.identity.by_bytes
        self._is_immutable = key.is_immutable_type
        self._slots: dict[Hashable, int] = {}
        self.forget()

    def set_current_key(self, key: Any) -> None:
        """Set the key that all handles follow.

        Raises:
            ValueNotConvertible: The key does not fit its type, or is in no key group of this subtask.
        """
        if key is self.current_key and self._is_immutable and key is not None:
            return
        address = key if self._by_bytes is None else self._by_bytes(key)
        try:
            slot = self._slots.get(address)
        except TypeError:  # not hashable, so no key of this type
            slot = None
        self.slot = self._located(key, address) if slot is None else slot
        self.current_key, self.address = key, address

    def unset_current_key(self) -> None:
        """Have no current key: every access raises until the next one."""
        self.current_key, self.address, self.slot = None, None, _NoKey()

    def locate(self, key: Any) -> tuple[int, Any]:
        """Return slot and identity of any key; raises as `set_current_key`."""
        if key is self.current_key and self._is_immutable and type(self.slot) is int:
            return self.slot, self.address
        address = self.identity.of(key)
        return self._located(key, address), address

    def _located(self, key: Any, address: Hashable) -> int:
        """Compute the slot of a key, and remember it: a hash in Java's manner takes longer than all else."""
        group = key_group(self._hash(key), self.max_parallelism)
        require_own(key, group, self.key_groups)
        if len(self._slots) >= _MOST_KNOWN_KEYS:
            self._slots.clear()
        slot = self._slots[address] = group - self.key_groups.start
        return slot

    def forget(self) -> None:
        """Have no current key, and no memory of keys."""
        self._slots.clear()
        self.unset_current_key()


class StateTable:
    """The values of one state, or the timers of one queue.

    Args:
        backend: The backend.
        namespace: The serializer of the namespaces.

    Attributes:
        namespaces: Tells namespaces apart; None for plain state, which has none.
        groups: The dict of each key group. They are read only: `writable` returns those to change.
    """

    __slots__ = ("_backend", "_copied", "_namespace", "_writable", "groups", "namespaces")

    def __init__(self, backend: CurrentKey, namespace: TypeSerializer[Any]) -> None:
        self._backend = backend
        self.namespaces = None if namespace.length == 0 else Identity(namespace)
        self._namespace: Any = None
        self.groups: list[dict[Any, Any]] = [{} for _ in backend.key_groups]
        self._writable: list[dict[Any, Any] | None] = list(self.groups)
        self._copied: list[set[Any] | None] = [None] * len(self.groups)

    def set_current_namespace(self, namespace: Any) -> None:
        self._namespace = None if self.namespaces is None else self.namespaces.of(namespace)

    def address_in(self, namespace: Any, key: Any) -> Any:
        """Return the address for a namespace and the identity of a key."""
        return key if self.namespaces is None else (self.namespaces.of(namespace), key)

    def split(self, address: Any) -> tuple[Any, Any]:
        """Return the key and the namespace of an address."""
        if self.namespaces is None:
            return self._backend.identity.value(address), VOID_NAMESPACE
        return self._backend.identity.value(address[1]), self.namespaces.value(address[0])

    def keys_in(self, namespace: Any) -> Iterator[Any]:
        """Yield the keys that have a value in a namespace; values may be changed meanwhile."""
        identity = self._backend.identity
        wanted = None if self.namespaces is None else self.namespaces.of(namespace)
        for group in range(len(self.groups)):
            for address in list(self.groups[group]):
                if self.namespaces is None:
                    yield identity.value(address)
                elif address[0] == wanted:
                    yield identity.value(address[1])

    def held(self) -> Iterator[tuple[Any, Any]]:
        """Yield the keys of plain state with their values, which may be changed meanwhile."""
        # Two lists have no object for each entry, as one of pairs has: those would set off Python's garbage collection.
        groups = (self.groups[slot] for slot in range(len(self.groups)))
        entries = chain.from_iterable(zip(list(group), list(group.values()), strict=True) for group in groups)
        identity = self._backend.identity
        if identity.by_bytes is None:
            return entries
        return ((identity.value(address), value) for address, value in entries)

    def _address(self) -> Any:
        """Return the address of the current key and namespace."""
        key = self._backend.address
        return key if self.namespaces is None else (self._namespace, key)

    def writable(self, slot: int) -> dict[Any, Any]:
        """Return the dict of a key group for a write; it is copied first where a snapshot reads it."""
        group = self._writable[slot]
        if group is None:
            group, copied = self.groups[slot], None
            if self._backend.snapshots:
                group, copied = dict(group), set[Any]()
                self.groups[slot] = group
            self._writable[slot], self._copied[slot] = group, copied
        return group

    def container(self, slot: int, address: Any) -> Any:
        """Return the list or map at an address for a change, copied first where a snapshot reads it; None: no value."""
        group = self.writable(slot)
        found, copied = group.get(address), self._copied[slot]
        if copied is not None and not self._backend.snapshots:
            self._copied[slot] = None  # all snapshots have been released
        elif copied is not None and found is not None and address not in copied:
            found = group[address] = found.copy()
            copied.add(address)
        return found

    def set_at(self, slot: int, address: Any, value: Any) -> None:
        """Set the value at an address; a list or map in it belongs to the table."""
        self.writable(slot)[address] = value
        copied = self._copied[slot]
        if copied is not None:
            copied.add(address)

    def remove_at(self, slot: int, address: Any) -> Any:
        """Remove the value at an address and return it; None where there is none."""
        return self.writable(slot).pop(address, None) if address in self.groups[slot] else None

    def freeze(self) -> list[dict[Any, Any]]:
        """Return the dicts as they are; from now on they are copied on write, while a snapshot is registered."""
        frozen, self.groups = self.groups, list(self.groups)
        self._writable = [None] * len(frozen)
        return frozen
