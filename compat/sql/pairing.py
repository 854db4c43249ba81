"""Which operator and which column of an old query goes on as which of the new one, decided once, as data.

Operators are paired by what they compute, never by number alone: two compilations of one query number them otherwise.
Columns are paired by what they are computed from, never by name, place or type.
Rules SQL-4, SQL-7 and SQL-8 for columns; SQL-9 to SQL-13 for operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.sql.row_changes import RowColumn
from .backfills import backfilled
from .query import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .query import Column, SqlOperator, SqlQuery, SqlState


@attrs.frozen
class Match:
    """A new operator, and the old one whose state it takes over.

    Attributes:
        becomes: The new operator.
        was: The old one; None: it begins without state.
        may_be: The old ones that it may be, if what they compute does not tell which.
    """

    becomes: SqlOperator
    was: SqlOperator | None = None
    may_be: tuple[SqlOperator, ...] = ()


def pair_operators(old: SqlQuery, new: SqlQuery, said: Mapping[int, int]) -> list[Match]:
    """Return the operators of a new query, each with the old one whose state it takes over.

    They are paired by all that is known of them, then by key and rows, then by key and work, then by key; then the only
    two of a kind. Of several that are alike in all of it, those of one number are a pair if there are as many of them.

    Args:
        old: The old query.
        new: The new one.
        said: What the user says: the number of the old operator, by that of the new one.
    """
    by_number = {one.node: one for one in old.operators}
    pairs = {one.node: Match(one, by_number[said[one.node]]) for one in new.operators if one.node in said}
    left = [one for one in old.operators if one.node not in said.values()]
    open_new = [one for one in new.operators if one.node not in said]

    gone: set[int] = set()

    def pair(of: Callable[[SqlOperator], object], *, sinks: bool = False) -> None:
        groups = _grouped(left, of)
        for alike, ours in _grouped((one for one in open_new if sinks or not one.is_of_table), of).items():
            theirs = groups.get(alike, [])
            if len(ours) == len(theirs) == 1:
                taken = list(zip(theirs, ours, strict=True))
            else:
                by_node = {one.node: one for one in theirs}
                same = [(by_node[one.node], one) for one in ours if one.node in by_node]
                taken = same if len(same) == len(ours) == len(theirs) else []
            for was, becomes in taken:
                pairs[becomes.node] = Match(becomes, was)
                gone.add(was.node)
        left[:] = [one for one in left if one.node not in gone]
        open_new[:] = [one for one in open_new if one.node not in pairs]

    pair(lambda one: one.identity, sinks=True)
    pair(lambda one: (one.kind, one.key_set, one.rows, one.work))
    pair(lambda one: (one.kind, one.key_set, one.rows))
    pair(lambda one: (one.kind, one.key_set, one.work))
    pair(lambda one: (one.kind, one.key_set))
    by_kind = [_grouped(side, lambda one: one.kind) for side in (left, open_new)]
    for kind, ours in by_kind[1].items():
        theirs = by_kind[0].get(kind, [])
        if len(ours) == len(theirs) == 1 and ours[0].is_keyed:
            pairs[ours[0].node] = Match(ours[0], theirs[0])
            left.remove(theirs[0])
    for one in new.operators:
        alike = tuple(
            other
            for other in left
            if (other.kind, other.key_set) == (one.kind, one.key_set)
            and (other.work == one.work or not one.is_of_table)
        )
        pairs.setdefault(one.node, Match(one, may_be=alike))
    return [pairs[one.node] for one in new.operators]


def _grouped(of: Iterable[SqlOperator], by: Callable[[SqlOperator], object]) -> dict[object, list[SqlOperator]]:
    groups: dict[object, list[SqlOperator]] = {}
    for one in of:
        groups.setdefault(by(one), []).append(one)
    return groups


def pair_states(old: SqlOperator, new: SqlOperator) -> Iterator[tuple[SqlState | None, SqlState]]:
    """Yield each new state with the old one whose values it takes: by what it is computed from, or by name."""
    left = {(one.computed or one.name): one for one in old.states}
    for state in new.states:
        yield left.get(state.computed or state.name), state


def pair_columns(
    old: Sequence[Column], new: Sequence[Column], removal: Removal, *, is_key: bool
) -> tuple[RowColumn, ...]:
    """Return what each new column takes.

    Args:
        old: The stored columns.
        new: The new ones.
        removal: How stored rows are found again.
        is_key: Whether the row is the key of a map: it is then found by all of its columns in any case.
    """
    places: dict[str, list[int]] = {}
    for place, column in enumerate(old):
        places.setdefault(column.computed, []).append(place)
    goes_on = any(column.computed in places for column in new)
    given = backfilled(old, new)
    return tuple(
        given[at] if at in given else
        _paired(column, places.get(column.computed, []), removal, is_key=is_key, goes_on=goes_on)
        for at, column in enumerate(new)
    )  # fmt: skip


def _paired(column: Column, alike: list[int], removal: Removal, *, is_key: bool, goes_on: bool) -> RowColumn:
    by_all = is_key or removal in _EXACT
    if alike:
        return RowColumn(column.name, alike.pop(0) if len(alike) > 1 else alike[0], is_exact=by_all)
    if removal is Removal.ACCUMULATED and column.begins is not None and not goes_on:
        why = "the aggregate is new, and beside it none goes on: nothing of what is stored would be used"
        return RowColumn(column.name, why=why, is_refused=True)
    if removal is Removal.ACCUMULATED and column.begins is not None:
        why = "the aggregate is new; it begins now, without the rows that came before"
        return RowColumn(column.name, begins=column.begins[0], why=why, is_partial=True)
    is_refused = by_all or removal is Removal.ACCUMULATED
    return RowColumn(column.name, why=_why_begun(removal, is_key=is_key), is_refused=is_refused)


_EXACT = frozenset({Removal.BY_ROW, Removal.TAKEN_OFF})


def _why_begun(removal: Removal, *, is_key: bool) -> str:
    if is_key:
        return "the column is new in the key by which rows are found, and stored rows have no value for it"
    if removal is Removal.ACCUMULATED:
        return "the aggregate is new, and what it would begin with is not known"
    if removal is Removal.TAKEN_OFF:
        return "the aggregate is new, and what it has not had would be taken back later"
    if removal is Removal.BY_ROW:
        return (
            "the column is new, and its input takes rows back: what is stored must be what is taken back later, and"
            " there is no value for it"
        )
    return f"the column is new; stored rows get null, since {removal.value}"
