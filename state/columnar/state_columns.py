"""The declaration of the columns from which a bootstrap makes a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Value = str | dict[str, str]
"""A column name; or, for a record, column names by field."""


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


@attrs.frozen
class StateColumns:
    """The mapping from the rows of a table to one state.

    Attributes:
        operator: The uid or id of the operator.
        state: The name of one of its keyed states.
        key_by: The column of the key; several columns make a tuple key.
        namespace: The column of the namespace, if the state has one: for windows a struct of `start` and `end`, in
            milliseconds.
        value: The source of a row's value. None: the fields of a record come from the columns of the same names. A
            dict: these fields come from these columns, the others by name. A string: the column. A function of the
            row: its result, and None leaves the row out. For list state the value is an element, for map state a value
            of the map.
        user_key: For map state the column of the key within the map; several columns make a tuple.
        order_by: For list state the columns that order the rows of a key, ascending; without them `value` is a column
            of arrays, each the whole list of a key. With `aggregate`, it applies to any kind of state.
        aggregate: A function of an iterator over all rows of a key, which returns the value, list or dict, or None for
            no entry.
    """

    operator: str
    state: str
    key_by: tuple[str, ...] = attrs.field(converter=_names, kw_only=True)
    namespace: str = attrs.field(default="", kw_only=True)
    value: Value | Callable[[Any], Any] | None = attrs.field(default=None, kw_only=True)
    user_key: tuple[str, ...] = attrs.field(default=None, converter=_names, kw_only=True)
    order_by: tuple[str, ...] = attrs.field(default=None, converter=_names, kw_only=True)
    aggregate: Callable[[Iterable[Any]], Any] | None = attrs.field(default=None, kw_only=True)
