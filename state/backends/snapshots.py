"""How keyed state becomes a snapshot, in Flink's two parts.

    resources = strategy.sync_prepare_resources(checkpoint_id)    short; the function stands still
    result = strategy.async_snapshot(resources, target)           on a thread of its own; the function goes on
    resources.release()                                           in every ending

There is one savepoint strategy for all backends, and a checkpoint strategy for each. Source: FLIP-41; runtime notes,
section 3.

The parts that the subtasks of a job wrote become one `_metadata`:

    commit = Commit(folder)
    … each subtask of each operator writes, and has a SubtaskSnapshot …
    publish_snapshot(commit, [OperatorSnapshot(operator, 128, subtasks)], checkpoint_id=3, is_checkpoint=True)
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, final

import attrs

from ..formats.flink.handles import CANONICAL, NATIVE, KeyGroupsHandle
from ..formats.flink.heap_native_writer import NativeStreamWriter
from ..formats.flink.keyed_stream import KeyedStreamWriter
from ..formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState
from ..formats.flink.properties import CHECKPOINT_PROPERTIES
from ..formats.flink.state_kinds import keyed_kind
from ..publication.lineage import StateCount
from ..publication.sink import StreamSink
from .state_types import unexpired_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..job import Operator
    from ..publication.commit import Commit
    from ..publication.lineage import Lineage
    from ..storage.files import Folder
    from .keyed_backend import FrozenState, KeyedStateBackend

T = TypeVar("T")

_WORK_S = 0.002
_REST = 1.0
"""The rest after each piece of work, as a part of the processor time that it took. Both threads share one interpreter:
so the function keeps some 60 % of its throughput, and the snapshot takes at least three times as long as without it."""


class SnapshotResources(Protocol):
    """What the synchronous part holds for the asynchronous part."""

    def release(self) -> None:
        """Drop it; calling it twice is harmless."""


R = TypeVar("R", bound=SnapshotResources)


@attrs.frozen
class SnapshotResult:
    """The keyed state of one subtask in a snapshot.

    Attributes:
        handle: The handle for `_metadata`; None where there is no keyed state.
        counts: The states with the numbers of their entries; empty where these were not counted.
    """

    handle: KeyedHandle | None = None
    counts: tuple[tuple[StateMetaInfo, int], ...] = ()


class SnapshotTarget:
    """Where the asynchronous part writes.

    Args:
        checkpoint_id: The id of the checkpoint.
        timestamp: When it was triggered: milliseconds since 1970 UTC.
        commit: The new snapshot.
        name: The name of the subtask's stream (`stream_name`).
        shared: The folder for files that later checkpoints use, too; None: everything is written through `commit`.
    """

    def __init__(
        self, checkpoint_id: int, timestamp: int, commit: Commit, name: str, shared: Folder | None = None
    ) -> None:
        self.checkpoint_id, self.timestamp, self.commit, self.name = checkpoint_id, timestamp, commit, name
        self.shared = shared
        self._function_thread = threading.get_ident()
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """End the asynchronous part at its next step."""
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise `CancelledError` if the snapshot was cancelled."""
        if self._is_cancelled.is_set():
            raise CancelledError

    def steps(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and rest between them if that lets the function work; raises as `check`."""
        begin = time.thread_time()
        for item in items:
            self.check()
            yield item
            worked = time.thread_time() - begin
            if worked >= _WORK_S:
                if threading.get_ident() != self._function_thread:
                    time.sleep(worked * _REST)
                begin = time.thread_time()
        self.check()


class SnapshotFuture(Future[SnapshotResult]):
    """A snapshot whose synchronous part is over: `run` it on any thread, or `cancel` it."""

    def __init__(self, strategy: SnapshotStrategy[Any], resources: SnapshotResources, target: SnapshotTarget) -> None:
        super().__init__()
        self._strategy, self._resources, self._target = strategy, resources, target

    def run(self) -> None:
        """Do the asynchronous part, unless it was cancelled; the resources are released in every ending."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._strategy.async_snapshot(self._resources, self._target)
        except BaseException as error:  # noqa: BLE001 - it is raised by `result`
            self._resources.release()
            self.set_exception(error)
        else:
            self._resources.release()
            self.set_result(result)

    def cancel(self) -> bool:
        """Cancel the snapshot; one that is running ends at its next step with `CancelledError`, and this is False."""
        if super().cancel():
            self._resources.release()
            return True
        self._target.cancel()
        return False


class SnapshotStrategy(ABC, Generic[R]):
    """How the keyed state of a subtask is written."""

    @abstractmethod
    def sync_prepare_resources(self, checkpoint_id: int) -> R:
        """Hold the state as it is now; it must be short, because the function stands still meanwhile."""

    @abstractmethod
    def async_snapshot(self, resources: R, target: SnapshotTarget) -> SnapshotResult:
        """Write what the resources hold, while the function goes on.

        Raises:
            ValueNotConvertible: A value does not fit its type.
            StorageFailed: The storage does not take it.
            CancelledError: The snapshot was cancelled.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Take note that a checkpoint is complete, so that later ones may use its files."""

    @final
    def snapshot(self, target: SnapshotTarget) -> SnapshotFuture:
        """Do the synchronous part on the thread of the function, and return the asynchronous part to be run."""
        return SnapshotFuture(self, self.sync_prepare_resources(target.checkpoint_id), target)


class _FullStrategy(SnapshotStrategy["FrozenState"]):
    """A strategy that writes all entries as one stream.

    Args:
        backend: The backend.
        compressed: Whether the stream is compressed, as with Flink's `execution.checkpointing.snapshot-compression`.
    """

    tag: ClassVar[int]

    def __init__(self, backend: KeyedStateBackend, *, compressed: bool = False) -> None:
        self._backend, self._compressed = backend, compressed

    def sync_prepare_resources(self, checkpoint_id: int) -> FrozenState:
        return self._backend.freeze()

    def async_snapshot(self, resources: FrozenState, target: SnapshotTarget) -> SnapshotResult:
        header, key_groups = attrs.evolve(resources.header, compressed=self._compressed), self._backend.key_groups
        if not header.states:
            return SnapshotResult()
        with StreamSink(target.commit.folder, target.name) as sink:
            writer = self._writer(header, sink)
            for block in target.steps(unexpired_blocks(resources, self._backend.expired)):
                writer.add(block)
            offsets = writer.finish()
            stream = target.commit.stream(sink.finish())
        handle_id = str(uuid.uuid4()) if self.tag == NATIVE else ""
        handle = KeyGroupsHandle(self.tag, key_groups.start, offsets, stream, handle_id)
        return SnapshotResult(handle, tuple(zip(header.states, writer.entries, strict=True)))

    @abstractmethod
    def _writer(self, header: KeyedStreamHeader, sink: StreamSink) -> KeyedStreamWriter | NativeStreamWriter:
        """Return what writes blocks to a stream."""


@final
class SavepointStrategy(_FullStrategy):
    """Writes the canonical format, which restores into every backend, ours and Flink's."""

    tag = CANONICAL

    def _writer(self, header: KeyedStreamHeader, sink: StreamSink) -> KeyedStreamWriter:
        return KeyedStreamWriter(header, self._backend.key_groups, sink.write)


class HeapCheckpointStrategy(_FullStrategy):
    """Writes the format of Flink's heap backend, whole in each checkpoint; Flink's other backends do not restore it."""

    tag = NATIVE

    def _writer(self, header: KeyedStreamHeader, sink: StreamSink) -> NativeStreamWriter:
        return NativeStreamWriter(header, self._backend.key_groups, self._backend.max_parallelism, sink.write)


@attrs.frozen
class SubtaskSnapshot:
    """What one subtask wrote.

    Attributes:
        keyed: Its keyed state and timers.
        lists: Its list and broadcast state.
        raw_keyed: Keyed state that the operator wrote itself.
        raw_operator: Operator state that the operator wrote itself.
    """

    keyed: SnapshotResult = attrs.field(factory=SnapshotResult)
    lists: OperatorStateHandle | None = None
    raw_keyed: KeyedHandle | None = None
    raw_operator: OperatorStateHandle | None = None


@attrs.frozen
class OperatorSnapshot:
    """What all subtasks of an operator wrote.

    Attributes:
        operator: The operator; only its uid, id and name matter.
        max_parallelism: The number of key groups.
        subtasks: The subtasks in their order; their number is the parallelism.
    """

    operator: Operator
    max_parallelism: int
    subtasks: Sequence[SubtaskSnapshot]

    def state(self) -> OperatorState:
        """Return the operator's part of `_metadata`."""
        subtasks = tuple(
            SubtaskState(
                index,
                managed_keyed=subtask.keyed.handle,
                managed_operator=subtask.lists,
                raw_keyed=subtask.raw_keyed,
                raw_operator=subtask.raw_operator,
            )
            for index, subtask in enumerate(self.subtasks)
        )
        identity = bytes.fromhex(self.operator.id), len(subtasks), self.max_parallelism
        return OperatorState(*identity, self.operator.name, self.operator.uid, subtasks=subtasks)

    def counts(self) -> list[StateCount]:
        """Return the numbers of entries of the keyed states, for the lineage."""
        entries = Counter[tuple[str, str]]()
        for subtask in self.subtasks:
            for info, count in subtask.keyed.counts:
                entries[info.name, str(keyed_kind(info))] += count
        operator = self.operator
        return [
            StateCount(operator.id, operator.uid, name, kind, "write", 0, count)
            for (name, kind), count in entries.items()
        ]


def publish_snapshot(
    commit: Commit,
    operators: Iterable[OperatorSnapshot],
    checkpoint_id: int = 1,
    *,
    is_checkpoint: bool = False,
    job: str = "a running job",
    **facts: Any,
) -> Lineage:
    """Write `_metadata`, which makes the folder of the commit a savepoint or checkpoint; return its lineage.

    Args:
        commit: The commit, through which all parts were written.
        operators: All operators that have state.
        checkpoint_id: The id of the checkpoint.
        is_checkpoint: Whether it is a checkpoint; Flink may remove one that it has claimed.
        job: The origin of the types, in words.
        facts: Further attributes of the lineage: what `restored_facts` returned.
    """
    all_of_them = list(operators)
    metadata = SavepointMetadata.new(tuple(operator.state() for operator in all_of_them), checkpoint_id)
    if is_checkpoint:
        metadata = attrs.evolve(metadata, properties=CHECKPOINT_PROPERTIES)
    counts = [count for operator in all_of_them for count in operator.counts()]
    return commit.publish(metadata, job=job, states=counts, **facts)
