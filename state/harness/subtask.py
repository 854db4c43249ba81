"""A subtask of an operator in this process: its backends, its clock, its results, its snapshots and restores."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import OperatorDescription
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError
from ...serializers.hints import serializer_for
from ..backends.heap.backend import HashMapStateBackend
from ..backends.operator_state import OperatorStateBackend
from ..backends.publishing import OperatorSnapshot, SubtaskSnapshot, publish_snapshot
from ..backends.raw_state import read_raw_keyed, read_raw_operator, write_raw_keyed, write_raw_operator
from ..backends.restore_check import RESTORING, RestoreCheck, RestoreRefused
from ..backends.restoring import restorable, restore_keyed, restored_facts
from ..backends.snapshots import SavepointStrategy, SnapshotResult, SnapshotTarget
from ..job import Operator
from ..key_groups import key_group_range
from ..runtime.checkpointed import (
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    initialize_state,
    snapshot_state,
)
from ..runtime.output_tag import Output
from ..runtime.runtime_context import RuntimeContext, TaskInfo
from ..runtime.windows.windowed_stream import WindowOperation
from ..savepoint.metadata import METADATA, SavepointMetadata
from ..savepoint.reader import Savepoint
from ..savepoint.redistribution import deal_out_at_start
from ..storage.checkpoints import CheckpointStorage
from ..storage.commit import Commit
from ..storage.files import Folder
from ..storage.publish import stream_name
from .mutation_guard import MutationGuard

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import TracebackType

    from ...compat.description import JobDescription
    from ...serializers.serializer import TypeSerializer
    from ..backends.keyed_backend import KeyedStateBackend
    from ..backends.restoring import Migrate
    from ..migration.options import MigrationOptions
    from ..runtime.output_tag import OutputTag
    from ..savepoint.metadata import OperatorState
    from ..savepoint.redistribution import Share

    BackendFactory = Callable[[TypeSerializer[Any], int, range], KeyedStateBackend]
    """Called with the serializer of the keys, the number of key groups, and those of the subtask."""


@attrs.frozen(eq=False, slots=False)
class HarnessSnapshot:
    """A snapshot of one or several subtasks of an operator.

    Attributes:
        stored: The operator, as it is in `_metadata`.
        folder: The folder of its files.
        checkpoint_id: The id of the checkpoint.
    """

    stored: OperatorState
    folder: Folder
    checkpoint_id: int

    @classmethod
    def of(cls, savepoint: Savepoint, uid: str) -> HarnessSnapshot:
        """Return the state of an operator in a savepoint or checkpoint, such as Flink's.

        Args:
            savepoint: The savepoint.
            uid: The uid or id of the operator.

        Raises:
            StateNotFound: There is no such operator.
        """
        return cls(savepoint.operator(uid).stored, savepoint.folder, savepoint.metadata.checkpoint_id)

    @cached_property
    def savepoint(self) -> Savepoint:
        """The savepoint or checkpoint; one of this operator alone where not all subtasks are in the snapshot."""
        if self.is_whole:
            return Savepoint.open(self.folder.place, allow_roots=self.folder.roots)
        return Savepoint(self.folder, SavepointMetadata.new((self.stored,), self.checkpoint_id))

    @property
    def is_whole(self) -> bool:
        """Whether all subtasks are in the snapshot."""
        return self.folder.exists(METADATA)


class SubtaskHarness(ABC):
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
        self.records: list[tuple[Any, int | None]] = []
        self._function = function
        self._key = None if key_type is None else serializer_for(key_type)
        self._factory = backend
        self.task = task or TaskInfo()
        self.key_groups = key_group_range(self.task.index, self.task.parallelism, self.task.max_parallelism)
        self.operator = Operator(uid)
        self._detects_mutation = detect_mutation
        self._side: dict[OutputTag, list[Any]] = {}
        self._now_ms = 0
        self.checkpoint_id = 0
        self.restored: dict[str, Any] = {}
        self._is_open = False
        self._begin(())

    @abstractmethod
    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        """Create the operator."""

    @abstractmethod
    def _start(self) -> None:
        """Open the operator."""

    @abstractmethod
    def _end(self) -> None:
        """Close the operator."""

    def _begin(
        self,
        snapshots: Sequence[HarnessSnapshot],
        options: MigrationOptions = RESTORING,
        lazy: bool | Collection[str] = (),  # noqa: FBT001 - as in `restore`
    ) -> None:
        """Create what a start creates: the backends with what is restored, the context, the operator."""
        task = self.task
        self.checkpoint_id = max((snapshot.checkpoint_id for snapshot in snapshots), default=self.checkpoint_id)
        self._check = _check_of(snapshots, self._key, options, lazy) if snapshots else None
        key = self._key if self._check is None else self._check.key
        self._is_disposed = False
        self._backend: Any = None if key is None else self._factory(key, task.max_parallelism, self.key_groups)
        self._operator_states = OperatorStateBackend(self._check)
        if self._backend is not None:
            for snapshot in snapshots:
                restore_keyed(self._backend, snapshot.stored, snapshot.folder)
            self._backend.restore_check = self._check
        for snapshot, shares in self._shares(snapshots, "managed_operator"):
            self._operator_states.restore(shares, snapshot.folder)
        seen = MutationGuard(self._backend) if self._detects_mutation and self._backend is not None else self._backend
        context = RuntimeContext(task, seen, self.current_processing_time)
        self._create(context, seen, Output(self._collect, self._collect_side))
        initialize_state(
            self._stateful,
            FunctionInitializationContext(
                operator_states=self._operator_states,
                keyed_states=context,
                restored_checkpoint_id=snapshots[0].checkpoint_id if snapshots else None,
                raw_keyed=tuple(self._raw_keyed(snapshots)),
                raw_operator=tuple(
                    part
                    for snapshot, shares in self._shares(snapshots, "raw_operator")
                    for part in read_raw_operator(shares, snapshot.folder)
                ),
            ),
        )

    @property
    def _stateful(self) -> Any:
        """The function that may have operator state; that of windows is within their operation."""
        return self._function.function if isinstance(self._function, WindowOperation) else self._function

    def _shares(self, snapshots: Sequence[HarnessSnapshot], part: str) -> Iterator[tuple[HarnessSnapshot, list[Share]]]:
        """Yield this subtask's shares of a part of operator state, by snapshot."""
        found = [
            (snapshot, handle)
            for snapshot in snapshots
            for subtask in sorted(snapshot.stored.subtasks, key=lambda one: one.index)
            if (handle := getattr(subtask, part)) is not None
        ]
        dealt = deal_out_at_start([handle for _, handle in found], self.task.parallelism)
        for (snapshot, _), share in zip(found, dealt[self.task.index] if dealt else (), strict=False):
            yield snapshot, [share]

    def _raw_keyed(self, snapshots: Sequence[HarnessSnapshot]) -> Iterator[tuple[int, bytes]]:
        for snapshot in snapshots:
            for subtask in snapshot.stored.subtasks:
                if subtask.raw_keyed is not None:
                    yield from read_raw_keyed(subtask.raw_keyed, snapshot.folder, self.key_groups)

    def __enter__(self) -> Any:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the function; if it is open, nothing happens."""
        if not self._is_open:
            self._is_open = True
            self._start()
            if self._check is not None:
                self._check.finish()

    def close(self) -> None:
        """Close the function, and drop the backend; closing it twice is harmless."""
        if self._is_open:
            self._is_open = False
            self._end()
        if self._backend is not None and not self._is_disposed:
            self._is_disposed = True
            self._backend.dispose()

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
            ValueNotConvertible: A value does not fit its type.
        """
        return snapshot_together([self], place, is_checkpoint=is_checkpoint)

    def migrate_some(self, most: int) -> int:
        """Go on with lazy migrations; arguments and result are those of the backend's method."""
        return 0 if self._backend is None else self._backend.migrate_some(most)

    def left_to_migrate(self) -> dict[str, int]:
        """Return the numbers of entries that lazy migrations have still to move, by state."""
        return {} if self._backend is None else self._backend.left_to_migrate()

    def notify_checkpoint_complete(self, checkpoint_id: int | None = None) -> None:
        """Notify function and backend that a checkpoint is complete; by default the last one.

        The next incremental checkpoint of RocksDB writes only files that the last complete one does not have.
        """
        checkpoint_id = checkpoint_id or self.checkpoint_id
        if self._backend is not None:
            self._backend.checkpoint_strategy().notify_checkpoint_complete(checkpoint_id)
        if isinstance(self._stateful, CheckpointListener):
            self._stateful.notify_checkpoint_complete(checkpoint_id)

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
                migrates them when it reads them, at once.
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

    def write(
        self, checkpoint_id: int, commit: Commit, *, is_checkpoint: bool, shared: Folder | None = None
    ) -> SubtaskSnapshot:
        """Write the state of the subtask as a part of a snapshot; raises as `snapshot`.

        Args:
            checkpoint_id: The id of the snapshot.
            commit: The snapshot.
            is_checkpoint: As for `snapshot`.
            shared: The folder for files that later checkpoints use, too; None: there is none.
        """
        self.open()
        self.checkpoint_id = checkpoint_id
        context = FunctionSnapshotContext(checkpoint_id, self._now_ms)
        snapshot_state(self._stateful, context, self._operator_states)
        named = partial(stream_name, self.operator.id, subtask=self.task.index)
        keyed = SnapshotResult()
        if self._backend is not None:
            strategy = self._backend.checkpoint_strategy() if is_checkpoint else SavepointStrategy(self._backend)
            future = strategy.snapshot(SnapshotTarget(checkpoint_id, self._now_ms, commit, named("keyed"), shared))
            future.run()
            keyed = future.result()
        return SubtaskSnapshot(
            keyed,
            self._operator_states.write(commit, named("operator")),
            write_raw_keyed(context.raw_keyed, self.key_groups, commit, named("raw-keyed")),
            write_raw_operator(context.raw_operator, commit, named("raw-operator")),
        )

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self.records.append((value, timestamp))

    def _collect_side(self, tag: OutputTag, value: Any, _: int | None) -> None:
        self._side.setdefault(tag, []).append(value)


def _check_of(
    snapshots: Sequence[HarnessSnapshot],
    key: TypeSerializer[Any] | None,
    options: MigrationOptions,
    lazy: bool | Collection[str],  # noqa: FBT001 - as in `restore`
) -> RestoreCheck:
    """Return the check against the operator of some snapshots, with the states of all of them."""
    trust = {"trust_stored_serializers": options.trust_stored_serializers, "trust": options.trust}
    described = [snapshot.savepoint.describe(**trust) for snapshot in snapshots]  # type: ignore[arg-type]
    ids = [snapshot.stored.operator_id.hex() for snapshot in snapshots]
    operators = [
        next((one for one in side.operators if one.operator_id == wanted), OperatorDescription(wanted))
        for side, wanted in zip(described, ids, strict=True)
    ]
    states = {(state.kind.scope, state.name): state for one in reversed(operators) for state in one.states}
    first = next((one for one in operators if one.key is not None), operators[0])
    return RestoreCheck(described[0].origin, attrs.evolve(first, states=tuple(states.values())), key, options, lazy)


def _migrated(
    snapshots: Sequence[HarnessSnapshot], job: JobDescription, options: MigrationOptions, *, migrate: bool | Migrate
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
    """
    checkpoint_id = max(harness.checkpoint_id for harness in harnesses) + 1
    if isinstance(place, CheckpointStorage):
        checkpoint_id = max(checkpoint_id, place.next_id)
        with place.checkpoint(checkpoint_id) as folder:
            return _taken(harnesses, checkpoint_id, folder, is_checkpoint=True, shared=place.shared)
    where = tempfile.mkdtemp(prefix="stateshift-harness-") if place is None else str(place)
    folder = Folder.at(where)
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
    operator = OperatorSnapshot(first.operator, first.task.max_parallelism, parts)
    stored = operator.state()
    if len(parts) == first.task.parallelism:
        publish_snapshot(commit, [operator], checkpoint_id, is_checkpoint=is_checkpoint, **first.restored)
    else:
        numbered = zip(stored.subtasks, harnesses, strict=True)
        subtasks = tuple(attrs.evolve(subtask, index=harness.task.index) for subtask, harness in numbered)
        stored = attrs.evolve(stored, parallelism=first.task.parallelism, subtasks=subtasks)
    return HarnessSnapshot(stored, folder, checkpoint_id)
