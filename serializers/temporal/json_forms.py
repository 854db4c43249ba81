"""JSON forms of dates and times: a tag, and the numbers of which the value consists."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .table import TIMES

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from .values import TemporalValue


def _numbers(tag: str, _: object) -> Tagger:
    def convert(value: TemporalValue) -> dict[str, int | list[int]]:
        parts = value.parts
        return {tag: parts[0] if len(parts) == 1 else list(parts)}

    return convert


JSON_FORMS: JsonFormTable = {time.snapshot: partial(_numbers, f"${time.row.flink.lower()}") for time in TIMES}
