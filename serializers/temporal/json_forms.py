"""JSON forms of dates and times: a tag, and the numbers of which the value consists."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .java_sql import (
    DateSerializerSnapshot,
    SqlDateSerializerSnapshot,
    SqlTimeSerializerSnapshot,
    SqlTimestampSerializerSnapshot,
)
from .java_time import (
    InstantSerializerSnapshot,
    LocalDateSerializerSnapshot,
    LocalDateTimeSerializerSnapshot,
    LocalTimeSerializerSnapshot,
)

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from .values import TemporalValue


def _numbers(tag: str, _: object) -> Tagger:
    def convert(value: TemporalValue) -> dict[str, int | list[int]]:
        parts = value.parts
        return {tag: parts[0] if len(parts) == 1 else list(parts)}

    return convert


JSON_FORMS: JsonFormTable = {
    DateSerializerSnapshot: partial(_numbers, "$date"),
    SqlDateSerializerSnapshot: partial(_numbers, "$sqldate"),
    SqlTimeSerializerSnapshot: partial(_numbers, "$sqltime"),
    SqlTimestampSerializerSnapshot: partial(_numbers, "$sqltimestamp"),
    InstantSerializerSnapshot: partial(_numbers, "$instant"),
    LocalDateSerializerSnapshot: partial(_numbers, "$localdate"),
    LocalTimeSerializerSnapshot: partial(_numbers, "$localtime"),
    LocalDateTimeSerializerSnapshot: partial(_numbers, "$localdatetime"),
}
