"""The writing half of the format `savepoint`: `df.write.format("savepoint")`.

Spark gives a data source the rows as they are, and cannot be asked to bring them to their key groups. So tasks encode
and sort their rows into files beside the target, and the commit merges these into the streams (`state_write`).
Spark calls each step in a process of its own.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...compat.description import StateKind
from ...compat.targets import Target
from ...serializers.errors import (
    DeclarationError,
    NoSpaceLeft,
    StateShiftError,
    StorageFailed,
    redact_values,
    values_are_redacted,
)
from ...serializers.registry import registry
from ...serializers.wording import meant
from ...state.bootstrap.row_files import RowFile
from ...state.bootstrap.state_types import Wanted
from ...state.bootstrap.state_write import StateWrite, settle
from ...state.job import load_job
from ...state.savepoint.files import Folder
from ...state.savepoint.reader import Savepoint
from ..shipping import send_by_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

WRITE_OPTIONS = ("path", "operator", "state", "base", "job", "kind", "max_parallelism", "parallelism", "target")
"""Options of a write; the path is what `save` gets."""


class StateWriter(DataSourceArrowWriter):
    """Writes one state. Made in the planning of the write, and sent to each task and to the commit.

    Args:
        options: See `WRITE_OPTIONS`.
        schema: Of the rows.
        overwrite: Whether what the base has of the state goes.

    Raises:
        StateShiftError: As of `state_write.settle`; nothing was written.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        try:
            self._write = _settled(options, schema, overwrite=overwrite)
            self._write.prepare()
        except StateShiftError as error:
            raise _bare(error) from None
        if job := options.get("job"):
            send_by_value([sys.modules[job.partition(":")[0]]], set())  # the classes of its records go with this object
        self._snapshots, self._redacted = registry.additions(), values_are_redacted()  # those of the job, too

    def _begin(self) -> None:
        """Know in this process what was known where the write was planned."""
        registry.add(self._snapshots)
        redact_values(self._redacted)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        """Encode the rows of a task."""
        from pyspark import TaskContext

        self._begin()
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        try:
            return _Written(self._write.encode(iterator, task))
        except StateShiftError as error:
            if isinstance(error, StorageFailed) and not isinstance(error, NoSpaceLeft):
                raise  # another attempt may do better
            return _Written(RowFile(error=pickle.dumps(error)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the streams, and publish."""
        self._begin()
        try:
            self._write.publish([message.file for message in messages if isinstance(message, _Written)])
        except StateShiftError as error:
            raise _bare(error) from None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written, unless it was published."""
        self._write.give_up()


def _bare(error: StateShiftError) -> StateShiftError:
    """Take off where in stateshift an error was raised: Spark shows all of that before what it says."""
    return error.with_traceback(None)


@attrs.frozen
class _Written(WriterCommitMessage):
    """What a task has written."""

    file: RowFile


def _settled(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StateWrite:
    from pyspark.sql.pandas.types import to_arrow_schema

    strange = next((name for name in options if name.lower() not in WRITE_OPTIONS), None)
    if strange is not None:
        raise DeclarationError(
            f"there is no option {strange!r} for a write{meant(strange.lower(), WRITE_OPTIONS)}",
            advice=f"options are {', '.join(WRITE_OPTIONS[1:])}",
        )
    job = options.get("job")
    wanted = Wanted(
        operator=_given(options, "operator", "the uid of the operator"),
        state=_given(options, "state", "the name of the state"),
        overwrite=overwrite,
        job=load_job(job) if job else None,
        kind=_choice(options, "kind", StateKind),
    )
    base = options.get("base")
    return settle(
        wanted,
        to_arrow_schema(schema, timezone="UTC"),
        Folder.at(_given(options, "path", "the folder, as in save(…)")),
        Savepoint.open(base) if base else None,
        max_parallelism=_number(options, "max_parallelism"),
        parallelism=_number(options, "parallelism"),
        restore_target=_choice(options, "target", Target) or Target.ANY,
    )


def _given(options: Mapping[str, str], name: str, what: str) -> str:
    value = options.get(name)
    if not value:
        raise DeclarationError(f"the option {name!r} is missing", advice=f'give {what}: .option("{name}", "…")')
    return value


def _choice(options: Mapping[str, str], name: str, choices: Any) -> Any:
    value = options.get(name)
    if not value:
        return None
    try:
        return choices(value.lower())
    except ValueError as error:
        raise DeclarationError(
            f"the option {name!r} is {value!r}", advice=f"it is one of {', '.join(choices)}"
        ) from error


def _number(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name)
    if not value:
        return None
    if not value.isdecimal() or not int(value):
        raise DeclarationError(f"the option {name!r} is {value!r}", advice="give a whole number from 1 on")
    return int(value)
