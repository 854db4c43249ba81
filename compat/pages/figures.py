"""Figures of state as charts: sizes, spread, ages, the heaviest keys, and what fields hold; from data of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.plain_forms import value_text
from ...serializers.wording import many, size_text
from ..reference_time import age_text
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from markupsafe import Markup

_MOST_BARS = 12
_SPREADS = {"key_groups": "key group", "subtasks": "subtask", "partitions": "partition"}


def largest_states(data: Mapping[str, Any], name: str) -> Markup | None:
    """Return the states of an inspection or a profile by size; None if nothing was counted.

    Args:
        data: The data, whose operators have states with entries and bytes.
        name: The key of a state's name.
    """
    counted = [
        (f"{operator.get('uid') or operator.get('operator') or operator['operator_id']}/{state[name]}", state)
        for operator in data["operators"]
        for state in operator["states"]
        if state["bytes"]
    ]
    counted.sort(key=lambda one: -one[1]["bytes"])
    if not counted:
        return None
    whole, most = sum(state["bytes"] for _, state in counted), counted[0][1]["bytes"]
    rows = [
        {
            "name": place,
            "share": state["bytes"] / most,
            "text": f"{size_text(state['bytes'])}, {state['bytes'] / whole:.0%}, "
            + many(state["entries"], "entry", "entries"),
        }
        for place, state in counted[:_MOST_BARS]
    ]
    left = len(counted) - len(rows)
    more = f"; {many(left, 'smaller one')} with {size_text(sum(one['bytes'] for _, one in counted[_MOST_BARS:]))}"
    held = f"{many(len(counted), 'state')} with entries, {size_text(whole)} of keys and values, uncompressed"
    return piece("section", "The largest states", piece("bars", rows, held + (more if left else "")))


def spreads(data: Mapping[str, Any] | None) -> Iterator[Markup]:
    """Yield how the entries of an operator or a state are spread: over key groups, subtasks, or partitions."""
    for name, spread in (data or {}).items():
        shares, what = spread.get("shares", spread.get("ranges")), _SPREADS[name]
        if len(shares) < 2:
            continue
        most = max(one["bytes"] for one in shares) or 1
        skew = (
            f", the largest {spread['largest'] / spread['average']:.1f} times the average" if spread["average"] else ""
        )
        sizes = f"{size_text(spread['smallest'])} to {size_text(spread['largest'])}"
        rows = [
            {
                "name": _range(what, at, one),
                "label": f"{at if what == 'subtask' else one['first']:,}",
                "share": one["bytes"] / most,
                "text": f"{size_text(one['bytes'])}, {many(one['entries'], 'entry', 'entries')}",
            }
            for at, one in enumerate(shares)
        ]
        yield piece("columns", rows, f"bytes by {what}: {sizes} each{skew}", what, "bytes")


def _range(what: str, at: int, share: Mapping[str, Any]) -> str:
    groups = f"{share['first']:,}" + (f" to {share['last']:,}" if share["last"] != share["first"] else "")
    return f"subtask {at:,}, key groups {groups}" if what == "subtask" else f"{what} {groups}"


def heaviest_keys(data: Mapping[str, Any] | None, whole: int) -> Iterator[Markup]:
    """Yield the keys with the most bytes.

    Args:
        data: `heaviest_keys` of a profile, or `largest_keys` of an inspection; None: they were not asked for.
        whole: The bytes of all keys.
    """
    keys = (data or {}).get("keys", ())
    if keys:
        most = max(one["bytes"] for one in keys) or 1
        rows = [
            {
                "name": value_text(one["key"]),
                "share": one["bytes"] / most,
                "text": f"{size_text(one['bytes'])}"
                + (f", {one['bytes'] / whole:.1%}" if whole else "")
                + f", {many(one['entries'], 'entry', 'entries')}",
            }
            for one in keys
        ]
        yield piece("bars", rows, "the heaviest keys")


def distribution(data: Mapping[str, Any] | None, what: str, text: Callable[[int], str]) -> Iterator[Markup]:
    """Yield a histogram; nothing without numbers.

    Args:
        data: A distribution: `count`, `smallest`, `largest`, `average` and `buckets`.
        what: What is counted, such as `sizes of values`.
        text: Returns a number as people read it.
    """
    if not data or not data["buckets"]:
        return
    most = max(one["count"] for one in data["buckets"]) or 1
    rows = [
        {
            "name": text(one["from"]) + (f" to {text(one['to'])}" if one["to"] != one["from"] else ""),
            "label": text(one["from"]),
            "share": one["count"] / most,
            "text": f"{one['count']:,}",
        }
        for one in data["buckets"]
    ]
    sides = f"{text(data['smallest'])} to {text(data['largest'])}, {text(round(data['average']))} on average"
    yield piece("columns", rows, f"{what}: {sides}", what, "entries")


def profile_of_state(state: Mapping[str, Any]) -> list[Markup]:
    """Return the charts of a state of a profile."""
    return [
        *distribution(state["value_sizes"], "sizes of values", size_text),
        *distribution(state["lengths"], "elements", lambda number: f"{number:,}"),
        *_ages(state["ages"]),
        *heaviest_keys(state["heaviest_keys"], state["bytes"]),
        *spreads(state["spread"]),
        *_fields(state["fields"]),
        *(piece("nothing", f"not all is decoded: {why}") for why in _given(state["not_decoded"], state["not_counted"])),
    ]


def _given(*reasons: Any) -> Iterator[str]:
    yield from (str(one) for one in reasons if one)


def _ages(ages: Mapping[str, Any] | None) -> Iterator[Markup]:
    if ages is None:
        return
    what = "time left to live" if ages["is_left"] else "ages of values"
    yield from distribution(ages["milliseconds"], what, age_text)
    told = [f"{ages['expired']:,} expired and still stored"] if ages["expired"] is not None else []
    told += [f"{ages['ahead']:,} with a time stamp ahead of the reference time"] if ages["ahead"] else []
    if ages["time_to_live_ms"]:
        told.append(f"time to live {age_text(ages['time_to_live_ms'])}")
    if told:
        yield piece("nothing", "; ".join(told))


def _fields(fields: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    has_lengths = any(one["lengths"] and one["lengths"]["count"] for one in fields)
    rows = [
        [
            one["path"],
            one["type"],
            f"{one['nulls'] / one['count']:.1%}" if one["count"] else "",
            _value(one["smallest"]),
            _value(one["largest"]),
            ", ".join(_frequent(one)),
            *([_elements(one["lengths"])] if has_lengths else []),
        ]
        for one in fields
    ]
    titles = (*_FIELD, "elements") if has_lengths else _FIELD
    if rows:
        yield piece("table", titles, rows, ("null",), "what the fields hold")


_FIELD = ("field", "type", "null", "smallest", "largest", "most frequent")


def _frequent(field: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{_value(few['value'])} ({few['count']:,})" for few in field["frequent"])
    if field["others"]:
        yield f"others ({field['others']:,})"
    if field["untold"]:
        yield field["untold"]


def _elements(lengths: Mapping[str, Any] | None) -> str:
    if not lengths or not lengths["count"]:
        return ""
    few, most = lengths["smallest"], lengths["largest"]
    return f"{few:,}" if few == most else f"{few:,} to {most:,}"


def _value(value: Any) -> str:
    return "" if value is None else value_text(value)
