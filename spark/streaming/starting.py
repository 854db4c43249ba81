"""The start of a query: whose state it is, whether its functions can go on from it, and in which epoch it runs."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, StateShiftError
from ...state.storage.files import Folder
from ...state.storage.target_lock import claimed
from ...state.streaming.commit_log import (
    CheckpointNote,
    last_committed,
    last_in_log,
    last_planned,
    pinned_settings,
    read_note,
    write_note,
)
from ...state.streaming.directory import STREAM_FILE, Epoch, StateDirectory, lacks_slots
from .carriers import TRANSFORM
from .grouping import slot_groups
from .manifests import committed_manifests
from .upgrading import HOW, Judgement, write_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.migration.options import MigrationOptions
    from .job import StreamJob

_PARTITIONS, _RETAINED = "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_PROVIDER, _HDFS = "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = {"parquet", "orc", "json", "csv", "text", "avro"}
_SINK_LOG, _COMPACT_INTERVAL = "_spark_metadata", "spark.sql.streaming.fileSink.log.compactInterval"

_RELEASES: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process on each state directory, and the thread that releases the directory after it."""


class Start:
    """One start of a job's query."""

    def __init__(
        self, job: StreamJob, writer: DataStreamWriter, on_incompatible: str, options: MigrationOptions
    ) -> None:
        if not job.operators:
            raise DeclarationError("the job has no operator", advice="call stream(df).key_by(…).process(…) first")
        if on_incompatible not in HOW:
            raise DeclarationError(f"{on_incompatible!r} is not what can be done", advice=f"pass {' or '.join(HOW)}")
        self._job, self._writer, self._how, self._options = job, writer, on_incompatible, options
        self._spark: SparkSession = writer._spark  # noqa: SLF001 - there is no public way to the session of a writer
        self._checkpoint = Folder.at(job.checkpoint)
        self._folder = Folder.at(job.state_dir)
        self._attempts: tuple[str, ...] = ()

    def query(self, *, available_now: bool) -> StreamingQuery:
        """Check, decide on the epoch, and start the query; the state directory is claimed until it ends."""
        self._require_allowed()
        _await_release(self._folder.place)
        with ExitStack() as claims:
            self._folder.create()
            claims.enter_context(claimed(self._folder))
            directory = self._directory()
            self._require_unwritten()
            epoch = self._epoch(directory)
            retained = int(self._spark.conf.get(_RETAINED) or 100)
            directory.begin_run(
                self._job.token,
                epoch=epoch.number,
                retained=retained,
                after_batch=last_committed(self._checkpoint),
                attempts=self._attempts,
            )
            self._fill_sink_log()
            query = self._started(available_now=available_now)
            release = threading.Thread(target=_release_at_end, args=(query, claims.pop_all()), daemon=True)
            release.start()
            _RELEASES[self._folder.place] = query, release
        return query

    def _started(self, *, available_now: bool) -> StreamingQuery:
        writer = self._writer.option("checkpointLocation", self._job.checkpoint)
        writer = writer.outputMode(self._job.plan.output_mode)
        settings = {}
        if available_now:
            writer = writer.trigger(availableNow=True)
            settings[_NO_DATA] = "false"  # else Spark goes on to wake the slots for ever
        if self._job.plan.carrier == TRANSFORM and _HDFS in (self._spark.conf.get(_PROVIDER) or ""):
            settings[_PROVIDER] = _ROCKSDB  # Spark has transformWithState on no other
        with _settings(self._spark, settings):
            return writer.start()

    def _require_allowed(self) -> None:
        """Refuse what Spark would refuse, before anything is written."""
        from pyspark.errors import AnalysisException

        plan = self._writer._df._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
        jvm: Any = self._spark._jvm  # noqa: SLF001 - only Java has the check
        mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, self._job.plan.output_mode.capitalize())()
        try:
            jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
        except AnalysisException as error:
            others = f'; with carrier="{TRANSFORM}" more is allowed' if self._job.plan.carrier != TRANSFORM else ""
            raise DeclarationError(
                f"Spark refuses the query: {str(error).splitlines()[0]}",
                advice=f"change the query or its output_mode{others}",
                written="Nothing was written.",
            ) from error

    @property
    def _last_in_sink(self) -> int | None:
        """The last batch in the log of a sink of files; None: there is no log, or it is in a store of Spark alone."""
        path = sink_path(self._writer)
        with suppress(StateShiftError):
            return last_in_log(Folder.at(path).folder(_SINK_LOG)) if path else None
        return None

    def _require_unwritten(self) -> None:
        """Refuse a file sink that has batches of later numbers: Spark would leave out the results of new ones."""
        written = self._last_in_sink
        numbers = (last_planned(self._checkpoint), last_committed(self._checkpoint))
        known = max((number for number in numbers if number is not None), default=-1)
        if written is not None and written > known:
            raise DeclarationError(
                f"the folder {sink_path(self._writer)} has the results of batches up to {written}, and the next batch"
                f" is {known + 1}: Spark's file sink leaves out batches whose numbers it has, so results would be lost",
                advice="choose another folder: a query with a new or a rewound checkpoint needs its own",
                written="The query was not started.",
            )

    def _fill_sink_log(self) -> None:
        """Write empty batches to the log of a new folder of results: Spark reads it from the first batch on."""
        path, committed, written = sink_path(self._writer), last_committed(self._checkpoint), self._last_in_sink
        if not path or committed is None or (written is not None and written >= committed):
            return
        interval = int(self._spark.conf.get(_COMPACT_INTERVAL) or 10)
        compact = (committed + 1) // interval * interval - 1
        with suppress(StateShiftError):  # a store that only Spark knows
            log = Folder.at(path).folder(_SINK_LOG)
            log.create()
            for number in range(max(compact, 0), committed + 1):
                name = f"{number}.compact" if number == compact else str(number)
                if not log.exists(name):
                    log.write(name, b"v1")

    def _directory(self) -> StateDirectory:
        """Return the state directory; refuse one that does not belong to the checkpoint."""
        job, place = self._job, self._checkpoint.place
        note = read_note(self._checkpoint)
        if not self._folder.exists(STREAM_FILE):
            if note is not None or last_planned(self._checkpoint) is not None:
                where = f"; its state was in {note.state_dir}" if note is not None else ""
                raise DeclarationError(
                    f"the checkpoint {place} has batches, but there is no state in {self._folder}{where}",
                    advice="pass the state directory that belongs to the checkpoint, or a new checkpoint",
                    written="Nothing was written.",
                )
            directory = StateDirectory.create(self._folder, place, job.plan.max_parallelism)
            write_note(self._checkpoint, CheckpointNote(directory.id, self._folder.place, place))
            return directory
        directory = StateDirectory.open(self._folder)
        if note is None and directory.last_epoch is None:  # the first start ended before it wrote the note
            note = CheckpointNote(directory.id, self._folder.place, place)
            write_note(self._checkpoint, note)
        if note is None or note.id != directory.id:
            has = "has the state of another query" if note is not None else "has no state of a query like this"
            raise DeclarationError(
                f"the state in {self._folder} belongs to the checkpoint {directory.checkpoint}, and {place} {has}",
                advice="pass that checkpoint; or start from a savepoint of it, with a new state directory",
                written="Nothing was written.",
            )
        if note.checkpoint != place:
            if read_note(Folder.at(note.checkpoint)) is not None:
                raise DeclarationError(
                    f"the checkpoint {place} is a copy of {note.checkpoint}, which the state in {self._folder} is of",
                    advice="two queries cannot share state: start one from a savepoint, in another state directory",
                    written="Nothing was written.",
                )
            write_note(self._checkpoint, CheckpointNote(directory.id, self._folder.place, place))  # it was moved
            directory = attrs.evolve(directory, checkpoint=place)
            directory.write_facts()
        if directory.max_parallelism != job.plan.max_parallelism:
            raise DeclarationError(
                f"the state has {directory.max_parallelism} key groups, and the job {job.plan.max_parallelism}",
                advice=f"pass max_parallelism={directory.max_parallelism}",
                written="Nothing was written.",
            )
        return directory

    def _epoch(self, directory: StateDirectory) -> Epoch:
        """Return the epoch that the query runs in: the last one, or a new one where something changes."""
        before, batch = directory.last_epoch, last_committed(self._checkpoint)
        planned = last_planned(self._checkpoint)
        pinned = {} if planned is None else pinned_settings(self._checkpoint, planned)
        partitions = int(pinned.get(_PARTITIONS) or self._spark.conf.get(_PARTITIONS) or 200)
        carriers = dict.fromkeys(self._job.operators, self._job.plan.carrier)
        if before is None or batch is None:
            slots = self._job.slots or self._spark.sparkContext.defaultParallelism
            epoch = Epoch(directory.next_epoch, slots, partitions, slot_groups(slots, partitions), carriers)
            directory.begin_epoch(epoch)
            return epoch
        self._require_same_carriers(before, carriers)
        manifests = committed_manifests(self._spark, self._checkpoint, directory)
        self._attempts = tuple(manifest.attempt for manifest in manifests)
        written = max((manifest.epoch for manifest in manifests), default=0)
        of_state = (directory.epoch(written) if written else directory.unchanged_epoch) or before
        savepoint = directory.savepoint(manifests, of_state, batch, for_types=True)
        ran: dict[bytes, set[int]] = {}
        for manifest in manifests:
            if manifest.epoch == of_state.number:
                ran.setdefault(manifest.operator.operator_id, set()).add(manifest.slot)
        may_end = not lacks_slots(ran, of_state)
        judgement = Judgement(self._job, self._options, self._how, savepoint, of_state, may_end=may_end)
        slots = self._job.slots or of_state.slots
        if not judgement.changes and slots == of_state.slots:
            return of_state
        number = directory.next_epoch
        base = str(number)
        savepoint = directory.savepoint(manifests, of_state, batch)
        history = write_base(directory, savepoint, base, judgement, self._spark)
        groups, of_lazy = slot_groups(slots, partitions), (judgement.lazy, judgement.lazy_types)
        epoch = Epoch(number, slots, partitions, groups, carriers, batch, base, history, *of_lazy)
        directory.begin_epoch(epoch)
        return epoch

    def _require_same_carriers(self, before: Epoch, carriers: dict[str, str]) -> None:
        for uid, carrier in carriers.items():
            was = before.carriers.get(uid, carrier)
            if was != carrier:
                raise DeclarationError(
                    f"the operator {uid!r} ran with the carrier {was!r}, and its checkpoint has the state of that",
                    advice=f'create the job with carrier="{was}"; or start a new query from a savepoint',
                    written="Nothing was written.",
                )


def _private(writer: DataStreamWriter, name: str) -> Any:
    """Return a private field of Java's writer: there is no public way to what was set; None: there is no such field."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    with suppress(Py4JError):
        java: Any = writer._jwrite  # noqa: SLF001 - see above
        field = java.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(java)
    return None


def sink_path(writer: DataStreamWriter) -> str:
    """Return the folder of a sink of files; "": the sink is another one."""
    if _private(writer, "source") not in _FILES:
        return ""
    found = _private(writer, "extraOptions").get("path")
    return str(found.get()) if found.isDefined() else ""


def _await_release(place: str) -> None:
    """Wait until the last query of this process on a state directory has released it, if that query has ended."""
    if place in _RELEASES:
        query, release = _RELEASES[place]
        with suppress(Exception):  # Java is gone, and the query with it
            if query.isActive:
                return
        release.join()


def _release_at_end(query: StreamingQuery, claims: ExitStack) -> None:
    """Release the state directory when the query has ended, however it did."""
    with claims, suppress(Exception):  # the caller of the query learns how it ended
        query.awaitTermination()


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change settings of a session while a query starts, which takes a copy of them."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")
