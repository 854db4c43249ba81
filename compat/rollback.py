"""The check of a rollback: whether the old job could continue with the result of a migration.

The source of a migration is never changed, so the old job can always start on it; but then later changes are missing.
This module checks what the old job could do with the result of a plan; `way_back` checks the state that the new job
writes later. Source: compatibility rules, RUN-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Verdict
from ..serializers.errors import NothingInCommon
from .check import check
from .description import JobDescription, OperatorDescription, SerializerDescription, StateDescription
from .explain import finding_line
from .plan import StateAction
from .way_back import (
    DROPPED,
    STARTS_EMPTY,
    as_declared,
    lost_words,
    of_another_name,
    of_another_uid,
    with_key_groups,
)

if TYPE_CHECKING:
    from .plan import MigrationPlan, OperatorPlan, StatePlan
    from .report import StateReport


@attrs.frozen
class Rollback:
    """The old job's compatibility with one state of the new savepoint.

    Attributes:
        decision: `start`: it reads the state as it is. `migrate`: it needs a migration back. `refuse`: it cannot use
            the state.
        reasons: The reasons, or what has to be reviewed; empty if there is nothing.
    """

    decision: Decision
    reasons: tuple[str, ...] = ()


def rollback_of(
    old: JobDescription, plan: MigrationPlan, code: JobDescription | None = None
) -> dict[tuple[str, str, str], Rollback]:
    """Check for every stored state whether the old job could use it in the result of the plan.

    Without its code, only the snapshots of the old job are known: its defaults and aliases are ignored.

    Args:
        old: The stored side, before any edits.
        plan: The migration plan.
        code: The declarations of the old job's code, if they were recorded.

    Returns:
        The rollback of each state by operator id, name scope and name, as they are stored.
    """
    stored = {operator.operator_id: operator for operator in old.operators}
    operators = [_after(stored[one.operator_id], one) for one in plan.operators if one.operator_id in stored]
    after = JobDescription("the new savepoint", tuple(operators), stored_by=plan.target.major or old.stored_by)
    before = attrs.evolve(old, operators=tuple(as_declared(one, code) for one in old.operators))
    answers = _answers(after, before)
    found = {}
    for operator in plan.operators:
        for state in operator.states:
            place = (operator.operator_id, state.kind.scope, state.name)
            found[place] = _of(operator, state, answers.get(place))
    return found


def _after(was: OperatorDescription, plan: OperatorPlan) -> OperatorDescription:
    """Describe an operator as it will be after the migration."""
    return attrs.evolve(
        was,
        operator_id=plan.new_id or was.operator_id,
        key=None if plan.key is None else SerializerDescription(plan.key),
        states=tuple(_state_after(state) for state in plan.states if state.action is not StateAction.DROP),
        is_reframed=False,
    )


def _state_after(state: StatePlan) -> StateDescription:
    new = state.new
    return StateDescription(
        state.new_name or state.name,
        state.kind,
        SerializerDescription(new.value),
        key=None if new.key is None else SerializerDescription(new.key),
        namespace=None if new.namespace is None else SerializerDescription(new.namespace),
    )


def _answers(after: JobDescription, old: JobDescription) -> dict[tuple[str, str, str], StateReport]:
    try:
        report = check(after, old.as_probe())
    except NothingInCommon:
        return {}
    return {(operator.operator_id, state.kind.scope, state.name): state for operator, state in report.states()}


def _of(operator: OperatorPlan, state: StatePlan, answer: StateReport | None) -> Rollback:
    if state.action is StateAction.DROP:
        return Rollback(Decision.REFUSE, (DROPPED,))
    if operator.new_id:
        return Rollback(Decision.REFUSE, (of_another_uid(operator.uid),))
    if state.new_name:
        return Rollback(Decision.REFUSE, (of_another_name(state.new_name),))
    if answer is None or answer.was is None:
        return Rollback(Decision.REFUSE, (f"the new savepoint does not have it; {STARTS_EMPTY}",))
    findings = answer.result.findings
    if answer.decision is Decision.REFUSE:
        reasons = [finding_line(one) for one in findings if one.verdict is Verdict.INCOMPATIBLE]
        return Rollback(answer.decision, tuple(reasons or [answer.note]))
    if answer.decision is Decision.MIGRATE:
        return Rollback(answer.decision, (f"only after a migration back{lost_words(findings)}",))
    if flagged := [finding_line(one) for one in findings if one.flags]:
        return Rollback(answer.decision, tuple(flagged))
    if operator.max_parallelism and state.kind.is_keyed:
        return Rollback(answer.decision, (with_key_groups(operator.max_parallelism),))
    return Rollback(answer.decision)
