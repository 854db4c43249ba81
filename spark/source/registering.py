"""Registration of the format `savepoint` in a session, with the settings that its workers need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...serializers.errors import values_are_redacted
from ...serializers.registry import registry
from ..user_modules import shipped
from .savepoint_source import SavepointDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_TASKS_PER_CORE = 2


def register(session: SparkSession) -> SparkSession:
    """Register the format of `session.read.format("savepoint")`, and change the session's settings for it.

    Spark pushes filters down to Python sources only if `spark.sql.python.filterPushdown.enabled` is set, which is done
    here. Snapshot classes registered before (`register_snapshot`) are sent to the workers with the source, by value if
    their module is not installed: call this again after registering more. The workers import stateshift, which must be
    installed there.

    Args:
        session: Any session, including one of Spark Connect.

    Returns:
        The session.
    """
    # The class is sent to Spark's processes by value: it is created here, so that no module contains it.
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
    """Return the number of tasks that the session runs at a time; with Spark Connect, which hides it, a constant."""
    try:
        return session.sparkContext.defaultParallelism
    except Exception:  # noqa: BLE001 - the type of its error differs between releases
        return 4
