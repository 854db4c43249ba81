"""The keys of keyed entries: key group, key, namespace and, in map state, the user's key.

    keyed state   key group (1 or 2 bytes), key [length], namespace [length], user key
    timers        key group (1 or 2 bytes), i64 time with the sign bit flipped, key, namespace

The lengths exist only where both key and namespace have variable length: the size of the preceding part, lowest byte
first, in as many bytes as it needs. Source: format notes 5.3 to 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ...serializers.errors import CorruptSavepoint, ValueNotConvertible, shown
from ...serializers.views import DataInputView, DataOutputView
from ..key_groups import prefix_size
from ..transcode.framing import end_of

if TYPE_CHECKING:
    from ...serializers.layout import Layout
    from ...serializers.serializer import TypeDeserializer, TypeSerializer

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
    """

    key_group: int
    key: bytes
    namespace: bytes
    user_key: bytes = b""


@attrs.frozen
class TimerKey:
    """A timer, which is stored in the entry's key.

    Attributes:
        key_group: The key group.
        timestamp_ms: The time at which it fires, in milliseconds since 1970.
        key: The raw bytes of the key.
        namespace: The raw bytes of the namespace.
    """

    key_group: int
    timestamp_ms: int
    key: bytes
    namespace: bytes


@attrs.frozen
class EntryKeyFormat:
    """The format of the keys of one state's entries. Created with `of`.

    Attributes:
        prefix: The number of bytes of the key group.
        key: Finds the end of a key.
        namespace: Finds the end of a namespace.
        is_ambiguous: Whether lengths follow key and namespace, because both have variable length.
        has_user_key: Whether a user key follows, as in map state.
    """

    prefix: int
    key: Layout
    namespace: Layout
    is_ambiguous: bool = False
    has_user_key: bool = False

    @classmethod
    def of(
        cls,
        key: TypeSerializer[Any],
        namespace: TypeSerializer[Any],
        max_parallelism: int,
        *,
        has_user_key: bool = False,
    ) -> EntryKeyFormat:
        """Return the format for these serializers and this number of key groups."""
        is_ambiguous = key.length < 0 and namespace.length < 0
        return cls(prefix_size(max_parallelism), end_of(key), end_of(namespace), is_ambiguous, has_user_key)

    @property
    def key_start(self) -> int:
        """The position of the key in the key of an entry."""
        return self.prefix

    def split(self, data: bytes) -> EntryKey:
        """Split the key of an entry; raises `CorruptSavepoint` where it does not fit the format."""
        view = DataInputView(data)
        key_group = int.from_bytes(view.read_fully(self.prefix), "big")
        key = self._part(view, self.key)
        namespace = self._part(view, self.namespace)
        if view.remaining() and not self.has_user_key:
            raise CorruptSavepoint(f"{view.remaining()} bytes follow the key of an entry: {shown(data.hex())}")
        return EntryKey(key_group, key, namespace, view.read_fully(view.remaining()))

    def join(self, entry: EntryKey) -> bytes:
        """Return the bytes of the key of an entry."""
        parts = [_key_group(entry.key_group, self.prefix)]
        for part in (entry.key, entry.namespace):
            parts.append(part)
            if self.is_ambiguous:
                parts.append(length_bytes(len(part)))
        return b"".join([*parts, entry.user_key])

    def _part(self, view: DataInputView, layout: Layout) -> bytes:
        start = view.position
        layout.skip(view)
        part = view.span(start)
        if self.is_ambiguous:
            length = length_bytes(len(part))
            if view.read_fully(len(length)) != length:
                raise CorruptSavepoint("the length stored after a key or namespace does not match the bytes before it")
        return part


@attrs.frozen
class TimerKeyFormat:
    """The format of timers. Created with `of`.

    Attributes:
        prefix: The number of bytes of the key group.
        key: Finds the end of a key.
        namespace: Finds the end of a namespace.
    """

    prefix: int
    key: Layout
    namespace: Layout

    @classmethod
    def of(cls, key: TypeSerializer[Any], namespace: TypeSerializer[Any], max_parallelism: int) -> TimerKeyFormat:
        """Return the format for these serializers and this number of key groups."""
        return cls(prefix_size(max_parallelism), end_of(key), end_of(namespace))

    @property
    def key_start(self) -> int:
        """The position of the key in a timer."""
        return self.prefix + _TIME_BYTES

    def split(self, data: bytes) -> TimerKey:
        """Split a timer; raises `CorruptSavepoint` where it does not fit the format."""
        view = DataInputView(data)
        key_group = int.from_bytes(view.read_fully(self.prefix), "big")
        timestamp = int.from_bytes(view.read_fully(_TIME_BYTES), "big") - _SIGN
        start = view.position
        self.key.skip(view)
        key, start = view.span(start), view.position
        self.namespace.skip(view)
        if view.remaining():
            raise CorruptSavepoint(f"{view.remaining()} bytes follow a timer: {shown(data.hex())}")
        return TimerKey(key_group, timestamp, key, view.span(start))

    def join(self, timer: TimerKey) -> bytes:
        """Return the bytes of a timer."""
        if not -_SIGN <= timer.timestamp_ms < _SIGN:
            raise ValueNotConvertible(f"{timer.timestamp_ms} does not fit the time of a timer (64 bits)")
        time = (timer.timestamp_ms + _SIGN).to_bytes(_TIME_BYTES, "big")
        return _key_group(timer.key_group, self.prefix) + time + timer.key + timer.namespace


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


def _key_group(key_group: int, prefix: int) -> bytes:
    if not 0 <= key_group < 1 << (8 * prefix - 1):
        raise ValueNotConvertible(f"key group {key_group} does not fit {prefix} byte(s)")
    return key_group.to_bytes(prefix, "big")


def length_bytes(length: int) -> bytes:
    """Return the bytes of the length that follows a key or namespace where both have variable length."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")
