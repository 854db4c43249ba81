"""What Spark does for a bootstrap.

Each source is encoded in blocks on the workers, and packed into records with many rows of one state and key group
(`PACKED_ROWS`), whose content Spark never looks at. Spark brings the records of a subtask to one task, sorted by key
group and state; that task sorts their rows, and writes the subtask's stream under the name of its attempt. The driver
publishes by writing `_metadata` last. Source: DESIGN, section 4; performance notes.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.registry import registry
from ..state.columnar.row_files import PACKED_ROWS, packed, sorted_rows
from ..state.columnar.row_sources import ResolvedSource, can_order
from ..state.columnar.row_streams import NewOperator, RowCount, write_streams
from ..state.columnar.rows import RowEncoder
from ..state.migration.estimate import require_space
from .frames import arrow_schema, partitioned_by
from .user_modules import shipped
from .worker import RESULT, Settings, collected, in_rows, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from ..state.columnar.new_savepoint import NewSavepoint
    from ..state.columnar.row_streams import StreamResult
    from ..state.progress import Progress
    from ..state.storage.files import Folder


@attrs.frozen
class BootstrapRun:
    """The work of one bootstrap in a session.

    Attributes:
        new: The savepoint to write.
        folder: The target.
        tell: Called with the progress.
    """

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
