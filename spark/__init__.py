"""Savepoints on Spark; pyspark is used in this package only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .streaming.job import StreamJob as StreamJob

__all__ = ["StreamJob", "register"]


def __getattr__(name: str) -> Any:
    if name != "StreamJob":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .streaming.job import StreamJob

    return StreamJob


def register(session: SparkSession) -> SparkSession:
    """Register the format of `session.read.format("savepoint")`; see `source.registering.register`."""
    from .source.registering import register as register_source

    return register_source(session)
