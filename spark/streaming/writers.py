"""The writer of a query: its settings, which only the Java object has, and the log of a file sink."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, StateShiftError
from ...state.formats.spark.commit_log import last_committed, last_in_log, last_planned
from ...state.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_CHECKPOINT = "checkpointLocation"
_AVAILABLE_NOW = "AvailableNowTrigger"
_FILES = {"parquet", "orc", "json", "csv", "text", "avro"}
_SINK_LOG, _COMPACT_INTERVAL = "_spark_metadata", "spark.sql.streaming.fileSink.log.compactInterval"


@attrs.frozen
class QueryWriter:
    """The writer of a query.

    Attributes:
        writer: Spark's writer.
        checkpoint: The checkpoint of the query.
        output_mode: Its output mode.
    """

    writer: DataStreamWriter
    checkpoint: Folder
    output_mode: str

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.writer._spark  # noqa: SLF001 - there is no public way to the session of a writer

    @property
    def results(self) -> DataFrame:
        """The DataFrame that is written."""
        return self.writer._df  # noqa: SLF001 - as above

    @property
    def ends_when_done(self) -> bool:
        """Whether its trigger ends the query once all present rows are processed."""
        return str(_private(self.writer, "trigger")).startswith(_AVAILABLE_NOW)

    def require_unset(self) -> None:
        """Refuse another checkpoint or output mode than those of the job: they would be replaced without a word.

        That the output mode is "append" cannot be told from that none was set.
        """
        own = self._option(_CHECKPOINT)
        if own and Folder.at(own).place != self.checkpoint.place:
            raise DeclarationError.before_writing(
                f"the writer has the checkpoint {own}, and the job {self.checkpoint}",
                advice=f'leave out .option("{_CHECKPOINT}", …): the job sets it; or pass that place to StreamJob',
            )
        mode = str(_private(self.writer, "outputMode") or "Append").lower()
        if mode not in {"append", self.output_mode}:
            raise DeclarationError.before_writing(
                f"the writer has the output mode {mode!r}, and the job {self.output_mode!r}",
                advice='leave out .outputMode(…): the job sets it; "update" is StreamJob(…, output_mode="update")',
            )

    def configured(self) -> DataStreamWriter:
        """Return Spark's writer with the checkpoint and the output mode of the query."""
        return self.writer.option(_CHECKPOINT, self.checkpoint.place).outputMode(self.output_mode)

    def start_once(self) -> StreamingQuery:
        """Start the query for one batch; the trigger of the writer stays."""
        java: Any = self.writer._jwrite  # noqa: SLF001 - only Java has its trigger
        trigger = java.getClass().getDeclaredField("trigger")
        trigger.setAccessible(True)
        own = trigger.get(java)
        self.writer.trigger(once=True)
        try:
            return self.configured().start()
        finally:
            java.trigger(own)

    # The sink of files

    @property
    def sink_path(self) -> str:
        """The folder of a sink of files; "": the sink is another one."""
        return self._option("path") if _private(self.writer, "source") in _FILES else ""

    @property
    def _last_in_sink(self) -> int | None:
        """The last batch in the log of a sink of files; None: there is no log, or it is in a store of Spark alone."""
        with suppress(StateShiftError):
            return last_in_log(Folder.at(self.sink_path).folder(_SINK_LOG)) if self.sink_path else None
        return None

    def require_unwritten(self) -> None:
        """Refuse a file sink that has batches of later numbers: Spark would leave out the results of new ones."""
        written = self._last_in_sink
        numbers = (last_planned(self.checkpoint), last_committed(self.checkpoint))
        known = max((number for number in numbers if number is not None), default=-1)
        if written is not None and written > known:
            raise DeclarationError(
                f"the folder {self.sink_path} has the results of batches up to {written}, and the next batch"
                f" is {known + 1}: Spark's file sink leaves out batches whose numbers it has, so results would be lost",
                advice="choose another folder: a query with a new or a rewound checkpoint needs its own",
                written="The query was not started.",
            )

    def fill_sink_log(self) -> None:
        """Write empty batches to the log of a new folder of results: Spark reads it from the first batch on."""
        path, committed, written = self.sink_path, last_committed(self.checkpoint), self._last_in_sink
        if not path or committed is None or (written is not None and written >= committed):
            return
        interval = int(self.spark.conf.get(_COMPACT_INTERVAL) or 10)
        compact = (committed + 1) // interval * interval - 1
        with suppress(StateShiftError):  # a store that only Spark knows
            log = Folder.at(path).folder(_SINK_LOG)
            log.create()
            for number in range(max(compact, 0), committed + 1):
                name = f"{number}.compact" if number == compact else str(number)
                if not log.exists(name):
                    log.write(name, b"v1")

    def _option(self, name: str) -> str:
        found = _private(self.writer, "extraOptions").get(name)
        return str(found.get()) if found.isDefined() else ""


def _private(writer: DataStreamWriter, name: str) -> Any:
    """Return a private field of Java's writer: there is no public way to what was set; None: there is no such field."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    with suppress(Py4JError):
        java: Any = writer._jwrite  # noqa: SLF001 - see above
        field = java.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(java)
    return None


@contextmanager
def changed_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change settings of a session while a query starts, which takes a copy of them."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")
