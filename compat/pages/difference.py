"""The pieces of a difference: both sides, each way, and every type, that of A beside that of B."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Decision
from ...serializers.wording import many
from ..type_difference import Kind
from . import pieces
from .check import parts_of, trees_of
from .pieces import Line, Operator, Placed, Row, Shown, Subject
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from markupsafe import Markup

    from ..difference import Difference, OperatorDifference, StateDifference, Way
    from ..type_difference import Change

EQUAL, DIFFERENT = "equal", "different"
_IN_TREES = {Kind.ADDED, Kind.REMOVED, Kind.RENAMED, Kind.TYPE, Kind.OPTIONAL}
"""Changes that show in the tree of a type."""


def difference_pieces(
    difference: Difference, headline: str = "", notes: Iterable[Line] = (), *, is_equal: bool | None = None
) -> list[Markup]:
    """Return what a page on a difference shows.

    Args:
        difference: The difference.
        headline: The answer in a sentence; by default how many states differ.
        notes: Sentences on values.
        is_equal: Whether the answer is that both are equal, their values too; None: that of the types.
    """
    operators, placed = operators_of(difference)
    states = [state for operator in difference.operators for state in operator.states]
    differing = sum(not state.is_equal for state in states)
    equal = difference.is_equal if is_equal is None else is_equal
    facts = [("A", difference.a.origin), ("B", difference.b.origin)]
    for name, decision in (("B on the state of A", difference.forwards), ("A on that of B", difference.backwards)):
        facts.append((name, "they have no state in common" if decision is None else str(decision)))
    placed = [*(Placed(Row(one), "the query", "query") for one in difference.query), *placed]
    told = list(notes)
    parts = [
        pieces.verdict(
            EQUAL if equal else DIFFERENT, headline or f"{differing:,} of {many(len(states), 'state')} differ", facts
        ),
        pieces.worst(placed) if placed else None,
        piece("section", "Values", piece("notes", told)) if told else None,
        pieces.operators(operators),
        pieces.rules(sorted({one.row.of.rule for one in placed})),
    ]
    return [one for one in parts if one is not None]


def operators_of(
    difference: Difference, anchor: str = "o", *, directed: bool = False
) -> tuple[list[Operator], list[Placed]]:
    """Return the operators of a difference as they are shown, and what a check says of B on the state of A.

    Args:
        difference: The difference.
        anchor: What the ids on the page begin with.
        directed: Whether B follows A, so that only what becomes of the state of A is told.
    """
    shown = _Shown(directed=directed)
    return [shown.operator(one, f"{anchor}{at}") for at, one in enumerate(difference.operators)], shown.placed


@attrs.define
class _Shown:
    """What was shown of a difference so far.

    Attributes:
        directed: Whether B follows A.
        placed: The findings.
        shown: What was told of types that differ.
    """

    directed: bool
    placed: list[Placed] = attrs.field(factory=list)
    shown: Shown = attrs.field(factory=Shown)

    def operator(self, operator: OperatorDifference, anchor: str) -> Operator:
        title = operator.uid or operator.operator_id
        shown = [(self._state(one, f"{anchor}-{at}", title), one) for at, one in enumerate(operator.states)]
        changed = [one for one, state in shown if not state.is_equal]
        for name, of in (("what it does", operator.work), ("key", operator.key)):
            if of is not None and (of.changes or of is operator.work):
                changed.insert(0, self._whole(of, operator, f"{anchor}-{name[0]}", name, title))
        equal = EQUAL if operator.is_equal and not operator.moved else DIFFERENT
        return Operator(
            anchor=anchor,
            title=title,
            word=self._one_sided(operator) or equal,
            facts=(operator.operator_id,) if operator.uid else (),
            lines=tuple(_lines(operator)),
            changed=tuple(changed),
            fine=tuple(one for one, state in shown if state.is_equal),
        )

    def _one_sided(self, one: OperatorDifference | StateDifference) -> str:
        if one.a is not None and one.b is not None:
            return ""
        a, b = ("gone", "new") if self.directed else ("only in A", "only in B")
        return a if one.b is None else b

    def _word(self, state: StateDifference) -> str:
        if self.directed and state.forwards is not None:
            return str(state.forwards.decision)
        return self._one_sided(state) or (EQUAL if state.is_equal else DIFFERENT)

    def _state(self, state: StateDifference, anchor: str, title: str) -> Subject:
        side, place = state.b or state.a, f"{title}/{state.name}"
        assert side is not None  # noqa: S101 - a state is on at least one side
        findings = state.forwards.findings if state.forwards is not None else ()
        found, remarks = pieces.divided(findings)
        trees, rows = trees_of(parts_of(state.a, state.b), found)
        if not state.is_equal:
            self.placed += [Placed(Row(one), place, anchor) for one in findings]
        made = Subject(
            anchor=anchor, name=state.name, kind=str(side.kind), word=self._word(state),
            old="" if state.a is None else state.a.describe(), new="" if state.b is None else state.b.describe(),
            more="" if self.directed else _ways(state.ways), lines=tuple(self._told(state)), rows=rows, trees=trees,
            remarks=pieces.remarks_of(remarks), is_open=not (state.is_equal or self.directed),
        )  # fmt: skip
        return made if state.is_equal else self.shown.once(made, place, (state.changes, findings, state.backwards))

    def _whole(self, of: StateDifference, operator: OperatorDifference, anchor: str, name: str, title: str) -> Subject:
        found = of.forwards.findings if of.forwards is not None else ()
        self.placed += [Placed(Row(one), f"the key of {title}" if name == "key" else title, anchor) for one in found]
        old, new = (side.key if side is not None and name == "key" else None for side in (operator.a, operator.b))
        return Subject(
            anchor=anchor, name=name, word=self._word(of), old="" if old is None else old.describe(),
            new="" if new is None else new.describe(), more="" if self.directed else _ways(of.ways),
            lines=tuple(self._told(of)), rows=tuple(map(Row, found)), is_open=not self.directed,
        )  # fmt: skip

    def _told(self, state: StateDifference) -> Iterator[Line]:
        """Yield the changes that no tree shows, and what only the way back says."""
        yield from (Line(_words(change)) for change in state.changes if change.kind not in _IN_TREES)
        if not self.directed and state.backwards is not None and state.backwards.decision is Decision.REFUSE:
            yield from (Line(f"B → A, {one.path}: {one.reason}", "yellow") for one in state.backwards.refusals)


def _lines(operator: OperatorDifference) -> Iterator[Line]:
    if operator.moved:
        yield Line(f"in B its uid is {operator.moved}")
    if operator.unreadable:
        yield Line(f"not all states can be read, {operator.unreadable}", "red")
    if operator.max_parallelism is not None:
        a, b = operator.max_parallelism
        yield Line(f"max parallelism {a:,} in A, {b:,} in B", "yellow")


def _ways(ways: Sequence[Way | None]) -> str:
    arrows = zip(("A → B", "B → A"), ways, strict=True)
    return "; ".join(f"{arrow}: {way.decision}" for arrow, way in arrows if way is not None)


def _words(change: Change) -> str:
    if change.kind is Kind.VALUES:
        return f"{change.path}: the types are equal, what the values are is not"
    return f"{change.path}: {change.what or change.kind} {change.a or '-'} → {change.b or '-'}"
