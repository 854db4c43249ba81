"""The start of a query: whose state it is, whether its functions can go on from it, and in which epoch it runs."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import JobDescription, OperatorDescription
from ...compat.edits import Edits
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError
from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.restore_check import RestoreCheck, RestoreRefused
from ...state.job import Operator
from ...state.savepoint.metadata import METADATA, write_metadata
from ...state.storage.files import Folder
from ...state.storage.target_lock import claimed
from ...state.streaming.commit_log import (
    CheckpointNote,
    last_committed,
    last_planned,
    pinned_settings,
    read_note,
    write_note,
)
from ...state.streaming.directory import STREAM_FILE, Epoch, StateDirectory
from ...state.streaming.slot import OperatorSpec, SlotTask
from .carriers import TRANSFORM
from .grouping import slot_groups
from .manifests import committed_manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.migration.options import MigrationOptions
    from ...state.savepoint.reader import Savepoint
    from .job import StreamJob

_PARTITIONS, _RETAINED = "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_PROVIDER, _HDFS = "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_RELEASES: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process on each state directory, and the thread that releases the directory after it."""


class Start:
    """One start of a job's query."""

    def __init__(
        self, job: StreamJob, writer: DataStreamWriter, on_incompatible: str, options: MigrationOptions
    ) -> None:
        if not job.operators:
            raise DeclarationError("the job has no operator", advice="call stream(df).key_by(…).process(…) first")
        if on_incompatible not in {"refuse", "migrate"}:
            raise DeclarationError(f"{on_incompatible!r} is not what can be done", advice="refuse or migrate")
        self._job, self._writer, self._may_migrate = job, writer, on_incompatible == "migrate"
        self._options = options
        self._spark: SparkSession = writer._spark  # noqa: SLF001 - there is no public way to the session of a writer
        self._checkpoint = Folder.at(job.checkpoint)
        self._folder = Folder.at(job.state_dir)
        self._attempts: tuple[str, ...] = ()
        self._partitions = 1

    def query(self, *, available_now: bool) -> StreamingQuery:
        """Check, decide on the epoch, and start the query; the state directory is claimed until it ends."""
        self._require_allowed()
        _await_release(self._folder.place)
        with ExitStack() as claims:
            self._folder.create()
            claims.enter_context(claimed(self._folder))
            directory = self._directory()
            epoch = self._epoch(directory)
            retained = int(self._spark.conf.get(_RETAINED) or 100)
            directory.begin_run(
                self._job.token,
                epoch=epoch.number,
                retained=retained,
                after_batch=last_committed(self._checkpoint),
                attempts=self._attempts,
            )
            query = self._started(available_now=available_now)
            release = threading.Thread(target=_release_at_end, args=(query, claims.pop_all()), daemon=True)
            release.start()
            _RELEASES[self._folder.place] = query, release
        return query

    def _started(self, *, available_now: bool) -> StreamingQuery:
        writer = self._writer.option("checkpointLocation", self._job.checkpoint)
        writer = writer.outputMode(self._job.plan.output_mode)
        # Spark keeps the partitions of the first start. By default there are 200, each of which costs 10 ms a batch.
        settings = {_PARTITIONS: str(self._partitions)}
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
        carriers = dict.fromkeys(self._job.operators, self._job.plan.carrier)
        cores = self._spark.sparkContext.defaultParallelism
        slots = self._job.slots or cores
        useful = min(max(slots, cores), int(self._spark.conf.get(_PARTITIONS) or slots))
        partitions = self._partitions = int(pinned.get(_PARTITIONS) or useful)
        if before is None or batch is None:
            epoch = Epoch(directory.next_epoch, slots, partitions, slot_groups(slots, partitions), carriers)
            directory.begin_epoch(epoch)
            return epoch
        self._require_same_carriers(before, carriers)
        manifests = committed_manifests(self._spark, self._checkpoint, directory)
        self._attempts = tuple(manifest.attempt for manifest in manifests)
        written = max((manifest.epoch for manifest in manifests), default=before.number)
        of_state = before if written == before.number else directory.epoch(written)
        savepoint = directory.savepoint(manifests, of_state, batch)
        wants = self._judged(savepoint)
        slots = self._job.slots or of_state.slots
        if wants is None and slots == of_state.slots:
            return of_state
        number = directory.next_epoch
        base = str(number)
        self._write_base(directory, savepoint, base, wants)
        epoch = Epoch(number, slots, partitions, slot_groups(slots, partitions), carriers, batch, base)
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

    def _judged(self, savepoint: Savepoint) -> JobDescription | None:
        """Return the new types where a migration is needed and allowed; None: the functions go on from the state.

        Raises:
            RestoreRefused: They cannot, or a migration is needed and not allowed.
        """
        options = self._options
        trust = {"trust_stored_serializers": options.trust_stored_serializers, "trust": options.trust}
        described = options.edits.apply(savepoint.describe(**trust))  # type: ignore[arg-type]
        found: list[OperatorDescription] = []
        migrates = bool(options.edits)
        if migrates and not self._may_migrate:
            raise DeclarationError(
                "states can only be renamed, dropped or converted by a migration",
                advice='pass on_incompatible="migrate", too',
                written="Nothing was written.",
            )
        for spec in self._job.operators.values():
            identity = Operator(spec.uid).id
            stored = next((one for one in described.operators if one.operator_id == identity), None)
            stored = stored or OperatorDescription(identity, spec.uid)
            check = RestoreCheck(described.origin, stored, spec.key, attrs.evolve(options, edits=Edits()))
            try:
                _probe(spec, self._job.functions[spec.uid]).judge(check)
            except RestoreRefused as refused:
                if refused.report.decision is Decision.REFUSE:
                    raise
                if not self._may_migrate:
                    refused.advice = (
                        'pass on_incompatible="migrate" to start: a Spark job then migrates the state, and the query'
                        " goes on where it stood"
                    )
                    raise
                migrates = True
            found += check.job.operators
        return JobDescription("the query", tuple(found)) if migrates else None

    def _write_base(
        self, directory: StateDirectory, savepoint: Savepoint, name: str, wants: JobDescription | None
    ) -> None:
        """Write the savepoint that a new epoch begins with; with new types by a migration."""
        was = directory.base(f"{name}-was" if wants is not None else name)
        was.create()
        was.write(METADATA, write_metadata(savepoint.metadata))
        if wants is not None:
            from ..migrate import migrate

            migrate(
                was.place,
                directory.base(name).place,
                wants,
                self._options,
                session=self._spark,
                allow_roots=[directory.folder.place],
            )


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


def _probe(spec: OperatorSpec, function: Any) -> SlotTask:
    """Return a task of the operator that has no files, for its states alone.

    Its function is a deep copy, and not the pickled one: unpickling a class that was pickled by value changes that
    class in the process that has it.
    """
    return SlotTask(attrs.evolve(spec, backend=HashMapStateBackend), 0, 1, function=deepcopy(function))
