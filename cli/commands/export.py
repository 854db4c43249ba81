"""`stateshift export`: the entries of a savepoint as JSON, or those of a state as an Avro file."""

from __future__ import annotations

import re
from contextlib import nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import attrs
import click

from ...compat.edits import is_called
from ...compat.lazy_tables import is_reduced, state_in, versions_of
from ...compat.plain_data import fields_of
from ...serializers.errors import (
    OldReaderUnavailable,
    StateShiftError,
    UnsupportedFormat,
    unless_redacted,
    values_are_redacted,
)
from ...serializers.json_forms import sorted_by_text
from ...serializers.wording import json_text, many
from ...state.progress import count_bytes
from ..failures import Status, libraries_needed
from ..key_choice import keys_option
from ..options import open_state, savepoint_argument, states_option, values_options
from ..output import print_json, print_notice, write_json
from ..progress import reading
from ..whole_files import output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from ...state.formats.spark.reader import SparkCheckpoint, SparkOperator, SparkStore
    from ...state.savepoint.reader import Savepoint, SavepointOperator
    from ...state.savepoint.states import SavepointState
    from ..inspect_data import AnyOperator, AnyState
    from ..key_choice import KeyChoice, WantedKeys
    from ..whole_files import OutputFile, TextStream

    Batches = Iterator[pa.RecordBatch]
    Lines = Iterator[Iterator[str]]

_LINE = re.compile(
    rb'{"operator": "(?:[^"\\]|\\.)*", "state": "(?:[^"\\]|\\.)*", "kind": "[a-z_]+", "(?:key|subtask)": '
    rb'|{"operators": \[\n|{"operator_id": "[0-9a-f]{32}"|\], "unsupported": \['
)
_LONGEST_BEGINNING = 1 << 20
_AVRO_MAGIC, _IN_HEADER = b"Obj\x01", b"stateshift.export"


def _is_export(file: Path) -> bool:
    """Whether a file says so, or every line begins like the output of this command, as JSON has no signature."""
    is_beginning = True
    with file.open("rb") as stream:
        if stream.read(len(_AVRO_MAGIC)) == _AVRO_MAGIC:
            return _IN_HEADER in stream.read(_LONGEST_BEGINNING)
        stream.seek(0)
        while line := stream.readline(_LONGEST_BEGINNING):
            if is_beginning and not _LINE.match(line):
                return False
            is_beginning = line.endswith(b"\n")
    return True


@click.command(
    "export",
    epilog="""\b
Examples:
  stateshift export /data/savepoints/sp-1 --operator accounts --state account
  stateshift export /data/savepoints/sp-1 -o entries.jsonl
  stateshift export /data/savepoints/sp-1 --keys-from customers.txt -o entries.jsonl
  stateshift export /data/savepoints/sp-1 --state account --limit 10
  stateshift export spark:/data/checkpoints/clicks -o entries.jsonl
  stateshift export /data/savepoints/sp-1 --state account --format avro -o account.avro
  stateshift export /data/savepoints/sp-1 --format tagged -o savepoint.json
  stateshift export /data/savepoints/orders --plan plans/orders.json

\b
jsonl   one line for each key of a state, or element of an operator's list, as it is read:
        {"operator": …, "state": …, "kind": …, "key": …, "value": …}
tagged  one document {"operators": [ … ]}, sorted, so that equal savepoints give equal text
avro    an Avro container file with the entries of one state, under a schema made of its types

In JSON, values without a form have a tag, such as {"$bytes": "00ff"}. States whose values this release cannot read are
left out with a notice. Needs neither the job nor its classes.
Exit status 7: something was left out; everything else was exported.""",
)
@savepoint_argument()
@states_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "tagged", "avro"]),
    default=None,
    help="[default: jsonl; with --json: tagged]",
)
@keys_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N entries of each state.")
@output_option(_is_export)
@values_options
def command(
    savepoint: str,
    *,
    plan: str,
    old_job: str,
    operator_name: str | None,
    state_name: str | None,
    form: str | None,
    wanted: WantedKeys | None,
    limit: int | None,
    file: OutputFile | None,
    trust: tuple[str, ...],
    with_json: bool,
) -> int:
    """Print the entries of SAVEPOINT: keys, values, elements of lists, broadcast maps.

    With --json, stdout gets one document: a summary where -o names a file, else the tagged export itself.
    """
    from ...serializers.pickled.trust import trusting
    from ...state.formats.flink.keyed_readers import databases_once

    if with_json and file is None and form == "jsonl":
        raise click.UsageError("--json prints one document: add -o FILE for the lines, or --format tagged")
    if form == "avro" and file is None:
        raise click.UsageError("--format avro writes a file that is not text: add -o FILE")
    form = form or ("tagged" if with_json and file is None else "jsonl")
    if form != "jsonl" and values_are_redacted():
        raise click.UsageError(f"the {form} export is keys and values, which --redact hides: --format jsonl")
    if form != "jsonl" and limit is not None:
        raise click.UsageError(f"--limit is of lines, which the {form} export has not: --format jsonl")
    opened = open_state(savepoint, plan, old_job)
    click.get_current_context().with_resource(databases_once())
    selected = Selection.of(opened, operator_name, state_name, wanted)
    parts = (
        len(selected.states)
        if form == "tagged"
        else sum(one.partitions for _, states in selected.states for one in states)
    )
    # Of single states it is not known how much of an operator's streams they are; of Spark's not without reading them.
    size = sum((one.size_bytes or 0) for one, _ in selected.states if not (state_name or wanted))
    watched = reading("exporting", parts, size, to_stdout=file is None)
    try:
        with trusting(trust), watched as done:
            if form == "avro" and file is not None:
                counted = [_write_avro(selected, file, done)]
            else:
                with nullcontext(_Stdout()) if file is None else file.opened() as stream:
                    counted = _write(selected, form, stream, done, limit)
    except StateShiftError as error:
        if file is None:
            error.written = error.written or "the printed output is incomplete; nothing else was written"
        raise
    if with_json and file is not None:
        print_json(
            {"savepoint": opened.place, "file": str(file), "format": form, "states": counted}
            | {"unsupported": selected.unsupported_data()}
            | (
                {}
                if wanted is None
                else {"skipped": [one.operator.title for one in selected.choices if one.is_skipped]}
            )
        )
        return selected.status
    for notice in selected.notices:
        print_notice(notice)
    if file is not None:
        total = sum(state["exported"] for state in counted)
        print_notice(f"{file}: {many(total, 'entry', 'entries')} of {many(len(counted), 'state')}")
    return selected.status


@attrs.frozen
class LeftOut:
    """A state, or all states of an operator, that this release cannot read.

    Attributes:
        operator: The operator of the state.
        state: The name of the state; "" for all states of the operator, if they are not known.
        why: The reason, with the class.
        exported: The number of entries that were exported before one could not be read.
    """

    operator: AnyOperator
    state: str
    why: str
    exported: int = 0

    @classmethod
    def met(cls, operator: AnyOperator, state: str, error: StateShiftError, exported: int = 0) -> LeftOut:
        """Return a state in which a value turned out to be unreadable during the export."""
        places = ", ".join(f"{name} {error.where[name]}" for name in ("key", "path") if name in error.where)
        return cls(operator, state, f"{error.what.splitlines()[0]} ({places})", exported)

    def notice(self) -> str:
        what = f"state {state_in(self.state)!r}" if self.state else "the states"
        how = f"incomplete, after {many(self.exported, 'entry', 'entries')}" if self.exported else "left out"
        return f"{how}: {what} of operator {self.operator.title}: {self.why}"


@attrs.frozen
class Selection:
    """The states to export, and the requested states that cannot be exported.

    Attributes:
        source: What they are of.
        states: The states to export.
        unsupported: The states that cannot be exported because of their types.
        met: The states with values that turned out to be unreadable: of a subclass, say, that the savepoint does not
            describe.
        choices: What was chosen of each operator with keyed state, if keys were.
    """

    source: Source
    states: tuple[tuple[AnyOperator, tuple[AnyState, ...]], ...]
    unsupported: tuple[LeftOut, ...]
    met: list[LeftOut] = attrs.field(factory=list)
    choices: tuple[KeyChoice, ...] = ()

    @property
    def status(self) -> Status:
        """The exit status: a reader of the file must not mistake a part of the savepoint for the whole."""
        return Status.INCOMPLETE if self.unsupported or self.met else Status.DONE

    @classmethod
    def of(
        cls,
        opened: Savepoint | SparkCheckpoint,
        operator_name: str | None,
        state_name: str | None,
        keys: WantedKeys | None = None,
    ) -> Selection:
        """Select states by name; those that follow from others of a Spark query are selected by name only.

        Args:
            opened: The savepoint or checkpoint.
            operator_name: The operator; None: all.
            state_name: The states; None: all.
            keys: The keys whose entries are wanted; None: all.

        Raises:
            StateNotFound: No operator or state has the name.
            OldReaderUnavailable, UnsupportedFormat: A state was requested by name and cannot be read.
        """
        from ..inspect_data import chosen_operators

        operators = chosen_operators(opened, operator_name)
        chosen, left_out = [], []
        choices: list[KeyChoice] = []
        for operator in operators:
            if operator.unreadable:
                left_out.append(LeftOut(operator, "", operator.unreadable))
            named = (one for one in operator.states if state_name is None or is_called(one.name, state_name))
            wanted = [one for one in named if state_name or one.kind != "index"]
            if keys is not None and (choice := keys.of(opened, operator, wanted)) is not None:
                choices.append(choice)
                wanted = list(choice.states)
            elif keys is not None:
                wanted = []
            readable = tuple(state for state in wanted if not state.unsupported)
            left_out += [
                LeftOut(operator, state.name, state.unsupported)
                for state in wanted
                if state.unsupported and not state.is_empty
            ]
            if readable:
                chosen.append((operator, readable))
        if state_name is not None and not chosen and not choices:
            raise _nothing_of_that_name(opened, operators, state_name, left_out)
        if keys is not None:
            keys.require_any(choices, **opened.where)
        return cls(_SPARK if opened.is_of_spark else _FLINK, tuple(chosen), tuple(left_out), choices=tuple(choices))

    @property
    def notices(self) -> list[str]:
        """What was left out, and what more than the key groups of the keys was read."""
        told = [choice.notice for choice in self.choices]
        return [*(one.notice() for one in (*self.unsupported, *self.met)), *filter(None, told)]

    def unsupported_data(self) -> list[dict[str, str]]:
        """Return the states that are left out, as plain data; `state` is "" for all states of an operator."""
        return [fields_of(one, "operator=operator.title state why") for one in (*self.unsupported, *self.met)]


def _nothing_of_that_name(
    opened: Savepoint | SparkCheckpoint, operators: tuple[AnyOperator, ...], name: str, left_out: list[LeftOut]
) -> StateShiftError:
    from ..inspect_data import no_such_state

    if left_out:
        why = left_out[0]
        is_copied = why.operator.description.computation is None
        return (OldReaderUnavailable if is_copied else UnsupportedFormat)(
            f"{why.state or name!s}: {why.why}", operator=why.operator.title, state=name,
            advice=f"export the other states{'; a migration copies this one as bytes' if is_copied else ''}",
            **opened.where,
        )  # fmt: skip
    if len(operators) == 1:
        operators[0].state(name)  # raises an error that lists the existing names
    return no_such_state(opened, operators, name)


class _Stdout:
    """Standard output, whose reader may close it early."""

    def write(self, text: str) -> None:
        write_json(text)


def _write(
    selected: Selection, form: str, stream: TextStream, done: Callable[[], None], limit: int | None
) -> list[dict[str, Any]]:
    """Write all selected states, and say when one is done; return the number of exported entries of each state."""
    from ...compat.description import StateKind

    if form == "tagged":
        return _write_tagged(selected, stream, done)
    counted = []
    for operator, states in selected.states:
        for state in states:
            count = 0
            try:
                lines = islice(selected.source.lines(operator, state, done), limit)
                for count, line in enumerate(lines, start=1):  # noqa: B007 - the last one counts
                    for piece in line:
                        stream.write(piece)
            except OldReaderUnavailable as error:
                selected.met.append(LeftOut.met(operator, state.name, error, count))
                done()
            if count or state.kind is not StateKind.TIMERS:  # most operators have timer queues without a timer
                counted.append(
                    {"operator": operator.title, "state": state_in(state.name), "exported": count}
                    | _version_of(operator, state)
                )
    return counted


def _entries_of(store: SparkStore, done: Callable[[], None]) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and values of a store as JSON has them, and say when a partition is done."""
    with libraries_needed("spark"):
        from ...serializers.spark_rows.json_values import json_values
    schema = store.require_schema()
    for partition in store.read_partitions:
        for block in store.blocks_of(partition):
            yield from zip(json_values(block.key, schema.key), json_values(block.value, schema.value), strict=True)
        done()


def _write_avro(selected: Selection, file: OutputFile, done: Callable[[], None]) -> dict[str, Any]:
    """Write the one state that is selected, and say when it is done; return the number of its entries.

    Raises:
        UsageError: Several states are selected.
        LibraryNotFound: numpy is not installed.
    """
    states = [(operator, state) for operator, some in selected.states for state in some]
    if len(states) != 1:
        names = ", ".join(f"{state_in(state.name)} of {operator.title}" for operator, state in states) or "none"
        raise click.UsageError(f"an Avro file has one schema, so it holds one state: add --state, --operator ({names})")
    with libraries_needed("fast"):
        from ...state.columnar.avro_file import write_avro
    operator, state = states[0]
    schema, batches = selected.source.batches(operator, state)
    facts = {"operator": operator.title, "state": state_in(state.name)}
    header = {"stateshift.export": "1", "stateshift.kind": str(state.kind)}
    with file.opened_binary() as stream:
        metadata = header | {f"stateshift.{name}": text for name, text in facts.items()}
        exported = write_avro(stream, schema, map(_counted, batches), metadata)
    done()
    return facts | {"exported": exported}


def _batches_of_savepoint(operator: SavepointOperator, state: SavepointState) -> tuple[pa.Schema, Batches]:
    with libraries_needed("fast"):
        import pyarrow as pa

        from ...state.columnar.table import StateTable
    table = StateTable.of(operator, state.name, exact=True, chosen=state.chosen)
    schema = pa.schema([field for field in table.schema if field.name != "key_group"])
    return schema, (batch for piece in table.slices(1) for batch in table.read(piece))


def _batches_of_store(_: SparkOperator, store: SparkStore) -> tuple[pa.Schema, Batches]:
    with libraries_needed("spark"):
        import pyarrow as pa

        schema = store.arrow_schema
    return schema, (pa.RecordBatch.from_arrays([one.key, one.value], schema=schema) for one in store.blocks())


def _counted(batch: pa.RecordBatch) -> pa.RecordBatch:
    count_bytes(batch.nbytes)
    return batch


def _lines_of_store(_: SparkOperator, store: SparkStore, done: Callable[[], None]) -> Lines:
    named = {"operator": str(store.operator), "state": store.name, "kind": store.kind}
    for key, value in _entries_of(store, done):
        yield iter((json_text({**named, "key": unless_redacted(key), "value": unless_redacted(value)}), "\n"))


def _lines_of_savepoint(operator: SavepointOperator, state: SavepointState, done: Callable[[], None]) -> Lines:
    from ...compat.description import StateKind
    from ...state.savepoint.json_encoding import each_tagged_element, tagged_timers
    from ...state.savepoint.json_lines import json_rows

    names: dict[str, Any] = {"operator": operator.title, "state": state_in(state.name), "kind": str(state.kind)}
    if state.kind is StateKind.TIMERS:
        for key, space, timestamp in tagged_timers(state):
            middle = {} if space == {"$void": True} else {"namespace": unless_redacted(space)}
            yield iter((json_text({**names, "key": unless_redacted(key), **middle, "timestamp": timestamp}), "\n"))
    elif state.kind.is_keyed:
        version = "".join(f', "{name}": {json_text(what)}' for name, what in _version_of(operator, state).items())
        for place, texts in json_rows(operator, state):
            facts = names | dict(zip(("key", "namespace"), map(unless_redacted, place), strict=False))
            value = (json_text(unless_redacted(None)),) if values_are_redacted() else texts
            yield chain((json_text(facts)[:-1], ', "value": '), value, (version, "}\n"))
    else:
        for subtask, elements in enumerate(each_tagged_element(state)):
            for element in elements:
                yield iter((json_text({**names, "subtask": subtask, "value": unless_redacted(element)}), "\n"))
    done()


def _version_of(operator: AnyOperator, state: AnyState) -> dict[str, Any]:
    """Return the field with the table of a state that has several: the version, if it is migrated lazily."""
    if is_reduced(state.name):
        return {"stored_as": state.name}
    version = versions_of(one.name for one in operator.states).get(state.name)
    return {} if version is None else {"lazy_version": version}


def _write_tagged(selected: Selection, stream: TextStream, done: Callable[[], None]) -> list[dict[str, Any]]:
    """Write one operator at a time, so that only one is in memory."""
    counted: list[dict[str, Any]] = []
    stream.write('{"operators": [')
    for index, (operator, states) in enumerate(selected.states):
        tagged = selected.source.tagged(selected, operator, list(states))
        stream.write((",\n" if index else "\n") + json_text(tagged))
        sizes = _sizes(tagged) | selected.source.timers(operator, tagged)
        counted += ({"operator": operator.title, "state": name, "exported": size} for name, size in sizes.items())
        done()
    stream.write(f'\n], "unsupported": {json_text(selected.unsupported_data())}}}\n')
    return counted


def _tagged_states(selected: Selection, operator: SavepointOperator, states: list[SavepointState]) -> dict[str, Any]:
    """Return an operator without the states in which a value turned out to be unreadable."""
    from ...state.savepoint.json_encoding import tagged_operator

    while True:
        try:
            return tagged_operator(operator, states)
        except OldReaderUnavailable as error:
            name = str(error.where.get("state", ""))
            left = [state for state in states if state.name != name]
            if len(left) == len(states):
                raise
            selected.met.append(LeftOut.met(operator, name, error))
            states = left


def _tagged_stores(_: Selection, operator: SparkOperator, stores: list[SparkStore]) -> dict[str, Any]:
    """Return an operator of a Spark query: all its states are keyed."""
    keyed = {}
    for store in stores:
        entries = sorted_by_text([key, value] for key, value in _entries_of(store, lambda: None))
        keyed[store.name] = {
            "kind": store.kind.upper(),
            "ttl": store.name in operator.facts.expiring,
            "entries": entries,
        }
    return fields_of(operator.description, "operator_id uid") | {"keyed": dict(sorted(keyed.items()))}


def _sizes(tagged: dict[str, Any]) -> dict[str, int]:
    sizes = {name: len(state["entries"]) for name, state in tagged.get("keyed", {}).items()}
    sizes |= {name: sum(map(len, state["subtasks"])) for name, state in tagged.get("operator", {}).items()}
    return sizes | {name: len(parts) for name, parts in tagged.get("broadcast", {}).items()}


def _timers(operator: SavepointOperator, tagged: dict[str, Any]) -> dict[str, int]:
    from ...compat.description import StateKind
    from ...state.savepoint.json_encoding import timer_label

    timers = tagged.get("timers", {})
    queues = (state for state in operator.states if state.kind is StateKind.TIMERS)
    lengths = {state.name: len(timers.get(timer_label(operator, state), ())) for state in queues}
    return {name: length for name, length in lengths.items() if length}


@attrs.frozen
class Source:
    """How the states of a place are exported.

    Attributes:
        batches: Returns the columns of a state, and its entries.
        lines: Yields the lines of a state, each in pieces, since it may be very long, and says when a part is done.
        tagged: Returns an operator with some of its states in the tagged format.
        timers: Returns the numbers of timers in that, by state.
    """

    batches: Callable[[Any, Any], tuple[pa.Schema, Batches]]
    lines: Callable[[Any, Any, Callable[[], None]], Lines]
    tagged: Callable[[Selection, Any, list[Any]], dict[str, Any]]
    timers: Callable[[Any, dict[str, Any]], dict[str, int]]


_FLINK = Source(_batches_of_savepoint, _lines_of_savepoint, _tagged_states, _timers)
_SPARK = Source(_batches_of_store, _lines_of_store, _tagged_stores, lambda *_: {})
