"""`stateshift explain`: which operators of a compiled plan keep state, what of, and what makes it grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...serializers.wording import many, shell_word
from ..failures import Status
from ..options import common_options
from ..output import Column, Line, Table, print_json, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.sql.query import Column as SqlColumn
    from ...compat.sql.query import SqlOperator, SqlQuery, SqlState
    from ...state.plans.compiled_plan import CompiledPlan
    from ...state.plans.growth import Growth

_COLUMNS = (Column("state", is_name=True), Column("kind"), Column("keeps"), Column("until", is_text=True))
_KEEPS = {
    "key": "one value", "different_row": "each different row, counted", "unique_key": "one row for each unique key",
    "sort_key": "the rows of each sort key", "time": "the rows of each time", "row": "every row",
    "different_value": "each different value",
}  # fmt: skip
_LEAVES = {
    "time_to_live": "{ttl} after it was last written", "job": "table.exec.state.ttl of the running job, if set",
    "window": "its window ends", "time": "time passes", "taken_back": "its input takes it back",
    "outranked": "others take its place",
}  # fmt: skip
_IMPLICIT = {
    "rows_before": "added by the planner: its source sends changes without the rows before them, or may repeat one",
    "sink_key": "added by the planner: changes of a row come by another key than the primary key of the table",
}


@click.command(
    "explain",
    epilog="""\b
Examples:
  stateshift explain plan.json
  stateshift explain plan.json --all
  stateshift explain s3://bucket/plans/orders.json --json

\b
PLAN is a file that COMPILE PLAN has written, of any file system. No savepoint is needed, and nothing is written.""",
)
@click.argument("plan", metavar="PLAN")
@click.option("--all", "everything", is_flag=True, help="Show each column too, and what it is computed from.")
@common_options
def command(plan: str, *, everything: bool, with_json: bool) -> int:
    """Show which operators of PLAN keep state, what they keep for each key, until when, and what makes it grow."""
    from ...state.plans.compiled_plan import read_plan, read_plan_file
    from ...state.plans.operators import describe_plan

    read = read_plan(read_plan_file(plan), plan)
    query = describe_plan(read)
    if with_json:
        print_json(_data(read, query))
    else:
        print_styled(_lines(read, query, everything=everything))
    return Status.DONE


def _keeping(query: SqlQuery) -> list[SqlOperator]:
    return [one for one in query.operators if one.states or one.unknown]


def _endless(query: SqlQuery) -> list[tuple[SqlOperator, SqlState]]:
    """Return the states that grow for ever."""
    from ...state.plans.growth import growth_of

    return [(one, state) for one in _keeping(query) for state in one.states if growth_of(one, state).is_endless]


def _data(plan: CompiledPlan, query: SqlQuery) -> dict[str, Any]:
    from ...state.plans.growth import implicit_of

    operators = [
        {
            "id": one.node,
            "operator": one.uids[0],
            "line": one.line,
            "description": plan.nodes[one.node].description,
            "added_for": implicit_of(one),
            "keys": _columns_data(one.keys),
            "rows": list(one.rows),
            "work": one.work,
            "states": [_state_data(one, state) for state in one.states],
            "unknown": one.unknown or None,
        }
        for one in _keeping(query)
    ]
    endless = [{"operator": one.uids[0], "state": state.name} for one, state in _endless(query)]
    told = {"plan": plan.place, "flink_version": plan.flink_version, "nodes": len(plan.nodes)}
    return {**told, "operators": operators, "endless": endless}


def _state_data(operator: SqlOperator, state: SqlState) -> dict[str, Any]:
    from ...state.plans.growth import growth_of

    growth = growth_of(operator, state)
    return {
        "name": state.name,
        "kind": state.kind,
        "keeps": growth.keeps,
        "until": list(growth.leaves),
        "endless": growth.is_endless,
        "ttl_ms": state.ttl_ms,
        "columns": _columns_data(state.columns),
        "user_key": _columns_data(state.user_key),
        "computed": state.computed or None,
    }


def _columns_data(columns: Sequence[SqlColumn]) -> list[dict[str, str]]:
    return [{"name": one.name, "type": _type(one), "computed": one.computed} for one in columns]


def _type(column: SqlColumn) -> str:
    """Return the type of a column, in Flink's words where it holds objects of Java."""
    return str(dict(column.type.parameters).get("summary") or column.type.describe())


def _lines(plan: CompiledPlan, query: SqlQuery, *, everything: bool) -> Iterator[Line | Table]:
    keeping = _keeping(query)
    yield [("plan ", "bold"), (plan.place, "")]
    keep = "keeps" if len(keeping) == 1 else "keep"
    yield [
        (f"  compiled by Flink {plan.flink_version}: {len(keeping)} of {many(len(plan.nodes), 'operator')} {keep}", ""),
        (" state; connectors of sources and sinks may keep their own", ""),
    ]
    for one in keeping:
        yield []
        yield from _operator_lines(one, plan.nodes[one.node].description, everything=everything)
    notes = list(_notes(plan, query))
    if notes:
        yield from ([], *notes)


def _notes(plan: CompiledPlan, query: SqlQuery) -> Iterator[Line]:
    """Yield what grows for ever, and how it gets a time to live: the states of an operator that share one together."""
    from ...state.plans.growth import growth_of

    shared: dict[tuple[str, str], list[tuple[SqlOperator, SqlState]]] = {}
    for one, state in _endless(query):
        times = plan.nodes[one.node].states
        place = "" if not times else f"{one.node}:{one.states.index(state)}" if len(times) > 1 else str(one.node)
        shared.setdefault((one.uids[0], place), []).append((one, state))
    for (title, place), states in shared.items():
        with_rows = any(growth_of(*one).with_rows for one in states)
        what = "new keys and new rows" if with_rows else "new keys"
        verb = "grows" if len(states) == 1 else "grow"
        names = ", ".join(state.name for _, state in states)
        yield [(f"note: {title} {names}: {verb} for ever with {what}", "yellow")]
        if place:
            yield [(f"  give it a time to live: stateshift ttl set {shell_word(plan.place)} {place}=TTL -o NEW", "dim")]


def _operator_lines(one: SqlOperator, description: str, *, everything: bool) -> Iterator[Line | Table]:
    from ...state.plans.growth import growth_of, implicit_of
    from ...state.plans.time_to_live import EXPIRY

    yield [(one.uids[0], "bold"), (f"  line {one.line}", "dim")]
    yield [(f"  plan  {description}", "")]
    if (why := implicit_of(one)) is not None:
        yield [(f"  {_IMPLICIT[why]}", "yellow")]
    yield [(f"  rows  {'; '.join(one.rows) or 'as its input sends them'}", "")]
    if one.unknown:
        expiry = EXPIRY.get(one.kind)
        yield [(f"  {one.unknown}{f'; it goes by {expiry.value}' if expiry else ''}", "yellow")]
        return
    keys = ", ".join(f"{key.name} {_type(key)} = {key.computed}" for key in one.keys)
    yield [(f"  key   {keys or 'none: one for the whole query'}", "")]
    rows = [
        [state.name, str(state.kind), _KEEPS[growth.keeps], _until(state, growth)]
        for state in one.states
        for growth in [growth_of(one, state)]
    ]
    yield Table.of(_COLUMNS, rows)
    for state in one.states if everything else ():
        if state.columns or state.computed:
            yield [(f"  {state.name}", "bold"), (f"  {state.computed}", "")]
        keys_of_map = () if state.user_key == state.columns else state.user_key
        for what, columns in (("by ", keys_of_map), ("", state.columns)):
            yield from ([(f"    {what}{of.name} {_type(of)}{_computed(of)}", "")] for of in columns)


def _computed(of: SqlColumn) -> str:
    """Return what a column is computed from; the fields of an accumulator have that as their name."""
    return "" if of.computed.startswith(of.name) else f" = {of.computed}"


def _until(state: SqlState, growth: Growth) -> str:
    from ...state.plans.time_to_live import Duration

    ttl = Duration(state.ttl_ms * 1_000_000).describe()
    told = " or ".join(_LEAVES[one].format(ttl=ttl) for one in growth.leaves)
    return f"for ever{f', unless {told}' if told else ''}" if growth.is_endless else told or "for ever"
