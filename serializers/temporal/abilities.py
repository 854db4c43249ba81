"""What is registered for dates and times: hints, byte rewrites, JSON, and the source that `init` writes."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ..scalars import kept
from .serializers import (
    TIMES,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSerializer,
)

if TYPE_CHECKING:
    from ..hints import HintTable
    from ..json_forms import JsonFormTable, Tagger
    from ..rewrite import ByteRewrite, Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from ..source import SourceTable
    from .values import TemporalValue

AwareDatetime = Annotated[dt.datetime, InstantSerializer()]
"""A datetime with a time zone, stored as an instant and read in UTC; a bare `datetime` means the same."""
NaiveDatetime = Annotated[dt.datetime, LocalDateTimeSerializer()]
"""A datetime without a time zone."""

HINTS: HintTable = {
    dt.datetime: InstantSerializer(),
    dt.date: LocalDateSerializer(),
    dt.time: LocalTimeSerializer(),
    **{time.row.value_class: time(exact=True) for time in TIMES},
}


def _temporal(writer: TemporalSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> ByteRewrite | None:
    """Return the byte rewrite for a reader of exact values: others fail where Python holds no such value."""
    is_exact = isinstance(reader, TemporalSerializer) and reader.exact
    return kept(writer, reader, conversion) if is_exact else None


REWRITES: RewriteTable = {time: _temporal for time in TIMES if time.row.stays is not None}


def _numbers(tag: str, _: object) -> Tagger:
    def convert(value: TemporalValue) -> dict[str, int | list[int]]:
        parts = value.parts
        return {tag: parts[0] if len(parts) == 1 else list(parts)}

    return convert


JSON_FORMS: JsonFormTable = {time.snapshot: partial(_numbers, f"${time.row.flink.lower()}") for time in TIMES}


SOURCES: SourceTable = {time.snapshot: time.row.hint for time in TIMES}
