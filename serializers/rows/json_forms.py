"""The JSON form of rows: their kind, and their fields by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..json_forms import tagger_of
from .serializers import RowSerializerSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from .values import Row


def _row(snapshot: RowSerializerSnapshot) -> Tagger:
    columns = [tagger_of(child) for child in snapshot.children()]

    def convert(value: Row[Any]) -> Any:
        fields = [column(item) for column, item in zip(columns, value, strict=True)]
        return {"$row": {"fields": fields, "kind": value._kind.name}}  # noqa: SLF001 - public despite the underscore

    return convert


JSON_FORMS: JsonFormTable = {RowSerializerSnapshot: _row}
