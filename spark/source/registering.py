"""Makes the format `savepoint` known to a session, with what its workers have to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...serializers.errors import values_are_redacted
from ...serializers.registry import registry
from ..shipping import shipped
from .savepoint_source import SavepointDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_TASKS_PER_CORE = 2


def register(session: SparkSession) -> SparkSession:
    """Make `session.read.format("savepoint")` known, and set what it needs.

    Spark pushes filters down to sources in Python only where `spark.sql.python.filterPushdown.enabled` says so; it is
    switched on here. Snapshot classes that were registered before (`register_snapshot`) go with the source to the
    workers, by value where their module is not installed: register again after more of them. The workers import
    stateshift, which must be installed there.

    Args:
        session: Any session; the one of Spark Connect, too.

    Returns:
        The session.
    """
    # What goes to Spark's own processes is the class, by value; this one is not to be found in a module.
    registered = registry.additions()
    facts = {
        "tasks": _cores(session) * _TASKS_PER_CORE,
        "registered": registered,
        "redacted": values_are_redacted(),
        "home": str(Path.cwd()),
        "__doc__": SavepointDataSource.__doc__,
    }
    with shipped(session, registered):
        session.dataSource.register(type("RegisteredSavepoints", (SavepointDataSource,), facts))
    session.conf.set(_PUSHDOWN, "true")
    return session


def _cores(session: SparkSession) -> int:
    """How many tasks the session runs at a time; through Spark Connect, which does not tell, a few."""
    try:
        return session.sparkContext.defaultParallelism
    except Exception:  # noqa: BLE001 - what it raises differs between releases
        return 4
