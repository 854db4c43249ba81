"""The writing part of the format `savepoint`: `df.write.format("savepoint")`.

Spark passes the rows to a data source as they are, and cannot be asked to group them by key group. So tasks encode and
sort their rows into files beside the target, and the commit merges these into the streams (`state_write`). Spark runs
each step in a separate process.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...compat.targets import Target
from ...serializers.errors import StateShiftError, values_are_redacted
from ...serializers.registry import registry
from ...state.columnar.row_files import RowFile
from ...state.columnar.state_types import FROM_ROWS, Wanted
from ...state.columnar.state_write import StateWrite, settle
from ...state.job import import_user_module, load_job
from ...state.publication.lock_renewal import renew_apart
from ...state.runner import may_be_mended
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from ..frames import arrow_schema
from ..user_modules import send_by_value
from ..worker import begin_work
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
                module = import_user_module(job.rpartition(":")[0])
                send_by_value([module], set())  # its record classes are sent with it
            parent = os.getppid()  # it lives as long as Spark's driver, while this process ends with the planning
            self._write = settled.prepare(parent)
            renew_apart(self._write.claim, parent)
        except StateShiftError as error:
            error.written = error.written or "Nothing was written."
            raise bare(error) from None
        self._additions, self._redacted = registry.additions(), values_are_redacted()  # including those of the job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        """Encode the rows of a task, and write them to its files."""
        from pyspark import TaskContext

        begin_work(self._additions, redacted=self._redacted)
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
        begin_work(self._additions, redacted=self._redacted)
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
