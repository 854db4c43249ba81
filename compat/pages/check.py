"""The pieces of a check: the verdict, the worst findings, and every type, old beside new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision, Path
from ...serializers.wording import many
from .. import explain
from ..description import StateKind
from ..report import Status
from ..type_tree import type_tree
from ..way_back import ways_back
from . import pieces
from .pieces import NO_WAY_BACK, Commands, Line, Node, Operator, Placed, Row, Shown, Subject
from .rendering import piece
from .samples import samples_piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markupsafe import Markup

    from ...serializers.compatibility import CompatibilityResult, Finding
    from ..description import SerializerDescription, StateDescription
    from ..report import CheckReport, OperatorReport, RoleReport, StateReport
    from ..way_back import WayBack, WaysBack

_NAMESPACE, _KEY = Path("$<namespace>"), Path("$<key>")
_NO_NAMESPACE = "VoidNamespace"
_KEPT = {Status.ORPHANED, Status.NOT_IN_PROBE, Status.UNREADABLE}


def check_pieces(
    report: CheckReport,
    commands: Commands = Commands(),  # noqa: B008 - it is frozen
    following: Iterable[str] = (),
) -> list[Markup]:
    """Return what a page on a check shows.

    Args:
        report: The report.
        commands: What can be run next.
        following: What to do next, in words.
    """
    if report.is_of_query:
        from ..queries.wording import for_people

        report = for_people(report)
    backs = None if report.decision is Decision.REFUSE else ways_back(report)
    shown = _Check(report, commands, backs)
    operators = sorted(
        (shown.operator(at) for at in range(len(report.operators))), key=lambda one: pieces.rank(one.word)
    )
    found = [*shown.of_reads(), *shown.placed]
    return list(
        filter(None, (
            pieces.verdict(str(report.decision), explain.headline(report), shown.facts()),
            *shown.next_steps(following),
            pieces.worst(found),
            piece("section", "What it reads", shown.reads()) if report.reads is not None else None,
            samples_piece(report.samples) if report.samples is not None else None,
            pieces.operators(operators),
            piece("section", "Not compared", piece("notes", [Line(one) for one in report.not_compared]))
            if report.not_compared else None,
            pieces.rules(sorted({one.row.of.rule for one in found})),
        ))
    )  # fmt: skip


def result_pieces(result: CompatibilityResult[Any]) -> list[Markup]:
    """Return what is shown of the answer of one serializer."""
    decision = result.verdict.decision
    found, remarks = pieces.divided(result.findings)
    shown = Subject(
        anchor="result", name="findings", word=str(decision), rows=tuple(map(Row, found)),
        remarks=pieces.remarks_of(remarks), is_open=True,
    )  # fmt: skip
    return [
        pieces.verdict(str(decision), result.verdict.label, [("has", many(len(result.findings), "finding"))]),
        *([piece("subject", shown)] if result.findings else []),
        pieces.rules(sorted({one.rule for one in result.findings})),
    ]


@attrs.define
class _Check:
    """A report, and what was shown of it so far."""

    report: CheckReport
    commands: Commands
    backs: WaysBack | None
    placed: list[Placed] = attrs.field(factory=list, init=False)
    _shown: Shown = attrs.field(factory=Shown, init=False)

    def facts(self) -> Iterator[tuple[str, str]]:
        report = self.report
        if held := explain.condition_of(report):
            yield "holds", held
        yield "stored", report.old.origin
        yield "new", report.new.origin
        counts = [f"{count:,} {decision}" for decision, count in reversed(report.counts.items()) if count]
        yield "states", ", ".join(counts) or "none"
        if report.is_of_query:
            yield "the old query", f"known from {report.known_from}" if report.known_from else "not known"
        if report.decision is Decision.MIGRATE and self.commands.migrate:
            code = "query" if report.is_of_query else "job"
            yield "rollback", f"start the old {code} on what is stored: a migration does not touch it"
        if self.backs is not None and (told := list(explain.back_lines(self.backs, report))):
            (_, *pieces_of_first), *others = (one.pieces for one in told)  # the first one says what it is about
            after = "" if report.is_of_query else "once the new job has written state: "
            yield (
                "way back",
                after + "; ".join("".join(str(text) for text, _ in one) for one in (pieces_of_first, *others)),
            )

    def next_steps(self, following: Iterable[str]) -> Iterator[Markup]:
        for way, told in explain.first_tries(self.report):
            (tried,) = self.commands.of(way) or (str(way),)
            yield piece("command", tried, f"{way.words}: {told}")
        if self.report.decision is Decision.MIGRATE and self.commands.migrate:
            yield piece("command", self.report.next_command or self.commands.migrate, "Next")
        elif self.report.decision is Decision.REFUSE and self.commands.again:
            yield piece("command", self.commands.again, "Take one of the ways out, then check again")
        elif lines := [Line(one.strip()) for one in following]:
            yield piece("notes", lines)

    def of_reads(self) -> Iterator[Placed]:
        reads = () if self.report.reads is None else self.report.reads.result.findings
        yield from (Placed(Row(one, self.commands), "what it reads", "reads") for one in reads)

    def reads(self) -> Markup:
        assert self.report.reads is not None  # noqa: S101 - it is asked for then
        return piece(
            "subject", attrs.evolve(self._role("reads", "sources and tables", self.report.reads), is_open=True)
        )

    def operator(self, at: int) -> Operator:
        operator, anchor = self.report.operators[at], f"o{at}"
        title = operator.title
        subjects = []
        roles = (("max parallelism", operator.key_groups), ("key", operator.key), ("operator", operator.whole))
        for index, (name, role) in enumerate(roles):
            if role is not None:
                place = f"the key of {title}" if name == "key" else f"{title}, {name}"
                back = self.backs.keys.get(operator.operator_id) if self.backs and role is operator.key else None
                self._place(role.result.findings, place, f"{anchor}-r{index}", back)
                shown = self._role(f"{anchor}-r{index}", name, role, operator, back)
                subjects.append((shown, self._is_fine(operator, role.decision)))
        for index, state in enumerate(operator.states):
            shown = self._state(operator, state, f"{anchor}-{index}")
            subjects.append((shown, self._is_fine(operator, state.decision, state)))
        facts = [operator.operator_id] if operator.uid and not operator.computations else []
        facts += [operator.name] if operator.name and operator.name != operator.uid else []
        if operator.status is not Status.MATCHED and operator.whole is None:
            facts.append(operator.status.words)
        return Operator(
            anchor=anchor,
            title=title,
            word=str(operator.decision),
            facts=tuple(facts),
            lines=tuple(map(Line.of, explain.operator_notes(operator, self.report.target))),
            changed=tuple(sorted((one for one, fine in subjects if not fine), key=lambda one: pieces.rank(one.word))),
            fine=tuple(one for one, fine in subjects if fine),
        )

    def _is_fine(self, operator: OperatorReport, decision: Decision, state: StateReport | None = None) -> bool:
        """Whether nothing becomes of a state or key, and there is nothing to know of it."""
        scanned = self.report.scan_of(operator, state)
        is_taken = state is None or state.status is Status.MATCHED or state.kind is StateKind.TIMERS
        return decision is Decision.START and is_taken and (scanned is None or scanned.is_fine)

    def _place(self, findings: Iterable[Finding], place: str, anchor: str, back: WayBack | None = None) -> None:
        self.placed += [Placed(Row(one, self.commands), place, anchor) for one in findings]
        lost = () if back is None else back.obstacles
        self.placed += [Placed(Row(one, None, word=NO_WAY_BACK), place, anchor) for one in lost]

    def _role(
        self,
        anchor: str,
        name: str,
        role: RoleReport,
        operator: OperatorReport | None = None,
        back: WayBack | None = None,
    ) -> Subject:
        scanned, old, new = None, None, None
        if operator is not None and role is operator.key:
            scanned = self.report.scan_of(operator, None)
            old, new = (None if side is None else side.key for side in (operator.was, operator.becomes))
        found, remarks = pieces.divided(role.result.findings)
        trees, rows = trees_of((("", _KEY, old, new),), found, self.commands)
        lines = (*explain.scan_lines(scanned), *self._back(back))
        return Subject(
            anchor=anchor, name=name, word=str(role.decision), old=role.old, new=role.new, rows=rows, trees=trees,
            remarks=pieces.remarks_of(remarks, self.commands), lines=tuple(map(Line.of, lines)),
            more=f"converter: {role.converter}" if role.converter else "",
            is_open=role.decision is not Decision.START,
        )  # fmt: skip

    def _state(self, operator: OperatorReport, state: StateReport, anchor: str) -> Subject:
        place = f"{operator.title}/{state.name}"
        back = self.backs.of(operator, state) if self.backs and not self.report.is_of_query else None
        self._place(state.result.findings, place, anchor, back)
        found, remarks = pieces.divided(state.result.findings)
        is_kept = state.status in _KEPT
        trees, rows = trees_of(parts_of(state.was, state.was if is_kept else state.becomes), found, self.commands)
        scanned = None if state.kind is StateKind.TIMERS else self.report.scan_of(operator, state)
        lines = [Line(state.note)] if state.note else []
        lines += map(Line.of, (*explain.scan_lines(scanned), *self._back(back)))
        is_one_sided = state.status not in {Status.MATCHED, Status.UNREADABLE}
        facts = (("reader", state.reader), ("converter", state.converter), ("transform", state.transform))
        more = [f"{name}: {fact}" for name, fact in facts if fact]
        more += [explain.presence(state)] if is_one_sided else []
        made = Subject(
            anchor=anchor, name=state.name, kind=str(state.kind), word=str(state.decision), old=state.old,
            new=state.old if is_kept else state.new, more="; ".join(more),
            lines=tuple(lines), rows=rows, trees=trees, remarks=pieces.remarks_of(remarks, self.commands),
            is_open=state.decision is not Decision.START,
        )  # fmt: skip
        return self._shown.once(made, place, (state.note, state.result.findings, back, scanned))

    def _back(self, back: WayBack | None) -> Iterator[explain.Words]:
        return iter(()) if back is None else explain.back_line(back)


def parts_of(was: StateDescription | None, becomes: StateDescription | None) -> Iterator[tuple[str, Path, Any, Any]]:
    """Yield the types of a state, each with its path: first what stands at paths of its own, then the values."""
    side = becomes or was
    assert side is not None  # noqa: S101 - it is of a side
    sides = (was, becomes)
    for name, path, ours in (
        ("namespace", _NAMESPACE, [one and one.namespace for one in sides]),
        ("key", _KEY, [one and one.key for one in sides]),
    ):
        kinds = {one.describe() for one in ours if one is not None}
        if kinds and kinds != {_NO_NAMESPACE}:
            yield name, path, ours[0] or ours[1], ours[1] or ours[0]
    yield "", Path(side.kind.root), was and was.value, becomes and becomes.value


def trees_of(
    parts: Iterable[tuple[str, Path, SerializerDescription | None, SerializerDescription | None]],
    found: Iterable[Finding],
    commands: Commands = Commands(),  # noqa: B008 - it is frozen
) -> tuple[tuple[Node, ...], tuple[Row, ...]]:
    """Return the trees of some types, and what is found on none of their places."""
    trees, left = [], list(found)
    for name, root, old, new in parts:
        within = [one for one in left if one.path.is_within(root)]
        left = [one for one in left if not one.path.is_within(root)]
        if old is None and new is None:
            left += within
            continue
        was, becomes = (None if side is None else side.snapshot for side in (old, new))
        made = type_tree(was, becomes, within, name=name, root=root)
        if not name:
            left += made.findings
            made = attrs.evolve(made, findings=())
        trees.append(Node.made(made, commands))
    return tuple(trees), tuple(Row(one, commands) for one in left)
