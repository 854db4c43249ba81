"""Checkpoints of Spark's own queries on the command line: `spark:PLACE` in place of a savepoint."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..compat.structuring import fields_of
from ..serializers.errors import StateNotFound, StateShiftError, UnsupportedFormat, unless_redacted
from ..serializers.wording import json_text, many
from .failures import Status, error_data
from .output import print_json, print_notice
from .progress import reading, spinning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..compat.description import JobDescription
    from ..state.formats.spark.reader import PartitionSize, SparkCheckpoint, SparkOperator, SparkStore
    from .whole_files import OutputFile, TextStream

NOT_COMPARED = (
    "of checkpoints of Spark only types are compared: which column is aggregated, filters, lengths of windows and gaps,"
    " join keys and times to live do not show in them"
)


def describe_checkpoint(place: str) -> JobDescription:
    """Return the description of a checkpoint; its origin is the place as it was typed."""
    from ..state.formats.spark.descriptions import describe
    from ..state.formats.spark.reader import SparkCheckpoint

    return attrs.evolve(describe(SparkCheckpoint.open(place)), origin=f"Spark checkpoint {place}")


@attrs.frozen
class StoreView:
    """A store, and its sizes or the reason why they are not known.

    Attributes:
        store: The store.
        sizes: The size of each partition; None if they cannot be counted.
        error: The reason, if data is damaged or missing.
    """

    store: SparkStore
    sizes: tuple[PartitionSize, ...] | None = None
    error: StateShiftError | None = None

    @classmethod
    def of(cls, store: SparkStore) -> StoreView:
        """Count the entries of a store, if this release reads them."""
        if store.unsupported:
            return cls(store)
        try:
            return cls(store, store.measure())
        except StateShiftError as error:
            return cls(store, error=error)

    @property
    def entries(self) -> int | None:
        """The number of entries; None if it is not known."""
        return None if self.sizes is None else sum(one.entries for one in self.sizes)

    @property
    def size_bytes(self) -> int | None:
        """The bytes of keys and values; None if it is not known."""
        return None if self.sizes is None else sum(one.size_bytes for one in self.sizes)


@attrs.frozen
class OperatorView:
    """An operator, with the stores to show."""

    operator: SparkOperator
    stores: tuple[StoreView, ...]


@attrs.frozen
class InspectedCheckpoint:
    """A checkpoint, and the operators and stores that were inspected."""

    checkpoint: SparkCheckpoint
    operators: tuple[OperatorView, ...]

    def errors(self) -> list[StateShiftError]:
        """Return the errors on damaged or missing data."""
        return [store.error for view in self.operators for store in view.stores if store.error is not None]


def _selected(
    checkpoint: SparkCheckpoint, operator_name: str | None, state_name: str | None
) -> list[tuple[SparkOperator, tuple[SparkStore, ...]]]:
    """Return the requested operators and stores.

    Raises:
        StateNotFound: There is none of the name.
    """
    operators = checkpoint.operators if operator_name is None else (checkpoint.operator(operator_name),)
    found = [
        (operator, tuple(store for store in operator.stores if state_name in {None, store.name}))
        for operator in operators
    ]
    if state_name is None:
        return found
    found = [(operator, stores) for operator, stores in found if stores]
    if not found:
        names = ", ".join(sorted({store.name for operator in operators for store in operator.stores})) or "none"
        what, place = f"no operator has a store {state_name!r}; there are: {names}", checkpoint.place
        raise StateNotFound(what, savepoint=place, checkpoint=place)
    return found


def look_at(place: str, operator_name: str | None, state_name: str | None) -> InspectedCheckpoint:
    """Read and measure the requested stores; raises `StateNotFound`."""
    from ..state.formats.spark.reader import SparkCheckpoint

    checkpoint = SparkCheckpoint.open(place)
    views = []
    with spinning("reading") as show:
        for operator, stores in _selected(checkpoint, operator_name, state_name):
            show(operator.title)
            views.append(OperatorView(operator, tuple(map(StoreView.of, stores))))
    return InspectedCheckpoint(checkpoint, tuple(views))


def time_text(millis: int) -> str:
    """Return a time in milliseconds since 1970, in UTC."""
    try:
        return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)).isoformat(" ")
    except OverflowError:
        return f"{millis} ms since 1970"


def to_data(inspected: InspectedCheckpoint) -> dict[str, Any]:
    """Return all results as plain data, with the field names of docs/reference/cli.md."""
    checkpoint, log = inspected.checkpoint, inspected.checkpoint.log
    planned = log.last
    return {
        "checkpoint": checkpoint.place,
        **fields_of(log, "query_id committed unfinished watermark_ms format"),
        "provider": None if planned is None else planned.provider,
        "sources": [] if planned is None else [fields_of(one, "name offset=text") for one in planned.sources],
        "settings": {} if planned is None else dict(planned.settings),
        "operators": [_operator_data(view) for view in inspected.operators],
    }


def _operator_data(view: OperatorView) -> dict[str, Any]:
    facts = view.operator.facts
    return {
        **fields_of(facts, "number kind name properties"),
        "stores": [_store_data(store) for store in view.stores],
    }


def _store_data(view: StoreView) -> dict[str, Any]:
    schema = view.store.schema
    return {
        "name": view.store.name,
        "kind": view.store.kind,
        "partitions": view.store.partitions,
        "key": None if schema is None else schema.key.describe(),
        "value": None if schema is None else schema.value.describe(),
        "entries": view.entries,
        "bytes": view.size_bytes,
        "by_partition": None if view.sizes is None else [one.entries for one in view.sizes],
        "unsupported": view.store.unsupported or None,
        "error": None if view.error is None else error_data(view.error),
    }


def export(
    place: str,
    *,
    operator_name: str | None,
    state_name: str | None,
    form: str | None,
    file: OutputFile | None,
    with_json: bool,
    stdout: TextStream,
) -> int:
    """Print the entries of a checkpoint, a line each; return the exit status.

    Raises:
        UsageError: The form is not that of lines.
        UnsupportedFormat: A store was requested by name and cannot be read.
    """
    if form in {"tagged", "avro"} or (with_json and file is None):
        raise click.UsageError(
            "entries of a Spark query's checkpoint are printed as lines only: --format jsonl, no --json"
        )
    from ..state.formats.spark.reader import SparkCheckpoint

    checkpoint = SparkCheckpoint.open(place)
    selected = _selected(checkpoint, operator_name, state_name)
    stores = [(operator, one) for operator, of_one in selected for one in of_one if state_name or not one.is_index]
    left_out = [(operator, store) for operator, store in stores if store.unsupported]
    if state_name is not None and len(left_out) == len(stores):
        operator, store = left_out[0]
        raise UnsupportedFormat(
            store.unsupported, savepoint=checkpoint.place, checkpoint=checkpoint.place, operator=operator.title,
            state=store.name, advice="export the other stores",
        )  # fmt: skip
    readable = [one for one in stores if one not in left_out]
    watched = reading("exporting", sum(store.partitions for _, store in readable), to_stdout=file is None)
    if file is None:
        with watched as done:
            counted = list(_written(readable, stdout, done))
    else:
        with file.opened() as stream, watched as done:
            counted = list(_written(readable, stream, done))
    unsupported = [
        {"operator": operator.title, "state": store.name, "why": store.unsupported} for operator, store in left_out
    ]
    for one in unsupported:
        print_notice(f"left out: state {one['state']!r} of operator {one['operator']}: {one['why']}")
    if with_json and file is not None:
        facts = {"savepoint": checkpoint.place, "file": str(file), "format": "jsonl"}
        print_json(facts | {"states": counted, "unsupported": unsupported})
    elif file is not None:
        total = sum(one["exported"] for one in counted)
        print_notice(f"{file}: {many(total, 'entry', 'entries')} of {many(len(counted), 'state')}")
    return Status.INCOMPLETE if left_out else Status.DONE


def _written(
    stores: list[tuple[SparkOperator, SparkStore]], stream: TextStream, done: Callable[[], None]
) -> Iterator[dict[str, Any]]:
    """Write all entries of stores, and say when a partition is done; yield the number of exported entries of each."""
    for operator, store in stores:
        count = 0
        for partition in range(store.partitions):
            for line in _lines(operator, store, partition):
                stream.write(line)
                count += 1
            done()
        yield {"operator": operator.title, "state": store.name, "exported": count}


def _lines(operator: SparkOperator, store: SparkStore, partition: int) -> Iterator[str]:
    from ..serializers.spark_rows.json_values import json_values

    schema = store.schema
    if schema is None:
        return
    names = {"operator": str(operator.number), "state": store.name, "kind": store.kind}
    for block in store.blocks_of(partition):
        keys, values = json_values(block.key, schema.key), json_values(block.value, schema.value)
        for key, value in zip(keys, values, strict=True):
            yield json_text({**names, "key": unless_redacted(key), "value": unless_redacted(value)}) + "\n"
