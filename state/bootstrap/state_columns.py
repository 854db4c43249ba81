"""What a bootstrap is told of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Value = str | dict[str, str]
"""A column; or, for a record, columns by field."""


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


@attrs.frozen
class StateColumns:
    """How the rows of a table become one state.

    Attributes:
        operator: uid or id of the operator.
        state: Name of a keyed state of it.
        key_by: Column of the key; several make a tuple key.
        namespace: Column of the namespace, of state that has one: of windows a struct of `start` and `end`, in
            milliseconds.
        value: Where a row's value comes from: None: the fields of a record from the columns of their names; a dict:
            these fields from these columns, the others by name; a column's name; a function of the row, whose None
            leaves the row out. Of list state it is an element, of map state a value of the map.
        user_key: Map state: column of the key within the map; several make a tuple.
        order_by: List state: columns that put the rows of a key in order, ascending; without them `value` is a column
            of arrays, each the whole list of a key. With `aggregate`: of any state.
        aggregate: Function of an iterator over all rows of a key, whose result is the value, list or dict; None is no
            entry.
    """

    operator: str
    state: str
    key_by: tuple[str, ...] = attrs.field(converter=_names, kw_only=True)
    namespace: str = attrs.field(default="", kw_only=True)
    value: Value | Callable[[Any], Any] | None = attrs.field(default=None, kw_only=True)
    user_key: tuple[str, ...] = attrs.field(default=None, converter=_names, kw_only=True)
    order_by: tuple[str, ...] = attrs.field(default=None, converter=_names, kw_only=True)
    aggregate: Callable[[Iterable[Any]], Any] | None = attrs.field(default=None, kw_only=True)
