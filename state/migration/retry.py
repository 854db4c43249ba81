"""A task that failed: whether it is worth another attempt, and what is told of it."""

from __future__ import annotations

import traceback

from ...serializers.errors import MigrationFailed, NoSpaceLeft, StateShiftError, StorageFailed, shown


def may_be_mended(error: Exception) -> bool:
    """Whether another attempt may do better: where a store failed, or code that is not stateshift's."""
    if isinstance(error, StateShiftError):
        return isinstance(error, StorageFailed) and not isinstance(error, NoSpaceLeft)
    return True


def failure_of_task(error: Exception, title: str, who: str) -> StateShiftError:
    """Give what is told of a task that failed for good: an error of stateshift as it is, any other with its place.

    Args:
        error: What was raised.
        title: What messages call the operator.
        who: Carried it out.
    """
    if isinstance(error, StateShiftError):
        return error
    trace = "".join(traceback.format_tb(error.__traceback__))
    return MigrationFailed(
        f"{who} failed with {type(error).__name__}: {shown(str(error))}",
        details=trace.splitlines(),
        operator=title,
        advice="mend the serializer or converter in which it failed; if it is none of yours, report a bug",
    )
