"""The start of a query: whose state it is, whether its functions can go on from it, and in which epoch it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.description import JobDescription, OperatorDescription
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError
from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.restore_check import RestoreCheck, RestoreRefused
from ...state.job import Operator
from ...state.savepoint.metadata import METADATA, write_metadata
from ...state.storage.files import Folder
from ...state.streaming.commit_log import last_committed, last_planned, pinned_settings
from ...state.streaming.directory import STREAM_FILE, Epoch, StateDirectory
from ...state.streaming.slot import OperatorSpec, SlotTask
from .grouping import slot_groups
from .manifests import committed_manifests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.savepoint.reader import Savepoint
    from .job import StreamJob

_PARTITIONS, _RETAINED = "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


class Start:
    """One start of a job's query."""

    def __init__(self, job: StreamJob, writer: DataStreamWriter, on_incompatible: str) -> None:
        if not job.operators:
            raise DeclarationError("the job has no operator", advice="call stream(df).key_by(…).process(…) first")
        if on_incompatible not in {"refuse", "migrate"}:
            raise DeclarationError(f"{on_incompatible!r} is not what can be done", advice="refuse or migrate")
        self._job, self._writer, self._may_migrate = job, writer, on_incompatible == "migrate"
        self._spark: SparkSession = writer._spark  # noqa: SLF001 - there is no public way to the session of a writer
        self._checkpoint = Folder.at(job.checkpoint)
        self._folder = Folder.at(job.state_dir)

    def query(self, *, available_now: bool) -> StreamingQuery:
        """Check, decide on the epoch, and start the query."""
        directory = self._directory()
        epoch = self._epoch(directory)
        retained = int(self._spark.conf.get(_RETAINED) or 100)
        directory.begin_run(self._job.token, {"epoch": epoch.number, "retained": retained})
        writer = self._writer.option("checkpointLocation", self._job.checkpoint).outputMode(self._job.plan.output_mode)
        if not available_now:
            return writer.start()
        before = self._spark.conf.get(_NO_DATA)
        self._spark.conf.set(_NO_DATA, "false")
        try:
            return writer.trigger(availableNow=True).start()
        finally:
            self._spark.conf.set(_NO_DATA, before or "true")

    def _directory(self) -> StateDirectory:
        """Return the state directory; refuse one that does not belong to the checkpoint."""
        is_new_checkpoint = last_planned(self._checkpoint) is None
        if not self._folder.exists(STREAM_FILE):
            if not is_new_checkpoint:
                raise DeclarationError(
                    f"the checkpoint {self._checkpoint} has batches, but there is no state in {self._folder}",
                    advice="pass the state directory that belongs to the checkpoint, or a new checkpoint",
                    written="Nothing was written.",
                )
            return StateDirectory.create(self._folder, self._checkpoint.place, self._job.plan.max_parallelism)
        directory = StateDirectory.open(self._folder)
        if directory.checkpoint != self._checkpoint.place:
            raise DeclarationError(
                f"the state in {self._folder} belongs to the checkpoint {directory.checkpoint}, and not to"
                f" {self._checkpoint}",
                advice="pass that checkpoint; or start from a savepoint of it with a new state directory",
                written="Nothing was written.",
            )
        if directory.max_parallelism != self._job.plan.max_parallelism:
            raise DeclarationError(
                f"the state has {directory.max_parallelism} key groups, and the job {self._job.plan.max_parallelism}",
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
            number = 1 if before is None else before.number + 1
            slots = self._job.slots or self._spark.sparkContext.defaultParallelism
            epoch = Epoch(number, slots, partitions, slot_groups(slots, partitions), carriers)
            directory.begin_epoch(epoch)
            return epoch
        self._require_same_carriers(before, carriers)
        manifests = committed_manifests(self._spark, self._checkpoint, directory)
        written = max((manifest.epoch for manifest in manifests), default=before.number)
        of_state = before if written == before.number else directory.epoch(written)
        savepoint = directory.savepoint(manifests, of_state, batch)
        wants = self._judged(savepoint)
        slots = self._job.slots or of_state.slots
        if wants is None and slots == of_state.slots:
            return of_state
        base = f"base-{before.number + 1}"
        self._write_base(directory, savepoint, base, wants)
        epoch = Epoch(before.number + 1, slots, partitions, slot_groups(slots, partitions), carriers, batch, base)
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
        described = savepoint.describe()
        found: list[OperatorDescription] = []
        migrates = False
        for spec in self._job.operators.values():
            identity = Operator(spec.uid).id
            stored = next((one for one in described.operators if one.operator_id == identity), None)
            check = RestoreCheck(described.origin, stored or OperatorDescription(identity, spec.uid), spec.key)
            try:
                _probe(spec).judge(check)
            except RestoreRefused as refused:
                if refused.report.decision is Decision.REFUSE or not self._may_migrate:
                    raise
                migrates = True
            found += check.job.operators
        return JobDescription("the query", tuple(found)) if migrates else None

    def _write_base(
        self, directory: StateDirectory, savepoint: Savepoint, name: str, wants: JobDescription | None
    ) -> None:
        """Write the savepoint that a new epoch begins with; with new types by a migration."""
        was = directory.folder.folder(f"{name}-was" if wants is not None else name)
        was.create()
        was.write(METADATA, write_metadata(savepoint.metadata))
        if wants is not None:
            from ..migrate import migrate

            migrate(
                was.place,
                directory.folder.folder(name).place,
                wants,
                session=self._spark,
                allow_roots=[directory.folder.place],
            )


def _probe(spec: OperatorSpec) -> SlotTask:
    """Return a task of the operator that has no files, for its states alone."""
    return SlotTask(attrs.evolve(spec, backend=HashMapStateBackend), 0, 1)
