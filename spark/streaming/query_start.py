"""The start of a query: it finds the state, checks the functions against it, and chooses the epoch."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.edits import Edits
from ...serializers.errors import DeclarationError
from ...state.directory.claims import query_claimed
from ...state.directory.directory import STREAM_FILE, Epoch, StateDirectory
from ...state.formats.spark.commit_log import last_committed, last_planned, plan_without_rows
from ...state.storage.files import Folder
from .blobs import slot_groups
from .carriers import APPLY_IN_PANDAS, TRANSFORM, refusal
from .initial_savepoint import Beginning
from .metrics import observed
from .ownership import await_release, owned, release_at_end, require_key_groups, settled
from .query_plan import DEFAULT_KEY_GROUPS
from .stored_query import Stored
from .taken_offsets import TakenOffsets, source_kinds
from .upgrade import HOW, UpgradeJudgement, require_openable, write_base, write_beginning
from .writers import QueryWriter, changed_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.migration.options import MigrationOptions
    from .initial_savepoint import FromSavepoint
    from .job import StreamJob

_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_BATCH_BYTES, _MOST_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch", 16 << 20
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_PROVIDER, _HDFS = "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_ONE_PLACE = (
    "use its results once: let the function yield all that is wanted, with side outputs, and write them with"
    " foreachBatch and split_outputs"
)


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
        self._job, self._how, self._options, self._begins = job, on_incompatible, options, begins
        self._checkpoint, self._folder = Folder.at(job.checkpoint), Folder.at(job.state_dir)
        self._writer = QueryWriter(writer, self._checkpoint, job.plan.output_mode)
        self._spark = self._writer.spark
        self._sources = source_kinds(self._writer.results)
        self._carriers: dict[str, str] = {}  # in the order in which Spark numbers operators

    def query(self, *, available_now: bool) -> StreamingQuery:
        """Check, decide on the epoch, and start the query; the state directory is claimed until it ends.

        Args:
            available_now: Whether it ends when it has processed all present rows; the trigger of the writer says so,
                too.
        """
        return self._query(available_now=available_now or self._writer.ends_when_done)

    def drain(self) -> None:
        """Finish an unfinished batch, if there is one, and end event time in a further batch."""
        committed = last_committed(self._checkpoint)
        if committed is None:
            raise DeclarationError.before_writing(
                f"the query with the checkpoint {self._checkpoint} has no committed batch, so nothing is left to fire",
                advice="start it first: job.start(writer, available_now=True)",
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
        await_release(self._folder.place)
        with ExitStack() as claims:
            claims.enter_context(query_claimed(self._folder))
            directory, beginning = self._directory()
            last = self._last_batch(directory, drains=drains)
            stored = Stored(self._spark, self._checkpoint, directory)
            choice = EpochChoice(self._job, stored, self._how, self._options, self._carriers, last is not None)
            epoch, is_upgraded = choice.epoch(beginning)
            settings = self._settings(choice.partitions)

            def begin_run() -> None:
                directory.begin_run(
                    self._job.token,
                    epoch=epoch.number,
                    retained=int(self._spark.conf.get(_RETAINED) or 100),
                    after_batch=last_committed(self._checkpoint),
                    attempts=stored.attempts,
                    sources=self._sources,
                    drains=last,
                )

            begin_run()
            first = directory.first_epoch
            typed = (self._folder, *(() if self._begins is None else (self._begins.folder,)))
            taken = TakenOffsets.left(self._checkpoint, None if first is None else first.begun, *typed)
            if taken is not None:
                if not taken.is_committed:
                    self._run_first_batch(taken, settings)
                taken.finish()
                begin_run()
            self._writer.fill_sink_log()
            is_due = stored.wake_ms is not None and (not available_now or stored.wake_ms <= _now_ms())
            if (drains or is_due or is_upgraded) and last_planned(self._checkpoint) == last_committed(self._checkpoint):
                # Spark plans no batch without rows before there were some, to drain, fire timers or commit an upgrade.
                plan_without_rows(self._checkpoint, _now_ms())
            query = self._started(settings, available_now=available_now, once=once)
            release_at_end(self._folder.place, query, claims.pop_all())
        return query

    def _directory(self) -> tuple[StateDirectory, Beginning | None]:
        """Return the state directory, and the savepoint to begin with. A refusal has written nothing."""
        directory = owned(self._folder, self._checkpoint)
        beginning = self._beginning(directory)
        of_savepoint = None if beginning is None else beginning.max_parallelism
        wanted = of_savepoint or self._job.max_parallelism or DEFAULT_KEY_GROUPS
        key_groups = require_key_groups(directory, self._job, wanted)
        self._writer.require_unwritten()
        if beginning is None and (directory is None or directory.last_epoch is None):
            require_openable(self._job)
        return settled(directory, self._folder, self._checkpoint, key_groups), beginning

    def _last_batch(self, directory: StateDirectory, *, drains: bool) -> int | None:
        """Return the batch that ends event time: a new one, or one that is repeated; None: none does.

        A batch that was planned and not committed does again what it did: a sink may have its results already.
        """
        committed, planned = last_committed(self._checkpoint), last_planned(self._checkpoint)
        if planned != committed:
            before = max(directory.runs().values(), key=lambda run: run.number, default=None)
            return planned if before is not None and before.drains == planned else None
        return committed + 1 if drains and committed is not None else None

    def _run_first_batch(self, taken: TakenOffsets, settings: dict[str, str]) -> None:
        """Run the first batch without rows, so that the second one begins at the offsets that are taken over."""
        with changed_settings(self._spark, settings):
            taken.plan(self._spark)
            self._writer.start_once().awaitTermination()

    def _started(self, settings: dict[str, str], *, available_now: bool, once: bool) -> StreamingQuery:
        writer = self._writer.configured()
        if available_now or once:
            writer = writer.trigger(availableNow=True) if available_now else writer.trigger(once=True)
            settings = {**settings, _NO_DATA: "false"}  # else Spark goes on to wake the slots for ever
        from .running_query import RunningQuery

        with changed_settings(self._spark, settings):
            return RunningQuery.of(writer.start())

    def _settings(self, partitions: int) -> dict[str, str]:
        # Spark keeps the partitions of the first start. By default there are 200, each of which costs 10 ms a batch.
        settings = {PARTITIONS: str(partitions)}
        java: Any = self._spark._jsparkSession  # noqa: SLF001 - it reads sizes of all spellings
        if java.sessionState().conf().arrowMaxBytesPerBatch() > _MOST_BATCH_BYTES:
            settings[_BATCH_BYTES] = str(_MOST_BATCH_BYTES)  # blobs are held by a worker twice: as Arrow and as bytes
        if TRANSFORM in self._job.carriers.values() and _HDFS in (self._spark.conf.get(_PROVIDER) or ""):
            settings[_PROVIDER] = _ROCKSDB  # Spark has transformWithState on no other
        return settings

    def _require_allowed(self) -> None:
        """Refuse what Spark would refuse, before anything is written."""
        self._writer.require_unset()
        results = self._writer.results
        places = list(observed(results))
        times = Counter(places)
        for uid in self._job.operators:
            if times[uid] > 1:
                raise DeclarationError.before_writing(
                    f"the results of the operator {uid!r} are used {times[uid]} times in the query: Spark would run it"
                    " as often, and its state belongs to one",
                    advice=_ONE_PLACE,
                )
            if not times[uid]:
                raise DeclarationError.before_writing(
                    f"the operator {uid!r} is not in the query",
                    advice="write its results, too; or leave it out of the job",
                )
        error = refusal(results, self._job.plan.output_mode)
        if error is not None:
            first = next((uid for uid, carrier in self._job.carriers.items() if carrier == APPLY_IN_PANDAS), None)
            others = f'; {first!r} may stand in more places with carrier="{TRANSFORM}"' if first is not None else ""
            raise DeclarationError.before_writing(
                f"Spark refuses the query: {str(error).splitlines()[0]}",
                advice=f"change the query or its output_mode{others}",
            ) from error
        self._carriers = {uid: self._job.carriers[uid] for uid in places if uid in self._job.carriers}

    def _beginning(self, directory: StateDirectory | None) -> Beginning | None:
        """Return the savepoint to begin with; None: there is none, or the query has begun.

        Raises:
            DeclarationError: The query has begun in another way; or it cannot begin with this savepoint.
            RestoreRefused: As `UpgradeJudgement`.
        """
        wanted = self._begins
        if wanted is None:
            return None
        first = None if directory is None else directory.first_epoch
        if first is not None:
            wanted.require_begun_with(first.begun, self._folder.place)
            if self._options.edits:  # they were made to the savepoint
                self._options = attrs.evolve(self._options, edits=Edits())
            return None
        savepoint, uids = wanted.opened(), [*self._job.operators, *self._job.sources]
        judgement = UpgradeJudgement(self._job, self._options, self._how, savepoint)
        described = judgement.before
        begun = wanted.begun(savepoint, described, uids, self._sources, (self._checkpoint, self._folder))
        key_groups = wanted.key_groups(described, uids, self._job.max_parallelism)
        return Beginning(begun, judgement, key_groups, wanted.allow_roots)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


PARTITIONS = "spark.sql.shuffle.partitions"


@attrs.frozen(slots=False)
class EpochChoice:
    """The choice of the epoch of a start.

    Attributes:
        job: The job.
        stored: What is stored of its query.
        how: What may be done where state needs a migration.
        options: The options of the check and the migration.
        carriers: How Spark calls the operators, in the order in which it numbers them.
        drains: Whether the query is started for the batch that ends event time.
    """

    job: StreamJob
    stored: Stored
    how: str
    options: MigrationOptions
    carriers: dict[str, str]
    drains: bool

    @property
    def _cores(self) -> int:
        return self.stored.spark.sparkContext.defaultParallelism

    @property
    def _first_slots(self) -> int:
        return self.job.slots or min(self._cores, self.stored.directory.max_parallelism)

    @cached_property
    def partitions(self) -> int:
        """The number of Spark's partitions of state, which stays that of the first start."""
        before, slots = self.stored.epoch, self._first_slots
        useful = min(max(slots, self._cores), int(self.stored.spark.conf.get(PARTITIONS) or slots))
        if before is not None and before.base:  # no batch was planned, and its slots have their partitions
            useful = before.partitions
        return int(self.stored.pinned.get(PARTITIONS) or useful)

    def epoch(self, beginning: Beginning | None) -> tuple[Epoch, bool]:
        """Return the epoch, and whether a batch has to commit an upgrade in it; a new epoch is recorded.

        Args:
            beginning: What the query begins with; None: with no state, or it has begun.

        Raises:
            RestoreRefused: As `UpgradeJudgement`.
            DeclarationError: Sources or operators are not those of the query, or it cannot be drained.
        """
        stored = self.stored
        stored.require_sources(self.job.sources)
        if stored.is_new:
            judgement = None if beginning is None else beginning.judgement
            return self._begun(self._first_slots, judgement, beginning), False
        stored.require_operators(self.carriers, renamed=bool(self.options.edits))
        before = stored.state_epoch
        self._require_drainable(before)
        savepoint = stored.savepoint(for_types=True)
        judgement = UpgradeJudgement(self.job, self.options, self.how, savepoint, before, may_end=stored.all_ran)
        slots = self.job.slots or before.slots
        if not judgement.changes and slots == before.slots:
            return before, False
        if self.drains and slots != before.slots:  # Spark does not know the new slots before there are rows
            raise DeclarationError.before_writing(
                f"a query cannot be drained with {slots} slots where its state has {before.slots}",
                advice=f"drain it with slots={before.slots}, and change the number at the next start",
            )
        epoch = self._begun(slots, judgement)
        return epoch, bool(stored.ran) and slots == before.slots  # Spark knows other slots when they have rows

    def _begun(self, slots: int, judgement: UpgradeJudgement | None, beginning: Beginning | None = None) -> Epoch:
        """Return the next epoch after recording it.

        Args:
            slots: The number of slots.
            judgement: What the state needs that it begins with; None: it begins with none.
            beginning: The savepoint that it begins with; None: with the present state.
        """
        stored, directory = self.stored, self.stored.directory
        number, after = directory.next_epoch, None if stored.is_new else stored.batch
        epoch = Epoch(number, slots, self.partitions, slot_groups(slots, self.partitions), self.carriers, after)
        if judgement is not None:
            base = str(number)
            if beginning is None:
                history = write_base(directory, stored.savepoint(), base, judgement, stored.spark)
            else:
                place, roots = beginning.begun.savepoint, beginning.allow_roots
                history = write_beginning(directory, place, base, judgement, stored.spark, allow_roots=roots)
            begun, digest = None if beginning is None else beginning.begun, directory.digest_of_base(base)
            epoch = attrs.evolve(epoch, base=base, begun=begun, history=history, base_sha256=digest)
            epoch = attrs.evolve(epoch, lazy=judgement.lazy, types=judgement.lazy_types)
        directory.begin_epoch(epoch)
        return epoch

    def _require_drainable(self, before: Epoch) -> None:
        if self.drains and before.base and not (self.stored.ran and self.stored.all_ran):
            raise DeclarationError.before_writing(
                "the query cannot be drained: some of its state has had no batch since the query began or was upgraded",
                advice="run it until a batch with rows is committed: it runs all slots",
            )
