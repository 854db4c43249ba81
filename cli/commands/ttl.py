"""`stateshift ttl`: the time to live of each state of a compiled plan of Flink SQL, shown and set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...serializers.errors import DeclarationError, TargetExists
from ..failures import Status
from ..options import common_options
from ..output import Column, Line, Table, print_json, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...state.plans.compiled_plan import CompiledPlan, PlanNode
    from ...state.plans.time_to_live import Edit

_COLUMNS = (Column("operator"), Column("state"), Column("time to live", is_text=True))
_SET = "set"


@click.command(
    "ttl",
    epilog="""\b
Examples:
  stateshift ttl plan.json
  stateshift ttl s3://bucket/plans/orders.json --json
  stateshift ttl set plan.json 7:0=3s 7:1=9s -o plan-2.json
  stateshift ttl set plan.json 7:leftState=1d 5=0 --in-place

\b
PLAN is a file that COMPILE PLAN has written, of any file system. A TTL is a number and a unit, as Flink reads it (3s,
15 min, 1d; without a unit: milliseconds); 0 means that state never expires. INDEX is the number or the name of a state,
and is needed where an operator has several. Only these bytes of the plan change.""",
)
@click.argument("words", nargs=-1, required=True, metavar="[set] PLAN [NODE[:INDEX]=TTL]…")
@click.option("-o", "--output", metavar="PLAN", help="With set: write the changed plan there; no file may be there.")
@click.option("--in-place", is_flag=True, help="With set: change PLAN itself.")
@common_options
def command(words: tuple[str, ...], *, output: str | None, in_place: bool, with_json: bool) -> int:
    """Show how long each state of PLAN is kept, and what may not be meant; or write a plan with other times."""
    from ...state.plans.compiled_plan import read_plan, read_plan_file
    from ...state.plans.time_to_live import edited, parse_edit

    is_set = words[0] == _SET
    place, *given = words[is_set:] or ("",)
    fits = bool(given) and bool(output) != in_place if is_set else not (given or output or in_place)
    if not place or not fits:
        raise click.UsageError(
            "give a PLAN; or set, a PLAN, one NODE[:INDEX]=TTL or more, and either -o PLAN or --in-place"
        )
    data = read_plan_file(place)
    plan = read_plan(data, place)
    edits = [parse_edit(plan, text) for text in given]
    if is_set:
        text = edited(plan, edits)
        place = output or place
        _write(place, text.encode(), data, replaces=in_place)
        plan = read_plan(text.encode(), place)
    if with_json:
        print_json({"set": [_edit_data(edit) for edit in edits], **_data(plan)})
    else:
        print_styled(_lines(plan, edits))
    return Status.DONE


def _write(place: str, data: bytes, before: bytes, *, replaces: bool) -> None:
    """Write a plan; one that is replaced is still as it was read."""
    from ...state.storage.files import folder_and_name

    folder, name = folder_and_name(place)
    there = folder.exists(name)
    if there and not replaces:
        raise TargetExists.before_writing(f"{place} exists", advice="name another file, or use --in-place")
    if replaces and folder.read(name) != before:
        raise DeclarationError.before_writing(f"{place} has changed since it was read", advice="run the command again")
    folder.write(name, data)


def _keeps_state(plan: CompiledPlan) -> list[PlanNode]:
    from ...state.plans.time_to_live import EXPIRY

    return [node for node in plan.nodes.values() if node.states or node.kind in EXPIRY]


def _data(plan: CompiledPlan) -> dict[str, Any]:
    from ...state.plans.time_to_live import EXPIRY, doubts, ttl_of

    operators = []
    for node in _keeps_state(plan):
        states = [
            {"index": one.index, "name": one.name, "ttl": one.ttl, "ttl_ms": ttl_of(plan, node, one).millis}
            for one in node.states
        ]
        follows = None if node.states else EXPIRY[node.kind].name.lower()
        told = {"id": node.id, "operator": node.title, "line": node.line, "description": node.description}
        operators.append({**told, "states": states, "follows": follows})
    notes = [{"operator": one.node.title, "state": one.state, "why": one.why} for one in doubts(plan)]
    return {"plan": plan.place, "flink_version": plan.flink_version, "operators": operators, "notes": notes}


def _edit_data(edit: Edit) -> dict[str, Any]:
    told = {"operator": edit.node.title, "state": edit.state.name}
    return {**told, "was": edit.state.ttl, "ttl": edit.ttl.written(), "ttl_ms": edit.ttl.millis}


def _lines(plan: CompiledPlan, edits: Sequence[Edit]) -> Iterator[Line | Table]:
    from ...state.plans.time_to_live import EXPIRY, doubts, ttl_of

    yield [("written: " if edits else "plan ", "bold"), (plan.place, "")]
    for edit in edits:
        bare = ": a number without a unit is milliseconds" if edit.ttl.is_bare and edit.ttl.nanos else ""
        yield [(f"  {edit.node.title} {edit.state.name}: {edit.was.describe()} -> {edit.ttl.describe()}{bare}", "")]
    if any(edit.ttl.nanos and not edit.was.nanos for edit in edits):
        yield [("  what is stored has no time stamp: Flink 2.3 writes one as it restores, Flink 1.20 refuses", "dim")]
    if any(edit.was.nanos and not edit.ttl.nanos for edit in edits):
        yield [("  what is stored and has expired would come back: migrate the savepoint with both plans", "dim")]
    if any(edit.was.nanos and edit.ttl.is_shorter(edit.was) for edit in edits):
        yield [("  what is stored keeps its time until the query writes it again", "dim")]
    if not edits:
        yield [(f"  compiled by Flink {plan.flink_version}", "")]
        rows = [
            row
            for node in _keeps_state(plan)
            for row in (
                [[node.title, one.name, ttl_of(plan, node, one).describe()] for one in node.states]
                or [[node.title, "-", f"({EXPIRY[node.kind].value})"]]
            )
        ]
        yield Table.of(_COLUMNS, rows) if rows else [("  no operator of it keeps state with a time to live", "")]
    for doubt in doubts(plan):
        yield [(f"note: {doubt.node.title} {doubt.state}: {doubt.why}", "yellow")]
