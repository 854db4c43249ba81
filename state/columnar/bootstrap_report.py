"""The report of a bootstrap."""

from __future__ import annotations

import json
from typing import Any

import attrs

from ...compat.structuring import plain
from ...serializers.wording import log_line, many, shell_word

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
