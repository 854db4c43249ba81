"""A function of ours on the workers, over Arrow batches, and without a warning that concerns nothing here."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@contextmanager
def pandas_unmentioned() -> Iterator[None]:
    """Hear nothing of pandas 3, which PySpark 4.3 does not know: its pandas functions are not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


def mapped(
    table: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """Give `table.mapInArrow(function, schema)`, of a DataFrame of any session."""
    with pandas_unmentioned():
        return table.mapInArrow(function, schema)
