"""Savepoints on Spark; pyspark is used in this package only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(session: SparkSession) -> SparkSession:
    """Register the format of `session.read.format("savepoint")`; see `source.registering.register`."""
    from .source.registering import register as register_source

    return register_source(session)
