"""The pieces of a plan, and of what a migration did: what becomes of each state, its types, and how much it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision
from ...serializers.wording import many
from ..description import uid_order
from ..plan import StateAction
from ..type_tree import type_tree
from ..way_back import no_way_back
from . import pieces
from .pieces import Commands, Line, Node, Operator, Placed, Row, Shown, Subject
from .rendering import piece
from .samples import samples_piece

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from ..entry_samples import EntrySamples
    from ..plan import MigrationPlan, OperatorPlan, StatePlan

Place = tuple[str, str]
"""A state: the id of its operator, and its name."""


@attrs.frozen
class About:
    """What is known of a state beside its plan.

    Attributes:
        more: What its first line says.
        lines: Sentences.
        likeness: What the sentences say, as data.
        obstacles: Why there is no way back; empty where there is one, or where it is not known.
    """

    more: str = ""
    lines: tuple[str, ...] = ()
    likeness: tuple[Hashable, ...] = ()
    obstacles: tuple[str, ...] = ()


def planned_operators(
    plan: MigrationPlan, about: Mapping[Place, About], commands: Commands | None
) -> tuple[list[Operator], list[Placed]]:
    """Return the operators of a plan as they are shown, and all that is found on them.

    Args:
        plan: The plan.
        about: What is known of states beside it.
        commands: What can be run next; None: it is done, so that there are no ways out.
    """
    operators: list[Operator] = []
    shown_before = Shown()
    placed: list[Placed] = []
    for at, operator in enumerate(plan.operators):
        title = operator.uid or operator.operator_id
        subjects = []
        for index, state in enumerate(operator.states):
            known = about.get((operator.operator_id, state.name), About())
            subject = _subject(state, known, f"o{at}-{index}", commands)
            subjects.append(shown_before.once(subject, f"{title}/{state.name}", (state.findings, known.likeness)))
        for subject, state in zip(subjects, operator.states, strict=True):
            lost = about.get((operator.operator_id, state.name), About()).obstacles
            rows = [Row(one, commands) for one in state.findings]
            rows += [Row(no_way_back(one), None, word=pieces.NO_WAY_BACK) for one in lost]
            placed += [Placed(row, f"{title}/{state.name}", subject.anchor) for row in rows]
        shown = list(zip(subjects, (state.changes for state in operator.states), strict=True))
        if (rekeying := operator.rekeying) is not None:
            key = Subject(
                anchor=f"o{at}-k", name="key", word="new keys", new=rekeying.serializer.describe(), is_open=True,
                rows=tuple(Row(one, commands) for one in rekeying.findings),
            )  # fmt: skip
            shown.insert(0, (key, True))
            placed += [Placed(row, f"the key of {title}", key.anchor) for row in key.rows]
        operators.append(
            Operator(
                anchor=f"o{at}",
                title=title,
                word="rewritten" if operator.is_rewritten else "copied",
                facts=tuple(_facts(operator)),
                changed=tuple(one for one, changes in shown if changes),
                fine=tuple(one for one, changes in shown if not changes),
            )
        )
    return operators, placed


def _facts(operator: OperatorPlan) -> Iterator[str]:
    if operator.uid:
        yield operator.operator_id
    if operator.new_id:
        yield f"gets the id {operator.new_id}"
    if not operator.in_job:
        yield "not in the job: kept"
    if operator.max_parallelism:
        yield f"max parallelism becomes {operator.max_parallelism:,}"
    if operator.is_reframed:
        yield f"keyed state is written {'natively' if operator.is_native else 'in the canonical format'}"


def _subject(state: StatePlan, about: About, anchor: str, commands: Commands | None) -> Subject:
    root = state.kind.root
    old = None if state.action is StateAction.NEW else state.old.value
    new = None if state.action is StateAction.DROP else state.new.value
    found, remarks = pieces.divided(state.findings)
    within = [one for one in found if one.path.is_within(root)]
    tree = type_tree(old, new, within, root=root)
    rows = (*(one for one in found if not one.path.is_within(root)), *tree.findings)
    facts = [f"new name {state.new_name}"] if state.new_name else []
    facts += [f"transform {state.transform.name}"] if state.transform is not None else []
    facts += [f"reader: {one.source}" for one in state.recodings[-1:]]
    facts += [f"converter: {one.converter}" for one in state.recodings if one.converter]
    return Subject(
        anchor=anchor, name=state.name, kind=str(state.kind), word=state.action.done,
        old="" if old is None else _type(state, is_old=True), new="" if new is None else _type(state, is_old=False),
        more="; ".join(filter(None, (about.more, *facts))), lines=tuple(map(Line, about.lines)),
        rows=tuple(Row(one, commands) for one in rows),
        trees=(Node.made(attrs.evolve(tree, findings=()), commands),), remarks=pieces.remarks_of(remarks, commands),
        is_open=state.changes,
    )  # fmt: skip


def _type(state: StatePlan, *, is_old: bool) -> str:
    labels = state.old if is_old else state.new
    value = labels.value.describe()
    return value if labels.key is None else f"map<{labels.key.describe()}, {value}>"


def plan_pieces(
    data: dict[str, Any],
    plan: MigrationPlan | None,
    headline: str,
    facts: Iterable[tuple[str, str]],
    commands: Commands,
    notes: Sequence[Line] = (),
    *,
    samples: EntrySamples | None = None,
) -> list[Markup]:
    """Return what a page on a plan shows.

    Args:
        data: The plan as `--json` has it.
        plan: The plan itself.
        headline: The answer in a sentence.
        facts: What there is to know of it as a whole.
        commands: What can be run next.
        notes: Sentences on the whole.
        samples: Entries before and after; None: they were not asked for.
    """
    states = [(operator, state) for operator in data["operators"] for state in operator["states"]]
    about = {(operator["operator_id"], state["name"]): _about(state, state["old_job"]) for operator, state in states}
    operators, placed = ([], []) if plan is None else planned_operators(plan, about, commands)
    rows = [
        _planned_row(operator, state) for operator, state in states if state["entries"] or state["kind"] != "timers"
    ]
    next_step = piece("command", commands.migrate, "Next, once it is reviewed") if commands.migrate else None
    return _page(
        pieces.verdict(data["summary"]["decision"], headline, facts),
        next_step,
        pieces.worst(placed) if plan is not None else None,
        piece("section", "What is done", piece("table", _PLANNED, rows, _NUMBERS) + piece("notes", notes)),
        None if samples is None else samples_piece(samples),
        pieces.operators(operators, "Operators and their types") if operators else None,
        _rules(placed),
    )


def migration_pieces(
    data: dict[str, Any],
    plan: MigrationPlan,
    headline: str,
    facts: Iterable[tuple[str, str]],
    next_steps: Iterable[tuple[str, str]] = (),
    notes: Sequence[Line] = (),
) -> list[Markup]:
    """Return what a page on a finished migration shows.

    Args:
        data: The report as `--json` has it.
        plan: The plan that was carried out.
        headline: What was done, in a sentence.
        facts: What there is to know of it as a whole.
        next_steps: Commands, each with what it is for.
        notes: Sentences on what was lost, put aside, or not read.
    """
    operators, placed = planned_operators(plan, {}, None)
    counted = sorted(
        (one for one in data["states"] if one["read"] or one["kind"] != "timers"),
        key=lambda one: (uid_order(one["operator"]), one["kind"] == "timers", one["state"]),
    )
    has_put_aside = any(one["quarantined"] for one in counted)
    columns = _MIGRATED if has_put_aside else _MIGRATED[:-1]
    rows = [_migrated_row(one)[: len(columns)] for one in counted]
    counts = piece("table", columns, rows, _COUNTED)
    return _page(
        pieces.verdict("dry run" if data["dry_run"] else "done", headline, facts),
        *(piece("command", command, what) for what, command in next_steps),
        piece("section", "What was read, converted, dropped and put aside", counts + piece("notes", notes)),
        phases(data["phases"], data["seconds"]) if data["phases"] else None,
        pieces.worst(placed, "What it did to values"),
        pieces.operators(operators, "Operators and their types"),
        _rules(placed),
    )


def phases(seconds: Mapping[str, float], whole: float) -> Markup:
    """Return the chart of the times of phases."""
    longest = max([*seconds.values(), 0.001])
    rows = [
        {"name": name, "share": one / longest, "text": _seconds(one) + (f", {one / whole:.0%}" if whole else "")}
        for name, one in seconds.items()
    ]
    return piece("section", "Time", piece("bars", rows, f"by phase, of {_seconds(whole)}"))


def _seconds(seconds: float) -> str:
    """Return a length of time; where tenths of a second tell nothing, in milliseconds."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1_000:.0f} ms"


def _page(*parts: Markup | None) -> list[Markup]:
    return [one for one in parts if one is not None]


def _rules(placed: Iterable[Placed]) -> Markup:
    return pieces.rules(sorted({one.row.of.rule for one in placed}))


_NUMBERS = ("entries", "bytes")
_PLANNED = ("operator", "state", "kind", "done", *_NUMBERS, "tried", "old job")
_COUNTED = ("entries read", "written", "dropped", "put aside")
_MIGRATED = ("operator", "state", "kind", "done", *_COUNTED)
_TRIED = {True: "yes", False: "no entry", None: ""}


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _planned_row(operator: dict[str, Any], state: dict[str, Any]) -> list[str]:
    return [
        operator["uid"] or operator["operator_id"],
        state["name"],
        state["kind"],
        StateAction(state["action"]).done,
        *(_number(state[name]) for name in _NUMBERS),
        _TRIED[state["tried"]],
        "" if state["old_job"] is None else state["old_job"]["decision"],
    ]


def _migrated_row(state: dict[str, Any]) -> list[str]:
    done = StateAction(state["action"]).done + (f", {state['merged']:,} merged" if state["merged"] else "")
    numbers = (_number(state[name]) for name in ("read", "written", "dropped", "quarantined"))
    return [state["operator"] or state["operator_id"], state["state"], state["kind"], done, *numbers]


def _about(state: dict[str, Any], old_job: dict[str, Any] | None) -> About:
    counted = "" if state["entries"] is None else many(state["entries"], "entry", "entries")
    counted += f", {state['bytes']:,} bytes" if counted else ""
    if old_job is None or old_job["decision"] == Decision.START:
        return About(counted, (), () if old_job is None else (old_job["decision"],))
    decision, reasons = old_job["decision"], tuple(old_job["reasons"])
    line = f"the old job on the result: {': '.join(filter(None, (decision, '; '.join(reasons))))}"
    # The reasons follow from the types, of which the likeness is compared anyway.
    return About(counted, (line,), (decision,), reasons if decision == Decision.REFUSE else ())
