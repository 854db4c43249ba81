"""The layout of a keyed entry as data, so that transcoders do not depend on a file format.

    key    key group, key [length bytes], namespace [length bytes], user key (map state only)
    value  by the kind of the state: whole, separated elements, or a nullable map value

Source: format notes 5.3 and 5.4.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import CorruptSavepoint, shown
from ...serializers.layout import Fixed, Layout
from ...serializers.rewrite import ByteRewrite, Sized, rewrite_of
from ...serializers.rewrite import Fixed as FixedRewrite
from ...serializers.views import DataInputView

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeDeserializer, TypeSerializer


class ValueFraming(enum.StrEnum):
    """What the value bytes of an entry hold."""

    WHOLE = "whole"
    SEPARATED = "separated"
    NULLABLE = "nullable"


def value_framing(kind: StateKind) -> ValueFraming:
    """Return the value framing of a kind of keyed state."""
    return {StateKind.LIST: ValueFraming.SEPARATED, StateKind.MAP: ValueFraming.NULLABLE}.get(kind, ValueFraming.WHOLE)


@attrs.frozen
class ReadBy(Layout):
    """A layout that only a reader knows: a value is skipped by reading it."""

    reader: TypeDeserializer[Any]

    def skip(self, source: DataInputView) -> None:
        self.reader.deserialize(source)


@attrs.frozen
class EntryFraming:
    """The layout of the entries of one state.

    Attributes:
        key_group_bytes: 1 or 2.
        key: Layout of the key.
        namespace: Layout of the namespace.
        ambiguous: Whether the declared lengths of key and namespace both are -1: then each is followed by its size,
            lowest byte first, in as many bytes as it needs and at least one.
        value: What the stored value bytes hold.
        parts: Byte rewrites of key group, key and namespace, which do not change; None if a part has no byte rewrite.
        show_key: A function that returns the key of an entry as text for messages; never raises.
    """

    key_group_bytes: int
    key: Layout
    namespace: Layout
    ambiguous: bool
    value: ValueFraming
    parts: tuple[ByteRewrite, ...] | None = None
    show_key: Callable[[bytes], str] = attrs.field(default=bytes.hex, eq=False)

    def address(self, key: bytes) -> bytes:
        """Return key group, key and namespace of a map state's entry: its key without the user key."""
        return key[: self.user_key_start(key)]

    def user_key_start(self, key: bytes) -> int:
        """Return the offset of the user key in the key of a map state's entry; raises `CorruptSavepoint`."""
        source = DataInputView(key)
        source.skip_bytes(self.key_group_bytes)
        for layout in (self.key, self.namespace):
            start = source.position
            layout.skip(source)
            if self.ambiguous:
                _skip_size(source, source.position - start)
        return source.position


def entry_framing(
    kind: StateKind, *, key_group_bytes: int, key: TypeSerializer[Any], namespace: TypeSerializer[Any]
) -> EntryFraming:
    """Return the framing of a state's entries.

    Args:
        kind: The kind of keyed state.
        key_group_bytes: 1 or 2.
        key: The serializer of the stored keys.
        namespace: The serializer of the stored namespaces.
    """
    ambiguous = key.length < 0 and namespace.length < 0
    return EntryFraming(
        key_group_bytes,
        end_of(key),
        end_of(namespace),
        ambiguous=ambiguous,
        value=value_framing(kind),
        parts=_parts(key_group_bytes, (key, namespace), ambiguous=ambiguous),
        show_key=KeyText(key, key_group_bytes),
    )


def _parts(
    key_group_bytes: int, serializers: tuple[TypeSerializer[Any], ...], *, ambiguous: bool
) -> tuple[ByteRewrite, ...] | None:
    parts: list[ByteRewrite] = [FixedRewrite(key_group_bytes)]
    for one in serializers:
        # A fixed number of bytes is skipped without looking at them.
        part = FixedRewrite(one.layout.size) if isinstance(one.layout, Fixed) else rewrite_of(one, None, one)
        if part is None:
            return None
        parts.append(Sized(part) if ambiguous else part)
    return tuple(parts)


@attrs.frozen
class KeyText:
    """A function that returns the key of an entry as text for messages; in hexadecimal if it cannot be read."""

    key: TypeDeserializer[Any]
    key_group_bytes: int

    def __call__(self, entry_key: bytes) -> str:
        """Return the text."""
        try:
            return shown(self.key.deserialize(DataInputView(entry_key, self.key_group_bytes)))
        except Exception:  # noqa: BLE001 - a user's serializer may raise anything
            return shown(entry_key.hex())


def end_of(serializer: TypeSerializer[Any]) -> Layout:
    """Return the layout of a serializer, or one that reads values if only the serializer knows where they end."""
    return serializer.layout if serializer.layout.can_skip else ReadBy(serializer)


def _skip_size(source: DataInputView, size: int) -> None:
    """Skip the bytes that repeat a size in an ambiguous key."""
    start, left = source.position, size
    while True:
        if source.read_unsigned_byte() != left & 0xFF:
            raise CorruptSavepoint(f"the size {size} of a key or namespace is not repeated after it", offset=start)
        left >>= 8
        if not left:
            return
