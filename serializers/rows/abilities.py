"""What is registered for rows: hints, byte rewrites, JSON, and the source that `init` writes.

row_of({"id": int, "order total": float | None})        any names
row_of(Order)                                           the fields of a class, with their defaults and aliases
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .. import rewrite
from ..errors import DeclarationError
from ..hints import serializer_for, strip_none
from ..json_forms import tagger_of
from ..records.classes import NO_RECORD_OPTIONS, RecordField, class_fields, is_record_class, options_of
from ..records.hints import record_field, retired_type
from ..source import NoSourceError, or_none
from ..stored_names import qualified_name
from .serializers import RowConversion, RowSerializer, RowSerializerSnapshot
from .values import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..defaults import Default
    from ..hints import HintTable
    from ..json_forms import JsonFormTable, Tagger
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from ..source import NullTable, SourceTable, StoredNulls, TypeSource, Use


def row_of(columns: type | Mapping[str, Any], *, stored: type | Iterable[str] = ()) -> RowSerializer:
    """Return the serializer of rows whose columns have names: Flink's `Types.ROW_NAMED`.

    Args:
        columns: Type hints by name, in the order of the columns. Or an attrs class, a dataclass or a named tuple, whose
            fields are the columns, in the order in which they are declared; their defaults fill new columns of a
            migrated row (rule ROW-3).
        stored: The names of the savepoint's columns, in stored order, while they or their order differ from `columns`:
            Flink does not store names (rule ROW-7). A class stands for the names of its fields.

    Raises:
        DeclarationError: A type cannot be stored, or a name occurs twice.
    """
    fields = _of_class(columns) if isinstance(columns, type) else tuple(_column(*item) for item in columns.items())
    if isinstance(stored, str):
        raise DeclarationError("stored must be a tuple of names, not a string")
    names = [field.name for field in _of_class(stored)] if isinstance(stored, type) else stored
    options = options_of(columns) if isinstance(columns, type) else NO_RECORD_OPTIONS
    types = tuple((name, *retired_type(hint)) for name, hint in options.retired_types)
    return RowSerializer(fields, tuple(names), retired=options.retired, retired_types=types)


def _column(name: str, hint: Any) -> RecordField:
    bare, optional = strip_none(hint)
    return RecordField(name, serializer_for(bare), optional=optional)


def _of_class(cls: type) -> tuple[RecordField, ...]:
    if not is_record_class(cls):
        raise DeclarationError(
            f"{qualified_name(cls)} is not a class with fields",
            advice="give row_of an attrs class, a dataclass or a named tuple, or hints by name",
        )
    fields = [record_field(cls, field) for field in class_fields(cls)]
    converting = next((field.name for field in fields if field.on_none is not None), None)
    if converting is not None:
        raise DeclarationError(
            f"the column {converting!r} of {qualified_name(cls)} has on_none, but columns keep nulls",
            advice="leave on_none out, and declare the column optional: … | None",
        )
    return tuple(attrs.evolve(field, attribute="", init_name="") for field in fields)


HINTS: HintTable = {Row: lambda _, arguments: RowSerializer(tuple(_column("", item) for item in arguments))}


if TYPE_CHECKING:
    Origin = tuple[int | Default | None, Conversion]
    """The origin of a new column: the position of the old one or a default, and the conversion."""


def _row_rewrite(new: RowSerializer, old: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    if not isinstance(old, RowSerializer) or old.names:
        return None  # restored serializers have no names, by which columns would pair differently
    if isinstance(conversion, RowConversion):
        origins: list[Origin] = [(origin, convert) for _, origin, convert in conversion.columns]
    elif conversion is None and len(old.columns) == len(new.columns):
        origins = [(place, None) for place in range(len(new.columns))]
    else:
        return None
    return _Making(new, old, origins).made()


@attrs.frozen
class _Making:
    new: RowSerializer
    old: RowSerializer
    origins: list[Origin]

    def made(self) -> rewrite.ByteRewrite | None:
        parts = self._parts()
        if parts is None:
            return None
        leading = self.old.leading_bits
        mask, emitted = self._kind_bits(), list[int | bytes]()
        clear = [leading + place for place, column in enumerate(self.old.columns) if not column.optional]
        if not self.new.supports_row_kind:
            clear += range(leading)
        for column, (origin, _) in zip(self.new.columns, self.origins, strict=True):
            if isinstance(origin, int):
                mask.append(leading + origin)
                emitted.append(origin)
                clear += [] if column.optional else [leading + origin]
                continue
            data = rewrite.constant(column.serializer, origin)
            if data is None or not (data or column.optional):
                return None
            mask.append(rewrite.UNSET if data else rewrite.SET)
            emitted += [data] if data else []
        return rewrite.Masked(parts, leading, tuple(clear), tuple(mask), tuple(emitted))

    def _parts(self) -> tuple[rewrite.ByteRewrite, ...] | None:
        """Return the byte rewrites of the stored columns, also of dropped ones, which are read and must be valid."""
        takers = {origin: place for place, (origin, _) in enumerate(self.origins) if isinstance(origin, int)}
        parts = []
        for place, stored in enumerate(self.old.columns):
            writer, convert = stored.serializer, None
            if place in takers:
                writer, convert = self.new.columns[takers[place]].serializer, self.origins[takers[place]][1]
            part = rewrite.rewrite_of(stored.serializer, convert, writer)
            if part is None:
                return None
            parts.append(rewrite.present(part) if place in takers else part)
        return tuple(parts)

    def _kind_bits(self) -> list[int]:
        if not self.new.supports_row_kind:
            return []
        kept = range(self.old.leading_bits)
        return [*kept] or [rewrite.UNSET] * self.new.leading_bits


REWRITES: RewriteTable = {RowSerializer: _row_rewrite}


def _row_form(snapshot: RowSerializerSnapshot) -> Tagger:
    columns = [tagger_of(child) for child in snapshot.children()]

    def convert(value: Row[Any]) -> Any:
        fields = [column(item) for column, item in zip(columns, value, strict=True)]
        return {"$row": {"fields": fields, "kind": value._kind.name}}  # noqa: SLF001 - public despite the underscore

    return convert


JSON_FORMS: JsonFormTable = {RowSerializerSnapshot: _row_form}


def _row_source(source: TypeSource, snapshot: RowSerializerSnapshot, use: Use) -> str:
    if not snapshot.supports_row_kind:
        raise NoSourceError("no type hint says rows without a kind, as Flink wrote them before 1.11")
    columns = [or_none(source.hint(column, use)) for column in snapshot.nested]
    return f"Row[{', '.join(columns) or '()'}]"


SOURCES: SourceTable = {RowSerializerSnapshot: _row_source}


def _look_into_row(nulls: StoredNulls, value: Row[Any], snapshot: RowSerializerSnapshot) -> None:
    for item, column in zip(value, snapshot.nested, strict=True):
        nulls.look(item, column)


NULLS: NullTable = {RowSerializerSnapshot: _look_into_row}
