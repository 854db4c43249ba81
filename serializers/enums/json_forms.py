"""The JSON form of enums: the name of the constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .serializers import EnumSerializerSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger


def _enum(_: object) -> Tagger:
    return lambda value: {"$enum": value.name}


JSON_FORMS: JsonFormTable = {EnumSerializerSnapshot: _enum}
