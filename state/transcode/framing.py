"""The layout of a keyed entry as data, so that transcoders do not depend on a file format.

    key    key group, key [length bytes], namespace [length bytes], user key (map state only)
    value  by the kind of the state: whole, separated elements, or a nullable map value

Source: format notes 5.3 and 5.4.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.layout import Fixed
from ...serializers.rewrite import ByteRewrite, Sized, rewrite_of
from ...serializers.rewrite import Fixed as FixedRewrite
from ..entry_keys import EntryKeyFormat, shown_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer


class ValueFraming(enum.StrEnum):
    """What the value bytes of an entry hold."""

    WHOLE = "whole"
    SEPARATED = "separated"
    NULLABLE = "nullable"


def value_framing(kind: StateKind) -> ValueFraming:
    """Return the value framing of a kind of keyed state."""
    return {StateKind.LIST: ValueFraming.SEPARATED, StateKind.MAP: ValueFraming.NULLABLE}.get(kind, ValueFraming.WHOLE)


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
        keys, value_framing(kind), _parts(keys, key, namespace), partial(shown_key, key, start=keys.key_start)
    )


def _parts(keys: EntryKeyFormat, *serializers: TypeSerializer[Any]) -> tuple[ByteRewrite, ...] | None:
    parts: list[ByteRewrite] = [FixedRewrite(keys.prefix)]
    for one in serializers:
        # A fixed number of bytes is skipped without looking at them.
        part = FixedRewrite(one.layout.size) if isinstance(one.layout, Fixed) else rewrite_of(one, None, one)
        if part is None:
            return None
        parts.append(Sized(part) if keys.is_ambiguous else part)
    return tuple(parts)
