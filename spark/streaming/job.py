"""`StreamJob`: a query of Spark Structured Streaming whose functions have state, checked before every start.

    job = StreamJob("s3://bucket/state", "s3://bucket/checkpoint")
    flights = job.stream(df, timestamp="time", max_out_of_orderness=timedelta(seconds=10))
    balances = flights.key_by("account").process(Balances(), uid="balances")     # a streaming DataFrame
    query = job.start(balances.writeStream.format("parquet").option("path", "s3://bucket/balances"))

Spark's checkpoint says which batches are committed, and has the manifest of each slot; the files that manifests name
are in the state directory. Source: notes on Spark.
"""

from __future__ import annotations

import uuid
from functools import cached_property
from os import fspath
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown
from ...state.backends.configuration import Configuration
from ...state.backends.configured import configured_backend
from ...state.backends.restore_check import RESTORING
from ...state.key_groups import check_parallelism
from ...state.runtime.windows.assigners import milliseconds
from ...state.storage.files import Folder
from ...state.storage.stores import is_uri
from ...state.streaming.commit_log import last_planned
from ...state.streaming.directory import STREAM_FILE, StateDirectory
from ...state.streaming.slot import InputSpec
from ..connect import refuse_connect
from .building import Input, Plan, key_serializer
from .carriers import CARRIERS
from .runs import RunFacts
from .starting import Start

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.migration.options import MigrationOptions
    from ...state.runtime.functions import Function
    from ...state.runtime.output_tag import OutputTag
    from ...state.streaming.slot import OperatorSpec

_DEFAULTS = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}
"""What holds on Spark where nothing is configured."""


class StreamJob:
    """A streaming query whose functions have state.

    Args:
        state_dir: The folder or URI of the state: the files of its backends.
        checkpoint: The folder or URI of Spark's checkpoint.
        max_parallelism: The number of key groups; it is recorded, and cannot be changed later.
        slots: How many tasks share the keys. By default what it was, and at first the number of Spark's cores.
        configuration: Values by Flink's keys. The backend is RocksDB, with incremental checkpoints, unless another is
            named; HashMap writes the whole state with every batch.
        carrier: How Spark calls the operators: "apply_in_pandas_with_state" or "transform_with_state". By default
            each is called as it was before, and at first by what Spark allows in its place.
        output_mode: The output mode of the query: "append" or "update".
        blob_bytes: The size at which rows on their way to a slot are cut.

    Attributes:
        operators: The operators so far, by uid.
        functions: Their functions.
        carriers: How Spark calls them.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        *,
        max_parallelism: int = 128,
        slots: int | None = None,
        configuration: Mapping[str, Any] | None = None,
        carrier: str | None = None,
        output_mode: str = "append",
        blob_bytes: int = 4 << 20,
    ) -> None:
        check_parallelism(slots or 1, max_parallelism)
        if carrier not in {None, *CARRIERS}:
            raise DeclarationError(f"{shown(carrier)} is not a carrier", advice=f"choose one of {', '.join(CARRIERS)}")
        # Workers and Java have working folders of their own, so a relative path would be another place there.
        self.state_dir, self.checkpoint = _from_anywhere(state_dir), _from_anywhere(checkpoint)
        self.slots = slots
        given = Configuration.of(configuration)
        values = {**Configuration.of(_DEFAULTS, environment={}).values, **given.values}
        self.configuration = Configuration(values)
        self.operators: dict[str, OperatorSpec] = {}
        self.functions: dict[str, Function] = {}
        self.carriers: dict[str, str] = {}
        self._carrier = carrier
        self.token = uuid.uuid4().hex
        self.plan = Plan(
            RunFacts(self.state_dir, self.token),
            max_parallelism,
            configured_backend(self.configuration),
            output_mode,
            blob_bytes,
        )

    def stream(
        self,
        df: DataFrame,
        *,
        element_type: Any = None,
        timestamp: str = "",
        max_out_of_orderness: timedelta | None = None,
        idleness: timedelta | None = None,
    ) -> DataStream:
        """Return a DataFrame as a stream of elements.

        Args:
            df: A streaming DataFrame.
            element_type: The type hint of the elements: a record whose fields are columns, or the type of the only
                column. By default what the function's annotation says, else `Row` with all columns.
            timestamp: The column of the time stamps: a timestamp, or an integer of milliseconds since 1970 UTC.
            max_out_of_orderness: How far event time stays behind the largest time stamp; by default not at all.
            idleness: After how long without rows the stream no longer holds event time back; by default never.

        Raises:
            DeclarationError: There is no such column.
            StateShiftError: The DataFrame is of Spark Connect.
        """
        refuse_connect(df.sparkSession, "a function with state")
        if timestamp and timestamp not in df.columns:
            raise DeclarationError(
                f"there is no column {timestamp!r} with time stamps", advice=f"name one of {', '.join(df.columns)}"
            )
        delay = 0 if max_out_of_orderness is None else milliseconds(max_out_of_orderness)
        spec = InputSpec(delay if timestamp else None, None if idleness is None else milliseconds(idleness))
        return DataStream(self, Input(df, element_type, timestamp, spec))

    def start(
        self,
        writer: DataStreamWriter,
        *,
        on_incompatible: str = "refuse",
        options: MigrationOptions = RESTORING,
        available_now: bool = False,
    ) -> StreamingQuery:
        """Check the state against the functions, and start the query.

        Args:
            writer: The writer of the query; its checkpoint and output mode are set here.
            on_incompatible: What happens where state needs a migration: "refuse", or "migrate" before the start.
            options: The options of the check and the migration: states to rename or drop, the policy, trust.
            available_now: Whether the query ends when it has processed all rows that are there now, as with
                `trigger(availableNow=True)`. With that trigger alone it would not end, because Spark wakes the slots.

        Raises:
            RestoreRefused: The functions cannot go on from the state, or not without a migration; nothing was started.
            DeclarationError: State directory and checkpoint do not belong to each other, or something was changed that
                cannot be.
        """
        return Start(self, writer, on_incompatible, options).query(available_now=available_now)

    def add_operator(
        self,
        inputs: Sequence[Input],
        function: Function,
        uid: str,
        output_type: Any,
        side_outputs: Sequence[OutputTag],
        *,
        in_order: bool,
    ) -> DataFrame:
        """Return the results of a new operator; streams call it."""
        if uid in self.operators:
            raise DeclarationError(f"there are two operators with the uid {uid!r}", advice="use a uid for each")
        carrier = self._carrier or self._carriers_before.get(uid)
        how: Any = {"in_order": in_order, "carrier": carrier, "is_first": not self.operators}
        built = self.plan.operator(inputs, function, uid, output_type, side_outputs, **how)
        self.operators[uid], self.functions[uid], self.carriers[uid] = built.spec, function, built.carrier
        return built.results

    @cached_property
    def _carriers_before(self) -> dict[str, str]:
        """How Spark called the operators before, by uid; its checkpoint has their state in the form of that."""
        folder = Folder.at(self.state_dir)
        if last_planned(Folder.at(self.checkpoint)) is None or not folder.exists(STREAM_FILE):
            return {}
        epoch = StateDirectory.open(folder).last_epoch
        return {} if epoch is None else epoch.carriers


def _from_anywhere(place: str | os.PathLike[str]) -> str:
    """Return a place as every process finds it: a local path is absolute."""
    text = fspath(place)
    return text if is_uri(text) else Folder.at(text).place


class _Stream:
    """What streams have in common."""

    def __init__(self, job: StreamJob, *inputs: Input) -> None:
        self._job, self._inputs = job, inputs

    def process(
        self,
        function: Function,
        *,
        uid: str,
        output_type: Any = None,
        side_outputs: Sequence[OutputTag] = (),
        in_order: bool = True,
    ) -> DataFrame:
        """Return the results of a function as a streaming DataFrame.

        Args:
            function: A function for the inputs of the stream, keyed or not; or windows.
            uid: The uid of the operator: its state is found by it. It never changes.
            output_type: The type hint of the results; by default what the function's annotations say. The columns are
                the fields of a record, or `value`.
            side_outputs: The tags of the side outputs, which have type hints. Their rows are in the same DataFrame,
                with the name of the tag in the column `side_output` and the value in a column of that name.
            in_order: Whether the rows of a batch are processed in the order of their time stamps.

        Raises:
            DeclarationError: The types of elements or results are not known, or do not fit the columns; or Spark does
                not allow another operator.
        """
        return self._job.add_operator(self._inputs, function, uid, output_type, side_outputs, in_order=in_order)


class DataStream(_Stream):
    """A stream of elements. `StreamJob.stream` returns it."""

    def key_by(self, *columns: str, key_type: Any = None) -> KeyedStream:
        """Return the stream with keys.

        Args:
            columns: The columns of the key; several make a tuple. For an expression, add a column to the DataFrame.
            key_type: The type hint or serializer of the keys; by default the one that the columns have.

        Raises:
            DeclarationError: There is no such column, or its type has no counterpart.
        """
        (only,) = self._inputs
        key = key_serializer(only.schema, columns, key_type)
        return KeyedStream(self._job, attrs.evolve(only, key=key, key_columns=columns))

    def broadcast(self) -> BroadcastStream:
        """Return the stream as one whose elements go to all slots of the stream that is connected with it."""
        (only,) = self._inputs
        return BroadcastStream(self._job, attrs.evolve(only, to_all=True))

    def connect(self, other: DataStream | BroadcastStream) -> ConnectedStreams:
        """Return both streams as the inputs of one function."""
        return ConnectedStreams(self._job, *self._inputs, *other._inputs)  # noqa: SLF001 - its own class


class KeyedStream(_Stream):
    """A stream with keys. `DataStream.key_by` returns it."""

    def connect(self, other: KeyedStream | BroadcastStream) -> ConnectedStreams:
        """Return both streams as the inputs of one function; keys of both are of one type, unless one is broadcast."""
        (own,), (more,) = self._inputs, other._inputs  # noqa: SLF001 - its own class
        if not more.to_all and more.key != own.key:
            raise DeclarationError("the keys of two connected streams are of different types", advice="cast a column")
        return ConnectedStreams(self._job, own, more)


class BroadcastStream(_Stream):
    """A stream whose elements go to all slots. `DataStream.broadcast` returns it."""


class ConnectedStreams(_Stream):
    """Two streams that are the inputs of one function."""
