"""Arrow schemas of DataFrames, and functions on Arrow batches in the workers."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's batches arrive; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.3 times are in UTC by default, and there is no such argument.
    in_utc: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    converted: pa.Schema = to_arrow_schema(schema, **in_utc)
    return converted


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
