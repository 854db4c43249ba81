"""The writing half of the format `savepoint`: `df.write.format("savepoint")`.

Spark gives a data source the rows as they are, and cannot be asked to bring them to their key groups. So tasks encode
and sort their rows into files beside the target, and the commit merges these into the streams (`state_write`).
Spark calls each step in a process of its own.
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
from ..shipping import send_by_value
from .options import bare, choice, number, places, refuse_unknown, required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

WRITE_OPTIONS = (
    "path", "operator", "state", "base", "job", "kind", "max_parallelism", "parallelism", "target", "allow_roots",
)  # fmt: skip
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
            settled = _settled(options, schema, overwrite=overwrite)
            if job := options.get("job"):
                send_by_value([sys.modules[job.partition(":")[0]]], set())  # the classes of its records go with this
            parent = os.getppid()  # lives as long as Spark's driver; this process ends with the planning
            self._write = settled.prepare(parent)
            renew_apart(self._write.claim, parent)
        except StateShiftError as error:
            error.written = error.written or "Nothing was written."
            raise bare(error) from None
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
        """Remove what was written, unless it was published."""
        self._write.give_up()


@attrs.frozen
class _Written(WriterCommitMessage):
    """What a task has written."""

    file: RowFile


def _settled(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StateWrite:
    from pyspark.sql.pandas.types import to_arrow_schema

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
        to_arrow_schema(schema, timezone="UTC"),
        Folder.at(required(options, "path", "the folder, as in save(…)")),
        Savepoint.open(base, allow_roots=places(options, "allow_roots")) if base else None,
        max_parallelism=number(options, "max_parallelism"),
        parallelism=number(options, "parallelism"),
        restore_target=choice(options, "target", Target) or Target.ANY,
    )
