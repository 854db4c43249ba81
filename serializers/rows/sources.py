"""What `init` writes for rows: hints made of the hints of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..type_source import NoSourceError, or_none
from .serializers import RowSerializerSnapshot

if TYPE_CHECKING:
    from ..stored_nulls import NullTable, StoredNulls
    from ..type_source import SourceTable, TypeSource, Use
    from .values import Row


def _row(source: TypeSource, snapshot: RowSerializerSnapshot, use: Use) -> str:
    if not snapshot.supports_row_kind:
        raise NoSourceError("no type hint says rows without a kind, as Flink wrote them before 1.11")
    columns = [or_none(source.hint(column, use)) for column in snapshot.nested]
    return f"Row[{', '.join(columns) or '()'}]"


SOURCES: SourceTable = {RowSerializerSnapshot: _row}


def _look_into_row(nulls: StoredNulls, value: Row[Any], snapshot: RowSerializerSnapshot) -> None:
    for item, column in zip(value, snapshot.nested, strict=True):
        nulls.look(item, column)


NULLS: NullTable = {RowSerializerSnapshot: _look_into_row}
