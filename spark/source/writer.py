"""The writing part of the format `savepoint`: `df.write.format("savepoint")`.

Spark passes the rows to a data source as they are, and cannot be asked to group them by key group. So tasks encode and
sort their rows into files beside the target, and the commit merges these into the streams (`state_write`). Spark runs
each step in a separate process.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...compat.targets import Target
from ...serializers.errors import StateShiftError, redact_values, values_are_redacted
from ...serializers.registry import registry
from ...state.bootstrap.row_files import RowFile
from ...state.bootstrap.state_types import FROM_ROWS, Wanted
from ...state.bootstrap.state_write import StateWrite, settle
from ...state.job import load_job
from ...state.migration.retry import may_be_mended
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from ...state.storage.lock_renewal import renew_apart
from ..in_arrow import arrow_schema
from ..shipping import send_by_value
from .options import bare, choice, number, refuse_unknown, required, roots

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

WRITE_OPTIONS = (
    "path", "operator", "state", "base", "job", "kind", "max_parallelism", "parallelism", "target", "allow_roots",
    "checkpoint_roots",
)  # fmt: skip
"""The options for writing; the path is the argument of `save`."""


class StateWriter(DataSourceArrowWriter):
    """Writes one state. It is created in the planning of the write, and sent to each task and to the commit.

    Args:
        options: See `WRITE_OPTIONS`.
        schema: The schema of the rows.
        overwrite: Whether the state is removed from the base first.

    Raises:
        StateShiftError: As in `state_write.settle`; nothing was written.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        try:
            settled = _settled(options, schema, overwrite=overwrite)
            if job := options.get("job"):
                send_by_value([sys.modules[job.partition(":")[0]]], set())  # its record classes are sent with it
            parent = os.getppid()  # it lives as long as Spark's driver, while this process ends with the planning
            self._write = settled.prepare(parent)
            renew_apart(self._write.claim, parent)
        except StateShiftError as error:
            error.written = error.written or "Nothing was written."
            raise bare(error) from None
        self._additions, self._redacted = registry.additions(), values_are_redacted()  # including those of the job

    def _begin(self) -> None:
        """Restore the registrations and settings of the planning process in this one."""
        registry.add(self._additions)
        redact_values(self._redacted)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        """Encode the rows of a task, and write them to its files."""
        from pyspark import TaskContext

        self._begin()
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        try:
            return _Written(self._write.encode(iterator, task))
        except StateShiftError as error:
            if may_be_mended(error):
                raise
            return _Written(RowFile(error=pickle.dumps(error)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the streams, and publish."""
        self._begin()
        try:
            self._write.publish([message.file for message in messages if isinstance(message, _Written)])
        except StateShiftError as error:
            raise bare(error) from None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files that were written, unless they were published."""
        self._write.give_up()


@attrs.frozen
class _Written(WriterCommitMessage):
    """The result of a task."""

    file: RowFile


def _settled(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StateWrite:
    refuse_unknown(options, WRITE_OPTIONS, "write")
    job = options.get("job")
    wanted = Wanted(
        operator=required(options, "operator", "the uid of the operator"),
        state=required(options, "state", "the name of the state"),
        overwrite=overwrite,
        job=load_job(job) if job else None,
        kind=choice(options, "kind", FROM_ROWS),
    )
    base = options.get("base")
    return settle(
        wanted,
        arrow_schema(schema),
        Folder.at(required(options, "path", "the folder: save(…)")),
        Savepoint.open(base, allow_roots=roots(options)) if base else None,
        max_parallelism=number(options, "max_parallelism"),
        parallelism=number(options, "parallelism"),
        restore_target=choice(options, "target", Target) or Target.ANY,
    )
