"""Byte rewrites of records: stored fields in stored order, each behind its null flag, and new fields in new order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import rewrite
from ..layout import PLAIN_RECORD
from .pojo import PojoSerializer
from .rules import RecordConversion
from .serializers import RecordSerializer

if TYPE_CHECKING:
    from ..defaults import Default
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from .fields import RecordField
    from .serializers import DescribedRecordSerializer

_NULL, _PRESENT = b"\1", b"\0"

Moved = dict[str, tuple[str, "Conversion", "Default | None"]]
"""Name of a new field -> the stored field that it takes, its conversion, and what a stored null becomes."""


def _record(
    new: DescribedRecordSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a record, or None; values of subclasses, and nulls instead of a record, are odd."""
    old: Any = reader
    if not _is_generic(reader) or new.circle or old.circle:
        return None
    taken = _taken(new, old, conversion)
    if taken is None:
        return None
    moved, filled = taken
    parts: list[rewrite.ByteRewrite] = [rewrite.Literal(PLAIN_RECORD)]
    places: dict[str, int] = {}
    takers = {stored: field for field in new.fields for stored in moved.get(field.name, ())[:1]}
    for stored in old.fields:
        taker = takers.get(stored.name)
        part = _dropped(stored) if taker is None else _kept(stored, taker, moved[taker.name])
        if part is None:
            return None
        if taker is not None:
            places[taker.name] = len(parts)
        parts.append(part)
    emitted: list[int | bytes] = [0]
    for field in new.fields:
        piece = places[field.name] if field.name in places else _constant(field, filled.get(field.name))
        if piece is None:
            return None
        emitted.append(piece)
    in_place = emitted == list(range(len(parts)))
    return rewrite.Sequence(tuple(parts), None if in_place else tuple(emitted))


def _is_generic(reader: Any) -> bool:
    """Whether a reader returns `Record`s, and not objects of a user's class."""
    return hasattr(reader, "fields") and getattr(reader, "python_class", reader) is None


def _taken(
    new: DescribedRecordSerializer[Any], old: Any, conversion: Conversion
) -> tuple[Moved, dict[str, Default]] | None:
    """Return what each new field takes, and the defaults of the others; None if that is not known."""
    if isinstance(conversion, RecordConversion):
        if old.name in conversion.subclasses:
            return None
        moved = {name: (stored, convert, on_none) for name, _, stored, convert, on_none in conversion.moved}
        return moved, dict(conversion.filled)
    is_same = old.name == new.name or not (new.registered or new.unregistered)
    if conversion is not None or not is_same:
        return None
    stored_names = {field.name for field in old.fields}
    return {field.name: (field.name, None, None) for field in new.fields if field.name in stored_names}, {}


def _dropped(stored: RecordField) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a dropped field, which is read all the same, and must be valid."""
    value = rewrite.rewrite_of(stored.serializer, None, stored.serializer)
    return None if value is None else rewrite.Nullable(value, null=_NULL if stored.optional else None)


def _kept(
    stored: RecordField, field: RecordField, taken: tuple[str, Conversion, Default | None]
) -> rewrite.ByteRewrite | None:
    _, convert, on_none = taken
    value = rewrite.rewrite_of(stored.serializer, convert, field.serializer)
    if value is None or stored.on_none is not None:
        return None
    null = None
    if stored.optional:
        becomes = rewrite.constant(field.serializer, on_none) if on_none is not None else b""
        null = _field_bytes(field, becomes)
    return rewrite.Nullable(rewrite.present(value), null=null)


def _constant(field: RecordField, default: Default | None) -> bytes | None:
    return _field_bytes(field, rewrite.constant(field.serializer, default))


def _field_bytes(field: RecordField, value: bytes | None) -> bytes | None:
    """Return the bytes of a field with a constant value, where b"" stands for null; None if there is no constant."""
    if value:
        return _PRESENT + value
    return _NULL if value == b"" and field.optional else None


REWRITES: RewriteTable = {RecordSerializer: _record, PojoSerializer: _record}
