"""Byte rewrites of dates and times: their numbers stay, where they are valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..scalars import kept
from .java_time import TemporalSerializer
from .table import TIMES

if TYPE_CHECKING:
    from ..rewrite import ByteRewrite, Conversion, RewriteTable
    from ..serializer import TypeDeserializer


def _temporal(writer: TemporalSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> ByteRewrite | None:
    """Return the byte rewrite for a reader of exact values: others fail where Python holds no such value."""
    is_exact = isinstance(reader, TemporalSerializer) and reader.exact
    return kept(writer, reader, conversion) if is_exact else None


REWRITES: RewriteTable = {time: _temporal for time in TIMES if time.row.stays is not None}
