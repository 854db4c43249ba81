"""Hints of rows: `Row[A, B]`, and `row_of` for rows with named columns.

row_of({"id": int, "order total": float | None})        any names
row_of(Order)                                           the fields of a class, with their defaults and aliases
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..errors import DeclarationError
from ..hints import serializer_for, strip_none
from ..records.classes import NO_RECORD_OPTIONS, class_fields, is_record_class, options_of
from ..records.fields import RecordField
from ..records.hints import record_field, retired_type
from ..stored_names import qualified_name
from .serializers import RowSerializer
from .values import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..hints import HintTable


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


def _row(_: Any, arguments: tuple[Any, ...]) -> RowSerializer:
    return RowSerializer(tuple(_column("", item) for item in arguments))


HINTS: HintTable = {Row: _row}
