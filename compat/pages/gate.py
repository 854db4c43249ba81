"""The pieces of the gate's report: what a new revision may not change, and since which revision."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ...serializers.wording import many
from ..gate.levels import Direction
from . import pieces
from .pieces import Commands, Line, Operator, Placed, Row, Subject
from .rendering import piece

if TYPE_CHECKING:
    from markupsafe import Markup

    from ..gate.levels import GateReport, StateGate


def gate_pieces(report: GateReport) -> list[Markup]:
    """Return what is shown of a gate's report."""
    failing = sum(not state.passes for state in report.states)
    counted = many(len(report.states), "state or key", "states and keys")
    by_operator = groupby(enumerate(report.states), lambda one: one[1].operator)
    shown = [_operator(operator, list(states)) for operator, states in by_operator]
    placed = [
        Placed(row, state.name, f"s{at}")
        for at, state in enumerate(report.states)
        for row in (() if state.passes else _rows(state))
    ]
    return [
        pieces.verdict(
            "refuse" if failing else "accept",
            f"{failing:,} of {counted}" if failing else f"{counted}: compatible with the history",
            [("new", report.candidate), ("revisions", ", ".join(report.revisions) or "none")],
        ),
        *([pieces.worst(placed)] if placed else []),
        pieces.operators(shown) if shown else piece("nothing", "There is no state in it."),
        pieces.rules(sorted({one.row.of.rule for one in placed})),
    ]


def _operator(title: str, states: list[tuple[int, StateGate]]) -> Operator:
    return Operator(
        anchor=f"s{states[0][0]}-o",
        title=title,
        word="accept" if all(state.passes for _, state in states) else "refuse",
        changed=tuple(_state(at, state) for at, state in states if state.failures or state.changes),
        fine=tuple(_state(at, state) for at, state in states if not (state.failures or state.changes)),
    )


def _state(at: int, state: StateGate) -> Subject:
    lines = [Line(f"{one.direction}: {one.told}", "" if state.passes else "red") for one in state.failures]
    lines += [Line(f"accepted until {one.expires}: {one.rule}, {one.reason}", "yellow") for one in state.overridden]
    lines += [Line(f"no longer accepted since {one.expires}: {one.rule}", "red") for one in state.expired]
    return Subject(
        anchor=f"s{at}",
        name=state.state,
        word="accept" if state.passes else "refuse",
        more=f"level {state.level}",
        lines=tuple(lines),
        rows=_rows(state),
        is_open=not state.passes,
    )


def _rows(state: StateGate) -> tuple[Row, ...]:
    """Return what makes a state fail; an old job stays as it is, so that nothing said to a job helps it."""
    found = {
        (failure.direction, one): Row(one, Commands() if failure.direction is Direction.BACKWARD else None)
        for failure in state.failures
        for one in failure.against
    }
    return tuple(found.values())
