"""A subtask of an operator, for a function or a source: its backends, and how they are restored and written.

An engine, or the harness, says where results go and what time it is. Source: runtime notes, sections 1 to 5.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import attrs

from ...compat.description import OperatorDescription
from ...serializers.hints import serializer_for
from ...serializers.snapshot import require_registered
from ..backends.heap.backend import HashMapStateBackend
from ..backends.operator_state import (
    OperatorStateBackend,
    read_raw_keyed,
    read_raw_operator,
    write_raw_keyed,
    write_raw_operator,
)
from ..backends.restore import restore_keyed
from ..backends.restore_check import RESTORING, RestoreCheck
from ..backends.snapshots import OperatorSnapshot, SavepointStrategy, SnapshotResult, SnapshotTarget, SubtaskSnapshot
from ..formats.flink.metadata import METADATA, SavepointMetadata
from ..formats.flink.redistribution import deal_out_at_start
from ..job import Operator
from ..key_groups import key_group_range
from ..publication.publish import stream_name
from ..runtime.checkpointed import (
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    initialize_state,
    register_former_list,
    snapshot_state,
)
from ..runtime.operators import FunctionOperator
from ..runtime.output_tag import Output
from ..runtime.runtime_context import RuntimeContext, TaskInfo
from ..runtime.sources import SourceContext
from ..runtime.timer_service import Times
from ..runtime.windows.window_operator import WindowOperator
from ..runtime.windows.windowed_stream import WindowOperation
from ..savepoint.reader import Savepoint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from ...serializers.serializer import TypeSerializer
    from ..backends.keyed_backend import KeyedStateBackend
    from ..formats.flink.metadata import OperatorState
    from ..formats.flink.redistribution import Share
    from ..migration.options import MigrationOptions
    from ..publication.commit import Commit
    from ..publication.lineage import Lineage
    from ..runtime.output_tag import OutputTag
    from ..storage.files import Folder

    BackendFactory = Callable[[TypeSerializer[Any], int, range], KeyedStateBackend]
    """Called with the serializer of the keys, the number of key groups, and those of the subtask."""


@attrs.frozen(eq=False, slots=False)
class StoredOperator:
    """The state of an operator in a snapshot: of all its subtasks, or of some.

    Attributes:
        stored: The operator, as it is in `_metadata`.
        folder: The folder of its files.
        checkpoint_id: The id of the checkpoint.
        lineage: The lineage of a snapshot that is no folder of its own; None: it has none.
    """

    stored: OperatorState
    folder: Folder
    checkpoint_id: int
    lineage: Lineage | None = None

    @classmethod
    def of(cls, savepoint: Savepoint, uid: str) -> Self:
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
        return Savepoint(self.folder, SavepointMetadata.new((self.stored,), self.checkpoint_id), self.lineage)

    @property
    def is_whole(self) -> bool:
        """Whether all subtasks are in the snapshot."""
        return self.folder.exists(METADATA)


class Subtask(ABC):
    """One subtask of an operator, from its start or restore to its close.

    Args:
        function: The function.
        key_type: The type hint or serializer of the keys; None: the operator is not keyed.
        backend: Creates the keyed backend.
        task: The subtask; by default the only one.
        uid: The uid of the operator in savepoints, or its id.

    Attributes:
        task: The subtask.
        key_groups: Its key groups.
        operator: The declared operator, with the uid.
        checkpoint_id: The id of the last snapshot that was taken or restored; 0: there was none.
    """

    _output_class: type[Output] = Output

    def __init__(
        self,
        function: Any,
        key_type: Any = None,
        *,
        backend: BackendFactory = HashMapStateBackend,
        task: TaskInfo | None = None,
        uid: str,
    ) -> None:
        self._function = function
        self._key = None if key_type is None else serializer_for(key_type)
        if self._key is not None:
            require_registered(self._key.snapshot_configuration(), f"the keys of {uid!r}")
        self._factory = backend
        self.task = task or TaskInfo()
        self.key_groups = key_group_range(self.task.index, self.task.parallelism, self.task.max_parallelism)
        self.operator = Operator.named(uid)
        self.checkpoint_id = 0
        self._is_open = False
        self._backend: Any = None
        self._check: RestoreCheck | None = None

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""

    @abstractmethod
    def _collect(self, value: Any, timestamp: int | None) -> None:
        """Take a result."""

    @abstractmethod
    def _collect_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        """Take a result of a side output."""

    @abstractmethod
    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        """Create the operator."""

    @abstractmethod
    def _start(self) -> None:
        """Open the operator."""

    @abstractmethod
    def _end(self) -> None:
        """Close the operator."""

    def _seen(self, backend: KeyedStateBackend) -> KeyedStateBackend:
        """Return the backend as the function sees it."""
        return backend

    def _begin(
        self,
        snapshots: Sequence[StoredOperator],
        options: MigrationOptions = RESTORING,
        lazy: bool | Collection[str] = (),  # noqa: FBT001 - as in `restore`
    ) -> None:
        """Create what a start creates: the backends with what is restored, the context, the operator."""
        self.checkpoint_id = max((snapshot.checkpoint_id for snapshot in snapshots), default=self.checkpoint_id)
        try:
            self._set_up(snapshots, check_of(snapshots, self._key, options, lazy) if snapshots else None)
        except BaseException:
            self.close()
            raise

    def judge(self, check: RestoreCheck) -> None:
        """Open and close the function without stored state, so that a check sees all states that it registers.

        Raises:
            RestoreRefused: The function cannot go on from what the check knows, or not without a migration.
        """
        try:
            self._set_up((), check)
            register_former_list(self._stateful, self._operator_states)
            self.open()
        finally:
            self.close()

    def _set_up(self, snapshots: Sequence[StoredOperator], check: RestoreCheck | None) -> None:
        task, self._check = self.task, check
        key = self._key if self._check is None else self._check.key
        self._backend = None if key is None else self._factory(key, task.max_parallelism, self.key_groups)
        self._operator_states = OperatorStateBackend(self._check)
        if self._backend is not None:
            for snapshot in snapshots:
                restore_keyed(self._backend, snapshot.stored, snapshot.folder)
            self._backend.restore_check = self._check
        for snapshot, shares in self._shares(snapshots, "managed_operator"):
            self._operator_states.restore(shares, snapshot.folder)
        seen = None if self._backend is None else self._seen(self._backend)
        context = RuntimeContext(task, seen, self.current_processing_time)
        self._create(context, seen, self._output_class(self._collect, self._collect_side))
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

    def _shares(self, snapshots: Sequence[StoredOperator], part: str) -> Iterator[tuple[StoredOperator, list[Share]]]:
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

    def _raw_keyed(self, snapshots: Sequence[StoredOperator]) -> Iterator[tuple[int, bytes]]:
        for snapshot in snapshots:
            for subtask in snapshot.stored.subtasks:
                if subtask.raw_keyed is not None:
                    yield from read_raw_keyed(subtask.raw_keyed, snapshot.folder, self.key_groups)

    def open(self) -> None:
        """Open the function; if it is open, nothing happens."""
        if not self._is_open:
            self._is_open = True
            self._start()
            if self._check is not None:
                self._check.finish()

    def close(self) -> None:
        """Close the function, and drop the backend; closing it twice is harmless."""
        try:
            if self._is_open:
                self._is_open = False
                self._end()
        finally:
            if self._backend is not None:
                self._backend.dispose()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify function and backend that a checkpoint is complete.

        The next incremental checkpoint of RocksDB writes only files that the last complete one does not have.
        """
        if self._backend is not None:
            self._backend.checkpoint_strategy().notify_checkpoint_complete(checkpoint_id)
        if isinstance(self._stateful, CheckpointListener):
            self._stateful.notify_checkpoint_complete(checkpoint_id)

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
        context = FunctionSnapshotContext(checkpoint_id, self.current_processing_time())
        snapshot_state(self._stateful, context, self._operator_states)
        named = partial(stream_name, self.operator.id, subtask=self.task.index)
        keyed = SnapshotResult()
        if self._backend is not None:
            strategy = self._backend.checkpoint_strategy() if is_checkpoint else SavepointStrategy(self._backend)
            future = strategy.snapshot(
                SnapshotTarget(checkpoint_id, self.current_processing_time(), commit, named("keyed"), shared)
            )
            future.run()
            keyed = future.result()
        return SubtaskSnapshot(
            keyed,
            self._operator_states.write(commit, named("operator")),
            write_raw_keyed(context.raw_keyed, self.key_groups, commit, named("raw-keyed")),
            write_raw_operator(context.raw_operator, commit, named("raw-operator")),
        )


def stored_subtasks(tasks: Sequence[Subtask], written: Sequence[SubtaskSnapshot]) -> OperatorState:
    """Return the part of `_metadata` with what some subtasks wrote: their operator, with these subtasks alone."""
    first = tasks[0]
    stored = OperatorSnapshot(first.operator, first.task.max_parallelism, written).state()
    numbered = zip(stored.subtasks, tasks, strict=True)
    subtasks = tuple(attrs.evolve(subtask, index=one.task.index) for subtask, one in numbered)
    return attrs.evolve(stored, parallelism=first.task.parallelism, subtasks=subtasks)


def check_of(
    snapshots: Sequence[StoredOperator],
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


class FunctionSubtask(Subtask):
    """Calls a function for elements and timers. Subclasses set the number of its inputs."""

    _inputs: int

    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        given = context, backend, output, Times(self.current_processing_time)
        self._running: FunctionOperator | WindowOperator
        if isinstance(self._function, WindowOperation):
            self._running = WindowOperator(self._function, *given)
        else:
            broadcast = self._operator_states.get_broadcast_state
            self._running = FunctionOperator(self._function, self._inputs, *given, broadcast)

    def _start(self) -> None:
        self._running.open()

    def _end(self) -> None:
        self._running.close()

    def current_watermark(self) -> int:
        """Return the watermark of the operator in milliseconds."""
        return self._running.times.watermark

    def next_processing_time(self) -> int | None:
        """Return the time of the first timer of processing time in milliseconds; None where there is none."""
        return self._running.next_processing_time()

    def _watermark(self, timestamp: int, index: int) -> None:
        self.open()
        self._running.process_watermark(timestamp, index)


class SourceSubtask(Subtask):
    """Runs a source from `start` to `stop`. Subclasses set `lock` before anything else.

    Attributes:
        lock: The checkpoint lock; `write` takes it, too.
    """

    lock: AbstractContextManager[Any]
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    @abstractmethod
    def _watermark(self, timestamp: int) -> None:
        """Take a watermark, in milliseconds."""

    def _create(self, context: RuntimeContext, _: KeyedStateBackend | None, output: Output) -> None:
        self._context = context
        self._source_context = SourceContext(output, self._watermark, self.lock)

    def _start(self) -> None:
        self._function.open(self._context)

    def _end(self) -> None:
        self.stop()
        self._function.close()

    def start(self) -> None:
        """Run the source."""
        self.open()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function.run(self._source_context)
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self._error = error

    def stop(self) -> None:
        """Cancel the source and wait for its end; raise what it raised. Without a start, nothing happens."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._function.cancel()
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def write(
        self, checkpoint_id: int, commit: Commit, *, is_checkpoint: bool, shared: Folder | None = None
    ) -> SubtaskSnapshot:
        with self.lock:
            return super().write(checkpoint_id, commit, is_checkpoint=is_checkpoint, shared=shared)
