"""The pieces of an inspection: what is stored, how much of it, and each type as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.wording import many, size_text
from ..type_tree import type_tree
from . import figures, pieces
from .pieces import Line, Node, Operator, Subject
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from ..description import StateDescription

_MUCH = 0.1
"""The share of all bytes from which a state is unfolded in a profile."""
Place = tuple[str, str, int | None]
"""A state: the id of its operator, its name, and the version of a lazy migration."""


def contents_pieces(
    data: Mapping[str, Any],
    types: Mapping[Place, StateDescription],
    notes: Sequence[Line] = (),
    *,
    profile: Mapping[str, Any] | None = None,
) -> list[Markup]:
    """Return what a page on stored state shows.

    Args:
        data: An inspection as `--json` has it.
        types: The types of states that are known.
        notes: Sentences on the whole.
        profile: A profile as `--json` has it; None: values were not read.
    """
    operators = [one for one in data["operators"] if one["states"] or one["error"] or one["unsupported"]]
    profiled = {} if profile is None else {one["operator_id"]: one for one in profile["operators"]}
    entries = sum(state["entries"] or 0 for operator in operators for state in operator["states"])
    states = sum(len(operator["states"]) for operator in operators)
    held = f"{many(len(operators), 'operator')} with {many(states, 'state')}, {many(entries, 'entry', 'entries')}"
    idle = [_title(one) for one in data["operators"] if one not in operators]
    facts = [("place", data["savepoint"])]
    facts += [("without state", ", ".join(idle))] if idle else []
    is_damaged = any(state["error"] for operator in operators for state in (operator, *operator["states"]))
    of = "of keys and values" if data["written_by"] == "spark" else "as stored, with headers"
    word = "damaged" if is_damaged else "checkpoint" if data["written_by"] == "spark" else "savepoint"
    largest = figures.largest_states(data, "name")
    return [
        pieces.verdict(word, f"{held}, {size_text(data['bytes'])} {of}", facts),
        *([piece("notes", notes)] if notes else []),
        *([largest] if largest is not None else []),
        pieces.operators(
            [_operator(at, one, types, profiled.get(one["operator_id"])) for at, one in enumerate(operators)]
        ),
    ]


def _title(operator: Mapping[str, Any]) -> str:
    return str(operator["uid"] or operator["name"] or operator["operator_id"])


def _operator(
    at: int, operator: Mapping[str, Any], types: Mapping[Place, StateDescription], profile: Mapping[str, Any] | None
) -> Operator:
    profiled = {} if profile is None else {(one["state"], one["kind"]): one for one in profile["states"]}
    spread = operator["skew"] if profile is None else profile["spread"]
    shown = []
    for index, state in enumerate(operator["states"]):
        described = types.get((operator["operator_id"], state["name"], state["lazy_version"]))
        figured = profiled.get((state["name"], state["kind"]))
        shown.append(_state(f"o{at}-{index}", state, described, figured))
    lines = [Line(operator["error"]["message"], "red")] if operator["error"] else []
    lines += (
        [Line(f"not all of its state can be read: {operator['unsupported']}", "red")] if operator["unsupported"] else []
    )
    return Operator(
        anchor=f"o{at}",
        title=_title(operator),
        word="damaged" if operator["error"] else "",
        facts=tuple(_facts(operator)),
        lines=tuple(lines),
        changed=tuple(shown),
        body=(
            *figures.spreads(spread),
            *(() if profile is None else figures.heaviest_keys(profile["heaviest_keys"], profile["bytes"])),
        ),
    )


def _facts(operator: Mapping[str, Any]) -> Iterator[str]:
    if operator["uid"] or operator["name"]:
        yield operator["operator_id"]
    yield f"key {operator['key']}" if operator["key"] else "no key"
    if operator["parallelism"]:
        yield f"parallelism {operator['parallelism']:,}"
    if operator["max_parallelism"]:
        yield f"max parallelism {operator['max_parallelism']:,}"
    yield size_text(operator["bytes"]) + ("" if operator["share"] is None else f", {operator['share']:.0%} of all")
    if operator["flink_restorable"] is not None:
        yield "Flink restores it" if operator["flink_restorable"] else "Flink does not restore it"
    if operator["keeps"]:
        yield f"also kept: {', '.join(operator['keeps'])}"


def _state(
    anchor: str, state: Mapping[str, Any], described: StateDescription | None, profile: Mapping[str, Any] | None
) -> Subject:
    more = [] if state["entries"] is None else [many(state["entries"], "entry", "entries"), size_text(state["bytes"])]
    more += [] if state["share"] is None else [f"{state['share']:.0%} of the operator"]
    more += [f"per {state['namespace']}"] if state["namespace"] else []
    more += ["TTL"] if state["ttl"] else []
    more += [f"version {state['lazy_version']} of a lazy migration"] if state["lazy_version"] else []
    more += ["not Flink-restorable"] if state["flink_restorable"] is False else []
    lines = [Line(state["error"]["message"], "red")] if state["error"] else []
    trees: tuple[Node, ...] = ()
    if described is not None:
        parts = [("key", described.key), ("", described.value)]
        made = (type_tree(one.snapshot, one.snapshot, name=name) for name, one in parts if one is not None)
        trees = tuple(map(Node.made, made))
    type_text = state["type"] or ""
    return Subject(
        anchor=anchor, name=state["name"], kind=state["kind"], old=type_text, new=type_text,
        word="damaged" if state["error"] else "unsupported" if state["unsupported"] and state["entries"] != 0 else "",
        more=" · ".join(more), lines=tuple(lines), trees=trees,
        is_open=profile is not None and (profile["share"] or 0) >= _MUCH,
        body=tuple(
            figures.profile_of_state(profile)
            if profile is not None
            else figures.heaviest_keys(state["largest_keys"], state["bytes"] or 0)
        ),
    )  # fmt: skip
