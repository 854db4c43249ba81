"""Formatting of `stateshift inspect --profile`: a table of the states by size, then what each of them is, as bars.

It takes the plain data of a profile, in which `--redact` holds.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...compat.reference_time import age_text
from ...serializers.plain_forms import plain
from ...serializers.wording import json_text, many
from ...state.progress import size_text
from ..output import Column, Row, Table, line_width, styled_table
from .bars import BAR_WIDTH, bar, fitting_bar, percent
from .spreads import spread_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..output import Block, Line

    Data = dict[str, Any]

_NUMBERS = (Column("entries", is_number=True), Column("bytes", is_number=True), Column("share", is_number=True))
_STATES = (Column("state", is_name=True), Column("operator", is_name=True), Column("kind"), *_NUMBERS)
_COUNTS = (Column("", is_number=True), Column("", is_number=True), Column("", is_number=True), Column(""))
_FIELDS = (Column("field", is_name=True), Column("nulls", is_number=True), Column("values", is_text=True))
_MOST_STATES, _MOST_FREQUENT = 10, 5
_LEAST_BAR = 8
_KEY_WIDTH, _VALUE_WIDTH = 32, 30
_LEAST_NAMES = (16, 12)
_OTHERS = 9
"""The width of what is beside names and numbers in the table of states: the share, and indentation."""


def lines_of_profile(profile: Data, *, is_full: bool) -> Iterator[Block]:
    """Yield all lines.

    Args:
        profile: The result of `profile_data`.
        is_full: Whether all states are shown with bars, instead of the ten largest.
    """
    states = [(operator, state) for operator in profile["operators"] for state in operator["states"]]
    states.sort(key=lambda pair: -pair[1]["bytes"])
    yield [(f"profile of {profile['savepoint']}", "bold")]
    entries = many(sum(operator["entries"] for operator in profile["operators"]), "entry", "entries")
    yield [(f"  {many(len(states), 'state')}, {entries}, {size_text(profile['bytes'])}", "")]
    for operator in profile["operators"]:
        if operator["not_counted"]:
            yield [(f"  {operator['operator']}: not all states are known: {operator['not_counted']}", "red")]
    if states:
        yield from _table(states)
    filled = [pair for pair in states if pair[1]["entries"] or pair[1]["not_counted"]]
    shown = filled if is_full else filled[:_MOST_STATES]
    for operator, state in shown:
        yield []
        yield from _state(operator, state, is_full=is_full)
    if len(shown) < len(filled):
        yield []
        yield [(f"{len(filled) - len(shown)} smaller states: --state NAME or --full shows them", "dim")]
    for operator in profile["operators"]:
        yield from _operator(operator)


def _table(states: list[tuple[Data, Data]]) -> Iterator[Block]:
    """Yield the states by size; long names are cut where they leave no room for bars."""
    rows = [
        [state["state"], operator["operator"], state["kind"], f"{state['entries']:,}", f"{state['bytes']:,}"]
        for operator, state in states
    ]
    titled = [[column.title for column in _STATES[:-1]], *rows]
    too_wide = sum(max(map(len, one)) + 2 for one in zip(*titled, strict=True)) + _OTHERS + _LEAST_BAR - line_width()
    for at, least in enumerate(_LEAST_NAMES):
        longest = max(len(row[at]) for row in rows)
        width = max(longest - max(too_wide, 0), min(least, longest))
        too_wide -= longest - width
        for row in rows:
            row[at] = _cut(row[at], width)
    whole = sum(state["bytes"] for _, state in states)
    shares = [percent(state["bytes"], whole) for _, state in states]
    cells = [[(text, "") for text in (*row, share)] for row, share in zip(rows, shares, strict=True)]
    titles, *lines = styled_table(_STATES, cells, indent=2)
    room = min(line_width() - sum(len(text) for text, _ in titles.cells) - 2, BAR_WIDTH)
    yield titles
    for (_, state), line in zip(states, lines, strict=True):
        drawn = bar(state["bytes"], states[0][1]["bytes"], room) if room >= _LEAST_BAR else ""
        yield Row([*line.cells, ("  ", ""), (drawn, "green")])


def _state(operator: Data, state: Data, *, is_full: bool) -> Iterator[Block]:
    yield [(state["state"], "bold cyan"), (f" of {operator['operator']}: {state['kind']}", "bold")]
    if state["type"]:
        yield [(f"  {state['type']}", "")]
    if state["not_counted"]:
        yield [(f"  not counted: {state['not_counted']}", "red")]
        return
    sizes = state["value_sizes"]
    if sizes["largest"]:
        average = size_text(round(sizes["average"]))
        parts = f"keys {size_text(state['key_bytes'])}, values {size_text(state['value_bytes'])}"
        yield [(f"  {parts}; a value has {size_text(sizes['smallest'])} to {size_text(sizes['largest'])}", "")]
        yield [(f"  sizes of values, {average} on average", "bold")]
        yield from _distribution(sizes, size_text)
    if state["lengths"] and state["lengths"]["count"]:
        lengths = state["lengths"]
        told = f"{lengths['average']:,.1f} on average, {lengths['largest']:,} at most"
        yield [(f"  {'entries' if state['kind'] == 'map' else 'elements'} of a key, {told}", "bold")]
        yield from _distribution(lengths, "{:,}".format)
    yield from _heaviest(state)
    yield from _spreads(state["spread"], with_bars=is_full and len(operator["states"]) > 1)
    yield from _ages(state["ages"])
    if state["not_decoded"]:
        yield [(f"  values are not decoded: {state['not_decoded']}", "yellow")]
    rows = [row for field in state["fields"] if any((row := _field_row(field))[1:])]
    if rows:
        yield Table.of(_FIELDS, rows)


def _operator(operator: Data) -> Iterator[Block]:
    """Yield what the keyed states of an operator are together."""
    if not operator["spread"]:
        return
    yield []
    yield [(f"all keyed states of {operator['operator']}", "bold")]
    if sum(bool(state["heaviest_keys"] and state["entries"]) for state in operator["states"]) > 1:
        yield from _heaviest(operator)
    yield from _spreads(operator["spread"], with_bars=True)


def _spreads(spreads: Data, *, with_bars: bool) -> Iterator[Block]:
    for name, spread in spreads.items():
        if spread["count"] > 1:
            yield from spread_lines(name, spread, spread["shares"], with_bars=with_bars)


def _distribution(of: Data, text: Callable[[int], str]) -> Iterator[Block]:
    largest = max((one["count"] for one in of["buckets"]), default=0)
    rows: list[Line] = []
    for is_empty, some in groupby(of["buckets"], lambda one: not one["count"]):
        found = list(some)
        if is_empty and len(found) > 1:
            rows.append([("…", ""), *[("", "")] * 3])
            continue
        rows += (
            [
                (_interval(text(one["from"]), text(one["to"])), ""),
                (f"{one['count']:,}", ""),
                (percent(one["count"], of["count"]), ""),
                (fitting_bar(one["count"], largest), "green"),
            ]
            for one in found
        )
    yield from styled_table(_COUNTS, rows, indent=4)[1:]


def _interval(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _heaviest(of: Data) -> Iterator[Block]:
    """Yield the heaviest keys of a state or operator."""
    heaviest, whole, is_of_spark = of["heaviest_keys"], of["bytes"], "partitions" in of["spread"]
    if heaviest is None:
        return
    if heaviest["unknown"]:
        yield [(f"  {heaviest['unknown']}", "yellow")]
    if not heaviest["keys"]:
        return
    yield [("  heaviest keys", "bold")]
    rows: list[Line] = []
    for one in heaviest["keys"]:
        numbers = [f"{one['part']:,}", f"{one['entries']:,}", f"{one['bytes']:,}", percent(one["bytes"], whole)]
        rows.append([(_cut(json_text(plain(one["key"])), _KEY_WIDTH), ""), *((text, "") for text in numbers)])
    part = Column("partition" if is_of_spark else "key group", is_number=True)
    yield from styled_table((Column("key"), part, *_NUMBERS), rows, indent=4)
    if heaviest["missing_bytes"]:
        yield [(f"    too many keys at once: each size can lack {size_text(heaviest['missing_bytes'])}", "yellow")]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _ages(ages: Data | None) -> Iterator[Block]:
    if ages is None:
        return
    of = ages["milliseconds"]
    count = of["count"] + ages["ahead"]
    if ages["is_left"]:
        told = f"time left until values expire: {ages['expired']:,} of {count:,} have expired, and are still stored"
    elif ages["expired"] is None:
        told = "time since the last access; --ttl TIME counts what has expired and is still stored"
    else:
        live = age_text(ages["time_to_live_ms"])
        told = (
            f"time since the last access: {ages['expired']:,} of {count:,} have expired ({live}), and are still stored"
        )
    yield [(f"  {told}", "bold")]
    yield from _distribution(of, age_text)
    if ages["ahead"] and not ages["is_left"]:
        yield [(f"    {ages['ahead']:,} have a last access after the reference time", "yellow")]


def _field_row(field: Data) -> list[str]:
    told = []
    if field["smallest"] is not None:
        smallest, largest = (_cut(json_text(field[of]), _VALUE_WIDTH) for of in ("smallest", "largest"))
        told.append(_interval(smallest, largest))
    if field["frequent"]:
        some = [
            f"{_cut(json_text(one['value']), _VALUE_WIDTH)} {percent(one['count'], field['count'] - field['nulls'])}"
            for one in field["frequent"][:_MOST_FREQUENT]
        ]
        left = len(field["frequent"]) > _MOST_FREQUENT or field["others"]
        told.append(", ".join([*some, *(["…"] if left else [])]))
    if field["lengths"] and field["lengths"]["count"]:
        lengths = _interval(*(f"{field['lengths'][of]:,}" for of in ("smallest", "largest")))
        told.append(f"{lengths} {'element' if lengths == '1' else 'elements'}")
    if field["untold"]:
        told.append(field["untold"])
    return [field["path"], percent(field["nulls"], field["count"]) if field["nulls"] else "", "; ".join(told)]
