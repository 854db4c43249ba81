"""The keys of keyed entries: key group, key, namespace and, in map state, the user's key.

    keyed state   key group (1 or 2 bytes), key [length], namespace [length], user key
    timers        key group (1 or 2 bytes), i64 time with the sign bit flipped, key, namespace

The lengths exist only where both key and namespace have variable length: the size of the preceding part, lowest byte
first, in as many bytes as it needs. Source: format notes 5.3 to 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..compat.description import StateKind
from ..serializers.errors import CorruptSavepoint, ValueNotConvertible, shown
from ..serializers.rewrite import ByteRewrite
from ..serializers.views import DataInputView, DataOutputView
from .key_groups import prefix_size

if TYPE_CHECKING:
    from ..serializers.serializer import TypeDeserializer, TypeSerializer

T = TypeVar("T")

_SIGN = 1 << 63
_TIME_BYTES = 8


@attrs.frozen
class EntryKey:
    """The parts of an entry's key, as raw bytes.

    Attributes:
        key_group: The key group.
        key: The key.
        namespace: The namespace; one byte 0 for plain keyed state.
        user_key: The key within the map for map state, else empty.
        timestamp_ms: For a timer the time at which it fires, in milliseconds since 1970; else 0.
    """

    key_group: int
    key: bytes
    namespace: bytes
    user_key: bytes = b""
    timestamp_ms: int = 0


@attrs.frozen
class EntryKeyFormat:
    """The format of the keys of one state's entries. Created with `of`.

    Attributes:
        prefix: The number of bytes of the key group.
        key: Finds the end of a key.
        namespace: Finds the end of a namespace.
        is_timer: Whether the time of a timer is before the key.
        has_user_key: Whether a user key follows, as in map state.
        is_ambiguous: Whether lengths follow key and namespace, because both have variable length.
    """

    prefix: int
    key: ByteRewrite
    namespace: ByteRewrite
    is_timer: bool
    has_user_key: bool
    is_ambiguous: bool

    @classmethod
    def of(
        cls, kind: StateKind, key: TypeSerializer[Any], namespace: TypeSerializer[Any], max_parallelism: int
    ) -> EntryKeyFormat:
        """Return the format for a kind of state, these serializers, and this number of key groups."""
        of_kind = kind is StateKind.TIMERS, kind.has_user_keys, is_ambiguous(kind, key, namespace)
        return cls(prefix_size(max_parallelism), end_of(key), end_of(namespace), *of_kind)

    @property
    def key_start(self) -> int:
        """The position of the key in the key of an entry."""
        return self.prefix + (_TIME_BYTES if self.is_timer else 0)

    def split(self, data: bytes) -> EntryKey:
        """Split the key of an entry; raises `CorruptSavepoint` where it does not fit the format."""
        view = DataInputView(data)
        key_group, timestamp = int.from_bytes(view.read_fully(self.prefix), "big"), 0
        if self.is_timer:
            timestamp = int.from_bytes(view.read_fully(_TIME_BYTES), "big") - _SIGN
        key, namespace = self._part(view, self.key), self._part(view, self.namespace)
        if view.remaining() and not self.has_user_key:
            what = "a timer" if self.is_timer else "the key of an entry"
            raise CorruptSavepoint(f"{view.remaining()} bytes follow {what}: {shown(data.hex())}")
        return EntryKey(key_group, key, namespace, view.read_fully(view.remaining()), timestamp)

    def join(self, entry: EntryKey) -> bytes:
        """Return the bytes of the key of an entry."""
        parts = [_key_group(entry.key_group, self.prefix)]
        if self.is_timer:
            if not -_SIGN <= entry.timestamp_ms < _SIGN:
                raise ValueNotConvertible(f"{entry.timestamp_ms} does not fit the time of a timer (64 bits)")
            parts.append((entry.timestamp_ms + _SIGN).to_bytes(_TIME_BYTES, "big"))
        for part in (entry.key, entry.namespace):
            parts.append(part)
            if self.is_ambiguous:
                parts.append(length_bytes(len(part)))
        return b"".join([*parts, entry.user_key])

    def address(self, data: bytes) -> bytes:
        """Return key group, key and namespace of a map state's entry: its key without the user key."""
        return data[: self.user_key_start(data)]

    def user_key_start(self, data: bytes) -> int:
        """Return the position of the user key in the key of a map state's entry; raises as `split`."""
        view = DataInputView(data, self.prefix)
        for layout in (self.key, self.namespace):
            self._part(view, layout)
        return view.position

    def _part(self, view: DataInputView, layout: ByteRewrite) -> bytes:
        start = view.position
        layout.skip(view)
        part = view.span(start)
        if self.is_ambiguous:
            length = length_bytes(len(part))
            if view.read_fully(len(length)) != length:
                raise CorruptSavepoint("the length stored after a key or namespace does not match the bytes before it")
        return part


def is_ambiguous(kind: StateKind, key: TypeSerializer[Any], namespace: TypeSerializer[Any]) -> bool:
    """Whether lengths follow key and namespace in the keys of a state's entries; never in timers."""
    return kind is not StateKind.TIMERS and key.length < 0 and namespace.length < 0


@attrs.frozen
class ReadBy(ByteRewrite):
    """A layout that only a reader knows: a value is skipped by reading it."""

    reader: TypeDeserializer[Any]

    def skip(self, source: DataInputView) -> None:
        self.reader.deserialize(source)


def end_of(serializer: TypeSerializer[Any]) -> ByteRewrite:
    """Return the layout of a serializer, or one that reads values if only the serializer knows where they end."""
    return serializer.layout if serializer.layout.can_skip else ReadBy(serializer)


def decode(serializer: TypeDeserializer[T], data: bytes) -> T:
    """Read one value that fills `data` exactly; raises `CorruptSavepoint` where bytes are left over."""
    view = DataInputView(data)
    value = serializer.deserialize(view)
    if view.remaining():
        raise CorruptSavepoint(f"{view.remaining()} bytes follow a value", offset=view.position)
    return value


def encode(serializer: TypeSerializer[T], value: T) -> bytes:
    """Return the bytes of one value."""
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def shown_key(reader: TypeDeserializer[Any], data: bytes, start: int = 0) -> str:
    """Return the key at a position as text for messages; all bytes in hexadecimal if it cannot be read."""
    try:
        return shown(reader.deserialize(DataInputView(data, start)))
    except Exception:  # noqa: BLE001 - a user's serializer may raise anything
        return shown(data.hex())


def _key_group(key_group: int, prefix: int) -> bytes:
    if not 0 <= key_group < 1 << (8 * prefix - 1):
        raise ValueNotConvertible(f"key group {key_group} does not fit {prefix} byte(s)")
    return key_group.to_bytes(prefix, "big")


def length_bytes(length: int) -> bytes:
    """Return the bytes of the length that follows a key or namespace where both have variable length."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")
