"""Savepoints on Spark; pyspark is used in this package only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..state.streaming.rewinding import rewind as rewind
    from .checkpoint.changes import FieldChanges as FieldChanges
    from .checkpoint.checking import check_query as check_query
    from .checkpoint.guard import start as start
    from .checkpoint.migrating.backfill import Backfill as Backfill
    from .checkpoint.migrating.migration import migrate_checkpoint as migrate_checkpoint
    from .checkpoint.migrating.verification import verify_checkpoint as verify_checkpoint
    from .checkpoint.query import describe as describe
    from .streaming.job import StreamJob as StreamJob
    from .streaming.progress import print_progress as print_progress
    from .streaming.savepoints import take_savepoint as take_savepoint
    from .streaming.side_outputs import split_outputs as split_outputs
    from .streaming.taken_offsets import position_of as position_of

__all__ = [
    "Backfill", "FieldChanges", "StreamJob", "check_query", "describe", "migrate_checkpoint", "position_of",
    "print_progress", "register", "rewind", "split_outputs", "start", "take_savepoint", "verify_checkpoint",
]  # fmt: skip

_PLACES = {
    "Backfill": ".checkpoint.migrating.backfill",
    "FieldChanges": ".checkpoint.changes",
    "StreamJob": ".streaming.job",
    "check_query": ".checkpoint.checking",
    "describe": ".checkpoint.query",
    "migrate_checkpoint": ".checkpoint.migrating.migration",
    "position_of": ".streaming.taken_offsets",
    "print_progress": ".streaming.progress",
    "rewind": "..state.streaming.rewinding",
    "split_outputs": ".streaming.side_outputs",
    "start": ".checkpoint.guard",
    "take_savepoint": ".streaming.savepoints",
    "verify_checkpoint": ".checkpoint.migrating.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name], __name__), name)


def register(session: SparkSession) -> SparkSession:
    """Register the format of `session.read.format("savepoint")`; see `source.registering.register`."""
    from .source.registering import register as register_source

    return register_source(session)
