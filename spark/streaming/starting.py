"""The start of a query: whose state it is, whether its functions can go on from it, and in which epoch it runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.edits import Edits
from ...serializers.errors import DeclarationError, StateShiftError
from ...state.key_groups import check_parallelism
from ...state.storage.files import Folder
from ...state.storage.target_lock import claimed
from ...state.streaming.commit_log import (
    CheckpointNote,
    last_committed,
    last_in_log,
    last_planned,
    pinned_settings,
    plan_without_rows,
    read_note,
    write_note,
)
from ...state.streaming.directory import STREAM_FILE, Epoch, StateDirectory, lacks_slots
from ...state.streaming.source_offsets import planned_offsets
from .beginning import Beginning
from .building import DEFAULT_KEY_GROUPS
from .carriers import APPLY_IN_PANDAS, TRANSFORM, refusal
from .grouping import slot_groups
from .manifests import committed_manifests
from .measuring import observed
from .taken_offsets import TakenOffsets, source_kinds
from .upgrading import HOW, Judgement, write_base, write_beginning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.migration.options import MigrationOptions
    from .beginning import FromSavepoint
    from .job import StreamJob

_PARTITIONS, _RETAINED = "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_PROVIDER, _HDFS = "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = {"parquet", "orc", "json", "csv", "text", "avro"}
_SINK_LOG, _COMPACT_INTERVAL = "_spark_metadata", "spark.sql.streaming.fileSink.log.compactInterval"

_ONE_PLACE = "use its results once: foreachBatch with split_outputs writes several outputs of one query"

_RELEASES: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process on each state directory, and the thread that releases the directory after it."""


class Start:
    """One start of a job's query."""

    def __init__(
        self,
        job: StreamJob,
        writer: DataStreamWriter,
        on_incompatible: str,
        options: MigrationOptions,
        begins: FromSavepoint | None = None,
    ) -> None:
        if not job.operators and not job.sources:
            what, todo = "the job has no operator", "call stream(df).key_by(…).process(…) first"
            if job.bounded:
                what, todo = "the inputs of the job are static DataFrames", "call job.run(results.write…, savepoint=…)"
            raise DeclarationError(what, advice=todo)
        if on_incompatible not in HOW:
            raise DeclarationError(f"{on_incompatible!r} is not what can be done", advice=f"pass {' or '.join(HOW)}")
        self._job, self._writer, self._how, self._options = job, writer, on_incompatible, options
        self._begins = begins
        self._spark: SparkSession = writer._spark  # noqa: SLF001 - there is no public way to the session of a writer
        self._checkpoint = Folder.at(job.checkpoint)
        self._folder = Folder.at(job.state_dir)
        self._attempts: tuple[str, ...] = ()
        self._wake_ms: int | None = None
        self._is_upgraded = False
        self._sources = source_kinds(writer._df)  # noqa: SLF001 - as above
        self._carriers: dict[str, str] = {}  # in the order in which Spark numbers operators
        self._partitions = 1

    def query(self, *, available_now: bool) -> StreamingQuery:
        """Check, decide on the epoch, and start the query; the state directory is claimed until it ends."""
        return self._query(available_now=available_now)

    def drain(self) -> None:
        """Finish the batch that the query was stopped in, if there is one, and end event time in a batch of its own."""
        committed = last_committed(self._checkpoint)
        if committed is None:
            raise DeclarationError(
                f"the query with the checkpoint {self._checkpoint} has no committed batch, so nothing is left to fire",
                advice="start it first: job.start(writer, available_now=True)",
                written="Nothing was written.",
            )
        is_drained = False
        if last_planned(self._checkpoint) != committed and self._folder.exists(STREAM_FILE):
            is_drained = self._last_batch(StateDirectory.open(self._folder), drains=False) is not None
            self._query(once=True).awaitTermination()
        if not is_drained:
            self._query(once=True, drains=True).awaitTermination()

    def _query(self, *, available_now: bool = False, once: bool = False, drains: bool = False) -> StreamingQuery:
        """Start the query.

        Args:
            available_now: Whether it ends when it has processed all present rows.
            once: Whether it ends after the batch that is planned.
            drains: Whether that is a new one, without rows, which ends event time.
        """
        self._require_allowed()
        _await_release(self._folder.place)
        with ExitStack() as claims:
            self._folder.create()
            claims.enter_context(claimed(self._folder))
            beginning = self._beginning()
            directory = self._directory(beginning)
            self._require_unwritten()
            last = self._last_batch(directory, drains=drains)
            epoch = self._epoch(directory, beginning, last)
            self._begin_run(directory, epoch, last)
            first = directory.first_epoch
            taken = TakenOffsets.left(self._checkpoint, None if first is None else first.begun)
            if taken is not None:
                if not taken.is_committed:
                    self._run_first_batch(taken)
                taken.finish()
                self._begin_run(directory, epoch, last)
            self._fill_sink_log()
            if self._plans_batch(drains=drains, available_now=available_now):
                plan_without_rows(self._checkpoint, _now_ms())
            query = self._started(available_now=available_now, once=once)
            release = threading.Thread(target=_release_at_end, args=(query, claims.pop_all()), daemon=True)
            release.start()
            _RELEASES[self._folder.place] = query, release
        return query

    def _last_batch(self, directory: StateDirectory, *, drains: bool) -> int | None:
        """Return the batch that ends event time: a new one, or one that is repeated; None: none does.

        A batch that was planned and not committed does again what it did: a sink may have its results already.
        """
        committed, planned = last_committed(self._checkpoint), last_planned(self._checkpoint)
        if planned != committed:
            before = max(directory.runs().values(), key=lambda run: run.number, default=None)
            return planned if before is not None and before.drains == planned else None
        return committed + 1 if drains and committed is not None else None

    def _plans_batch(self, *, drains: bool, available_now: bool) -> bool:
        """Whether the query begins with a batch without rows, of its own: Spark plans none before there are rows.

        It drains, lets timers fire, or commits an upgrade. A batch that is planned already is
        carried out first, and is not replaced.
        """
        if last_planned(self._checkpoint) != last_committed(self._checkpoint):
            return False
        is_due = self._wake_ms is not None and (not available_now or self._wake_ms <= _now_ms())
        return drains or is_due or self._is_upgraded

    def _begin_run(self, directory: StateDirectory, epoch: Epoch, last: int | None) -> None:
        directory.begin_run(
            self._job.token,
            epoch=epoch.number,
            retained=int(self._spark.conf.get(_RETAINED) or 100),
            after_batch=last_committed(self._checkpoint),
            attempts=self._attempts,
            sources=self._sources,
            drains=last,
        )

    def _run_first_batch(self, taken: TakenOffsets) -> None:
        """Run the first batch without rows, so that the second one begins at the offsets that are taken over."""
        writer: Any = self._writer._jwrite  # noqa: SLF001 - only Java has its trigger
        trigger = writer.getClass().getDeclaredField("trigger")
        trigger.setAccessible(True)
        own = trigger.get(writer)
        with _settings(self._spark, self._settings()):
            taken.plan(self._spark)
            self._writer.trigger(once=True)
            try:
                self._configured().start().awaitTermination()
            finally:
                writer.trigger(own)

    def _started(self, *, available_now: bool, once: bool) -> StreamingQuery:
        writer, settings = self._configured(), self._settings()
        if available_now or once:
            writer = writer.trigger(availableNow=True) if available_now else writer.trigger(once=True)
            settings[_NO_DATA] = "false"  # else Spark goes on to wake the slots for ever
        with _settings(self._spark, settings):
            return writer.start()

    def _configured(self) -> DataStreamWriter:
        writer = self._writer.option("checkpointLocation", self._job.checkpoint)
        return writer.outputMode(self._job.plan.output_mode)

    def _settings(self) -> dict[str, str]:
        # Spark keeps the partitions of the first start. By default there are 200, each of which costs 10 ms a batch.
        settings = {_PARTITIONS: str(self._partitions)}
        if TRANSFORM in self._job.carriers.values() and _HDFS in (self._spark.conf.get(_PROVIDER) or ""):
            settings[_PROVIDER] = _ROCKSDB  # Spark has transformWithState on no other
        return settings

    def _require_allowed(self) -> None:
        """Refuse what Spark would refuse, before anything is written."""
        error = refusal(self._writer._df, self._job.plan.output_mode)  # noqa: SLF001 - as above
        if error is not None:
            first = next((uid for uid, carrier in self._job.carriers.items() if carrier == APPLY_IN_PANDAS), None)
            others = f'; {first!r} may stand in more places with carrier="{TRANSFORM}"' if first is not None else ""
            raise DeclarationError(
                f"Spark refuses the query: {str(error).splitlines()[0]}",
                advice=f"change the query or its output_mode{others}",
                written="Nothing was written.",
            ) from error
        places = list(observed(self._writer._df))  # noqa: SLF001 - as above
        times = Counter(places)
        for uid in self._job.operators:
            if times[uid] != 1:
                how = f"is {times[uid]} times in the query" if times[uid] else "is not in the query"
                raise DeclarationError(
                    f"the operator {uid!r} {how}, and its state belongs to one",
                    advice=_ONE_PLACE if times[uid] else "write its results, too; or leave it out of the job",
                    written="Nothing was written.",
                )
        self._carriers = {uid: self._job.carriers[uid] for uid in places if uid in self._job.carriers}

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

    def _beginning(self) -> Beginning | None:
        """Return the savepoint to begin with; None: there is none, or the query has begun.

        Raises:
            DeclarationError: The query has begun in another way; or it cannot begin with this savepoint.
            RestoreRefused: As `Judgement`.
        """
        wanted = self._begins
        if wanted is None:
            return None
        if self._folder.exists(STREAM_FILE):
            first = StateDirectory.open(self._folder).first_epoch
            if first is not None:
                wanted.require_begun_with(first.begun, self._folder.place)
                if self._options.edits:  # they were made to the savepoint
                    self._options = attrs.evolve(self._options, edits=Edits())
                return None
        savepoint, uids = wanted.opened(), [*self._job.operators, *self._job.sources]
        judgement = Judgement(self._job, self._options, self._how, savepoint)
        described = judgement.before
        begun = wanted.begun(savepoint, described, uids, self._sources)
        key_groups = wanted.key_groups(described, uids, self._job.max_parallelism)
        return Beginning(begun, judgement, key_groups)

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

    def _directory(self, beginning: Beginning | None) -> StateDirectory:
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
            key_groups = self._key_groups(beginning)
            check_parallelism(job.slots or 1, key_groups)
            directory = StateDirectory.create(self._folder, place, key_groups)
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
        if note.state_dir != self._folder.place and _has_id(note.state_dir, directory.id):
            raise DeclarationError(
                f"the state in {self._folder} is a copy of that in {note.state_dir}, to which {place} belongs",
                advice="pass that one; or start a new query from a savepoint, in another state directory",
                written="Nothing was written.",
            )
        if note.checkpoint != place:
            if read_note(Folder.at(note.checkpoint)) is not None:
                raise DeclarationError(
                    f"the checkpoint {place} is a copy of {note.checkpoint}, which the state in {self._folder} is of",
                    advice="two queries cannot share state: start one from a savepoint, in another state directory",
                    written="Nothing was written.",
                )
            directory = attrs.evolve(directory, checkpoint=place)
        if (note.checkpoint, note.state_dir) != (place, self._folder.place):  # they were moved
            write_note(self._checkpoint, CheckpointNote(directory.id, self._folder.place, place))
            directory.write_facts()
        if directory.last_epoch is None and directory.max_parallelism != self._key_groups(beginning):
            directory = attrs.evolve(directory, max_parallelism=self._key_groups(beginning))  # nothing is stored yet
            directory.write_facts()
        check_parallelism(job.slots or 1, directory.max_parallelism)
        if job.max_parallelism not in {None, directory.max_parallelism}:
            raise DeclarationError(
                f"the state has {directory.max_parallelism} key groups, and the job {job.max_parallelism}",
                advice=f"pass max_parallelism={directory.max_parallelism}",
                written="Nothing was written.",
            )
        return directory

    def _key_groups(self, beginning: Beginning | None) -> int:
        """Return the number of key groups of a query that begins."""
        of_savepoint = None if beginning is None else beginning.max_parallelism
        return of_savepoint or self._job.max_parallelism or DEFAULT_KEY_GROUPS

    def _epoch(self, directory: StateDirectory, beginning: Beginning | None, last: int | None) -> Epoch:
        """Return the epoch that the query runs in: the last one, or a new one where something changes.

        Args:
            directory: The state directory.
            beginning: What the query begins with; None: with no state, or it has begun.
            last: The batch that ends event time; None: none does.
        """
        before, batch = directory.last_epoch, last_committed(self._checkpoint)
        planned = last_planned(self._checkpoint)
        pinned = {} if planned is None else pinned_settings(self._checkpoint, planned)
        carriers, cores = self._carriers, self._spark.sparkContext.defaultParallelism
        slots = self._job.slots or min(cores, directory.max_parallelism)
        useful = min(max(slots, cores), int(self._spark.conf.get(_PARTITIONS) or slots))
        if before is not None and before.base:  # no batch was planned, and its slots have their partitions
            useful = before.partitions
        partitions = self._partitions = int(pinned.get(_PARTITIONS) or useful)
        # A source has its state from the last planned batch on: Spark repeats that batch, and then asks for more.
        offsets = [] if planned is None else planned_offsets(self._checkpoint, planned)
        sources = [one.manifest for one in offsets if one.manifest is not None]
        if planned is not None and {one.uid for one in offsets} != self._job.sources.keys():
            raise DeclarationError(
                f"the checkpoint {self._checkpoint.place} has offsets of {_named(one.uid for one in offsets)}, and the"
                f" job has {_named(self._job.sources)}",
                advice="keep the sources of the query, and their order; or start a new query from a savepoint",
                written="Nothing was written.",
            )
        if before is None or (batch is None and not before.base and not sources):
            number = directory.next_epoch
            epoch = Epoch(number, slots, partitions, slot_groups(slots, partitions), carriers)
            if beginning is not None:
                epoch = self._begun(directory, epoch, beginning)
            directory.begin_epoch(epoch)
            return epoch
        self._require_same_operators(before, carriers)
        manifests = []
        if batch is not None and before.carriers:
            manifests = committed_manifests(self._spark, self._checkpoint, directory)
        self._attempts = tuple(manifest.attempt for manifest in manifests)
        self._wake_ms = min((one.wake_ms for one in manifests if one.wake_ms is not None), default=None)
        written = max((manifest.epoch for manifest in manifests), default=0)
        of_state = (directory.epoch(written) if written else directory.unchanged_epoch) or before
        after = -1 if batch is None else batch
        savepoint = directory.savepoint(manifests, of_state, after, sources, for_types=True)
        ran: dict[bytes, set[int]] = {}
        for manifest in manifests:
            if manifest.epoch == of_state.number:
                ran.setdefault(manifest.operator.operator_id, set()).add(manifest.slot)
        may_end = not lacks_slots(ran, of_state)
        if last is not None and of_state.base and not (ran and may_end):
            raise DeclarationError(
                "the query cannot be drained: some of its state has had no batch since the query began or was upgraded",
                advice="run it until a batch with rows is committed: it runs all slots",
                written="Nothing was written.",
            )
        judgement = Judgement(self._job, self._options, self._how, savepoint, of_state, may_end=may_end)
        slots = self._job.slots or of_state.slots
        if not judgement.changes and slots == of_state.slots:
            return of_state
        if last is not None and slots != of_state.slots:  # Spark does not know the new slots before there are rows
            raise DeclarationError(
                f"a query cannot be drained with {slots} slots where its state has {of_state.slots}",
                advice=f"drain it with slots={of_state.slots}, and change the number at the next start",
                written="Nothing was written.",
            )
        number = directory.next_epoch
        base = str(number)
        savepoint = directory.savepoint(manifests, of_state, after, sources)
        history = write_base(directory, savepoint, base, judgement, self._spark)
        groups, of_lazy = slot_groups(slots, partitions), (judgement.lazy, judgement.lazy_types)
        epoch = Epoch(number, slots, partitions, groups, carriers, batch, base, history, *of_lazy)
        directory.begin_epoch(epoch)
        self._is_upgraded = bool(ran) and slots == of_state.slots  # Spark knows other slots when they have rows
        return epoch

    def _begun(self, directory: StateDirectory, epoch: Epoch, beginning: Beginning) -> Epoch:
        """Copy the savepoint that the query begins with, or migrate it, and return the first epoch with it."""
        base, judgement = str(epoch.number), beginning.judgement
        history = write_beginning(directory, beginning.begun.savepoint, base, judgement, self._spark)
        lazy, types = judgement.lazy, judgement.lazy_types
        return attrs.evolve(epoch, base=base, begun=beginning.begun, history=history, lazy=lazy, types=types)

    def _require_same_operators(self, before: Epoch, carriers: dict[str, str]) -> None:
        """Refuse other operators, or another order of them: Spark finds their state by their numbers in the query."""
        was_in, is_in = list(before.carriers), list(carriers)
        if len(was_in) != len(is_in) or (was_in != is_in and not self._options.edits):
            raise DeclarationError(
                f"the checkpoint has the state of the operators {', '.join(was_in)}, in this order, and the query has"
                f" {', '.join(is_in)}",
                advice="put the same operators in the same order, with the uids that they had (a uid is renamed by"
                " options); or start a new query from a savepoint",
                written="Nothing was written.",
            )
        for uid, carrier in carriers.items():
            was = before.carriers.get(uid, carrier)
            if was != carrier:
                raise DeclarationError(
                    f"the operator {uid!r} ran with the carrier {was!r}, and its checkpoint has the state of that",
                    advice="create the job without a carrier; or start a new query from a savepoint",
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _named(uids: Iterable[str]) -> str:
    """Return how a message names sources."""
    return ", ".join(f"the source {uid!r}" for uid in sorted(uids)) or "no source function"


def _has_id(place: str, directory_id: str) -> bool:
    """Whether a place still has the state directory with an id."""
    folder = Folder.at(place)
    return folder.exists(STREAM_FILE) and StateDirectory.open(folder).id == directory_id


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
