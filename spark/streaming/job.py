"""`StreamJob`: a query of Spark Structured Streaming whose functions have state, checked before every start.

    job = StreamJob("s3://bucket/state", "s3://bucket/checkpoint")
    flights = job.stream(df, timestamp="time", max_out_of_orderness=timedelta(seconds=10))
    balances = flights.key_by("account").process(Balances(), uid="balances")     # a streaming DataFrame
    query = job.start(balances.writeStream.format("parquet").option("path", "s3://bucket/balances"))
    query.stop()
    job.drain(…)                                            # if event time is to end: what is left fires

Static DataFrames are processed once, by `job.run(balances.write.…, savepoint="s3://bucket/first")`.

Spark's checkpoint says which batches are committed, and has the manifest of each slot; the files that manifests name
are in the state directory. Source: notes on Spark.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import cached_property
from os import fspath
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.key_hashes import MAX_KEY_GROUPS
from ...serializers.errors import DeclarationError, shown
from ...serializers.hints import serializer_for
from ...state.backends.configuration import Configuration
from ...state.directory.directory import STREAM_FILE, StateDirectory
from ...state.formats.spark.commit_log import last_planned
from ...state.key_groups import check_parallelism
from ...state.runtime.descriptors import optional_converter
from ...state.runtime.windows.triggers import milliseconds
from ...state.storage.files import Folder
from ...state.storage.stores import is_uri
from ...state.streaming.failures import FAIL
from ...state.streaming.slot import InputSpec
from ...state.streaming.source import SourceSpec
from ...state.task.backends import configured_backend
from ..connect import refuse_connect
from ..sessions import session
from .bounded_run import BoundedOperator, run_bounded
from .carriers import CARRIERS
from .elements import ResultWriter
from .initial_savepoint import FromSavepoint
from .query_plan import DEFAULT_KEY_GROUPS, Input, Plan, key_serializer
from .query_start import Start
from .runs import RunFacts
from .upgrade import UPGRADING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.description import Converter
    from ...state.formats.flink.roots import AllowedRoot
    from ...state.migration.options import MigrationOptions
    from ...state.progress import Progress
    from ...state.runtime.functions import Function
    from ...state.runtime.output_tag import OutputTag
    from ...state.runtime.sources import SourceFunction
    from ...state.savepoint.reader import Savepoint
    from ...state.streaming.failures import ErrorPolicy
    from ...state.streaming.slot import OperatorSpec
    from .query_plan import Work

_DEFAULTS = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}
"""What holds on Spark where nothing is configured."""
_KEY_RANGES = 8
"""Into how many parts a slot divides a large state: what RocksDB merges at a time is most often an eighth of it."""


class StreamJob:
    """A streaming query whose functions have state.

    Args:
        state_dir: The folder or URI of the state: the files of its backends.
        checkpoint: The folder or URI of Spark's checkpoint.
        max_parallelism: The number of key groups; it is recorded, and cannot be changed later. By default what it was
            or is in the savepoint that the query starts from, and else 128.
        slots: How many tasks share the keys. By default what it was, and at first the number of Spark's cores.
        configuration: Values by Flink's keys. The backend is RocksDB, with incremental checkpoints, unless another is
            named; HashMap writes the whole state with every batch.
        carrier: How Spark calls the operators: "apply_in_pandas_with_state" or "transform_with_state". By default
            each is called as it was before, and at first by what Spark allows in its place.
        output_mode: The output mode of the query: "append" or "update".
        blob_bytes: The size at which rows on their way to a slot are cut.

    Attributes:
        operators: The operators of a query so far, by uid.
        bounded: Those of a bounded run.
        sources: The sources so far, by uid.
        functions: The functions of all.
        carriers: How Spark calls the operators of a query.
        key_converters: The converters of the keys of operators, where there are some.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        *,
        max_parallelism: int | None = None,
        slots: int | None = None,
        configuration: Mapping[str, Any] | None = None,
        carrier: str | None = None,
        output_mode: str = "append",
        blob_bytes: int = 4 << 20,
    ) -> None:
        check_parallelism(slots or 1, max_parallelism or MAX_KEY_GROUPS)
        if carrier not in {None, *CARRIERS}:
            raise DeclarationError(f"{shown(carrier)} is not a carrier", advice=f"choose one of {', '.join(CARRIERS)}")
        # Workers and Java have working folders of their own, so a relative path would be another place there.
        self.state_dir, self.checkpoint = _from_anywhere(state_dir), _from_anywhere(checkpoint)
        self.slots, self.max_parallelism = slots, max_parallelism
        given = Configuration.of(configuration)
        values = {**Configuration.of(_DEFAULTS, environment={}).values, **given.values}
        self.configuration = Configuration(values)
        self.operators: dict[str, OperatorSpec] = {}
        self.bounded: dict[str, BoundedOperator] = {}
        self.sources: dict[str, SourceSpec] = {}
        self.functions: dict[str, Function] = {}
        self.carriers: dict[str, str] = {}
        self.key_converters: dict[str, Converter] = {}
        self._carrier = carrier
        self.token = uuid.uuid4().hex
        self.plan = Plan(
            RunFacts(self.state_dir, self.token),
            configured_backend(self.configuration, key_ranges=_KEY_RANGES),
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
            df: A streaming DataFrame; or a static one for a bounded run (`run`).
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

    def source(
        self,
        function: SourceFunction,
        *,
        uid: str,
        output_type: Any,
        timestamp: str = "",
        max_rows: int = 10_000,
        ends_after: timedelta = timedelta(seconds=1),
    ) -> DataFrame:
        """Return what a source function emits as a streaming DataFrame.

        The function runs in one process beside the driver. Each batch takes what it has emitted since the last one,
        and its state is committed with the batch; a planned batch is repeated exactly.

        Args:
            function: The source.
            uid: The uid of the source: its state is found by it. It never changes.
            output_type: The type hint of the elements. The columns are the fields of a record, or `value`.
            timestamp: The name of a column for the time stamps of the elements; "": they have none.
            max_rows: How many elements the source may be ahead of the query. Then it stands still until the next batch.
            ends_after: With `available_now`, the query ends when the source was silent for so long, or has ended.

        Raises:
            DeclarationError: There is such a uid or column already.
            StateShiftError: The session is one of Spark Connect.
        """
        from .sources import source_frame

        self._require_new(uid)
        spark = session()
        refuse_connect(spark, "a source with state")
        writer = ResultWriter(serializer_for(output_type))
        if timestamp in writer.schema.names:
            raise DeclarationError(f"the elements have a field {timestamp!r}", advice="name another column")
        spec = SourceSpec(uid, b"", self.max_parallelism or DEFAULT_KEY_GROUPS, max_rows, bool(timestamp))
        frame = source_frame(spark, function, spec, self.plan.run, writer, timestamp, ends_after.total_seconds())
        self.sources[uid], self.functions[uid] = spec, function
        return frame

    def start(
        self,
        writer: DataStreamWriter,
        *,
        on_incompatible: str = "refuse",
        options: MigrationOptions = UPGRADING,
        available_now: bool = False,
        from_savepoint: str | os.PathLike[str] | None = None,
        take_offsets: bool = False,
        allow_non_restored_state: bool = False,
        allow_roots: Iterable[AllowedRoot] = (),
    ) -> StreamingQuery:
        """Check the state against the functions, and start the query.

        Args:
            writer: The writer of the query; its checkpoint and output mode are set here, to those of the job.
            on_incompatible: What happens where state needs a migration: "refuse"; "migrate" before the start; or
                "lazy": each value when it is written, and the others a part in each batch.
            options: The options of the check and the migration: states to rename or drop, the policy, trust. By default
                what would lose fields or digits is refused; `MigrationOptions()` accepts it.
            available_now: Whether the query ends when it has processed all rows that are there now, as with
                `trigger(availableNow=True)` of the writer, which says the same. Any other trigger of it is replaced.
            from_savepoint: A savepoint or checkpoint that a new query begins with: of Flink, of `bootstrap`, or of
                another query. Its state is copied, or migrated, into the state directory. Once the query has begun, it
                goes on from its own state, and neither this savepoint nor the edits among the options count.
            take_offsets: Whether the sources go on from where they stood in the query that the savepoint was taken of.
                They must be the same in number, order and kind.
            allow_non_restored_state: Whether the savepoint may have operators that the query does not have. Their state
                is left behind.
            allow_roots: Further folders that may contain files of the savepoint, and the checkpoint of the query that
                it was taken of, from which `take_offsets` copies the logs of sources.

        Raises:
            RestoreRefused: The functions cannot go on from the state, or not without a migration; nothing was started.
            DeclarationError: State directory and checkpoint do not belong to each other, or something was changed that
                cannot be; or the query has begun in another way; or the sources cannot take over the offsets; or a
                function cannot be opened, or the writer has another checkpoint or output mode.
            TargetExists: A query is running on the state.
            SavepointNotFound: There is no savepoint; or the log of a source is not where its query had it.
        """
        begins, roots = None, tuple(allow_roots)
        if from_savepoint is not None:
            begins = FromSavepoint(_from_anywhere(from_savepoint), take_offsets, allow_non_restored_state, roots)
        elif take_offsets or allow_non_restored_state or roots:
            raise DeclarationError("it is not said which savepoint to start from", advice="pass from_savepoint, too")
        return Start(self, writer, on_incompatible, options, begins).query(available_now=available_now)

    def drain(self, writer: DataStreamWriter) -> None:
        """End event time in a last batch of a stopped query, as Flink's stop with `--drain`, and wait for it.

        The batch has no rows. Timers of event time and windows fire, and their results go to the sink, exactly once: if
        this call is interrupted, repeat it, or start the query. Timers of processing time that are not due stay.

        Afterwards the query can be started again. Event time goes on where it was before; what has fired does not fire
        again, so a session that goes on has two results.

        Args:
            writer: The writer of the query, as for `start`.

        Raises:
            RestoreRefused: The functions cannot go on from the state without a migration; start the query first.
            DeclarationError: The query has no committed batch, or another number of slots, or as for `start`.
            StreamingQueryException: A function failed, or the sink; it begins with what a function raised.
        """
        Start(self, writer, "refuse", UPGRADING).drain()

    def run(
        self,
        *writers: DataFrameWriter,
        savepoint: str | os.PathLike[str],
        position: Any = None,
        drain: bool = True,
        progress: Callable[[Progress], None] | None = None,
    ) -> Savepoint:
        """Process static DataFrames once: a bounded run. Its state becomes a savepoint; the checkpoint is not used.

        The results are written by their writers, and then the savepoint is published: so where it is, they are, too.
        If the run fails, there is no savepoint.

        Args:
            writers: The writers of results, such as `results.write.format("parquet").option("path", …)`; each is
                saved once, and all read the same results.
            savepoint: A folder that is empty or does not exist.
            position: The end of the input, for what goes on from the savepoint: an offset, a day; anything that JSON
                can represent. It is stored in `_stateshift.json`.
            drain: Whether event time ends after the last row, as at the end of bounded input in Flink: timers of event
                time and windows fire. False: they stay in the savepoint, for a stream that goes on from it.
            progress: A function that is called regularly with the progress so far.

        Returns:
            The savepoint.

        Raises:
            DeclarationError: The inputs are streams, or the position is not JSON-serializable.
            TargetExists: The folder of the savepoint is not empty, or another bounded run of the state directory goes
                on.
            FunctionFailed: A function raised an error, which is the cause of this one.
            MigrationFailed: Spark gave up.
        """
        return run_bounded(
            list(self.bounded.values()), writers, savepoint, position=position, drain=drain, progress=progress
        )

    def add_operator(
        self,
        inputs: Sequence[Input],
        function: Function,
        uid: str,
        output_type: Any,
        side_outputs: Sequence[OutputTag],
        *,
        in_order: bool,
        on_error: ErrorPolicy,
    ) -> DataFrame:
        """Return the results of a new operator; streams call it."""
        static = {one.df.isStreaming for one in inputs} | ({False} if self.bounded else set())
        if len(static | ({True} if self.operators else set())) > 1:
            raise DeclarationError(
                f"some inputs of the job are static DataFrames, and others streams; {uid!r} is the first that differs",
                advice="read all inputs as streams (spark.readStream), or all as static DataFrames (spark.read)",
            )
        self._require_new(uid)
        work = self.plan.work(inputs, function, uid, output_type, side_outputs, in_order=in_order, on_error=on_error)
        if False in static:
            slots = self.slots or inputs[0].df.sparkSession.sparkContext.defaultParallelism
            key_groups = self.max_parallelism or DEFAULT_KEY_GROUPS
            self.bounded[uid] = BoundedOperator.of(self.plan, inputs, work, min(slots, key_groups), key_groups)
            self.functions[uid] = function
            return self.bounded[uid].results
        results = self.add_work(inputs, work)
        if (converter := inputs[0].key_converter) is not None:
            self.key_converters[uid] = converter
        return results

    def add_work(self, inputs: Sequence[Input], work: Work) -> DataFrame:
        """Return the results of a new operator of a query.

        Args:
            inputs: Its inputs.
            work: What its tasks get.
        """
        uid = work.spec.uid
        carrier = self._carrier or self._carriers_before.get(uid)
        carrier, results = self.plan.results(inputs, work, carrier, is_first=not self.operators)
        self.operators[uid], self.carriers[uid], self.functions[uid] = work.spec, carrier, work.function
        return results

    @cached_property
    def _carriers_before(self) -> dict[str, str]:
        """The carrier of each operator in earlier starts, by uid: its state is stored in that carrier's form."""
        folder = Folder.at(self.state_dir)
        if last_planned(Folder.at(self.checkpoint)) is None or not folder.exists(STREAM_FILE):
            return {}
        epoch = StateDirectory.open(folder).last_epoch
        return {} if epoch is None else epoch.carriers

    def _require_new(self, uid: str) -> None:
        if uid in self.functions:
            raise DeclarationError(f"there are two operators with the uid {uid!r}", advice="use a uid for each")


def _from_anywhere(place: str | os.PathLike[str]) -> str:
    """Return a place as every process finds it: a local path is absolute."""
    text = fspath(place)
    return text if is_uri(text) else Folder.at(text).place


class _Stream:
    """Base of the streams."""

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
        on_error: ErrorPolicy = FAIL,
    ) -> DataFrame:
        """Return the results of a function as a DataFrame: a streaming one where the inputs are streams.

        Args:
            function: A function for the inputs of the stream, keyed or not; or windows.
            uid: The uid of the operator: its state is found by it. It never changes.
            output_type: The type hint of the results; by default what the function's annotations say. The columns are
                the fields of a record, or `value`.
            side_outputs: The tags of the side outputs, which have type hints. Their rows are in the same DataFrame,
                with the name of the tag in the column `side_output` and the value in a column of that name.
            in_order: Whether the rows of a batch are processed in the order of their time stamps.
            on_error: What becomes of an element or timer at which the function raises an error, of a row that is no
                element, of one without a key, and of a result that is not of its type. "fail": the query ends. "skip":
                it goes on without them. An `OutputTag` without a type: they also go to the side output of that name, as
                `FailedElement`. What the function did before the error stays done. What merges windows always fails.
                The figure `errors` of the metrics counts them.

        Raises:
            DeclarationError: The types of elements or results are not known, or do not fit the columns; or Spark does
                not allow another operator; or the outputs do not have names of their own.
        """
        return self._job.add_operator(
            self._inputs, function, uid, output_type, side_outputs, in_order=in_order, on_error=on_error
        )


class DataStream(_Stream):
    """A stream of elements. `StreamJob.stream` returns it."""

    def key_by(
        self, *columns: str, key_type: Any = None, key_converter: Callable[[Any], Any] | None = None
    ) -> KeyedStream:
        """Return the stream with keys.

        Args:
            columns: The columns of the key; several make a tuple. For an expression, add a column to the DataFrame.
            key_type: The type hint or serializer of the keys; by default the one that the columns have.
            key_converter: Makes a key of a stored one whose bytes are not valid for the present type. A start with
                `on_incompatible="migrate"` calls it where the type has changed, and rewrites all keyed state of the
                operator. Later starts do not call it.

        Raises:
            DeclarationError: There is no such column, or its type has no counterpart.
        """
        (only,) = self._inputs
        key, converter = key_serializer(only.schema, columns, key_type), optional_converter(key_converter)
        return KeyedStream(self._job, attrs.evolve(only, key=key, key_columns=columns, key_converter=converter))

    def broadcast(self) -> BroadcastStream:
        """Return the stream with its elements sent to all slots of the stream that is connected with it."""
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
