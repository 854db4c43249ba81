"""The side outputs of a query, split so that one query writes all of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError
from .elements import TAG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


@contextmanager
def split_outputs(batch: DataFrame) -> Iterator[tuple[DataFrame, dict[str, DataFrame]]]:
    """Return the main output of a batch, and its side outputs by the names of their tags, for a `with` block.

    It is for `foreachBatch`:

        def write(batch, number):
            with split_outputs(batch) as (balances, side):
                balances.write.mode("append").parquet("balances")
                side["large"].write.mode("append").parquet("large")

        job.start(results.writeStream.foreachBatch(write))

    The columns of an output are the fields of its type, or `value`. The batch is computed once, and held until the
    block ends: else Spark would compute it again for each output that is written.

    Args:
        batch: A DataFrame with the results of a function that has side outputs, such as `foreachBatch` passes.

    Raises:
        DeclarationError: There are no side outputs in it.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    if TAG not in batch.columns:
        raise DeclarationError(
            f"there are no side outputs in the columns {', '.join(batch.columns)}",
            advice="pass side_outputs=[…] to process(…), and the batch as it is",
        )
    place = batch.columns.index(TAG)
    held = batch.persist()
    try:
        tag = functions.col(TAG)
        main = held.where(tag.isNull()).select(*map(_quoted, batch.columns[:place]))
        side = {}
        for name in batch.columns[place + 1 :]:
            rows, column = held.where(tag == name), functions.col(_quoted(name))
            is_record = isinstance(batch.schema[name].dataType, StructType)
            side[name] = rows.select(column.alias("value"))
            if is_record:
                side[name] = side[name].select("value.*")
        yield main, side
    finally:
        held.unpersist()


def _quoted(name: str) -> str:
    """Return the name of a column that may have dots in it."""
    return "`" + name.replace("`", "``") + "`"
