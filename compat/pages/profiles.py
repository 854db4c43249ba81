"""The pieces of a profile: what is large, how it is spread, how old it is, and what fields hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.wording import many, size_text
from . import figures, pieces
from .pieces import Line, Operator, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup


def profile_pieces(data: Mapping[str, Any]) -> list[Markup]:
    """Return what is shown of a profile, which is given as `--json` has it."""
    states = [state for operator in data["operators"] for state in operator["states"]]
    entries = many(sum(state["entries"] for state in states), "entry", "entries")
    facts = [("place", data["savepoint"]), ("reference time", data["reference_time"])]
    headline = f"{entries} of {many(len(states), 'state')}, {size_text(data['bytes'])}"
    largest = figures.largest_states(data, "state")
    return [
        pieces.verdict("profile", headline, facts),
        *([largest] if largest is not None else []),
        pieces.operators([_operator(operator, f"o{at}") for at, operator in enumerate(data["operators"])]),
    ]


def _operator(operator: Mapping[str, Any], anchor: str) -> Operator:
    told = operator["not_counted"]
    return Operator(
        anchor=anchor,
        title=operator["operator"] or operator["operator_id"],
        word="",
        facts=tuple(_amounts(operator)),
        lines=(Line(f"not counted: {told}", "red"),) if told else (),
        changed=tuple(_state(state, f"{anchor}-{at}") for at, state in enumerate(operator["states"])),
        body=(
            *figures.spreads(operator["spread"]),
            *figures.heaviest_keys(operator["heaviest_keys"], operator["bytes"]),
        ),
    )


def _state(state: Mapping[str, Any], anchor: str) -> Subject:
    return Subject(
        anchor=anchor, name=state["state"], kind=state["kind"], word="", old=state["type"], new=state["type"],
        more=" · ".join(_amounts(state)), body=tuple(figures.profile_of_state(state)),
    )  # fmt: skip


def _amounts(data: Mapping[str, Any]) -> Iterator[str]:
    yield many(data["entries"], "entry", "entries")
    yield size_text(data["bytes"])
    if data["share"] is not None:
        yield f"{data['share']:.0%} of all"
