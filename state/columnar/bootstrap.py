"""The columns from which a bootstrap makes a state, as they are declared, and the report of what it made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.plain_data import plain
from ...serializers.wording import log_line, many, repr_of, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NO_SOURCE = "starts empty: no source"


@attrs.frozen
class StateBootstrap:
    """The result of a bootstrap for one state.

    Attributes:
        operator: The uid or id of the operator.
        state: The name of the state.
        kind: The kind of the state.
        has_source: Whether it was made from rows; otherwise it starts empty.
        rows: The number of rows used; with a function of a row, of those for which it did not return None. None with an
            aggregate function, which may read only some of the rows.
        entries: The number of entries in the savepoint: one per key in value, list, reducing and aggregating state.
        defaults: The fields that have no column, and so have their default in every entry.
    """

    operator: str
    state: str
    kind: str
    has_source: bool = False
    rows: int | None = None
    entries: int = 0
    defaults: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the result as text."""
        if not self.has_source:
            return _NO_SOURCE
        text = (
            many(self.entries, "entry", "entries")
            if self.rows is None
            else f"{many(self.rows, 'row')}, {many(self.entries, 'entry', 'entries')}"
        )
        return f"{text}; defaults for missing columns: {', '.join(self.defaults)}" if self.defaults else text


@attrs.frozen(kw_only=True)
class BootstrapReport:
    """The report of a bootstrap.

    Attributes:
        target: The location of the savepoint.
        states: The results for all states of the job.
        parallelism: The number of subtasks, by uid or id of the operator.
        max_parallelism: The number of key groups.
        bytes_written: The size of all keyed streams.
        position: The position of the history, as passed to the bootstrap.
        seconds: The duration.
        unknown_to_flink: Descriptions of the types of the job's states and keys that Flink does not know.
    """

    target: str
    states: tuple[StateBootstrap, ...]
    parallelism: dict[str, int]
    max_parallelism: int
    bytes_written: int
    position: Any
    seconds: float
    unknown_to_flink: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_of(self, *self.to_text().splitlines())

    @property
    def entries(self) -> int:
        """The number of entries of all states."""
        return sum(state.entries for state in self.states)

    def to_data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**plain(self), "seconds": round(self.seconds, 3)}

    def to_text(self) -> str:
        """Return the report as text: a summary line, a line for each state, and notes."""
        entries = many(self.entries, "entry", "entries")
        head = f"savepoint {self.target}: {entries}, {self.bytes_written:,} bytes of keyed state"
        columns = [(state.operator, state.state, state.kind) for state in self.states]
        widths = [max(map(len, column), default=0) for column in zip(*columns, strict=True)]
        lines = [
            "  "
            + "  ".join(text.ljust(width) for text, width in zip(names, widths, strict=True))
            + f"  {state.to_text()}"
            for names, state in zip(columns, self.states, strict=True)
        ]
        told = [] if self.position is None else [f"position of the history: {json.dumps(self.position)}"]
        if self.unknown_to_flink:
            types = ", ".join(self.unknown_to_flink)
            told.append(f"not for Flink, which does not know {types} (for Flink, give each record its java_class)")
        told.append(f"prove it: stateshift verify {shell_word(self.target)}")
        return "\n".join(map(log_line, [f"{head}, {self.seconds:.1f} seconds", *lines, *told]))


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
