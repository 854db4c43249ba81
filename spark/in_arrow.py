"""Functions on Arrow batches in the workers, without an irrelevant warning about pandas."""

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
    """Suppress the warning about pandas 3, which PySpark 4.3 does not support: pandas is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


def mapped(
    table: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """Return `table.mapInArrow(function, schema)`, for a DataFrame of any session."""
    with pandas_unmentioned():
        return table.mapInArrow(function, schema)
