"""Entries of keyed state and maps of broadcast state as objects, read with the snapshots of their own stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

import attrs

from ....compat.description import StateKind, ValueFraming
from ....serializers.errors import (
    CorruptSavepoint,
    StateShiftError,
    ValueNotConvertible,
    ValuesCollide,
    add_step,
    at_step,
    cause_text,
    shown,
)
from ....serializers.flink.namespaces import VoidNamespace
from ....serializers.views import SEPARATOR, DataInputView
from ...entry_keys import EntryKeyFormat, decode, shown_key
from ...key_groups import prefix_size
from ...progress import count_bytes
from .suspects import suspect
from .value_readers import value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ....serializers.serializer import TypeSerializer
    from ....serializers.snapshot import TypeSerializerConfigSnapshot
    from .keyed_stream import KeyedReader

T = TypeVar("T")
Address = tuple[int, int, bytes, bytes]
"""Key group, id of the state, and the bytes of key and namespace: in map state all entries of a map share it."""


@attrs.frozen
class Entry:
    """The value of one key in one keyed state.

    Attributes:
        key: The key.
        namespace: The namespace; None for plain keyed state, which has none.
        value: The value; for list state a list, for map state a dict; with TTL the values are `TtlValue` objects.
    """

    key: Any
    namespace: Any
    value: Any


@attrs.frozen
class EntryDecoder:
    """Reads the entries of one state in one stream. Created with `of`.

    Attributes:
        kind: The kind of the state.
        keys: The format of its entries' keys.
        key: The serializer of the keys.
        namespace: The serializer of the namespaces.
        value: The serializer of the values; for list and map state that of the whole list or map.
    """

    kind: StateKind
    keys: EntryKeyFormat
    key: TypeSerializer[Any]
    namespace: TypeSerializer[Any]
    value: TypeSerializer[Any]

    @classmethod
    def of(
        cls,
        kind: StateKind,
        key: TypeSerializerConfigSnapshot[Any],
        namespace: TypeSerializerConfigSnapshot[Any],
        value: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
    ) -> EntryDecoder:
        """Return a decoder with serializers restored from the stream's own snapshots; raises `OldReaderUnavailable`."""
        keys, namespaces, values = key.restore_serializer(), namespace.restore_serializer(), value_reader(kind, value)
        return cls.of_parts(kind, keys, namespaces, values, max_parallelism)

    @classmethod
    def of_parts(
        cls,
        kind: StateKind,
        key: TypeSerializer[Any],
        namespace: TypeSerializer[Any],
        value: TypeSerializer[Any],
        max_parallelism: int,
    ) -> EntryDecoder:
        """Return a decoder with the given serializers."""
        return cls(kind, EntryKeyFormat.of(kind, key, namespace, max_parallelism), key, namespace, value)

    def place(self, key: bytes) -> tuple[bytes, bytes, bytes]:
        """Return key, namespace and user key as bytes."""
        parts = self.keys.split(key)
        return parts.key, parts.namespace, parts.user_key

    def read_key(self, key: bytes, namespace: bytes) -> tuple[Any, Any]:
        """Read key and namespace; the void namespace is returned as None."""
        space = decode(self.namespace, namespace)
        return decode(self.key, key), None if isinstance(space, VoidNamespace) else space

    def read_value(self, user_key: bytes, value: bytes) -> Any:
        """Read the value of one entry; for map state a pair of user key and value."""
        if not self.kind.has_user_keys:
            return read_stored(self.kind, self.value, value)
        with at_step("<key>"):
            name = decode(self.value.key, user_key)  # type: ignore[attr-defined]  # of a map
        return name, read_stored(self.kind, self.value, value)

    def add_place(self, error: StateShiftError, key: bytes) -> None:
        """Add the key of an entry, and a path, to an error about its value."""
        error.where.setdefault("key", shown_key(self.key, key))
        error.where.setdefault("path", "$")


def timers(reader: KeyedReader, decoders: dict[int, TypeSerializer[Any]], max_parallelism: int) -> Iterator[Any]:
    """Yield the timers of some queues, each read by its own serializer; a timer is stored in its entry's key."""
    start = prefix_size(max_parallelism)
    for block in reader.blocks(state_ids=decoders.keys()) if decoders else ():
        for key, _ in block.items():  # noqa: PERF102 - a block is not a dict
            try:
                yield decode(decoders[block.state_id], key[start:])
            except StateShiftError as error:
                error.where.setdefault("key", shown(key.hex()))
                raise
        count_bytes(block.size_bytes)


def each_entry(
    reader: KeyedReader, decoders: dict[int, EntryDecoder], read: Callable[[EntryDecoder, bytes, bytes], T]
) -> Iterator[tuple[Address, EntryDecoder, T]]:
    """Yield the stored entries of some states, each with its address and with what `read` makes of it.

    Args:
        reader: The reader of the stream.
        decoders: The decoders of the states, by id.
        read: Called with decoder, user key and value; errors that it raises get the key and the path.
    """
    for block in reader.blocks(state_ids=decoders.keys()) if decoders else ():
        decoder = decoders[block.state_id]
        for key_bytes, value_bytes in block.items():
            key, namespace, user_key = decoder.place(key_bytes)
            try:
                value = read(decoder, user_key, value_bytes)
            except StateShiftError as error:
                decoder.add_place(error, key)
                if isinstance(error, CorruptSavepoint):
                    others = reader.blocks(state_ids=(block.state_id,))
                    values = (data for other in others for _, data in other.items())
                    suspect(error, decoder.value, partial(read_stored, decoder.kind, decoder.value), values)
                raise
            del value_bytes  # may be as large as the value
            yield (block.key_group, block.state_id, key, namespace), decoder, value
        count_bytes(block.size_bytes)


def grouped(reader: KeyedReader, decoders: dict[int, EntryDecoder]) -> Iterator[Entry]:
    """Yield the entries of a state, from all its tables; those of a map are joined, in whatever order they are."""
    maps: dict[tuple[bytes, bytes], dict[Any, Any]] = {}
    group, decoder = -1, None
    for address, decoder, value in each_entry(reader, decoders, EntryDecoder.read_value):
        if address[0] != group:
            yield from _flushed(maps, decoder)
            group = address[0]
        if decoder.kind.has_user_keys:
            try:
                _gather(maps.setdefault(address[2:], {}), *value)
            except StateShiftError as error:
                decoder.add_place(error, address[2])
                raise
        else:
            yield Entry(*decoder.read_key(*address[2:]), value)
    if decoder is not None:
        yield from _flushed(maps, decoder)


def _gather(entries: dict[Any, Any], name: Any, value: Any) -> None:
    """Add an entry to a dict and refuse collisions: the keys 1.0 and 1.00 differ in Java and are equal in Python.

    Raises:
        ValueNotConvertible: The key is not hashable in Python, or equals a key that the dict has already.
    """
    before = len(entries)
    try:
        entries[name] = value
    except TypeError as error:
        raise ValueNotConvertible(
            f"stored keys of a map are not hashable in Python: {cause_text(error)}",
            advice="leave the state out: it is kept unchanged",
            path="$<key>",
        ) from error
    if len(entries) == before:
        raise ValuesCollide(
            f"two stored keys of a map are, for Python, the same: {shown(name)}",
            advice="leave the state out: it is kept unchanged",
            path="$<key>",
        )


def _flushed(maps: dict[tuple[bytes, bytes], dict[Any, Any]], decoder: EntryDecoder) -> Iterator[Entry]:
    for place, value in maps.items():
        yield Entry(*decoder.read_key(*place), value)
    maps.clear()


def read_stored(kind: StateKind, serializer: Any, value: bytes) -> Any:
    """Return what the value bytes of an entry hold: a value, a list, or for map state one value of the map, or None.

    Args:
        kind: The kind of the state.
        serializer: The serializer of its values; for list and map state that of the whole list or map.
        value: The value bytes.
    """
    try:
        return read_pieces(kind, kind.item_of(serializer), value)
    except StateShiftError as error:
        if kind.row.pieces:
            add_step(error, kind.row.pieces[-1][0])
        raise


def read_pieces(kind: StateKind, reader: Any, value: bytes) -> Any:
    """Return what the value bytes of an entry hold; `reader` reads a value, an element, or a value of a map."""
    match kind.row.framing:
        case ValueFraming.SEPARATED:
            return list(read_separated(reader, value))
        case ValueFraming.NULLABLE:
            return None if DataInputView(value).read_boolean() else decode(reader, value[1:])
        case ValueFraming.WHOLE | None:
            return decode(reader, value)
        case _:
            assert_never(kind.row.framing)


def read_separated(element: TypeSerializer[Any], data: bytes) -> Iterator[Any]:
    """Yield the elements of a list state's value, which are separated by one byte."""
    return each_separated(element, DataInputView(data))


def each_separated(element: TypeSerializer[Any], source: DataInputView) -> Iterator[Any]:
    """Yield the elements of a list state's value, up to the end of the view."""
    if source.remaining():
        yield element.deserialize(source)
    while source.remaining():
        source.skip_bytes(len(SEPARATOR))
        yield element.deserialize(source)


def read_broadcast(data: bytes, key: TypeSerializer[Any], value: TypeSerializer[Any]) -> dict[Any, Any]:
    """Read the whole map of a broadcast state: i32 n, n x (key, value) (format notes 8)."""
    source = DataInputView(data)
    count = source.read_size("entries of a broadcast map")
    entries: dict[Any, Any] = {}
    keys = set[bytes]()
    for _ in range(count):
        start = source.position
        name = key.deserialize(source)
        if source.span(start) in keys:
            raise CorruptSavepoint(f"a broadcast map has the key {shown(name)} twice", offset=start, path="$<key>")
        keys.add(source.span(start))
        _gather(entries, name, value.deserialize(source))
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow a broadcast map", offset=source.position)
    return entries
