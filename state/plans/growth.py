"""What makes the state of a query grow, and what removes it: told of each state of a compiled plan.

Source: specs of SQL operators, A and C.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from ...compat.description import StateKind
from ...compat.sql.query import Namespace, Removal, ValueForm
from .time_to_live import EXPIRY, Expiry

if TYPE_CHECKING:
    from ...compat.sql.query import SqlOperator, SqlState


class Keeps(enum.StrEnum):
    """What a state has values for, within a key."""

    KEY = enum.auto()
    """One value."""
    DIFFERENT_ROW = enum.auto()
    """One for each row that differs from the others."""
    UNIQUE_KEY = enum.auto()
    """One for each unique key of its rows."""
    SORT_KEY = enum.auto()
    """The rows of each sort key."""
    TIME = enum.auto()
    """The rows of each time."""
    ROW = enum.auto()
    """Every row."""
    DIFFERENT_VALUE = enum.auto()
    """One for each value that differs from the others."""


class Leaves(enum.StrEnum):
    """When a value goes."""

    TIME_TO_LIVE = enum.auto()
    """Its time to live has passed since it was last written."""
    JOB = enum.auto()
    """That of the running job has passed, if it sets one."""
    WINDOW = enum.auto()
    """Its window has ended."""
    TIME = enum.auto()
    """Time has passed, as the query says."""
    TAKEN_BACK = enum.auto()
    """Its input takes back or deletes all that it is of."""
    OUTRANKED = enum.auto()
    """Others take the places of the rank."""


class Implicit(enum.StrEnum):
    """Why the planner has added an operator with state which the query does not name."""

    ROWS_BEFORE = enum.auto()
    """The source sends changes without the rows before them, or may send one twice."""
    SINK_KEY = enum.auto()
    """The changes of a row come by another key than the primary key of the table."""


@attrs.frozen
class Growth:
    """How a state grows.

    Attributes:
        keeps: What it has values for, within a key.
        leaves: When a value goes; empty: never.
        is_of_keys: Whether there is more than one key.
    """

    keeps: Keeps
    leaves: tuple[Leaves, ...]
    is_of_keys: bool = True

    @property
    def with_rows(self) -> bool:
        """Whether rows of a key that it has already make it grow."""
        return self.keeps is not Keeps.KEY and Leaves.OUTRANKED not in self.leaves

    @property
    def is_endless(self) -> bool:
        """Whether it grows for ever: nothing goes by itself."""
        grows = self.is_of_keys or self.with_rows
        return grows and set(self.leaves) <= {Leaves.TAKEN_BACK, Leaves.OUTRANKED}


_REMOVING = frozenset({Removal.BY_KEY, Removal.BY_ROW, Removal.TAKEN_OFF})
_LISTS = frozenset({ValueForm.ROWS, ValueForm.NUMBERED_KEYS, ValueForm.SORTED_COUNTS})


def growth_of(operator: SqlOperator, state: SqlState) -> Growth:
    """Return how a state of an operator grows."""
    leaves = [Leaves.TIME_TO_LIVE] if state.ttl_ms else []
    if state.namespace is not Namespace.VOID:
        leaves.append(Leaves.WINDOW)
    elif (expiry := EXPIRY.get(operator.kind)) is not None:
        leaves.append({Expiry.OF_THE_JOB: Leaves.JOB, Expiry.BY_TIME: Leaves.TIME}[expiry])
    told = operator.states[0] if state.form is ValueForm.VIEW else state  # a view goes with the row that it is beside
    if told.removal in _REMOVING:
        leaves.append(Leaves.TAKEN_BACK)
    keeps_all = any(one.form is ValueForm.SORTED_COUNTS for one in operator.states)  # its input takes rows back
    if operator.kind == "rank" and not keeps_all:
        leaves.append(Leaves.OUTRANKED)
    return Growth(_keeps(state), tuple(leaves), is_of_keys=bool(operator.keys))


def _keeps(state: SqlState) -> Keeps:
    if state.kind is StateKind.LIST or (state.kind is StateKind.VALUE and state.form in _LISTS):
        return Keeps.ROW
    if state.kind is not StateKind.MAP:
        return Keeps.KEY
    if state.form is ValueForm.VIEW:
        return Keeps.DIFFERENT_VALUE
    if state.form is ValueForm.COUNT:
        return Keeps.DIFFERENT_ROW
    if not state.user_key:
        return Keeps.ROW if state.form is ValueForm.ROW else Keeps.TIME
    return Keeps.SORT_KEY if state.form is ValueForm.ROWS else Keeps.UNIQUE_KEY


def implicit_of(operator: SqlOperator) -> Implicit | None:
    """Return why the planner has added the operator, or the state of a sink; None if the query says it."""
    if operator.kind == "changelog-normalize":
        return Implicit.ROWS_BEFORE
    return Implicit.SINK_KEY if operator.kind == "sink" and (operator.states or operator.unknown) else None
