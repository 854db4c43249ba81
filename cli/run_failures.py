"""Failures of a store or of Spark while something is written, as the error that the run failed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..serializers.errors import MigrationFailed, NoSpaceLeft, SavepointNotFound, StateShiftError, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def failures_told(target_place: str) -> Iterator[None]:
    """Turn errors of the target's store, and of Spark itself, into the error that the run failed."""
    from ..state.migration.migration import NOTHING_PUBLISHED
    from ..state.storage.files import Folder

    try:
        with spark_failures_told(NOTHING_PUBLISHED):
            yield
    except NoSpaceLeft:
        raise
    except (SavepointNotFound, StorageFailed) as error:
        where: dict[str, Any] = error.where
        if where.get("savepoint") != Folder.at(target_place).place:
            raise
        raise MigrationFailed(
            f"{target_place} cannot be written: {error.what}",
            advice="choose a target in an existing folder that can be written to"
            if Folder.at(target_place).is_local
            else error.advice,
            written=error.written or "Nothing was written.",
            **where,
        ) from error


@contextmanager
def spark_failures_told(written: str) -> Iterator[None]:
    """Turn errors of Spark itself into the error that the run failed.

    Args:
        written: What was written by then, in a sentence.
    """
    try:
        yield
    except StateShiftError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"py4j", "pyspark"}:
            raise
        from ..spark.jobs import cause_of

        raise MigrationFailed(
            f"Spark failed: {cause_of(error)}",
            advice="check --master and Spark's own messages above; the same command starts again from the beginning",
            written=written,
        ) from error
