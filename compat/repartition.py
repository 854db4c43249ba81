"""The caller's options for rewritten keys: a new number of key groups, and merge functions for colliding keys.

Source: rule ROLE-4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import DeclarationError, StateNotFound
from .description import function_name
from .edits import find_state
from .key_hashes import MAX_KEY_GROUPS
from .lazy_tables import state_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from .description import JobDescription, OperatorDescription


@attrs.frozen
class Merge:
    """A function that merges the values of two keys that become the same key, with its name in plans and lineage.

    It is called first with the value of the key whose stored bytes sort first, then with the other: two values, two
    lists of list state, or two values of one user key of map state; with TTL, without the time stamps.
    """

    name: str
    function: Callable[[Any, Any], Any] = attrs.field(eq=False, repr=False)

    @classmethod
    def of(cls, function: Callable[[Any, Any], Any] | Merge) -> Merge:
        """Return a merge named by the function's module and qualified name."""
        if isinstance(function, Merge):
            return function
        if not callable(function):
            raise DeclarationError.before_writing(
                f"a merge must be a function of two values, not a {type(function).__name__}",
                advice="pass f(first, second), such as operator.add",
            )
        return cls(function_name(function), function)


def _numbers(given: int | Mapping[str, int] | None) -> tuple[tuple[str, int], ...]:
    """Return the pairs of operator and number; a single number for all operators is stored under ""."""
    if given is None:
        return ()
    numbers = tuple(given.items()) if isinstance(given, Mapping) else (("", given),)
    for _, number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_KEY_GROUPS:
            raise DeclarationError.before_writing(
                f"max parallelism {number} is not possible",
                advice=f"choose 1 to {MAX_KEY_GROUPS}",
            )
    return numbers


def _merges(given: Mapping[str, Callable[[Any, Any], Any] | Merge]) -> tuple[tuple[str, Merge], ...]:
    return tuple((name, Merge.of(function)) for name, function in given.items())


@attrs.frozen(kw_only=True)
class Repartition:
    """Permission to rewrite keys, with all state of their operators.

    Attributes:
        max_parallelism: The new number of key groups: one for all operators of the job, or numbers by uid or id. None:
            as before.
        merge: The merge functions, by state, or by `UID/STATE` if several operators have one of that name: each is a
            function of two values, or a `Merge`. It merges the values of two keys that become the same key; without it,
            such keys abort the run.
    """

    max_parallelism: tuple[tuple[str, int], ...] = attrs.field(default=None, converter=_numbers)
    merge: tuple[tuple[str, Merge], ...] = attrs.field(factory=dict, converter=_merges)

    def require_known(self, stored: JobDescription) -> None:
        """Refuse names that are not names of stored operators and keyed states.

        Raises:
            StateNotFound: An operator or state does not exist.
            DeclarationError: A state has no values that could be merged, or its name is ambiguous.
        """
        names = {name for operator in stored.operators for name in _names(operator)}
        for name, _ in self.max_parallelism:
            if name and name not in names:
                titles = ", ".join(operator.uid or operator.operator_id for operator in stored.operators) or "none"
                raise StateNotFound.before_writing(f"no operator has the uid or id {name!r}; there are: {titles}")
        for name, _ in self.merge:
            _, state = find_state(stored.operators, name)
            if not state.kind.has_values:
                why = "it has no key" if not state.kind.is_keyed else "equal timers are merged automatically"
                raise DeclarationError.before_writing(
                    f"values of {state.kind} state {state.name!r} cannot be merged: {why}",
                    advice="give keyed states",
                )

    @property
    def for_all(self) -> int:
        """The number of key groups for all operators of the job; 0: as before."""
        return dict(self.max_parallelism).get("", 0)

    def names(self, operator: OperatorDescription) -> bool:
        """Whether the caller sets a number of key groups for this operator by name."""
        return any(name in _names(operator) for name, _ in self.max_parallelism)

    def key_groups(self, operator: OperatorDescription) -> int:
        """Return the new number of key groups of an operator of the job, if it changes; else 0."""
        wanted = dict(self.max_parallelism)
        number = next((wanted[name] for name in _names(operator) if name in wanted), self.for_all)
        return 0 if number == operator.max_parallelism else number

    def merges(self, stored: JobDescription) -> dict[tuple[str, str], Merge]:
        """Return the merge functions by the operator's id and the state's name."""
        found = {}
        for name, merge in self.merge:
            index, state = find_state(stored.operators, name)
            found[stored.operators[index].operator_id, state_in(state.name)] = merge
        return found


def _names(operator: OperatorDescription) -> tuple[str, ...]:
    return tuple(filter(None, (operator.uid, operator.operator_id, operator.stored_id)))
