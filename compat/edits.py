"""Edits of stored state beyond its types: states and operators that are dropped, renamed, or not converted yet.

They change the description of the stored state before it is checked; the plan then carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..serializers.errors import DeclarationError, StateNotFound
from .lazy_tables import is_reduced, number_of, state_in, table_of
from .pyflink_names import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .description import JobDescription, OperatorDescription, StateDescription

KEY_NAME = "<key>"


@attrs.frozen
class NewIdentity:
    """The new id and uid of an operator.

    Attributes:
        operator_id: The id, as 32 hexadecimal digits.
        uid: The uid in the new job.
    """

    operator_id: str
    uid: str


@attrs.frozen
class Edits:
    """Edits by name; a state is named `STATE`, or `UID/STATE` if several operators have one of that name.

    A state of PyFlink may be named as its function names it, without the `python-state-` of its stored name; then so is
    its new name.

    Attributes:
        drop: The states to leave out of the new savepoint.
        rename_states: The new names of states, by stored name.
        rename_operators: The new identities of operators, by stored uid or id.
        convert: The states that were not converted yet, if their type does not show it (rule STATE-8); the key of an
            operator is `UID/<key>`.
    """

    drop: tuple[str, ...] = ()
    rename_states: tuple[tuple[str, str], ...] = ()
    rename_operators: tuple[tuple[str, NewIdentity], ...] = ()
    convert: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.rename_states or self.rename_operators or self.convert)

    def apply(self, stored: JobDescription) -> JobDescription:
        """Return the description of the stored state as the new job is to see it.

        Raises:
            StateNotFound: A state or operator does not exist.
            DeclarationError: A new name is taken, or a state name is ambiguous.
        """
        operators = list(stored.operators)
        for name in self.drop:
            index, tables = _find_tables(operators, name)
            for state in tables:
                operators[index] = _replaced(operators[index], state, attrs.evolve(state, is_dropped=True))
        for name in self.convert:
            _mark_unconverted(operators, name)
        for name, given in self.rename_states:
            index, tables = _find_tables(operators, name)
            new_name = _as_stored(given, name, tables[0].name)
            taken = [
                other
                for other in operators[index].states
                if (state_in(other.name), other.kind.scope) == (new_name, tables[0].kind.scope)
            ]
            if taken or not new_name:
                raise DeclarationError.before_writing(
                    f"the state {state_in(tables[0].name)!r} cannot be renamed to {new_name!r}: the operator already"
                    " has a state of that name",
                    advice="choose a free name, or drop the other state",
                    operator=_title(operators[index]),
                )
            for state in tables:
                renamed = attrs.evolve(state, name=table_of(new_name, state.name), stored_name=state.name)
                operators[index] = _replaced(operators[index], state, renamed)
        for name, identity in self.rename_operators:
            index = _find_operator(operators, name)
            if any(identity.operator_id == operator.operator_id for operator in operators):
                raise DeclarationError.before_writing(
                    f"the operator {name!r} cannot be renamed to {identity.uid!r}: there is already an operator with "
                    "that uid",
                    advice="choose a free uid",
                )
            operator = operators[index]
            operators[index] = attrs.evolve(
                operator, operator_id=identity.operator_id, uid=identity.uid, stored_id=operator.operator_id
            )
        return attrs.evolve(stored, operators=tuple(operators))


def same_types(stored: JobDescription) -> JobDescription:
    """Return the new side of a check that changes no types: the stored side without the dropped states."""
    operators = (
        attrs.evolve(operator, states=tuple(state for state in operator.states if not state.is_dropped))
        for operator in stored.operators
    )
    return attrs.evolve(stored.as_probe(), origin="the same types", operators=tuple(operators))


def is_called(stored: str, name: str) -> bool:
    """Whether a person may mean a state by a name: the stored one, that of a table without its number, or PyFlink's."""
    return name in {stored, state_in(stored), state_in(stored).removeprefix(PREFIX)}


def _mark_unconverted(operators: list[OperatorDescription], name: str) -> None:
    title, separator, last = name.rpartition("/")
    if separator and last == KEY_NAME:
        index = _find_operator(operators, title)
        key = operators[index].key
        if key is not None:
            operators[index] = attrs.evolve(operators[index], key=attrs.evolve(key, is_unconverted=True))
        return
    index, tables = _find_tables(operators, name)
    for state in tables:
        value = attrs.evolve(state.value, is_unconverted=True)
        operators[index] = _replaced(operators[index], state, attrs.evolve(state, value=value))


def _as_stored(new_name: str, name: str, stored: str) -> str:
    """Return the name to store: where a state of PyFlink is named as its function names it, the new name is, too."""
    is_given_bare = stored.startswith(PREFIX) and not name.rpartition("/")[2].startswith(PREFIX)
    return PREFIX + new_name if is_given_bare and new_name else new_name


def _title(operator: OperatorDescription) -> str:
    return operator.uid or operator.operator_id


def _find_operator(operators: list[OperatorDescription], name: str) -> int:
    for index, operator in enumerate(operators):
        if name in {operator.uid, operator.operator_id} - {""}:
            return index
    titles = ", ".join(map(_title, operators)) or "none"
    raise StateNotFound.before_writing(f"no operator has the uid or id {name!r}; there are: {titles}")


def find_state(operators: Sequence[OperatorDescription], name: str) -> tuple[int, StateDescription]:
    """Return the index of the operator and the state with a name, `STATE` or `UID/STATE`; its first table, if several.

    Raises:
        StateNotFound: No state has the name.
        DeclarationError: Several states have it.
    """
    index, tables = _find_tables(operators, name)
    return index, tables[0]


def _find_tables(operators: Sequence[OperatorDescription], name: str) -> tuple[int, list[StateDescription]]:
    """Return the index of the operator and all tables of the state with a name: one, unless it is migrated lazily.

    Raises:
        StateNotFound: No state has the name.
        DeclarationError: Several states have it.
    """
    found = _called(operators, name, lambda one: {state_in(one), *([one] if is_reduced(one) else [])})
    found = found or _called(operators, name, lambda one: {state_in(one).removeprefix(PREFIX)})
    if not found:
        titles = (f"{_title(operator)}/{state_in(state.name)}" for operator in operators for state in operator.states)
        names = ", ".join(dict.fromkeys(titles))
        raise StateNotFound.before_writing(f"there is no state {name!r}; there are: {names or 'none'}")
    if len({(index, state.kind.scope) for index, state in found}) > 1:
        places = ", ".join(f"{_title(operators[index])}/{state.name} ({state.kind})" for index, state in found)
        raise DeclarationError.before_writing(f"several states are called {name!r}: {places}", advice="write UID/STATE")
    return found[0][0], sorted((state for _, state in found), key=lambda state: number_of(state.name))


def _called(
    operators: Sequence[OperatorDescription], name: str, called: Callable[[str], set[str]]
) -> list[tuple[int, StateDescription]]:
    return [
        (index, state)
        for index, operator in enumerate(operators)
        for state in operator.states
        for title in {"", f"{operator.uid}/", f"{operator.operator_id}/"}
        if name.removeprefix(title) in called(state.name) and name.startswith(title)
    ]


def _replaced(operator: OperatorDescription, old: StateDescription, new: StateDescription) -> OperatorDescription:
    return attrs.evolve(operator, states=tuple(new if state is old else state for state in operator.states))
