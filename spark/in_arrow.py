"""Arrow schemas of DataFrames."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's batches arrive; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.3 times are in UTC by default, and there is no such argument.
    in_utc: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    converted: pa.Schema = to_arrow_schema(schema, **in_utc)
    return converted
