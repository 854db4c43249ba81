"""The implementation of a bootstrap on Spark.

Each source is encoded in blocks on the workers, and packed into records with many rows of one state and key group
(`PACKED_ROWS`), whose content Spark never looks at. Spark brings the records of a subtask to one task, sorted by key
group and state; that task sorts their rows, and writes the subtask's stream under the name of its attempt. The driver
publishes by writing `_metadata` last. Source: DESIGN, section 4; performance notes.
"""

from __future__ import annotations

import pickle
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import DeclarationError
from ..serializers.registry import registry
from ..state.columnar.bootstrap import BootstrapReport
from ..state.columnar.new_savepoint import NewSavepoint, check_position, report_states, unknown_to_flink
from ..state.columnar.row_files import PACKED_ROWS, packed, sorted_rows
from ..state.columnar.row_sources import ResolvedSource, can_order, resolve
from ..state.columnar.row_streams import NewOperator, RowCount, write_streams
from ..state.columnar.rows import RowEncoder
from ..state.job import Job, key_groups_of
from ..state.key_groups import key_group_range
from ..state.migration.estimate import require_space
from ..state.publication.publish import Destination, all_or_nothing, check_target
from ..state.publication.runs import names_of
from ..state.savepoint.new_streams import check_job
from ..state.storage.files import Folder
from .bootstrap import StateSource
from .connect import refuse_connect
from .frames import arrow_schema, partitioned_by
from .interrupts import interrupts_kept
from .runner import collected
from .sessions import own_session
from .user_modules import shipped
from .worker import RESULT, Settings, in_rows, loaded

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from ..compat.targets import Target
    from ..state.columnar.row_streams import StreamResult
    from ..state.progress import Progress


def write_from_rows(
    target: str | os.PathLike[str],
    job: Job,
    sources: StateSource | Iterable[StateSource] | Callable[[SparkSession], Iterable[StateSource]],
    *,
    session: SparkSession | None,
    master: str,
    py_files: Iterable[str | Path],
    max_parallelism: int | None,
    parallelism: int | None,
    position: Any,
    restore_target: Target,
    progress: Callable[[Progress], None] | None,
) -> BootstrapReport:
    """Write a new savepoint in `target`; see `bootstrap`."""
    started = time.monotonic()
    if not isinstance(job, Job):
        raise DeclarationError(f"the job is a {type(job).__name__}, not a Job", advice="pass the Job itself")
    folder = Folder.at(target)
    key_groups = key_groups_of(job, max_parallelism)
    key_group_range(0, parallelism or 1, key_groups)
    check_position(position)
    check_job(job, restore_target)
    check_target(folder)
    with ExitStack() as until_published:
        if session is not None:
            refuse_connect(session, "making a savepoint from rows")
        given = _given(sources, lambda: session or until_published.enter_context(own_session(master)))
        resolved = resolve(job, [(source, arrow_schema(source.data.schema)) for source in given])
        names = names_of(operator.id for operator in job.operators)
        claim = until_published.enter_context(all_or_nothing(Destination(folder, names)))
        folder = claim.folder
        new = NewSavepoint(job, resolved, key_groups, parallelism, restore_target, position)
        run = _Run(new, folder, progress or (lambda _: None))
        with interrupts_kept():
            operators, results, encoded = run.carry_out([source.data for source in given], py_files)
        claim.require()
        lineage = new.publish(folder, operators, results, encoded)
    return BootstrapReport(
        target=folder.place,
        states=report_states(job, resolved, lineage),
        parallelism={operator.title: operator.parallelism for operator in operators.values()},
        max_parallelism=key_groups,
        bytes_written=sum(result.stored.size for result in results),
        position=position,
        seconds=time.monotonic() - started,
        unknown_to_flink=unknown_to_flink(job),
    )


def _given(
    sources: StateSource | Iterable[StateSource] | Callable[[SparkSession], Iterable[StateSource]],
    session: Callable[[], SparkSession],
) -> list[StateSource]:
    made = sources(session()) if callable(sources) else sources
    given: list[StateSource] = [made] if isinstance(made, StateSource) else list(made)
    for source in given:
        _check_frame(source)
        refuse_connect(source.data.sparkSession, "making a savepoint from rows")
    if not given:
        raise DeclarationError("no sources were given", advice="pass a StateSource for each state to fill")
    if any(source.data.sparkSession.sparkContext is not given[0].data.sparkSession.sparkContext for source in given):
        raise DeclarationError(
            "the DataFrames belong to different Spark applications", advice="create them in one application"
        )
    return given


def _check_frame(source: StateSource) -> None:
    if not hasattr(source.data, "sparkSession"):
        raise DeclarationError(
            f"the rows are a {type(source.data).__module__}.{type(source.data).__name__}, not a Spark DataFrame",
            advice="convert it: spark.createDataFrame(…) takes pandas and Arrow tables",
            operator=source.operator,
            state=source.state,
        )


@attrs.frozen
class _Run:
    """The work of one bootstrap in a session."""

    new: NewSavepoint
    folder: Folder
    tell: Callable[[Progress], None]

    def carry_out(
        self, data: Sequence[DataFrame], py_files: Iterable[str | Path]
    ) -> tuple[dict[int, NewOperator], list[StreamResult], dict[tuple[int, int], RowCount]]:
        """Encode and write all rows.

        Returns:
            The operators with keyed state, the streams that have entries, and the number of encoded rows of each state.
        """
        from pyspark import StorageLevel

        spark = data[0].sparkSession
        encoders = [RowEncoder(source, self.new.max_parallelism, _row_maker) for source in self.new.sources]
        settings = Settings.of(spark)

        with shipped(spark, (self.new.job, encoders, registry.additions()), py_files):
            told = f"stateshift: {len(data)} sources to {self.folder}"
            rows = self._encoded(data, encoders, settings, 2 * spark.sparkContext.defaultParallelism).persist(
                StorageLevel.DISK_ONLY
            )
            try:
                found = collected(_summary(rows), settings, "encoding", self.tell, f"{told}, encoding")
                sizes, encoded = _summed(found)
                require_space(self.folder, sum(sizes.values()), self.folder.free_space_bytes())
                operators = self.new.operators(sizes)
                written = self._written(rows, operators, settings)
                answers = collected(written, settings, "writing", self.tell, f"{told}, writing")
            finally:
                rows.unpersist()
        return operators, [loaded(answer.result) for answer in answers], encoded

    def _encoded(
        self, data: Sequence[DataFrame], encoders: Sequence[RowEncoder], settings: Settings, slots: int
    ) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        parts = []
        for table, encoder in zip(data, encoders, strict=True):
            # A few large tasks: each costs a Python worker some 40 ms, however little it has to do.
            chosen = _chosen(table, encoder.source, slots).coalesce(slots)
            numbered = chosen.toDF(*map(str, range(len(chosen.columns))))  # mapInArrow does not quote names
            encode = _Encoding(encoder, tuple(chosen.columns), settings)
            parts.append(numbered.mapInArrow(encode, from_arrow_schema(PACKED_ROWS)))
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionAll(part)
        return rows

    def _written(self, rows: DataFrame, operators: dict[int, NewOperator], settings: Settings) -> DataFrame:
        """Shuffle and sort the packed rows by subtask, and write them."""
        firsts, count = {}, 0
        for place, operator in operators.items():
            firsts[place] = count
            count += operator.parallelism
        together = partitioned_by(rows, count, _stream_number(operators, firsts))
        ordered = together.sortWithinPartitions("operator", "key_group", "state")
        return ordered.mapInArrow(_Writing(operators, self.folder, settings), RESULT)


def _chosen(table: DataFrame, source: ResolvedSource, slots: int) -> DataFrame:
    """Select the required columns; for an aggregate, bring the rows of each key together, in order."""
    if source.columns is not None:
        return table.select(*map(_column, source.columns))
    if source.aggregate is None:
        return table
    first = (*source.group_columns, *source.order_columns)
    others = [field.name for field in arrow_schema(table.schema) if field.name not in first and can_order(field.type)]
    together = table.repartition(slots, *map(_column, source.key_columns))
    return together.sortWithinPartitions(*map(_column, (*first, *others)))


def _column(name: str) -> Column:
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def _stream_number(operators: Mapping[int, NewOperator], firsts: Mapping[int, int]) -> Column:
    """Return a column that numbers the streams of all operators one after the other."""
    from pyspark.sql import functions

    cases = " ".join(
        f"when {place} then {firsts[place]} + key_group * {operator.parallelism} div {operator.max_parallelism}"
        for place, operator in operators.items()
    )
    return functions.expr(f"cast(case operator {cases} end as int)")


def _summary(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.groupBy("operator", "state").agg(
        *(f.sum(name).alias(name) for name in ("rows", "size", "checksum")), f.min("error").alias("error")
    )


def _summed(found: Sequence[Any]) -> tuple[dict[int, int], dict[tuple[int, int], RowCount]]:
    """Return the bytes of each operator, and the rows of each state; raises the error of a worker, if there is one."""
    sizes: dict[int, int] = {}
    counts = {}
    for row in sorted(found, key=lambda row: (row.operator, row.state)):
        if row.error is not None:
            raise pickle.loads(row.error)  # noqa: S301 - pickled by our own workers
        sizes[row.operator] = sizes.get(row.operator, 0) + row.size
        counts[row.operator, row.state] = RowCount(row.rows, row.checksum)
    return sizes, counts


def _row_maker(names: Sequence[str]) -> Callable[..., Any]:
    from pyspark.sql import Row

    return Row(*names)


@attrs.frozen
class _Encoding:
    """Encodes and packs batches after restoring the names of their columns."""

    encoder: RowEncoder
    names: tuple[str, ...]
    settings: Settings

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(list(self.names)) for batch in batches)
        return self.settings.guarded(packed(self.encoder.encode(named)), self.encoder.source.title)


@attrs.frozen
class _Writing:
    """Writes the streams of a task."""

    operators: dict[int, NewOperator]
    folder: Folder
    settings: Settings

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = write_streams(sorted_rows(batches), self.operators, self.folder)
        title = " or ".join(sorted(operator.title for operator in self.operators.values()))
        return self.settings.guarded(in_rows(results), title)
