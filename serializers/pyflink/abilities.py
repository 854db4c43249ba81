"""What is registered for bytes of PyFlink's coders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..scalars import kept
from .byte_keys import ByteArrayWrapperSerializer, ByteArrayWrapperSerializerSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable
    from ..rewrite import RewriteTable
    from ..source import SourceTable

REWRITES: RewriteTable = {ByteArrayWrapperSerializer: kept}
JSON_FORMS: JsonFormTable = {ByteArrayWrapperSerializerSnapshot: lambda _: lambda value: {"$bytes": value.hex()}}
SOURCES: SourceTable = {ByteArrayWrapperSerializerSnapshot: ByteArrayWrapperSerializer.row.hint}
