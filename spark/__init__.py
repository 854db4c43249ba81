"""Savepoints on Spark: the thin edge that knows pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(session: SparkSession) -> SparkSession:
    """Make `session.read.format("savepoint")` known; see `source.registering.register`."""
    from .source.registering import register as register_source

    return register_source(session)
