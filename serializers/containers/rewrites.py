"""Byte rewrites of arrays, collections, tuples, optional and time-stamped values, made of those of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import rewrite
from ..primitives.text import StringSerializer
from ..scalars import kept
from .arrays import BytesSerializer, PrimitiveArraySerializer, text_to_utf8
from .lists import ArrayListSerializer, ListSerializer, MapConversion, MapSerializer, SetConversion, SetSerializer
from .object_arrays import GenericArraySerializer, StringArraySerializer
from .pieces import SequenceConversion
from .ttl import AtTime, Stamped, TtlConversion, TtlSerializer, before_nulls
from .tuples import EMPTY, EitherConversion, EitherSerializer, TupleConversion, TupleSerializer
from .wrappers import IfPresent, OptionalSerializer

if TYPE_CHECKING:
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer, TypeSerializer


def _bytes(
    writer: BytesSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if conversion is text_to_utf8:
        return rewrite.ToUtf8() if isinstance(reader, StringSerializer) else None
    return kept(writer, reader, conversion)


def _plain_sequence(writer: Any, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    return _sequence(reader, conversion, writer.element)


def _object_array(
    writer: GenericArraySerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    takes_null = writer.nullable_elements
    return _sequence(reader, conversion, writer.element, is_flagged=True, takes_null=takes_null)


def _sequence(
    reader: TypeDeserializer[Any],
    conversion: Conversion,
    element: TypeSerializer[Any],
    *,
    is_flagged: bool = False,
    takes_null: bool = False,
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a sequence from that of its elements.

    Args:
        reader: The reader of a sequence of this package; its `flags_elements` says whether each element has a flag "is
            present".
        conversion: The conversion of the sequence.
        element: The serializer that writes the elements.
        is_flagged: Whether each new element has such a flag.
        takes_null: Whether that flag may mark a null in the new sequence.
    """
    was_flagged = getattr(reader, "flags_elements", None)
    if was_flagged is None or not (conversion is None or isinstance(conversion, SequenceConversion)):
        return None
    stored: Any = reader
    item = rewrite.rewrite_of(stored.element, None if conversion is None else conversion.convert, element)
    if item is None:
        return None
    if was_flagged:
        null = b"\0" if is_flagged and takes_null else None
        item = rewrite.Nullable(
            rewrite.present(item), null_flag=0, value_flag=1, present=b"\1" if is_flagged else b"", null=null
        )
    elif is_flagged:
        item = rewrite.Sequence((rewrite.present(item),), (b"\1", 0))
    return rewrite.Counted(item)


def _set(
    writer: SetSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, SetSerializer) or not isinstance(conversion, SetConversion | None):
        return None
    item = rewrite.rewrite_of(reader.element, None if conversion is None else conversion.convert, writer.element)
    if item is None or not rewrite.is_sortable(item):
        return None
    return rewrite.Sorted(rewrite.Nullable(item, null=None))


def map_rewrite(
    writer: MapSerializer[Any, Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of maps, also of those of a subclass whose bytes are the same; None: there is none."""
    if not isinstance(reader, MapSerializer) or not isinstance(conversion, MapConversion | None):
        return None
    parts = (None, None) if conversion is None else (conversion.key, conversion.value)
    key = rewrite.rewrite_of(reader.key, parts[0], writer.key)
    value = rewrite.rewrite_of(reader.value, parts[1], writer.value)
    if key is None or value is None or not rewrite.tells_apart(key):
        return None
    takes_null = writer.takes_null and reader.takes_null
    return rewrite.Counted(rewrite.Nullable(rewrite.present(value), null=b"\1" if takes_null else None), key)


def _tuple(
    writer: TupleSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, TupleSerializer) or not isinstance(conversion, TupleConversion | None):
        return None
    if len(reader.fields) != len(writer.fields):
        return None
    if not writer.fields:
        return rewrite.Literal(EMPTY)
    converts = (None,) * len(writer.fields) if conversion is None else conversion.items
    parts = [rewrite.rewrite_of(*item) for item in zip(reader.fields, converts, writer.fields, strict=True)]
    return None if None in parts else rewrite.Sequence(tuple(part for part in parts if part is not None))


def _either(
    writer: EitherSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, EitherSerializer) or not isinstance(conversion, EitherConversion | None):
        return None
    converts = (None, None) if conversion is None else (conversion.left, conversion.right)
    left = rewrite.rewrite_of(reader.left, converts[0], writer.left)
    right = rewrite.rewrite_of(reader.right, converts[1], writer.right)
    return None if left is None or right is None else rewrite.Either(left, right)


def _optional(
    writer: OptionalSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(conversion, IfPresent | None):
        return None
    convert = None if conversion is None else conversion.convert
    if not isinstance(reader, OptionalSerializer):
        value = rewrite.rewrite_of(reader, convert, writer.value)
        return None if value is None else rewrite.Sequence((rewrite.present(value),), (b"\0", 0))
    value = rewrite.rewrite_of(reader.value, convert, writer.value)
    if value is None:
        return None
    return rewrite.Nullable(rewrite.present(value), reader.padding, null=b"\1" + bytes(writer.padding))


def _ttl(
    writer: TtlSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if isinstance(conversion, AtTime) and isinstance(conversion.convert, Stamped):
        value = rewrite.rewrite_of(reader, before_nulls(conversion.convert.convert), writer.value)
        stamp = conversion.reference_time_ms.to_bytes(8, "big", signed=True)
        return None if value is None else rewrite.Sequence((value,), (stamp, 0))
    if not isinstance(reader, TtlSerializer) or not isinstance(conversion, TtlConversion | None):
        return None
    value = rewrite.rewrite_of(reader.value, None if conversion is None else conversion.convert, writer.value)
    return None if value is None else rewrite.Sequence((rewrite.Fixed(8), value))


REWRITES: RewriteTable = {
    BytesSerializer: _bytes,
    ListSerializer: _plain_sequence,
    ArrayListSerializer: _plain_sequence,
    PrimitiveArraySerializer: _plain_sequence,
    StringArraySerializer: _plain_sequence,
    GenericArraySerializer: _object_array,
    SetSerializer: _set,
    MapSerializer: map_rewrite,
    TupleSerializer: _tuple,
    EitherSerializer: _either,
    OptionalSerializer: _optional,
    TtlSerializer: _ttl,
}
