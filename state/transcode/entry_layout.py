"""The layout of a keyed entry as data, so that transcoders do not depend on a file format; and the entries of a value.

    key    key group, key [length bytes], namespace [length bytes], user key (map state only)
    value  list state    one entry: the elements, with one byte between them
           map state     an entry for each user key: a null flag and the value
           other kinds   one entry: the value

Source: format notes 5.3 and 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import ValueFraming
from ...serializers.byte_forms import ByteForm, several, sized
from ...serializers.containers.pieces import encode_each, unique
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import ValueNotConvertible, shown
from ...serializers.limits import require_room
from ...serializers.rewrite import ByteRewrite, Fixed, Sized, rewrite_of
from ...serializers.views import SEPARATOR, DataOutputView
from ..entry_keys import EntryKeyFormat, shown_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...compat.description import StateKind
    from ...serializers.serializer import TypeSerializer


ENTRY: ByteForm[tuple[bytes, bytes]] = several(sized("a key"), sized("a value"))
"""Of a key and its value, as they stand in a block."""


@attrs.frozen
class EntryFraming:
    """The layout of the entries of one state.

    Attributes:
        keys: The format of the keys.
        value: What the stored value bytes hold.
        parts: Byte rewrites of key group, key and namespace, which do not change; None if a part has no byte rewrite.
        show_key: A function that returns the key of an entry as text for messages; never raises.
    """

    keys: EntryKeyFormat
    value: ValueFraming
    parts: tuple[ByteRewrite, ...] | None = None
    show_key: Callable[[bytes], str] = attrs.field(default=bytes.hex, eq=False)


def entry_framing(
    kind: StateKind, key: TypeSerializer[Any], namespace: TypeSerializer[Any], max_parallelism: int
) -> EntryFraming:
    """Return the framing of a state's entries.

    Args:
        kind: The kind of keyed state.
        key: The serializer of the stored keys.
        namespace: The serializer of the stored namespaces.
        max_parallelism: The number of key groups.
    """
    keys = EntryKeyFormat.of(kind, key, namespace, max_parallelism)
    return EntryFraming(
        keys,
        kind.row.framing or ValueFraming.WHOLE,
        _parts(keys, key, namespace),
        partial(shown_key, key, start=keys.key_start),
    )


def _parts(keys: EntryKeyFormat, *serializers: TypeSerializer[Any]) -> tuple[ByteRewrite, ...] | None:
    parts: list[ByteRewrite] = [Fixed(keys.prefix)]
    for one in serializers:
        # A fixed number of bytes is skipped without looking at them.
        part = one.layout if isinstance(one.layout, Fixed) else rewrite_of(one, None, one)
        if part is None:
            return None
        parts.append(Sized(part) if keys.is_ambiguous else part)
    return tuple(parts)


def entry_values(kind: StateKind, serializer: TypeSerializer[Any], value: Any) -> list[tuple[bytes, bytes]]:
    """Return the entries of one key as pairs of user key (empty except in map state) and value bytes.

    An empty list or map, and None, have no entries.

    Args:
        kind: The kind of the keyed state.
        serializer: The serializer of the state; for list state that of the list, for map state that of the map.
        value: A value, a list or a map.

    Raises:
        ValueNotConvertible: The value does not fit the state (the error has the path within it), or is too large for
            an entry.
    """
    entries = _entry_values(kind, serializer, value)
    for _, data in entries:
        require_room(len(data))
    return entries


def _entry_values(kind: StateKind, serializer: Any, value: Any) -> list[tuple[bytes, bytes]]:
    if value is None:
        return []
    framing = kind.row.framing
    if framing is ValueFraming.SEPARATED:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a list of elements")
        parts = encode_each(serializer.element, value, "[]")
        return [(b"", SEPARATOR.join(parts))] if parts else []
    if framing is ValueFraming.NULLABLE:
        if not isinstance(value, Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a map")
        names = encode_each(serializer.key, value, "<key>")
        unique(names, "keys of a map are written", "<key>")
        return [(name, map_value(serializer, item)) for name, item in zip(names, value.values(), strict=True)]
    target = DataOutputView()
    serializer.serialize(value, target)
    return [(b"", target.getvalue())]


def map_value(serializer: Any, item: Any) -> bytes:
    """Return the bytes of a value in map state; `serializer` is the map's."""
    if item is None:
        if not serializer.nullable_values and not isinstance(serializer.value, OptionalSerializer):
            raise ValueNotConvertible(
                "a map value is None, but the values are not declared optional",
                advice="declare the state with nullable_values=True",
                path="${}",
            )
        return b"\x01"
    return b"\x00" + encode_each(serializer.value, (item,), "{}")[0]
