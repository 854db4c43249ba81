"""Comparison of two descriptions: the changes, and whether each side could take over the other's state.

Neither side is the old one: changes are listed by path, and the check runs in both directions. Either side may be
stored (a savepoint, a recorded snapshot) or a job in code. Parallelism is not compared: Flink restores with any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Verdict
from ..serializers.displayed import Displayed
from ..serializers.errors import NothingInCommon
from ..serializers.wording import many, repr_of
from .check import check, paired
from .description import StateKind, uid_order
from .report import worst_decision
from .type_difference import Change, Kind, compare_declared, compare_types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..serializers.compatibility import Finding
    from .description import JobDescription, OperatorDescription, SerializerDescription, StateDescription
    from .report import OperatorReport, RoleReport, StateReport

_KEY, _NAMESPACE = "$<key>", "$<namespace>"


@attrs.frozen
class Way:
    """The result of the check in one direction.

    Attributes:
        decision: Whether to start, migrate or refuse.
        verdict: The verdict of the rules.
        findings: The reasons.
        note: A remark that the verdict does not express, or "".
    """

    decision: Decision
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that refuse, or that have to be allowed."""
        return tuple(one for one in self.findings if one.verdict is Verdict.INCOMPATIBLE or one.forbidden)


@attrs.frozen
class StateDifference:
    """The comparison of one state, or of the key of an operator.

    Attributes:
        name: The name of the state; "" for a key.
        a: The state of the first side; None if it has no such state.
        b: The state of the second side.
        changes: The differences; empty if there are none, or if one side is missing.
        forwards: The result of the check of B on the state of A; None if this was not checked.
        backwards: The result of the check of A on the state of B.
    """

    name: str
    a: StateDescription | None
    b: StateDescription | None
    changes: tuple[Change, ...] = ()
    forwards: Way | None = None
    backwards: Way | None = None

    def __repr__(self) -> str:
        one_sided = "only in A" if self.b is None else "only in B" if self.a is None else ""
        changes = many(len(self.changes), "difference") if self.changes else "equal"
        return repr_of(self, f"{self.name or 'the key'}: {one_sided or changes}")

    @property
    def ways(self) -> tuple[Way | None, Way | None]:
        """The results of the check in both directions."""
        return self.forwards, self.backwards

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the state, without differences."""
        return self.a is not None and self.b is not None and not self.changes


@attrs.frozen
class OperatorDifference:
    """The comparison of one operator.

    Attributes:
        a: The operator on the first side; None if it has no such operator.
        b: The operator on the second side.
        key: The comparison of the keys; None if one side has no key.
        states: The comparison of all states of both sides, by name.
        max_parallelism: The numbers of key groups of both sides if they differ; None if they are equal or unknown.
        forwards: What the check of B on the state of A says of these numbers; None if it has nothing to say.
        backwards: The same of A on the state of B.
        unreadable: The reason why the states of a side are not all known, or "".
        work: The comparison of what an operator of SQL does: which rows come in, by which keys, for what; None if
            nothing is said of it.
    """

    a: OperatorDescription | None
    b: OperatorDescription | None
    key: StateDifference | None = None
    states: tuple[StateDifference, ...] = ()
    max_parallelism: tuple[int, int] | None = None
    unreadable: str = ""
    forwards: Way | None = None
    backwards: Way | None = None
    work: StateDifference | None = None

    def __repr__(self) -> str:
        answer = "equal" if self.is_equal else "different" if self.is_different else "unclear"
        return repr_of(self, f"{self.uid or self.operator_id}: {answer}, {many(len(self.states), 'state')}")

    @property
    def operator_id(self) -> str:
        """The operator's id, 32 hexadecimal digits."""
        return self._known.operator_id

    @property
    def uid(self) -> str:
        """The uid, from the side that knows it, or ""."""
        return next((side.uid for side in (self.a, self.b) if side is not None and side.uid), "")

    @property
    def moved(self) -> str:
        """The uid on the second side, where the operator has another id there; ""."""
        return self.b.uid if self.a and self.b and self.a.operator_id != self.b.operator_id else ""

    @property
    def _known(self) -> OperatorDescription:
        side = self.a or self.b
        assert side is not None  # noqa: S101 - at least one side has it
        return side

    @property
    def is_different(self) -> bool:
        """Whether a difference is known."""
        if self.a is None or self.b is None or self.max_parallelism is not None:
            return True
        if self.work is not None and any(way is not None and way.refusals for way in self.work.ways):
            return True
        return bool(self.key and self.key.changes) or not all(state.is_equal for state in self.states)

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference; False if it is not known."""
        return not self.is_different and not self.unreadable


@attrs.frozen
class Difference(Displayed):
    """The comparison of two descriptions.

    Attributes:
        a: The first description.
        b: The second description.
        operators: The comparison of all operators of both sides, by uid and id.
        query: What differs between two queries of SQL beside their operators: releases, options of tables, sinks.
    """

    a: JobDescription
    b: JobDescription
    operators: tuple[OperatorDifference, ...]
    query: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        answer = "equal" if self.is_equal else "different" if self.is_different else "unclear"
        states = [state for operator in self.operators for state in operator.states]
        differing = sum(not state.is_equal for state in states)
        ways = f"B on A: {self.forwards or 'nothing in common'}; A on B: {self.backwards or 'nothing in common'}"
        told = f"{answer}: {differing:,} of {many(len(states), 'state')} differ; {ways}"
        return repr_of(self, told, f"A: {self.a.origin}", f"B: {self.b.origin}")

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not self.query and all(operator.is_equal for operator in self.operators)

    @property
    def is_different(self) -> bool:
        """Whether a difference is known; where it is not known, this is False, and so is `is_equal`."""
        return bool(self.query) or any(operator.is_different for operator in self.operators)

    @property
    def forwards(self) -> Decision | None:
        """The worst decision of B on the state of A; None if no state is on both sides."""
        return self._worst(way.forwards for way in self._subjects())

    @property
    def backwards(self) -> Decision | None:
        """The worst decision of A on the state of B; None if no state is on both sides."""
        return self._worst(way.backwards for way in self._subjects())

    def _subjects(self) -> Iterable[StateDifference | OperatorDifference]:
        for operator in self.operators:
            yield operator
            yield from operator.states
            yield from (one for one in (operator.key, operator.work) if one is not None)

    def _worst(self, ways: Iterable[Way | None]) -> Decision | None:
        decisions = [way.decision for way in ways if way is not None]
        if decisions and any(operator.moved for operator in self.operators):
            decisions.append(Decision.MIGRATE)  # the state gets the other uid
        return worst_decision(decisions) if decisions else None


def compare(a: JobDescription, b: JobDescription) -> Difference:
    """Compare two savepoints, jobs or recorded snapshots, and check them in both directions.

    Args:
        a: The first description.
        b: The second description.

    Raises:
        CompatibilityCheckError: A serializer failed during the check.
    """
    forwards, backwards = _Answers.of(a, b), _Answers.of(b, a)
    theirs = {operator.operator_id: operator for operator in b.operators}
    pairs: list[tuple[OperatorDescription | None, OperatorDescription | None]] = [
        (operator, theirs.pop(forwards.moved.get(operator.operator_id, operator.operator_id), None))
        for operator in a.operators
    ]
    pairs += [(None, operator) for operator in theirs.values()]
    pairs = [(one, other) for one, other in pairs if _is_told(one, other)]
    sides = _Sides(a, b, forwards, backwards)
    operators = [sides.operator(one, other) for one, other in pairs]
    operators.sort(key=lambda operator: uid_order(operator.uid, operator.operator_id))
    return Difference(a, b, tuple(operators), forwards.query)


def _is_told(a: OperatorDescription | None, b: OperatorDescription | None) -> bool:
    """Whether there is something to compare: an operator of one side that keeps nothing is no difference of state."""
    side = a or b
    return bool(a and b) or side is None or bool(side.states or side.unreadable) or side.computation is None


@attrs.frozen
class _Answers:
    """The results of a check by operator and state.

    Attributes:
        operators: The reports on operators, by id.
        states: Those on states, by the id of the operator, the scope and the name.
        moved: The ids that operators of SQL get, by those that they have: their plans number them otherwise.
        query: What is found on a query of SQL as a whole.
    """

    operators: dict[str, OperatorReport]
    states: dict[tuple[str, str, str], StateReport]
    moved: dict[str, str] = attrs.field(factory=dict)
    query: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, old: JobDescription, new: JobDescription) -> _Answers:
        try:
            report = check(old, new.as_probe() if new.stored_by else new)
        except NothingInCommon:
            return cls({}, {})
        return cls(
            {operator.operator_id: operator for operator in report.operators},
            {
                (operator.operator_id, side.kind.scope, side.name): state
                for operator, state in report.states()
                for side in (state.was, state.becomes)
                if side is not None
            },
            {one.stored_id: one.operator_id for one in report.old.operators if one.stored_id},
            report.reads.result.findings if report.reads is not None else (),
        )

    def on_state(self, operator_id: str, state: StateDescription) -> Way | None:
        report = self.states.get((operator_id, state.kind.scope, state.name))
        if report is None or report.was is None or report.becomes is None:
            return None
        return Way(report.decision, report.result.verdict, report.result.findings, report.note)

    def on_key(self, operator_id: str) -> Way | None:
        report = self.operators.get(operator_id)
        return _way(report.key) if report is not None else None

    def on_work(self, operator_id: str) -> Way | None:
        report = self.operators.get(operator_id)
        return _way(report.whole) if report is not None else None

    def on_key_groups(self, operator_id: str) -> Way | None:
        report = self.operators.get(operator_id)
        return _way(report.key_groups) if report is not None else None


def _way(role: RoleReport | None) -> Way | None:
    return None if role is None else Way(role.decision, role.result.verdict, role.result.findings)


@attrs.frozen
class _Sides:
    """The comparison of the operators of two sides."""

    a: JobDescription
    b: JobDescription
    forwards: _Answers
    backwards: _Answers

    def operator(self, a: OperatorDescription | None, b: OperatorDescription | None) -> OperatorDifference:
        if a is None or b is None:
            side = a or b
            assert side is not None  # noqa: S101 - a pair has one side at least
            present = (
                StateDifference(state.name, state if a else None, state if b else None)
                for state in sorted(side.states, key=lambda state: (state.name, state.kind))
            )
            return OperatorDifference(a, b, states=tuple(present), unreadable=_unreadable(a, b))
        states = [
            self._state(a, b, one, other)
            for one, other in paired(a.states, b.states)
            if not self._is_undeclared(one, other)
        ]
        states.sort(key=lambda state: state.name)
        groups = (a.max_parallelism, b.max_parallelism)
        return OperatorDifference(
            a,
            b,
            self._key(a, b),
            tuple(states),
            groups if all(groups) and groups[0] != groups[1] else None,
            _unreadable(a, b),
            self.forwards.on_key_groups(b.operator_id),
            self.backwards.on_key_groups(a.operator_id),
            self._work(a, b),
        )

    def _is_undeclared(self, one: StateDescription | None, other: StateDescription | None) -> bool:
        """Whether a state is missing on a side that is a job in code, which need not declare its timers."""
        present = one or other
        job = self.a if one is None else self.b
        is_one_sided = one is None or other is None
        return is_one_sided and present is not None and present.kind is StateKind.TIMERS and not job.stored_by

    def _work(self, a: OperatorDescription, b: OperatorDescription) -> StateDifference | None:
        forwards, backwards = self.forwards.on_work(b.operator_id), self.backwards.on_work(a.operator_id)
        return StateDifference("", None, None, (), forwards, backwards) if forwards or backwards else None

    def _key(self, a: OperatorDescription, b: OperatorDescription) -> StateDifference | None:
        if a.key is None or b.key is None:
            return None
        forwards, backwards = self.forwards.on_key(b.operator_id), self.backwards.on_key(a.operator_id)
        changes = _changes(a.key, b.key, _KEY, forwards, backwards)
        return StateDifference("", None, None, changes, forwards, backwards)

    def _state(
        self,
        of_a: OperatorDescription,
        of_b: OperatorDescription,
        a: StateDescription | None,
        b: StateDescription | None,
    ) -> StateDifference:
        if a is None or b is None:
            state = a or b
            assert state is not None  # noqa: S101 - a pair has one side at least
            return StateDifference(state.name, a, b)
        forwards = self.forwards.on_state(of_b.operator_id, b)
        backwards = self.backwards.on_state(of_a.operator_id, a)
        if a.kind is not b.kind:
            changes: tuple[Change, ...] = (Change("$<state>", Kind.TYPE, str(a.kind), str(b.kind)),)
            return StateDifference(b.name, a, b, changes, forwards, backwards)
        changes = _changes(a.value, b.value, a.kind.root, forwards, backwards)
        for one, other, path in ((a.key, b.key, _KEY), (a.namespace, b.namespace, _NAMESPACE)):
            if one is not None and other is not None:
                changes += _changes(one, other, path, forwards, backwards)
        told = forwards.findings if forwards is not None and not changes else ()
        if any(one.verdict.decision is not Decision.START for one in told):
            changes = (Change(a.kind.root, Kind.VALUES, "", ""),)
        return StateDifference(b.name, a, b, changes, forwards, backwards)


def _unreadable(a: OperatorDescription | None, b: OperatorDescription | None) -> str:
    reasons = {letter: side.unreadable for letter, side in (("A", a), ("B", b)) if side is not None and side.unreadable}
    if len(reasons) == 2 and reasons["A"] == reasons["B"]:
        return f"A and B: {reasons['A']}"
    return "; ".join(f"{letter}: {reason}" for letter, reason in reasons.items())


def _changes(
    a: SerializerDescription, b: SerializerDescription, path: str, forwards: Way | None, backwards: Way | None
) -> tuple[Change, ...]:
    """Compare two types; a class in code may declare that a removed field and a new one are the same."""
    changes = compare_types(a.snapshot, b.snapshot, path)
    if a.knows_code and b.knows_code:
        told = {change.path for change in changes if change.kind is Kind.OPTIONAL}
        declared = compare_declared(a.new_side(), b.new_side(), path)
        changes += tuple(one for one in declared if one.path not in told or one.what != "optional")
    for way, is_forwards in ((forwards, True), (backwards, False)):
        for finding in way.findings if way is not None else ():
            changes = _renamed(changes, finding, is_forwards=is_forwards)
    return changes


def _renamed(changes: tuple[Change, ...], finding: Finding, *, is_forwards: bool) -> tuple[Change, ...]:
    """Combine the changes of a removed field and a new field into one, if a finding says that they are the same."""
    if not finding.old or not (former := finding.path.beside(finding.new, finding.old)):
        return changes
    before, after = (former, finding.path) if is_forwards else (finding.path, former)
    gone = next((one for one in changes if one.path == before and one.kind is Kind.REMOVED), None)
    new = next((one for one in changes if one.path == after and one.kind is Kind.ADDED), None)
    if gone is None or new is None:
        return changes
    names = (finding.old, finding.new) if is_forwards else (finding.new, finding.old)
    whole = Change(after, Kind.RENAMED, *names)
    typed = [] if gone.a == new.b else [Change(new.path, Kind.TYPE, gone.a, new.b)]
    left = [one for one in changes if one not in {gone, new}]
    return (whole, *typed, *left)
