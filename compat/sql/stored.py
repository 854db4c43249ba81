"""What a savepoint has of the operators of a plan: that of the old query, or a template, which is one of the new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError
from ...serializers.snapshot import snapshot_to_bytes
from ...serializers.sql.logical_types import OPAQUE
from ..description import operator_id_of_uid
from .description import describe_operator, is_stored_as
from .query import ValueForm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..description import JobDescription, OperatorDescription, StateDescription
    from .query import SqlOperator, SqlQuery, SqlState


def require_template(new: SqlQuery, template: JobDescription) -> None:
    """Refuse a savepoint that the new query did not write.

    Args:
        new: The new query.
        template: The savepoint.

    Raises:
        DeclarationError: An operator or a state of the plan is not in it, or is another one there; or it has more.
    """
    by_id = operators_by_id(template)
    known = {operator_id_of_uid(uid).hex() for one in new.operators for uid in one.uids}
    for one in new.operators:
        if one.unknown or not one.states:
            continue
        found = operator_in(by_id, one)
        if found is None:
            raise _of_another_plan(new, template, f"the savepoint has no state of {one.uids[0]}")
        for name, told, stored in unlike_states(one, found):
            there = f"is {stored} in the savepoint" if stored else "is not in the savepoint"
            raise _of_another_plan(new, template, f"the state {name} of {one.title} is {told} in the plan, and {there}")
    more = with_state(one for place, one in by_id.items() if place not in known)
    if more is not None:
        raise _of_another_plan(new, template, f"the plan has no operator {more.uid or more.operator_id}")


def _of_another_plan(new: SqlQuery, template: JobDescription, why: str) -> DeclarationError:
    return DeclarationError.before_writing(
        f"the template, {template.origin}, is not of {new.origin}: {why}",
        advice="start the new plan with EXECUTE PLAN, without a savepoint, and take one of it; no input is needed",
    )


def operators_by_id(savepoint: JobDescription | None) -> dict[str, OperatorDescription]:
    """Return the operators of a savepoint by their ids; none, if there is no savepoint."""
    return {} if savepoint is None else {one.operator_id: one for one in savepoint.operators}


def operator_in(stored: Mapping[str, OperatorDescription], of: SqlOperator) -> OperatorDescription | None:
    """Return the stored operator that has the keyed state of one in a plan, by its uids; None: there is none."""
    ids = (operator_id_of_uid(uid).hex() for uid in of.uids)
    return with_state(stored[place] for place in ids if place in stored)


def with_state(kept: Iterable[OperatorDescription]) -> OperatorDescription | None:
    """Return the one of the transformations of a node that has keyed state; a plan shows no key that has no columns."""
    return next((one for one in kept if any(state.kind.is_keyed for state in one.states)), None)


def unlike_states(of: SqlOperator, stored: OperatorDescription) -> Iterator[tuple[str, str, str]]:
    """Yield the states that an operator has by its plan, and others, or none, in a savepoint.

    Each is its name, what the plan says of it, and what is stored, "" if it is not there.
    """
    told = {one.name: one for one in describe_operator(of, stored=stored).states}
    there = {one.name: one for one in stored.states}
    for one in of.states:
        if one.form is ValueForm.VIEW:
            continue
        state, found = told.get(one.name), there.get(one.name)
        shown = "" if found is None else found.describe()
        if state is None:
            yield one.name, f"a map in the order {one.order_words}", shown
        elif found is None or found.kind is not state.kind or not _is_alike(found, state, one):
            yield one.name, state.describe(), shown


def _is_alike(stored: StateDescription, told: StateDescription, of: SqlState) -> bool:
    """Whether a stored state has the types that a plan says; those that hold objects of Java are compared in words."""
    if any(one.type.root == OPAQUE for one in of.columns):
        return is_stored_as(stored.value.snapshot, of.columns)
    return snapshot_to_bytes(stored.value.snapshot) == snapshot_to_bytes(told.value.snapshot)
