"""A subtask of an operator in this process: its backends, its clock, its results, its snapshots and restores."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError
from ..backends.heap.backend import HashMapStateBackend
from ..backends.restore import restorable, restored_facts
from ..backends.restore_check import RESTORING, RestoreRefused
from ..backends.snapshots import OperatorSnapshot, publish_snapshot
from ..publication.checkpoints import CheckpointStorage
from ..publication.commit import Commit
from ..publication.publish import Destination, all_or_nothing, check_target
from ..publication.runs import names_of
from ..runtime.output_tag import CheckedOutput
from ..storage.files import Folder
from ..task.subtask import StoredOperator, Subtask, stored_subtasks
from .mutation_guard import MutationGuard

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from ...compat.description import JobDescription
    from ..backends.keyed_backend import KeyedStateBackend
    from ..backends.restore import Migrate
    from ..migration.options import MigrationOptions
    from ..runtime.output_tag import OutputTag
    from ..runtime.runtime_context import TaskInfo
    from ..task.subtask import BackendFactory


class HarnessSnapshot(StoredOperator):
    """A snapshot of one or several subtasks of an operator.

    Attributes:
        stored: The operator, as it is in `_metadata`.
        folder: The folder of its files.
        checkpoint_id: The id of the checkpoint.
    """


class SubtaskHarness(Subtask):
    """Runs one subtask of an operator; the base class of the harnesses.

    It opens the function with the first element, watermark or time, or with `open`. As a context manager it opens and
    closes it.

    Args:
        function: The function.
        key_type: The type hint or serializer of the keys; None: the operator is not keyed.
        backend: Creates the keyed backend.
        task: The subtask; by default the only one.
        uid: The uid of the operator in savepoints.
        detect_mutation: Whether values are looked for that are changed after they were handed to a keyed state.

    Attributes:
        records: The results with their time stamps; None: it has none.
        task: The subtask.
        key_groups: Its key groups.
        operator: The declared operator, with the uid.
        checkpoint_id: The id of the last snapshot that was taken or restored; 0: there was none.
        restored: What the lineage of the next snapshot says about the last restore.
    """

    _output_class = CheckedOutput

    def __init__(
        self,
        function: Any,
        key_type: Any = None,
        *,
        backend: BackendFactory = HashMapStateBackend,
        task: TaskInfo | None = None,
        uid: str = "harness",
        detect_mutation: bool = False,
    ) -> None:
        super().__init__(function, key_type, backend=backend, task=task, uid=uid)
        self.records: list[tuple[Any, int | None]] = []
        self._detects_mutation = detect_mutation
        self._side: dict[OutputTag, list[Any]] = {}
        self._now_ms = 0
        self.restored: dict[str, Any] = {}
        self._begin(())

    def _seen(self, backend: KeyedStateBackend) -> Any:
        if isinstance(backend, HashMapStateBackend):
            backend.checks_values = True
        return MutationGuard(backend) if self._detects_mutation else backend

    def __enter__(self) -> Any:
        try:
            self.open()
        except BaseException:
            self._is_open = False  # the function was not opened, so it is not closed
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def output(self) -> list[Any]:
        """The results so far."""
        return [value for value, _ in self.records]

    def take(self) -> list[Any]:
        """Return the results since the last call, and forget them; side outputs stay."""
        taken, self.records = self.output, []
        return taken

    def side_output(self, tag: OutputTag) -> list[Any]:
        """Return the results of a side output so far."""
        return self._side.get(tag, [])

    def current_processing_time(self) -> int:
        """Return the time of the clock in milliseconds; it begins at 0 and stands still, but for `advance`."""
        return self._now_ms

    def snapshot(
        self, place: str | os.PathLike[str] | CheckpointStorage | None = None, *, is_checkpoint: bool = False
    ) -> HarnessSnapshot:
        """Take a snapshot of the state at this moment; the function can go on.

        Args:
            place: A folder for it, which then has `_metadata`, too; None: a temporary one, for this process. In a
                `CheckpointStorage` the snapshot is the next checkpoint.
            is_checkpoint: Whether it has the backend's own format, and not the canonical one; in a `CheckpointStorage`
                it always has.

        Raises:
            TargetExists: The folder has a savepoint, or files of others.
            ValueNotConvertible: A value does not fit its type.
        """
        return snapshot_together([self], place, is_checkpoint=is_checkpoint)

    def migrate_some(self, most: int) -> int:
        """Go on with lazy migrations; arguments and result are those of the backend's method."""
        return 0 if self._backend is None else self._backend.migrate_some(most)

    def left_to_migrate(self) -> dict[str, int]:
        """Return the numbers of entries that are still in an old form, by state; with 0 they are moved once more."""
        return {} if self._backend is None else self._backend.left_to_migrate()

    def notify_checkpoint_complete(self, checkpoint_id: int | None = None) -> None:
        """Notify function and backend that a checkpoint is complete; by default the last one.

        The next incremental checkpoint of RocksDB writes only files that the last complete one does not have.
        """
        super().notify_checkpoint_complete(checkpoint_id or self.checkpoint_id)

    def restore(
        self,
        *snapshots: HarnessSnapshot,
        function: Any = None,
        migrate: bool | Migrate = False,
        lazy: bool | Collection[str] = (),
        options: MigrationOptions = RESTORING,
    ) -> None:
        """Start again from the state of all former subtasks, as after a failure; records and clock stay.

        The keyed state of other key groups, and the other subtasks' shares of operator state, are left out. The
        function is opened: then its states are known, and checked against the stored ones.

        Args:
            snapshots: One for all subtasks, or those of the subtasks in their order.
            function: The function to go on with; None: the same object, which is opened again.
            migrate: Whether state is migrated where the function needs that, into a new folder beside the snapshot. The
                function is then closed and opened once more. True does it in this process; a function such as
                `stateshift.spark.migrate.migrate` is called for it.
            lazy: The names of keyed states that are migrated lazily where they need a migration; True: all. Their
                values get the new type when they are written, or by `migrate_some` of the backend. The heap backend
                migrates them when it reads them, at once. If the types change again before that is over, `migrate` is
                needed, too: what is left first gets the types in between, as if it had been touched.
            options: The options of the check and the migration: states to rename or drop, the policy, trust.

        Raises:
            RestoreRefused: The function cannot go on from the state, or not without a migration; the error has the
                report. The harness is then closed.
            DeclarationError: A migration is needed, and no snapshot has all subtasks.
        """
        self.close()
        self._function = self._function if function is None else function
        try:
            self._open_restored(snapshots, options, lazy)
        except RestoreRefused as refused:
            check = self._check
            self.close()
            if migrate and check is not None and check.left:
                finished = _finished(snapshots, check.former_job, migrate)
                self.restore(finished, migrate=migrate, lazy=lazy, options=options)
                return
            if not migrate or check is None or refused.report.decision is not Decision.MIGRATE:
                raise
            snapshots = (_migrated(snapshots, check.job, options, migrate=migrate),)
            self._open_restored(snapshots)
        except BaseException:
            self._is_open = False  # the function was not opened, so it is not closed
            self.close()
            raise
        self.restored = restored_facts(snapshots[0].savepoint) if snapshots and snapshots[0].is_whole else {}
        if self._check is not None and self._check.lazy_states:
            self.restored["job"] = f"a running job, which migrates lazily: {', '.join(self._check.lazy_states)}"

    def _open_restored(
        self,
        snapshots: Sequence[HarnessSnapshot],
        options: MigrationOptions = RESTORING,
        lazy: bool | Collection[str] = (),  # noqa: FBT001 - as in `restore`
    ) -> None:
        self._begin(snapshots, options, lazy)
        self.open()

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self.records.append((value, timestamp))

    def _collect_side(self, tag: OutputTag, value: Any, _: int | None) -> None:
        self._side.setdefault(tag, []).append(value)


def _finished(
    snapshots: Sequence[StoredOperator],
    job: JobDescription,
    migrate: bool | Migrate,  # noqa: FBT001 - as in `restore`
) -> HarnessSnapshot:
    """Return the snapshot in which what lazy migrations have left has the types to which they go."""
    try:
        return _migrated(snapshots, job, RESTORING, migrate=migrate)
    except RestoreRefused as refused:
        refused.advice = (
            "restore once with the types of that migration, and lazy=…, which notes what their code declares (older"
            " releases did not); take a snapshot, and restore that one"
        )
        raise


def _migrated(
    snapshots: Sequence[StoredOperator], job: JobDescription, options: MigrationOptions, *, migrate: bool | Migrate
) -> HarnessSnapshot:
    """Return the snapshot that a migration wrote."""
    (operator,) = job.operators
    if len(snapshots) > 1 or not snapshots[0].is_whole:
        raise DeclarationError(
            "a migration needs one snapshot of all subtasks", advice="take it with snapshot_together"
        )
    found = restorable(snapshots[0].savepoint, job, migrate=migrate, options=options)
    return HarnessSnapshot.of(found, operator.operator_id)


def snapshot_together(
    harnesses: Sequence[SubtaskHarness],
    place: str | os.PathLike[str] | CheckpointStorage | None = None,
    *,
    is_checkpoint: bool = False,
) -> HarnessSnapshot:
    """Take one snapshot of subtasks of an operator; of all of them, it is a savepoint or checkpoint.

    Args:
        harnesses: The subtasks in their order.
        place: As for `SubtaskHarness.snapshot`.
        is_checkpoint: As for `SubtaskHarness.snapshot`.

    Raises:
        TargetExists: The folder has a savepoint, or files of others.
    """
    checkpoint_id = max(harness.checkpoint_id for harness in harnesses) + 1
    if isinstance(place, CheckpointStorage):
        checkpoint_id = max(checkpoint_id, place.next_id)
        with place.checkpoint(checkpoint_id) as folder:
            return _taken(harnesses, checkpoint_id, folder, is_checkpoint=True, shared=place.shared)
    where = tempfile.mkdtemp(prefix="stateshift-harness-") if place is None else str(place)
    folder = Folder.at(where)
    if len(harnesses) == harnesses[0].task.parallelism:
        with all_or_nothing(Destination(folder, names_of([harnesses[0].operator.id]))) as claim:
            snapshot = _taken(harnesses, checkpoint_id, claim.folder, is_checkpoint=is_checkpoint)
    else:
        check_target(folder)
        folder.create()
        snapshot = _taken(harnesses, checkpoint_id, folder, is_checkpoint=is_checkpoint)
    if place is None:
        weakref.finalize(snapshot, shutil.rmtree, where, ignore_errors=True)
    return snapshot


def _taken(
    harnesses: Sequence[SubtaskHarness],
    checkpoint_id: int,
    folder: Folder,
    *,
    is_checkpoint: bool,
    shared: Folder | None = None,
) -> HarnessSnapshot:
    """Write a snapshot of some subtasks into a folder."""
    first, commit = harnesses[0], Commit(folder)
    parts = [harness.write(checkpoint_id, commit, is_checkpoint=is_checkpoint, shared=shared) for harness in harnesses]
    if len(parts) == first.task.parallelism:
        operator = OperatorSnapshot(first.operator, first.task.max_parallelism, parts)
        publish_snapshot(commit, [operator], checkpoint_id, is_checkpoint=is_checkpoint, **first.restored)
    return HarnessSnapshot(stored_subtasks(harnesses, parts), folder, checkpoint_id)
