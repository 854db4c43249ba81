"""What a table holds as canonical entries, and back.

    state    key group, key, namespace, user key in map state -> the value
    timers   key group, time, key, namespace -> nothing

Source: format notes 5.3 to 5.5.

The state of a backend at one moment is read as such entries, in blocks, while the backend goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ....compat.description import StateKind
from ....serializers.errors import StateShiftError, ValueNotConvertible, cause_text, located, shown
from ....serializers.limits import MAX_VALUE_BYTES, require_room
from ....serializers.views import DataOutputView
from ...entry_keys import EntryKeyFormat, is_ambiguous, length_bytes
from ...formats.flink.blocks import Block
from ...formats.flink.entries import read_stored
from ...formats.flink.keyed_stream import RUN_BYTES
from ...key_groups import prefix_size
from ...storage.prefetch import in_batches, pair_bytes
from ...transcode.entry_layout import entry_values, map_value
from ..key_bytes import encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ....serializers.serializer import TypeSerializer
    from ...formats.flink.keyed_stream import KeyedStreamHeader
    from ...runtime.descriptors import StateDescriptor
    from .states import HeapState
    from .tables import CurrentKey, StateTable
    from .timers import HeapTimerQueue


class FrozenPart(Protocol):
    """One state at that moment."""

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""


@attrs.frozen
class FrozenTable:
    """The dicts of a table, which nobody changes until the snapshot is released.

    Attributes:
        groups: The dict of each key group.
        codec: Writes them as entries, sorted by their keys.
    """

    groups: list[dict[Any, Any]] = attrs.field(repr=False)
    codec: Codec

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""
        for items in in_batches(sorted(self.codec.entries(key_group, self.groups[slot])), pair_bytes, RUN_BYTES):
            yield Block.of(key_group, state_id, items)


@attrs.frozen
class StoredState:
    """A restored state for which no handle was asked yet: the blocks as they were stored.

    Attributes:
        found: The blocks of each key group.
    """

    found: dict[int, tuple[Block, ...]] = attrs.field(factory=dict, repr=False)

    def add(self, block: Block) -> None:
        """Add a block; the bytes are copied if the block does not own them."""
        kept = attrs.evolve(block, data=bytes(block.data))
        self.found[block.key_group] = (*self.found.get(block.key_group, ()), kept)

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""
        return (attrs.evolve(block, state_id=state_id) for block in self.found.get(key_group, ()))


class FrozenHeap:
    """A frozen heap backend.

    Args:
        header: The key snapshot and the states.
        key_groups: The key groups of the subtask.
        parts: The content of each state.
        snapshots: The set in which the backend has its snapshots that have not been released; this one is added.
    """

    def __init__(
        self, header: KeyedStreamHeader, key_groups: range, parts: list[FrozenPart], snapshots: set[object]
    ) -> None:
        self.header, self._key_groups, self._parts, self._snapshots = header, key_groups, parts, snapshots
        snapshots.add(self)

    def blocks(self, key_groups: range | None = None, state_ids: Collection[int] | None = None) -> Iterator[Block]:
        """Yield the canonical blocks of some key groups and states (by default all), key groups ascending.

        Raises:
            StateShiftError: The snapshot has been released.
            ValueNotConvertible: A value does not fit its type.
        """
        wanted = range(len(self._parts)) if state_ids is None else sorted(state_ids)
        for slot, key_group in enumerate(self._key_groups):
            if key_groups is not None and key_group not in key_groups:
                continue
            for state_id in wanted:
                if self not in self._snapshots:
                    raise StateShiftError("the snapshot was released before it was written")
                yield from self._parts[state_id].blocks(slot, key_group, state_id)

    def release(self) -> None:
        """Release the dicts, which the backend changes in place again; calling it twice is harmless."""
        self._snapshots.discard(self)


_SIGN, _TIME_BYTES, _VOID = 1 << 63, 8, b"\0"


class Codec(Protocol):
    """Writes the dicts of one table as entries, and reads entries into it."""

    def entries(self, key_group: int, held: dict[Any, Any]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a key group, as pairs of key bytes and value bytes."""

    def read(self, slot: int, key: bytes, value: bytes) -> None:
        """Add an entry to the table; raises `CorruptSavepoint` where it does not fit the types."""


class _Keys:
    """Keys and namespaces as bytes."""

    def __init__(self, kind: StateKind, backend: CurrentKey, namespace: TypeSerializer[Any], table: StateTable) -> None:
        self._identity, self._namespaces, self._serializer = backend.identity, table.namespaces, backend.key
        self._format = EntryKeyFormat.of(kind, backend.key, namespace, backend.max_parallelism)
        self._prefix = prefix_size(backend.max_parallelism)
        self._is_ambiguous = is_ambiguous(kind, backend.key, namespace)
        self._is_plain = self._namespaces is None and kind.has_values and not kind.has_user_keys

    def group(self, key_group: int) -> bytes:
        return key_group.to_bytes(self._prefix, "big")

    def joiner(self) -> Callable[[Any], bytes]:
        """Return what turns addresses into keys and namespaces, for one thread."""
        if self._namespaces is not None or self._identity.by_bytes is not None:
            return self._join
        encode = encoder(self._serializer)
        return lambda address: encode(address) + _VOID

    def _join(self, address: Any) -> bytes:
        if self._namespaces is None:
            return self._identity.to_bytes(address) + _VOID
        key, namespace = self._identity.to_bytes(address[1]), self._namespaces.to_bytes(address[0])
        if self._is_ambiguous:
            return key + length_bytes(len(key)) + namespace + length_bytes(len(namespace))
        return key + namespace

    def split(self, data: bytes) -> tuple[Any, bytes, int]:
        """Return the address of an entry, the user key, and the time of a timer."""
        if self._is_plain and data[-1:] == _VOID:
            return self._identity.stored(data[self._prefix : -1]), b"", 0
        parts = self._format.split(data)
        address = self._identity.stored(parts.key)
        if self._namespaces is not None:
            address = (self._namespaces.stored(parts.namespace), address)
        return address, parts.user_key, parts.timestamp_ms


class StateCodec:
    """The entries of a keyed state.

    Args:
        backend: The backend.
        descriptor: The descriptor of the state.
        table: Its handle.
    """

    def __init__(self, backend: CurrentKey, descriptor: StateDescriptor, table: HeapState) -> None:
        self._name, self._kind, self._table = descriptor.name, descriptor.kind, table
        self._keys = _Keys(descriptor.kind, backend, descriptor.namespace, table)
        self._serializer: Any = descriptor.state_serializer()
        self._user_keys: Any = getattr(table, "user_keys", None)

    def entries(self, key_group: int, held: dict[Any, Any]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a key group.

        Raises:
            ValueNotConvertible: A value does not fit its type; the error has the key and the path.
        """
        start, join, values = self._keys.group(key_group), self._keys.joiner(), self._values
        is_single = not self._kind.row.pieces
        target, serialize = DataOutputView(), self._serializer.serialize
        taken = target.taken
        for address, value in held.items():
            try:
                place = start + join(address)
                require_room(len(place), is_key=True)
                if is_single:
                    serialize(value, target)
                    data = taken()
                    if len(data) > MAX_VALUE_BYTES:
                        require_room(len(data))
                    yield place, data
                else:
                    for user_key, data in values(value):
                        require_room(len(place) + len(user_key), is_key=True)
                        yield place + user_key, data
            except Exception as error:
                key, _ = self._table.split(address)
                where = {"state": self._name, "key": shown(key), "path": "$"}
                with located(**where):
                    if isinstance(error, StateShiftError):
                        raise
                    raise ValueNotConvertible(
                        f"{shown(value)} cannot be written: {cause_text(error)}",
                        advice="pass a value of the declared type, and do not change it afterwards",
                    ) from error

    def _values(self, value: Any) -> list[tuple[bytes, bytes]]:
        if self._kind.has_elements:
            return entry_values(self._kind, self._serializer, value)
        found = [(self._user_keys.to_bytes(name), map_value(self._serializer, item)) for name, item in value.items()]
        for _, data in found:
            require_room(len(data))
        return found

    def read(self, slot: int, key: bytes, value: bytes) -> None:
        """Add an entry to the table; raises `CorruptSavepoint` where it does not fit the types."""
        with located(state=self._name):
            address, user_key, _ = self._keys.split(key)
            read = read_stored(self._kind, self._serializer, value)
        held = self._table.writable(slot)
        if self._kind.has_user_keys:
            held.setdefault(address, {})[self._user_keys.stored(user_key)] = read
        elif not self._kind.has_elements or read:
            held[address] = read


class TimerCodec:
    """The entries of a timer queue.

    Args:
        backend: The backend.
        namespace: The serializer of the namespaces.
        queue: The queue.
    """

    def __init__(self, backend: CurrentKey, namespace: TypeSerializer[Any], queue: HeapTimerQueue) -> None:
        self._queue = queue
        self._keys = _Keys(StateKind.TIMERS, backend, namespace, queue)

    def entries(self, key_group: int, held: dict[Any, Any]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the timers of a key group."""
        start, join = self._keys.group(key_group), self._keys.joiner()
        for timestamp, address in held:
            yield start + (timestamp + _SIGN).to_bytes(_TIME_BYTES, "big") + join(address), b""

    def read(self, slot: int, key: bytes, value: bytes) -> None:
        """Add a timer to the queue; raises `CorruptSavepoint` where it does not fit the types."""
        address, _, timestamp = self._keys.split(key)
        self._queue.add_at(slot, (timestamp, address))
