"""Aggregates that are new, and that others which are stored give exactly: rule SQL-21.

    COUNT(x)            the number that AVG(x) keeps, or SUM(x) where rows are taken back
    SUM(x), $SUM0(x)    the sum that another of them keeps, or AVG(x), of whole numbers and DECIMAL
    AVG(x)              the sum that SUM(x) or $SUM0(x) keeps, of BIGINT and DECIMAL

Each takes the number of values from one that has it, and a sum of no values is what the aggregate begins with. All
fields of an aggregate are given, or none is: they belong together. Flink plans AVG(x) beside SUM(x) and COUNT(x) as
$SUM0(x) and COUNT(x). Source: the table of accumulators.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ...serializers.sql.row_changes import Filled, RowColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .query import AggregatePart, Column

_SUMS = ("SUM", "$SUM0", "AVG")
_NUMBERS = (("COUNT", 0), ("AVG", 1), ("SUM", 1))
_EXACT = {
    "AVG": frozenset({"BIGINT", "DECIMAL"}),
    **dict.fromkeys(("SUM", "$SUM0"), frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL"})),
}
"""The types of stored sums that an aggregate would have kept itself; those of others are rounded, or have less room."""
_WHY = "it is new, and another aggregate that is stored gives it exactly"


def backfilled(old: Sequence[Column], new: Sequence[Column]) -> dict[int, RowColumn]:
    """Return the new columns that stored ones of other aggregates give, by their place."""
    there = {(one.part.function, one.part.over, one.part.index): at for at, one in enumerate(old) if one.part}
    known = {one.computed for one in old}
    found: dict[int, RowColumn] = {}
    numbered = [(at, one, one.part) for at, one in enumerate(new) if one.part is not None]
    for _, group in groupby(numbered, key=lambda given: (given[2].function, given[2].over)):
        fields = list(group)
        if any(column.computed in known for _, column, _ in fields):
            continue
        given = {at: _given(column, part, old, there) for at, column, part in fields}
        if None not in given.values():
            found |= {at: one for at, one in given.items() if one is not None}
    return found


def _given(
    column: Column, part: AggregatePart, old: Sequence[Column], there: Mapping[tuple[str, str, int], int]
) -> RowColumn | None:
    """Return what a field of an aggregate takes from others; None: they do not give it."""

    def place(*fields: tuple[str, int]) -> int | None:
        return next((there[name, part.over, at] for name, at in fields if (name, part.over, at) in there), None)

    number = place(*_NUMBERS)
    if number is None:
        return None
    if (part.function, part.index) in _NUMBERS:
        return RowColumn(column.name, number, why=_WHY)
    total = place(*((one, 0) for one in _SUMS)) if part.function in _SUMS else None
    if total is None or column.begins is None or old[total].type.root not in _EXACT[part.function]:
        return None
    return RowColumn(column.name, begins=column.begins[0], why=_WHY, filled=Filled(total, number))
