"""What the columns of stored rows are called: a savepoint has their types and order only, a compiled plan has names."""

from __future__ import annotations

from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import operator_id_of_uid
from ...compat.sql.description import is_stored_as
from ...compat.sql.query import ValueForm
from ...serializers.errors import DeclarationError
from ...serializers.flink.namespaces import TimerSerializerSnapshot
from ...serializers.sql.serializers import RowDataSerializerSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...compat.sql.query import Column, SqlOperator, SqlQuery
    from ...serializers.snapshot import TypeSerializerConfigSnapshot

    Snapshot = TypeSerializerConfigSnapshot[Any]
    Naming = Callable[[str, Snapshot], Snapshot]
    """Returns the snapshot of a state's values with names of columns; of a state without a name, that of the key."""

_ENTRY = 2
_NO_ROWS = frozenset({ValueForm.VIEW, ValueForm.SORTED_COUNTS})


def namings_of(query: SqlQuery) -> dict[str, Naming]:
    """Return what names the columns of each operator of a query whose layout is known, by operator id."""
    known = (one for one in query.operators if one.states)
    return {operator_id_of_uid(uid).hex(): partial(_named_of, query.origin, one) for one in known for uid in one.uids}


def _named_of(origin: str, operator: SqlOperator, state: str, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with the names that a plan has.

    Raises:
        DeclarationError: The plan has other types: it is not that of the savepoint.
    """
    if not state:
        return _named(snapshot, operator.keys)
    told = next((one for one in operator.states if one.name == state and one.form not in _NO_ROWS), None)
    if isinstance(snapshot, TimerSerializerSnapshot):
        key, namespace = snapshot.children()
        return _with_nested(snapshot, [_named(key, operator.keys), namespace])
    if told is None:
        return snapshot
    children = snapshot.children()
    rows = children[0] if told.form is ValueForm.COUNT and children else snapshot
    if told.columns and not is_stored_as(rows, told.columns):
        raise DeclarationError(
            f"the state {state} of {operator.title} is {snapshot.describe()}, and in {origin} it has other columns:"
            f" {', '.join(one.type.describe() for one in told.columns)}",
            advice="name the plan with which the savepoint was written",
        )
    if told.user_key and len(children) == _ENTRY:
        return _with_nested(snapshot, [_named(children[0], told.user_key), _named(children[1], told.columns)])
    return _named(snapshot, told.columns)


def _named(snapshot: Snapshot, columns: Sequence[Column]) -> Snapshot:
    """Return a snapshot in which rows of as many columns have their names."""
    if isinstance(snapshot, RowDataSerializerSnapshot):
        return attrs.evolve(snapshot, names=_unique(columns)) if len(columns) == len(snapshot.types) else snapshot
    return _with_nested(snapshot, [_named(one, columns) for one in snapshot.children()])


def _with_nested(snapshot: Any, nested: list[Snapshot]) -> Snapshot:
    before = snapshot.children()
    changed: Snapshot = snapshot
    if any(one is not other for one, other in zip(nested, before, strict=True)):
        changed = attrs.evolve(snapshot, nested=tuple(nested))
    return changed


def _unique(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the names; the second column of a name gets `#2`."""
    names: list[str] = []
    for one in columns:
        others = (f"{one.name}#{number}" for number in count(2))
        names.append(next(name for name in chain([one.name], others) if name not in names))
    return tuple(names)
