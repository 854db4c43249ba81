"""What Flink keeps for each aggregate of a query: the fields of its accumulator, and the states beside it.

A plan has the types of results alone. What is kept follows from the function, the types of its arguments and whether
rows may be taken back: `accumulators.json`, which real Flink made, says how. Its `about` says how to read it.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.sql.query import AggregatePart, Column, SqlState, ValueForm
from ...serializers.errors import UnsupportedFormat
from ...serializers.sql.logical_types import OPAQUE, LogicalType
from .column_types import type_of
from .lineage import aggregate_over, aggregate_text, function_name, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SLOT = re.compile(r"\{0(\.scale)?\}")
_COUNT_ALL = "COUNT(*)"
_VIEW = "RAW('org.apache.flink.table.api.dataview.MapView', '...')"


@attrs.frozen
class Accumulators:
    """What a node of aggregates keeps.

    Attributes:
        columns: The fields of all accumulators, in order.
        views: The states beside them.
        unknown: Why they are not known, or "".
    """

    columns: tuple[Column, ...] = ()
    views: tuple[SqlState, ...] = ()
    unknown: str = ""


def accumulators_of(data: Mapping[str, Any], columns: Sequence[Column], *, ttl_ms: int = 0) -> Accumulators:
    """Return what a node of aggregates keeps.

    Args:
        data: The node of the plan.
        columns: The columns to which its arguments refer.
        ttl_ms: The time to live of its state; 0: it has none.
    """
    calls: list[dict[str, Any]] = data["aggCalls"]
    retracts = data.get("aggCallNeedRetractions") or [False] * len(calls)
    fields: list[Column] = []
    views: list[SqlState] = []
    distinct: dict[tuple[int, ...], list[int]] = {}
    for index, (call, back) in enumerate(zip(calls, retracts, strict=True)):
        text = aggregate_text(call, columns, retracts=back)
        row = _row_of(call, columns, retracts=back)
        if row is None:
            return Accumulators(unknown=f"what Flink keeps for {text} is not known")
        argument = columns[call["argList"][0]].type if call["argList"] else None
        types, over = [_filled(one, argument) for one in row["fields"]], short(aggregate_over(call, columns))
        begins = row["initial"]
        for place, (spelled, initial) in enumerate(zip(types, begins, strict=True)):
            name = text if len(types) == 1 else f"{text}[{place}]"
            begin, part = _begin(initial, spelled, call), AggregatePart(function_name(call), over, place)
            fields.append(Column(name, _type(spelled), f"{text} field {place}", begin, part))
        of_types = _types(call["argList"], columns)
        views += [
            _view(f"agg{index}${name}", StateKind(kind.lower()), f"{name} of {text}, {of_types}", ttl_ms=ttl_ms)
            for name, (kind, *_) in row["views"].items()
        ]
        if call["distinct"]:
            distinct.setdefault(tuple(call["argList"]), []).append(index)
    has_count = data.get("indexOfCountStar", -1) >= 0 or any(_is_count_of_all(call) for call in calls)
    if data.get("needRetraction") and not has_count:
        text = f"{_COUNT_ALL} with retraction"
        fields.append(Column(text, LogicalType("BIGINT"), f"{text} field 0"))
    for number, (arguments, indexes) in enumerate(distinct.items()):
        told = _distinct_text(
            arguments, [calls[index] for index in indexes], columns, any(retracts[i] for i in indexes)
        )
        typed = f"{told}, {_types(arguments, columns)}"
        fields.append(Column(told, _opaque(_VIEW), typed))
        views.append(_view(f"distinctAcc_{number}", StateKind.MAP, typed, ttl_ms=ttl_ms))
        views.append(_view(f"distinctAcc_{number}_null_state", StateKind.VALUE, f"{typed}, of null", ttl_ms=ttl_ms))
    return Accumulators(tuple(fields), tuple(views))


def _types(arguments: Iterable[int], columns: Sequence[Column]) -> str:
    """Return the types of arguments: what is kept of them by value has these types."""
    return ", ".join(columns[index].type.describe() for index in arguments)


def _view(name: str, kind: StateKind, computed: str, *, ttl_ms: int) -> SqlState:
    return SqlState(name=name, kind=kind, form=ValueForm.VIEW, computed=computed, ttl_ms=ttl_ms)


def _is_count_of_all(call: Mapping[str, Any]) -> bool:
    is_plain = not call["argList"] and not call["distinct"] and call.get("filterArg", -1) < 0
    return function_name(call) == "COUNT" and is_plain


def _distinct_text(
    arguments: tuple[int, ...],
    calls: list[dict[str, Any]],
    columns: Sequence[Column],
    retracts: bool,  # noqa: FBT001
) -> str:
    """Return what a view of distinct values holds: the values, and for each of the filters in order whether it came."""
    values = ", ".join(columns[index].computed for index in arguments)
    filters = [call.get("filterArg", -1) for call in calls]
    told = ", ".join("all" if one < 0 else columns[one].computed for one in filters)
    return f"different ({values}) of {told}{' with retraction' if retracts else ''}"


def _row_of(call: Mapping[str, Any], columns: Sequence[Column], *, retracts: bool) -> dict[str, Any] | None:
    roots = ", ".join(columns[index].type.root for index in call["argList"])
    for row in _functions().get(function_name(call), ()):
        if retracts in row["retraction"] and roots in row["arguments"]:
            found: dict[str, Any] = row
            return found
    return None


def _filled(spelled: str, argument: LogicalType | None) -> str:
    """Return a type of the table for the argument of a call."""
    if argument is None:
        return spelled
    nullable = attrs.evolve(argument, is_nullable=True)
    plain = attrs.evolve(
        nullable, parameters=tuple((k, "REGULAR" if k == "kind" else v) for k, v in nullable.parameters)
    )
    return _SLOT.sub(lambda found: str(argument.parameter("scale")) if found[1] else plain.describe(), spelled)


def _type(spelled: str) -> LogicalType:
    try:
        return type_of(spelled, "")
    except UnsupportedFormat:
        return _opaque(spelled)


def _opaque(spelled: str) -> LogicalType:
    """Return a type that only a savepoint has in full."""
    return LogicalType(OPAQUE, parameters=(("summary", spelled),))


def _begin(initial: Any, spelled: str, call: Mapping[str, Any]) -> tuple[Any] | None:
    """Return the value of a field before the first row, in a tuple; None where it cannot begin later."""
    if call["distinct"] or isinstance(initial, dict | list) or "MapView" in spelled or "ListView" in spelled:
        return None
    return (Decimal(initial) if initial is not None and spelled.startswith("DECIMAL") else initial,)


@cache
def _functions() -> dict[str, list[dict[str, Any]]]:
    text = (files(__package__) / "accumulators.json").read_text(encoding="utf-8")
    functions: dict[str, list[dict[str, Any]]] = json.loads(text)["functions"]
    return functions
