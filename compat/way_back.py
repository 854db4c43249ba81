"""The way back: a check, per state, of whether the old job can read what the new job will write.

The old job can always go back to the savepoint that it left; but then later changes are missing. This module checks
what the old job could do with the state that the new job writes (`ways_back`), and with the result of a migration
(`ways_back_after`). The old job is known by its snapshots, and by its code if that was recorded: then the answer is
that of `migrate --downgrade` to the record. Source: compatibility rules, RUN-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Decision, Finding, Flag, Verdict
from ..serializers.containers.wrappers import without_ttl_awareness
from ..serializers.errors import NothingInCommon, StateShiftError, cause_text
from ..serializers.records.serializers import holds_nulls
from ..serializers.snapshot import snapshot_to_bytes
from .check import check
from .description import JobDescription, SerializerDescription, StateDescription, StateKind
from .lazy_tables import is_joined
from .plan import StateAction, details
from .report import Status, worst_decision

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import OperatorDescription
    from .plan import MigrationPlan, OperatorPlan, StatePlan
    from .report import CheckReport, OperatorReport, StateReport

_STARTS_EMPTY = "the old job would start it empty"
_KEY_HAS_NONE = "the key of its operator has no way back"
_FLINK_DROPS = (
    "unless the job starts in Flink with --allowNonRestoredState: its own savepoints then do not contain the state"
)

Place = tuple[str, str, str]
"""A state: the id of its operator, its name scope and its name, as in the report."""


@attrs.frozen
class WayBack:
    """The old job's compatibility with one state of the new job, or with a key.

    Attributes:
        decision: `start`: it reads the state as it is. `migrate`: it needs a migration back. `refuse`: it cannot use
            the state.
        findings: The findings that prevent reading it as it is, and those with a flag, as a null that the old job may
            fail on.
        note: A remark that the findings do not express, or "".
    """

    decision: Decision
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def drops(self) -> tuple[str, ...]:
        """The paths of what a migration back leaves out."""
        return details(self.findings, Flag.DROPS)

    @property
    def loss(self) -> str:
        """The losses of a migration back (fields, time stamps, digits), in words that follow a comma, or ""."""
        told = [f"drops {', '.join(self.drops)}"] if self.drops else []
        if filled := [one.path for one in self.findings if not one.old and one.verdict is Verdict.REQUIRES_MIGRATION]:
            told.append(f"fills {', '.join(filled)} with a default")
        if any(one.rule == "STATE-5" for one in self.findings):
            told.append("removes the time stamps")
        if rounded := [one.path for one in self.findings if one.has(Flag.LOSSY)]:
            told.append(f"may change {', '.join(rounded)}")
        return f", which {' and '.join(told)}" if told else ""

    @property
    def obstacles(self) -> tuple[Finding, ...]:
        """Why there is no way back; empty where there is one."""
        if self.decision is not Decision.REFUSE or self.findings:
            return self.findings if self.decision is Decision.REFUSE else ()
        return (no_way_back(self.note),)

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """The findings that the old job may fail on although nothing is to be rewritten."""
        return tuple(one for one in self.findings if one.flags) if self.decision is Decision.START else ()


def no_way_back(reason: str) -> Finding:
    """Return a finding that says why the old job cannot use what the new one writes."""
    return Finding("$", "RUN-8", Verdict.INCOMPATIBLE, "", "", reason)


@attrs.frozen
class WaysBack:
    """The ways back of all states and keys in a check.

    Attributes:
        states: The way back of each stored state that the check does not refuse.
        keys: The way back of each key that differs and is not refused, by operator id.
        whole: Of a query, the decision on all of what the new query writes, with its sources and operators.
    """

    states: dict[Place, WayBack]
    keys: dict[str, WayBack]
    whole: Decision = Decision.START

    @property
    def worst(self) -> Decision:
        """The worst decision of all."""
        backs = (*self.states.values(), *self.keys.values())
        return worst_decision((self.whole, *(back.decision for back in backs)))

    def of(self, operator: OperatorReport, state: StateReport) -> WayBack | None:
        """Return the way back of a state; None if it is refused, or the old job does not have it."""
        return self.states.get(_place(operator, state))


def _with_key_groups(number: int) -> str:
    """Return the condition under which the old job starts on another number of key groups."""
    return f"unless it sets a max parallelism: that of the operator is now {number:,}"


def ways_back(report: CheckReport) -> WaysBack:
    """Check for every stored state whether the old job could use what the new one writes.

    States with the same snapshots on both sides are not checked. Of a query, the check is made in reverse: the old
    query is the new one, with what it computes where that is known of both.
    """
    if report.is_of_query:
        return WaysBack({}, {}) if report.decision is Decision.REFUSE else _of_query(report)
    states: dict[Place, WayBack] = {}
    keys: dict[str, WayBack] = {}
    for operator in report.operators:
        if operator.status is Status.NEW:
            continue
        answers, key = _answers(operator, report)
        if key is not None:
            keys[operator.operator_id] = key
        for state in operator.states:
            if state.was is not None and state.decision is not Decision.REFUSE:
                place = _place(operator, state)
                states[place] = _moved(operator, state, key) or answers.get(place) or _kept(operator, state)
    return WaysBack(states, keys)


def _of_query(report: CheckReport) -> WaysBack:
    back = _judged_back(report)
    answers = {_ids(one.becomes, one.was): one for one in back.operators}
    states: dict[Place, WayBack] = {}
    keys: dict[str, WayBack] = {}
    for operator in report.operators:
        answer = answers.get(_ids(operator.was, operator.becomes))
        if operator.was is None or answer is None:
            continue
        if answer.key is not None:
            keys[operator.operator_id] = _way_back(answer.key.decision, answer.key.result.findings)
        found = {one.name: one for one in answer.states}
        states |= {
            _place(operator, one): _way_back(found[one.name].decision, found[one.name].result.findings)
            for one in operator.states
            if one.was is not None and one.name in found
        }
    return WaysBack(states, keys, _whole(report, back))


def _whole(report: CheckReport, back: CheckReport) -> Decision:
    """Return the decision on all of what the new query writes; of SQL, that on the operators that have state."""
    if report.new.upgrade is None:
        return back.decision
    kept = {_ids(one.was, one.becomes) for one in report.operators if one.states or one.key is not None}
    return worst_decision(one.decision for one in back.operators if _ids(one.becomes, one.was) in kept)


def _judged_back(report: CheckReport) -> CheckReport:
    """Return the check in reverse: the old query is the new one."""
    upgrade = report.new.upgrade
    if upgrade is not None and upgrade.old is not None:
        from .sql.description import describe_query

        return check(describe_query(upgrade.new), describe_query(upgrade.old, upgrade.new))
    if upgrade is not None:
        return check(report.new, report.old)
    from .queries.verdict import judge, without_code

    after = report.new if report.known_from else report.new.computing(without_code)
    return judge(after, report.old, known=after if report.known_from else None)


def _ids(was: OperatorDescription | None, becomes: OperatorDescription | None) -> tuple[str, ...]:
    return tuple("" if one is None else one.stored_id or one.operator_id for one in (was, becomes))


def is_asked(report: CheckReport) -> bool:
    """Whether the old job is checked at all: whether any state or key differs."""
    return report.decision is not Decision.REFUSE and any(
        (operator.was and operator.becomes and not _are_same(operator.was.key, operator.becomes.key))
        or any(_is_asked(state, key_differs=False) for state in operator.states)
        for operator in report.operators
    )


def declares(code: JobDescription, stored: JobDescription) -> bool:
    """Whether code declares exactly the types of all stored state, so that it may have written it."""
    operators = {operator.operator_id: operator for operator in code.operators}
    return any(operator.states for operator in stored.operators) and all(
        operator.operator_id in operators and _declares(operators[operator.operator_id], operator)
        for operator in stored.operators
        if operator.states
    )


def _declares(code: OperatorDescription, stored: OperatorDescription) -> bool:
    states = {(state.kind, state.name): state for state in code.states}
    pairs = [(states.get((one.kind, one.name)), one) for one in stored.states if one.kind is not StateKind.TIMERS]
    return _has_type_of(code.key, stored.key) and all(
        one is not None and _has_type_of(one.value, other.value) and _has_type_of(one.key, other.key)
        for one, other in pairs
    )


def _has_type_of(code: SerializerDescription | None, stored: SerializerDescription | None) -> bool:
    """Whether the bytes of both sides are described alike; a side that knows nothing counts as equal."""
    if code is None or stored is None:
        return True
    one, other = (snapshot_to_bytes(without_ttl_awareness(side.snapshot)) for side in (code, stored))
    return one == other


def _as_declared(was: OperatorDescription, code: JobDescription | None) -> OperatorDescription:
    """Return a stored operator as declared by the code that wrote it, if that is known."""
    found = next((one for one in code.operators if one.operator_id == was.operator_id), None) if code else None
    if found is None:
        return was
    states = {(state.kind, state.name): state for state in found.states}
    declared = tuple(states.get((state.kind, state.name), state) for state in was.states)
    return attrs.evolve(was, key=found.key or was.key, states=declared)


def _place(operator: OperatorReport | OperatorPlan, state: StateReport | StatePlan) -> Place:
    return operator.operator_id, state.kind.scope, state.name


def _answers(operator: OperatorReport, report: CheckReport) -> tuple[dict[Place, WayBack], WayBack | None]:
    """Ask the old operator about the states that differ in the new one, and about the key if it does."""
    was, becomes = operator.was, operator.becomes
    if was is None or becomes is None or (operator.key is not None and operator.key.decision is Decision.REFUSE):
        return {}, None
    was = _as_declared(was, report.code)
    key_differs = not _are_same(was.key, becomes.key)
    asked = [state for state in operator.states if _is_asked(state, key_differs=key_differs)]
    if not asked and not key_differs:
        return {}, None
    after = _with_states(becomes, was, [state.becomes for state in asked if state.becomes is not None], report.new)
    differing = {(state.was.kind, state.was.name) for state in asked if state.was is not None}
    before = _with_states(was, was, [one for one in was.states if (one.kind, one.name) in differing], report.old)
    if report.code is not None and report.is_recorded:
        from .former_names import knowing_later_names

        before = knowing_later_names(before, [after])
    try:
        (answer,) = check(after, before.as_probe()).operators
    except Exception as error:  # noqa: BLE001 - a user's snapshot may fail in any way; the check can do without
        why = error.what if isinstance(error, StateShiftError) else cause_text(error)
        untold = WayBack(Decision.REFUSE, note=f"it is not known: {why}")
        return {_place(operator, state): untold for state in asked}, None
    key = _way_back(answer.key.decision, answer.key.result.findings) if answer.key and key_differs else None
    found = {
        (operator.operator_id, state.was.kind.scope, state.name): _way_back(
            state.decision, state.result.findings, state.note
        )
        for state in answer.states
        if state.was is not None
    }
    return found, key


def _is_asked(state: StateReport, *, key_differs: bool) -> bool:
    """Whether both sides have a state, with differences."""
    was, becomes = state.was, state.becomes
    if was is None or becomes is None or state.decision is Decision.REFUSE or state.status is Status.DROPPED:
        return False
    return (key_differs and was.kind.is_keyed) or was.kind is not becomes.kind or not _are_same_states(was, becomes)


def _are_same_states(was: StateDescription, becomes: StateDescription) -> bool:
    pairs = ((was.value, becomes.value), (was.key, becomes.key), (was.namespace, becomes.namespace))
    return all(_are_same(old, new) for old, new in pairs)


def _are_same(old: SerializerDescription | None, new: SerializerDescription | None) -> bool:
    """Whether two sides write the same bytes; a side that knows nothing counts as equal."""
    return old is None or new is None or (bool(old.snapshot == new.snapshot) and not holds_nulls(new.told))


def _with_states(
    operator: OperatorDescription, stored: OperatorDescription, states: list[StateDescription], side: JobDescription
) -> JobDescription:
    """Describe a side with this operator alone, with some of its states, and under its stored id."""
    of_one = attrs.evolve(operator, operator_id=stored.operator_id, states=tuple(states), unreadable="", stored_id="")
    return attrs.evolve(side, operators=(of_one,), is_probe=False)


def _way_back(decision: Decision, findings: tuple[Finding, ...], note: str = "") -> WayBack:
    """Return the way back with the findings that prevent reading the bytes as they are, and those with a flag."""
    if decision is Decision.REFUSE:
        against = tuple(one for one in findings if one.verdict is Verdict.INCOMPATIBLE)
    else:
        against = tuple(one for one in findings if one.flags or one.verdict >= Verdict.REQUIRES_MIGRATION)
    return WayBack(decision, against, "" if against else note)


def _moved(operator: OperatorReport, state: StateReport, key: WayBack | None) -> WayBack | None:
    """Return a refusal of a state that the old job does not find, whatever its type; None if it does."""
    was = operator.was
    if found := _not_found(
        is_dropped=state.status is Status.DROPPED,
        uid=operator.uid if was is not None and was.stored_id else "",
        name=state.name if state.was is not None and state.was.stored_name else "",
    ):
        return found
    if key is not None and key.decision is Decision.REFUSE and state.kind.is_keyed:
        return WayBack(Decision.REFUSE, note=_KEY_HAS_NONE)
    return None


def _not_found(*, is_dropped: bool, uid: str, name: str) -> WayBack | None:
    """Return the refusal of a state that is dropped, or has a new name or an operator with a new uid, else None."""
    reasons = [
        is_dropped and "the state is dropped",
        uid and f"its operator now has the uid {uid}",
        name and f"it is now called {name}",
    ]
    return next((WayBack(Decision.REFUSE, note=f"{why}; {_STARTS_EMPTY}") for why in reasons if why), None)


def _kept(operator: OperatorReport, state: StateReport) -> WayBack:
    """Return the way back of a state whose type stays."""
    if operator.status is Status.ORPHANED:
        return WayBack(Decision.START, note=_FLINK_DROPS)
    if operator.max_parallelism and state.kind.is_keyed:
        return WayBack(Decision.START, note=_with_key_groups(operator.max_parallelism))
    return WayBack(Decision.START)


def ways_back_after(
    old: JobDescription, plan: MigrationPlan, code: JobDescription | None = None
) -> dict[Place, WayBack]:
    """Check for every stored state whether the old job could use it in the result of a plan.

    Without its code, only the snapshots of the old job are known: its defaults and aliases are ignored.

    Args:
        old: The stored side, before any edits.
        plan: The migration plan.
        code: The declarations of the old job's code, if they were recorded.

    Returns:
        The way back of each state, with the names that are stored.
    """
    stored = {operator.operator_id: operator for operator in old.operators}
    operators = [_after(stored[one.operator_id], one) for one in plan.operators if one.operator_id in stored]
    after = JobDescription("the new savepoint", tuple(operators), stored_by=plan.target.major or old.stored_by)
    before = attrs.evolve(old, operators=tuple(_as_declared(one, code) for one in old.operators))
    try:
        answers = {_place(*one): one[1] for one in check(after, before.as_probe()).states()}
    except NothingInCommon:
        answers = {}
    return {
        _place(operator, state): _in_result(operator, state, answers.get(_place_after(operator, state)))
        for operator in plan.operators
        for state in operator.states
    }


def _place_after(operator: OperatorPlan, state: StatePlan) -> Place:
    """Return where the old job looks for a state: all tables of one that is migrated lazily are one to it."""
    name = state.new_name if is_joined(state.name, state.new_name) else state.name
    return operator.operator_id, state.kind.scope, name


def _after(was: OperatorDescription, plan: OperatorPlan) -> OperatorDescription:
    """Describe an operator as it will be after the migration."""
    states = map(_state_after, (state for state in plan.states if state.action is not StateAction.DROP))
    by_name = {(state.kind.scope, state.name): state for state in states}  # tables of a state may become one
    return attrs.evolve(
        was,
        operator_id=plan.new_id or was.operator_id,
        key=_described(plan.key),
        states=tuple(by_name.values()),
        is_reframed=False,
    )


def _state_after(state: StatePlan) -> StateDescription:
    new, name = state.new, state.new_name or state.name
    value, key, namespace = SerializerDescription(new.value), _described(new.key), _described(new.namespace)
    return StateDescription(name, state.kind, value, key, namespace)


def _described(snapshot: TypeSerializerConfigSnapshot[Any] | None) -> SerializerDescription | None:
    return None if snapshot is None else SerializerDescription(snapshot)


def _in_result(operator: OperatorPlan, state: StatePlan, answer: StateReport | None) -> WayBack:
    """Return the way back of a state in the result of a migration."""
    is_dropped, uid = state.action is StateAction.DROP, operator.uid if operator.new_id else ""
    name = "" if is_joined(state.name, state.new_name) else state.new_name
    if found := _not_found(is_dropped=is_dropped, uid=uid, name=name):
        return found
    if answer is None or answer.was is None:
        return WayBack(Decision.REFUSE, note=f"the new savepoint does not have it; {_STARTS_EMPTY}")
    note = answer.note if answer.decision is Decision.REFUSE else ""
    if answer.decision is Decision.START and operator.max_parallelism and state.kind.is_keyed:
        note = _with_key_groups(operator.max_parallelism)
    return _way_back(answer.decision, answer.result.findings, note)
