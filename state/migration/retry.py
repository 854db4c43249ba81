"""Handling of failed tasks: whether another attempt may succeed, and which error is raised."""

from __future__ import annotations

import traceback

from ...serializers.errors import MigrationFailed, NoSpaceLeft, StateShiftError, StorageFailed, shown


def may_be_mended(error: Exception) -> bool:
    """Whether another attempt may succeed: a store failed, or code outside stateshift."""
    if isinstance(error, StateShiftError):
        return isinstance(error, StorageFailed) and not isinstance(error, NoSpaceLeft)
    return True


def failure_of_task(error: Exception, title: str, who: str) -> StateShiftError:
    """Return the error of a task that failed for good: errors of stateshift unchanged, others with their traceback.

    Args:
        error: The exception that was raised.
        title: The name of the operator in messages.
        who: The name of what ran the task, for messages.
    """
    if isinstance(error, StateShiftError):
        return error
    trace = "".join(traceback.format_tb(error.__traceback__))
    return MigrationFailed(
        f"{who} failed with {type(error).__name__}: {shown(str(error))}",
        details=trace.splitlines(),
        operator=title,
        advice="fix the serializer or converter that failed; if it is not yours, report a bug",
    )
