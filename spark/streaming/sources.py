"""A source function as a streaming data source of Spark, whose offset is the function's state.

Spark asks in a process of its own, beside the driver, how far there is something to read. There the function runs. What
a batch takes is written to the state directory before Spark plans the batch, and read there by a task. So a planned
batch is read again exactly, whatever the function is. (With PySpark's `SimpleDataSourceStreamReader`, rows are kept in
memory until the batch is planned, and a restart asks the source to make them again.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from ...serializers.errors import DeclarationError, MigrationFailed, values_are_redacted
from ...serializers.hints import serializer_for
from ...serializers.registry import registry
from ...state.directory.directory import has_operator, with_places
from ...state.directory.holds import oldest_held
from ...state.directory.manifest import FILES
from ...state.directory.source_offsets import SourceOffset
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from ...state.streaming.source import ROWS, SourceSpec, SourceTask
from ...state.task.subtask import StoredOperator
from ..frames import arrow_schema
from ..user_modules import shipped
from ..worker import Settings, dumped
from .blobs import packed, unpacked
from .slot_runs import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from ...serializers.serializer import TypeSerializer
    from ...state.runtime.sources import SourceFunction
    from .elements import ResultWriter
    from .runs import Run, RunFacts


@attrs.frozen
class SourceWork:
    """A source of a query, as Spark's processes get it.

    Attributes:
        run: Reads what holds for a start.
        settings: The settings of the workers.
        spec: The source.
        writer: Makes the rows.
        time_column: The column of the time stamps; "": there is none.
        wait_s: With `available_now`: how long a silent source is waited for.
        serializers: As for `SlotRunner`.
    """

    run: RunFacts
    settings: Settings
    spec: SourceSpec
    writer: ResultWriter
    time_column: str
    wait_s: float
    serializers: tuple[tuple[type, TypeSerializer[Any]], ...]

    @property
    def schema(self) -> StructType:
        """The columns of the rows."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = self.writer.schema
        if self.time_column:
            schema = schema.append(pa.field(self.time_column, pa.timestamp("us", "UTC")))
        return from_arrow_schema(schema)

    def rows(self, elements: list[Any], times: list[int | None]) -> pa.RecordBatch:
        """Return the rows of some elements with their time stamps."""
        batch = self.writer.write(elements, ())
        columns = list(batch.columns)
        if self.time_column:
            columns.append(pa.array(times, pa.timestamp("ms", "UTC")))
        schema = arrow_schema(self.schema)
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=schema)

    def offset_of(self, told: dict[str, Any]) -> SourceOffset:
        """Return an offset that Spark has.

        Raises:
            DeclarationError: It is that of another source.
        """
        if (uid := told.get("source")) != self.spec.uid:
            raise DeclarationError(
                f"the checkpoint has the offset of {uid!r} where the query now has the source {self.spec.uid!r}",
                advice="keep the sources of the query, and their order",
            )
        return SourceOffset.from_json(told)


class StateSource(DataSource):
    """Data source of Spark for a source function; a subclass is made for each source."""

    work: SourceWork

    def schema(self) -> StructType:
        """Return the columns."""
        return self.work.schema

    def streamReader(self, schema: StructType) -> SourceReader:  # noqa: N802 - Spark's
        """Return the reader."""
        return SourceReader(self.work)


class SourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Runs a source beside a query, from the first question for an offset on.

    Args:
        work: The source.
    """

    def __init__(self, work: SourceWork) -> None:
        self._work = work
        self._wait_s = 0.0
        self._running: RunningSource | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return the offset of a source that has not begun."""
        return SourceOffset(self._work.spec.uid).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """End the query when the source has been silent."""
        self._wait_s = self._work.wait_s

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Write what the source has emitted since an offset; return the next offset, or the same for nothing."""
        after = self._work.offset_of(start)
        if self._running is None or after.attempt != self._running.at.attempt:
            # The query starts, or Spark has not planned what was returned last.
            if self._running is not None:
                self._running.close()
            self._running = RunningSource(self._work, after)
        found = self._running.next(self._wait_s)
        return start if found.attempt == after.attempt else found.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the file with the rows between two offsets."""
        after, upto = self._work.offset_of(start), self._work.offset_of(end)
        if after.attempt == upto.attempt or upto.manifest is None:
            return []
        if upto.manifest.parent != after.attempt:
            raise MigrationFailed(
                f"the checkpoint has an offset of the source {self._work.spec.uid!r} that does not follow the one"
                " before it",
                advice="put back what was changed in the checkpoint",
            )
        return [InputPartition(upto.file)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        data = Folder.at(self._work.run.place).folder(FILES).read(partition.value)
        schema = arrow_schema(self._work.schema)
        for batch in unpacked(data):
            if batch.schema != schema:
                raise DeclarationError(
                    f"the batch was planned with other columns of the source {self._work.spec.uid!r}:"
                    f" {', '.join(f'{field.name} {field.type}' for field in batch.schema)}",
                    advice="start the query once as it was, until the batch is committed",
                )
            yield batch

    def commit(self, end: dict[str, Any]) -> None:
        """Notify the source, and delete files that no batch needs which Spark may go back to."""
        if self._running is not None:
            self._running.committed(self._work.offset_of(end).number)

    def stop(self) -> None:
        """End the source."""
        if self._running is not None:
            self._running.close()


class RunningSource:
    """A source that runs, from an offset on.

    Args:
        work: The source.
        offset: The offset.

    Attributes:
        at: The last offset that was returned.
    """

    def __init__(self, work: SourceWork, offset: SourceOffset) -> None:
        prepare(work.settings, work.serializers)
        self._work, self.at = work, offset
        self._run: Run = work.run.read_anew()
        self._task = SourceTask(work.spec)
        names = (name.split("-") for name in self._run.directory.files.names())
        self._files = [
            (int(parts[2]), f"{FILES}/{'-'.join(parts)}")
            for parts in names
            if parts[:2] == [self._task.operator.id, ROWS]
        ]
        self._task.begin(self._stored())

    def _stored(self) -> StoredOperator | None:
        """Return the state of the source; None: it has none yet."""
        run, manifest = self._run, self.at.manifest
        if manifest is not None and manifest.directory != run.directory.id:
            raise MigrationFailed(
                "Spark's checkpoint has the offset of a source of another state directory",
                advice="start the query with the state directory that its checkpoint belongs to",
            )
        # Where the epoch began with state of the source, that is what it had reached by then, of the present types.
        if manifest is None or manifest.epoch < run.epoch.number:
            base = run.directory.base_of(run.epoch)
            if base is not None and has_operator(base, bytes.fromhex(self._task.operator.id)):
                return StoredOperator.of(Savepoint.of(base), self._task.operator.id)
        if manifest is None:
            return None
        stored = with_places(manifest.operator, run.directory.files)
        return StoredOperator(stored, run.directory.folder, manifest.batch)

    def next(self, wait_s: float) -> SourceOffset:
        """Write what was emitted since the last offset, and return the next one; the same if there is nothing.

        Args:
            wait_s: How long to wait for an element.
        """
        work, run, after = self._work, self._run, self.at
        directory = run.directory
        taken = self._task.take(
            after,
            wait_s=wait_s,
            folder=directory.files,
            directory=directory.id,
            epoch=run.epoch.number,
            run=run.number,
        )
        if taken is not None:
            manifest, elements, times = taken
            file = f"{self._task.operator.id}-{ROWS}-{manifest.batch}-{manifest.attempt}"
            directory.files.write(file, packed([work.rows(elements, times)]))
            self.at = SourceOffset(work.spec.uid, manifest.batch, after.rows + len(elements), file, manifest)
            self._files += [(manifest.batch, name) for name in self.at.files()]
        return self.at

    def committed(self, number: int) -> None:
        """Note that the batch of an offset is committed.

        Args:
            number: The number of the offset.
        """
        if not number:
            return
        self._task.notify_checkpoint_complete(number)
        directory = self._run.directory
        # A batch has at most one new offset of the source, so these are enough.
        oldest = number - self._run.retained - 1
        gone = [name for of, name in self._files if of <= oldest]
        if gone and oldest_held(directory.folder) is None:
            for name in gone:
                folder, _, file = name.rpartition("/")
                directory.folder.folder(folder).delete(file)
            self._files = [one for one in self._files if one[0] > oldest]

    def close(self) -> None:
        """End it."""
        self._task.close()


def source_frame(
    spark: SparkSession,
    function: SourceFunction,
    spec: SourceSpec,
    run: RunFacts,
    writer: ResultWriter,
    time_column: str,
    wait_s: float,
) -> DataFrame:
    """Return what a source emits as a streaming DataFrame; arguments are as for `SourceWork`."""
    own = tuple((kind, serializer_for(kind)) for kind in registry.python_types())
    settings = Settings(registry.additions(), values_are_redacted(), 1)  # without an accumulator: it runs in no task
    with shipped(spark, (function, writer, settings.additions, own)):
        work = SourceWork(
            run, settings, attrs.evolve(spec, function=dumped(function)), writer, time_column, wait_s, own
        )
        # The class is sent to Spark's processes by value: it is created here, so that no module contains it.
        name = f"stateshift-{spec.uid}-{run.token}"
        facts = {"work": work, "name": classmethod(lambda _: name), "__doc__": StateSource.__doc__}
        spark.dataSource.register(type("RegisteredSource", (StateSource,), facts))
        return spark.readStream.format(name).load()
