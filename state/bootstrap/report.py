"""What a bootstrap did."""

from __future__ import annotations

import json
from typing import Any

import attrs

from ...serializers.escaping import log_line, shell_word
from ...serializers.wording import many

_NO_SOURCE = "starts empty: no source"


@attrs.frozen
class StateBootstrap:
    """What became of one state.

    Attributes:
        operator: uid or id of the operator.
        state: Its name.
        kind: Its kind.
        has_source: Whether it was made from rows; otherwise it starts empty.
        rows: Rows that were taken; with a function of a row, those for which it gave something. None where a function
            of all rows of a key made the values: it may look at as many as it likes.
        entries: Entries in the savepoint: of value, list, reducing and aggregating state one for each key.
        defaults: Fields that no column gave, and that have their default in every entry.
    """

    operator: str
    state: str
    kind: str
    has_source: bool = False
    rows: int | None = None
    entries: int = 0
    defaults: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Say it in words."""
        if not self.has_source:
            return _NO_SOURCE
        text = (
            many(self.entries, "entry", "entries")
            if self.rows is None
            else f"{many(self.rows, 'row')}, {many(self.entries, 'entry', 'entries')}"
        )
        return f"{text}; default where there is no column: {', '.join(self.defaults)}" if self.defaults else text


@attrs.frozen(kw_only=True)
class BootstrapReport:
    """What a bootstrap did.

    Attributes:
        target: Where the savepoint is.
        states: All states of the job.
        parallelism: Subtasks, by uid or id of the operator.
        max_parallelism: Number of key groups.
        bytes_written: Bytes of all keyed streams.
        position: How far the history goes, as it was given.
        seconds: How long it took.
        unknown_to_flink: Types of the job's states whose snapshots are not Flink's, in words.
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
        """Entries of all states."""
        return sum(state.entries for state in self.states)

    def to_data(self) -> dict[str, Any]:
        """Give the report as plain data."""
        return {**attrs.asdict(self), "seconds": round(self.seconds, 3)}

    def to_text(self) -> str:
        """Give the report for people: a line in all, and one for each state."""
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
            told.append(f"not for Flink, which does not know {types} (for it, give each record its java_class)")
        told.append(f"prove it: stateshift verify {shell_word(self.target)}")
        return "\n".join(map(log_line, [f"{head}, {self.seconds:.1f} seconds", *lines, *told]))
