"""`stateshift inspect`: what a savepoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ..compat.description import StateKind
from ..serializers.errors import StateShiftError
from .failures import Status, error_data, print_error, status_of
from .options import common_options, import_option, savepoint_argument
from .output import Column, is_terminal, many, print_json, print_lines, print_rich, size_text, table_lines
from .progress import spinning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..state.savepoint.reader import Savepoint, SavepointOperator
    from ..state.savepoint.states import Measure, SavepointState

_COLUMNS = (Column("state"), Column("kind"), Column("type"), Column("entries", is_number=True),
            Column("bytes", is_number=True), Column("remarks"))  # fmt: skip


@click.command(
    "inspect",
    short_help="Show operators, states, types and sizes of a savepoint.",
    epilog="""\b
Examples:
  stateshift inspect /data/savepoints/sp-1
  stateshift inspect s3://bucket/savepoints/sp-1 --json

A state that this release cannot read is listed with its class and `unsupported`; a migration copies its bytes.
Needs neither the job nor its classes.""",
)
@savepoint_argument()
@import_option
@common_options
def command(savepoint: str, *, with_json: bool) -> int:
    """Show what SAVEPOINT (a folder or URI with _metadata) holds: operators, states, readable types, entries, bytes."""
    from ..state.savepoint.reader import Savepoint

    opened = Savepoint.open(savepoint)
    operators = []
    with spinning("reading") as show:
        for operator in opened.operators:
            show(operator.title)
            operators.append(_Operator.look_at(operator))
    if with_json:
        print_json(to_data(opened, operators))
    elif is_terminal():
        print_rich(_renderables(opened, operators))
    else:
        print_lines(_text_lines(opened, operators))
    errors = [error for operator in operators for error in operator.errors()]
    if not with_json:
        for error in errors:
            print_error(error, with_json=False)
    return max((status_of(error) for error in errors), default=Status.DONE)


@attrs.frozen
class _State:
    """A state with its measure, or with why it could not be measured."""

    state: SavepointState
    measure: Measure | None
    error: StateShiftError | None = None

    @classmethod
    def look_at(cls, state: SavepointState) -> _State:
        if state.is_hidden:
            return cls(state, None)
        try:
            return cls(state, state.measure())
        except StateShiftError as error:
            return cls(state, None, error)

    @property
    def has_ttl(self) -> bool:
        return any(snapshot.kind == "ttl" for snapshot in _tree(self.state.description.value.snapshot))

    @property
    def is_flink_restorable(self) -> bool:
        return all(part.snapshot.is_flink for part in self.state.description.serializers())

    @property
    def namespace(self) -> str:
        """The namespace's type in words; "" where there is none."""
        namespace = self.state.description.namespace
        words = namespace.describe() if namespace is not None else ""
        return "" if words == "VoidNamespace" else words

    @property
    def is_unsupported(self) -> bool:
        """Whether values are there that cannot be read; most operators have queues of timers without a timer."""
        return bool(self.state.unsupported) and (self.measure is None or self.measure.entries > 0)

    def remarks(self) -> str:
        """What a table says of it besides."""
        remarks = [f"per {self.namespace}"] if self.namespace else []
        remarks += ["TTL"] if self.has_ttl else []
        remarks += [] if self.is_flink_restorable else ["not Flink-restorable"]
        remarks += ["unsupported"] if self.is_unsupported else []
        remarks += ["damaged"] if self.error is not None else []
        return ", ".join(remarks)

    def cells(self) -> list[str]:
        """The row of a table."""
        measure = self.measure
        counts = ["?", "?"] if measure is None else [f"{measure.entries:,}", f"{measure.size_bytes:,}"]
        return [self.state.name, str(self.state.kind), self.state.description.describe(), *counts, self.remarks()]

    def records(self) -> list[dict[str, Any]]:
        """The records among its types, each with its fields."""
        return _records(part.snapshot for part in self.state.description.serializers())


@attrs.frozen
class _Operator:
    """An operator with its states, or with why its streams cannot be read."""

    operator: SavepointOperator
    states: tuple[_State, ...]
    key: TypeSerializerConfigSnapshot[Any] | None = None
    error: StateShiftError | None = None

    @classmethod
    def look_at(cls, operator: SavepointOperator) -> _Operator:
        try:
            by_name = sorted(operator.states, key=lambda state: (state.kind is StateKind.TIMERS, state.name))
            states = tuple(_State.look_at(state) for state in by_name)
            return cls(operator, states, operator.key)
        except StateShiftError as error:
            return cls(operator, (), error=error)

    def errors(self) -> Iterator[StateShiftError]:
        """What could not be read because it is damaged or missing."""
        if self.error is not None:
            yield self.error
        yield from (state.error for state in self.states if state.error is not None)

    @property
    def is_stateless(self) -> bool:
        """Whether there is nothing to tell but its name."""
        return not self.operator.stored.has_state and self.error is None

    @property
    def is_flink_restorable(self) -> bool | None:
        """None where it cannot be told, and where there is no state that Flink would read."""
        if self.error is not None or not self.operator.stored.has_state:
            return None
        return self.operator.description.is_flink_restorable


def _tree(snapshot: TypeSerializerConfigSnapshot[Any]) -> Iterator[TypeSerializerConfigSnapshot[Any]]:
    yield snapshot
    for child in snapshot.children():
        yield from _tree(child)


def _records(snapshots: Iterator[TypeSerializerConfigSnapshot[Any]]) -> list[dict[str, Any]]:
    from ..serializers.records import RecordSnapshot

    found: dict[str, dict[str, Any]] = {}
    for snapshot in (inner for outer in snapshots for inner in _tree(outer)):
        if isinstance(snapshot, RecordSnapshot) and snapshot.record_name() not in found:
            fields = [{"name": field.name, "type": field.describe()} for field in snapshot.stored_fields()]
            found[snapshot.record_name()] = {"name": snapshot.record_name(), "fields": fields}
    return list(found.values())


def to_data(savepoint: Savepoint, operators: list[_Operator]) -> dict[str, Any]:
    """Give all of it as plain data; the keys are those of docs/reference/cli.md."""
    metadata, lineage = savepoint.metadata, savepoint.lineage
    return {
        "savepoint": savepoint.place,
        "version": metadata.version,
        "checkpoint_id": metadata.checkpoint_id,
        "master_states": len(metadata.master_states),
        "written_by": "flink" if lineage is None else f"stateshift {lineage.stateshift}",
        "source": None if lineage is None else lineage.source,
        "operators": [_operator_data(operator) for operator in operators],
    }


def _operator_data(looked: _Operator) -> dict[str, Any]:
    operator = looked.operator
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "finished": operator.stored.finished,
        "bytes": operator.size_bytes,
        "flink_restorable": looked.is_flink_restorable,
        "keeps": list(operator.keeps),
        "unsupported": None if looked.error else operator.unreadable or None,
        "error": None if looked.error is None else error_data(looked.error),
        "key": None if looked.key is None else looked.key.describe(),
        "states": [_state_data(state) for state in looked.states],
    }


def _state_data(looked: _State) -> dict[str, Any]:
    state, measure = looked.state, looked.measure
    return {
        "name": state.name,
        "kind": str(state.kind),
        "type": state.description.describe(),
        "namespace": looked.namespace or None,
        "ttl": looked.has_ttl,
        "entries": None if measure is None else measure.entries,
        "bytes": None if measure is None else measure.size_bytes,
        "flink_restorable": looked.is_flink_restorable,
        "unsupported": state.unsupported or None,
        "error": None if looked.error is None else error_data(looked.error),
        "records": looked.records(),
    }


def _heading(savepoint: Savepoint, operators: list[_Operator]) -> list[str]:
    metadata, lineage = savepoint.metadata, savepoint.lineage
    writer = "Flink" if lineage is None else f"stateshift {lineage.stateshift}"
    if lineage is not None and lineage.source is not None:
        writer += f", migrated from {lineage.source.get('place', 'another savepoint')}"
    masters = f", {many(len(metadata.master_states), 'master state')}" if metadata.master_states else ""
    states = [state for operator in operators for state in operator.states]
    size = sum(operator.operator.size_bytes for operator in operators)
    unsupported = sum(operator.error is None and bool(operator.operator.unreadable) for operator in operators)
    damaged = sum(any(operator.errors()) for operator in operators)
    troubled = [f"{count} {word}" for count, word in ((unsupported, "unsupported"), (damaged, "damaged")) if count]
    held = many(len(operators), "operator") + (f" ({', '.join(troubled)})" if troubled else "")
    return [
        f"savepoint {savepoint.place}",
        f"  written by {writer}; metadata version {metadata.version}, checkpoint {metadata.checkpoint_id}{masters}",
        f"  {held}, {many(len(states), 'state')}, {size_text(size)} of state",
    ]


def _title(looked: _Operator) -> str:
    operator = looked.operator
    words = f"operator {operator.uid} ({operator.operator_id})" if operator.uid else f"operator {operator.operator_id}"
    return f"{words}, {operator.name}" if operator.name and operator.name != operator.uid else words


def _facts(looked: _Operator) -> Iterator[str]:
    """Lines below an operator's title."""
    operator = looked.operator
    facts = [f"key {looked.key.describe()}"] if looked.key is not None else []
    facts += [f"parallelism {operator.parallelism}", f"max parallelism {operator.max_parallelism}"]
    facts += [size_text(operator.size_bytes)]
    restorable = looked.is_flink_restorable
    if restorable is not None:
        facts.append("Flink-restorable" if restorable else "not Flink-restorable")
    yield ", ".join(facts)
    if operator.keeps:
        yield f"also kept as it is: {', '.join(operator.keeps)}"
    if looked.error is not None:
        yield "damaged: see below"
    elif operator.unreadable:
        yield f"unsupported: {operator.unreadable}"
    elif not looked.states:
        yield "no other state" if operator.keeps else "no state"


def _unsupported_lines(looked: _Operator) -> Iterator[str]:
    """Why states cannot be read: a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for state in looked.states:
        if state.is_unsupported:
            reasons.setdefault(state.state.unsupported, []).append(state.state.name)
    for reason, names in reasons.items():
        yield f"unsupported: {reason} ({', '.join(names)})"


def _stateless_line(looked: _Operator) -> str:
    operator = looked.operator
    finished = ", finished" if operator.stored.finished else ""
    name = f", {operator.name}" if operator.name and operator.name != operator.uid else ""
    ident = f"{operator.uid} ({operator.operator_id})" if operator.uid else operator.operator_id
    return f"{ident}{name}: parallelism {operator.parallelism}, max parallelism {operator.max_parallelism}{finished}"


def _text_lines(savepoint: Savepoint, operators: list[_Operator]) -> Iterator[str]:
    yield from _heading(savepoint, operators)
    for looked in operators:
        if looked.is_stateless:
            continue
        yield ""
        yield _title(looked)
        yield from (f"  {fact}" for fact in _facts(looked))
        if looked.states:
            yield from table_lines(_COLUMNS, [state.cells() for state in looked.states], indent=2)
        yield from (f"  {line}" for line in _unsupported_lines(looked))
    yield from _stateless_lines(operators)


def _stateless_lines(operators: list[_Operator]) -> Iterator[str]:
    stateless = [looked for looked in operators if looked.is_stateless]
    if stateless:
        yield ""
        yield "operators without state"
        yield from (f"  {_stateless_line(looked)}" for looked in stateless)


def _renderables(savepoint: Savepoint, operators: list[_Operator]) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    first, *others = _heading(savepoint, operators)
    yield Text(first, style="bold")
    yield from (Text(line) for line in others)
    shown: set[str] = set()
    for looked in operators:
        if looked.is_stateless:
            continue
        yield Text()
        yield Text(_title(looked), style="bold")
        for fact in _facts(looked):
            yield Text(f"  {fact}", style="red" if fact.startswith(("damaged", "unsupported")) else "dim")
        if looked.states:
            table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
            for column in _COLUMNS:
                table.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
            for state in looked.states:
                name, *cells, remarks = state.cells()
                style = "red" if state.is_unsupported or state.error else "yellow"
                table.add_row(Text(name, style="cyan"), *map(Text, cells), Text(remarks, style=style))
            yield Padding(table, (0, 0, 0, 2))
        yield from (Padding(Text(line, style="red"), (0, 0, 0, 2)) for line in _unsupported_lines(looked))
        for record in (record for state in looked.states for record in state.records()):
            if record["name"] not in shown:
                shown.add(record["name"])
                fields = ", ".join(f"{field['name']}: {field['type']}" for field in record["fields"])
                yield Padding(Text.assemble((record["name"], "bold"), f"  {fields}", style="dim"), (0, 0, 0, 2))
    yield from (Text(line, style="dim") for line in _stateless_lines(operators))
