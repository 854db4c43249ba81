"""The tasks of a verification: digests of files, and proofs of streams or of some key groups of a stream.

A runner runs them in threads of this process or on Spark, and they are pickled for that.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ...serializers.errors import StateShiftError
from ...serializers.wording import many
from ..formats.flink.handles import DatabaseHandle, OperatorStateHandle
from ..formats.flink.keyed_readers import keyed_reader, open_keyed
from ..formats.flink.sources import PassedOn, open_stream
from ..publication.lineage import FileDigest
from ..runner import Independent
from .stream_proofs import StreamProof, prove_stored_elements, prove_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.sources import ByteSource
    from ..runner import Conditions, Take
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .reader import SavepointOperator

PART_BYTES = 16 << 20
"""The least size of the key groups of a stream that one task proves: each task reads the stream's header."""
_BUNDLE_BYTES = 64 << 20


@attrs.frozen
class DigestTask:
    """The check of one file's digest; its answer is the problem in words, or "".

    Attributes:
        title: "": it is of no operator.
        name: The name of the file.
        expected: The digest that it should have.
    """

    name: str
    expected: FileDigest

    title: ClassVar[str] = ""

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return self.expected.size if self.expected.xxh128 else 0

    def answer(self, folder: Folder, executor: ExecutorName, take: Take, *, alone: bool) -> str:
        """Return the problem; arguments as in `StreamTask.answer`.

        Raises:
            StateShiftError: The file cannot be read.
        """
        size = folder.size(self.name)
        if size != self.expected.size:
            return f"the file has {size:,} bytes and should have {self.expected.size:,}"
        if not self.expected.xxh128:
            return ""
        with folder.open_range(self.name) as file:
            found = FileDigest.of_stream(PassedOn(file, lambda data: take(len(data))))
        return "" if found == self.expected else "the digest of the file differs"


@attrs.frozen
class StreamTask:
    """The proof of a stream, or of some key groups of a keyed one.

    Attributes:
        title: The name of the operator in messages.
        handle: The handle of the stream.
        max_parallelism: The number of key groups of the operator.
        framing_only: Whether keys and values are skipped.
        key_groups: The key groups to prove; None: all, or the stream is not keyed.
        opaque: The states of a stream of lists that no serializer reads.
    """

    title: str
    handle: KeyedHandle | OperatorStateHandle = attrs.field(repr=False)
    max_parallelism: int
    framing_only: bool
    key_groups: range | None = None
    opaque: tuple[str, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the stream is keyed."""
        return not isinstance(self.handle, OperatorStateHandle)

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read."""
        size = self.handle.size
        if self.key_groups is None or isinstance(self.handle, OperatorStateHandle):
            return size
        return size * len(self.key_groups) // max(len(self.handle.key_groups), 1)

    def answer(self, folder: Folder, executor: ExecutorName, take: Take, *, alone: bool) -> StreamProof:
        """Return the proof.

        Args:
            folder: The savepoint.
            executor: The executor of the checks.
            take: Called with the number of bytes that were read, again and again.
            alone: Whether to read in this thread, instead of in a second one.

        Raises:
            StateShiftError: As `prove_stream` and `prove_stored_elements`.
        """
        how = {"framing_only": self.framing_only, "counts": True}
        if isinstance(self.handle, DatabaseHandle):
            with open_keyed(self.handle, folder, self.max_parallelism, executor=executor) as reader:
                take(self.size_bytes)
                proof = prove_stream(reader, self.max_parallelism, self.key_groups, alone=alone, **how)
            if self.key_groups is not None and self.key_groups.start != self.handle.key_groups.start:
                proof.foreign = 0  # counted by the task of the first key groups
            return proof
        with open_stream(self.handle.stream, folder) as stream:
            source = _Measured(stream, take)
            if isinstance(self.handle, OperatorStateHandle):
                return prove_stored_elements(source, self.handle, executor, opaque=self.opaque, **how)
            reader = keyed_reader(source, self.handle, self.max_parallelism, executor)
            return prove_stream(reader, self.max_parallelism, self.key_groups, alone=alone, **how)


ProofTask = DigestTask | StreamTask
Answer = StreamProof | str | StateShiftError
"""A task's answer, or the reason why there is none."""


@attrs.frozen
class Proofs(Independent[ProofTask, Answer]):
    """The tasks of a phase of a verification; one that fails has its error as its answer."""

    keeps_failures: ClassVar[bool] = True
    again: ClassVar[str] = "verify again; nothing was written"

    @classmethod
    def of(cls, phase: str, tasks: Sequence[ProofTask], folder: Folder) -> Self:
        """Return the work of a phase."""
        return cls(tuple(tasks), folder, phase, f"verifying {folder}, {phase}, {many(len(tasks), 'task')}")

    def title(self, task: ProofTask) -> str:
        return task.title

    def perform(self, task: ProofTask, conditions: Conditions, take: Take) -> Answer:
        return task.answer(self.source, conditions.executor, take, alone=conditions.is_alone(self.source))

    def bundles(self, slots: int) -> int:
        """Return more bundles for more state: only finished bundles are reported as progress."""
        return max(slots, self.size_bytes // _BUNDLE_BYTES)


def stream_tasks(operator: SavepointOperator, part_bytes: int, *, framing_only: bool) -> Iterator[StreamTask]:
    """Yield the tasks that prove an operator's streams, whose headers can be read.

    Args:
        operator: The operator.
        part_bytes: The approximate size of the key groups that one task proves.
        framing_only: Whether keys and values are skipped.
    """
    opaque = tuple(state.name for state in operator.states if not state.kind.is_keyed and state.unsupported)
    for handle in stream_handles(operator):
        task = StreamTask(operator.title, handle, operator.max_parallelism, framing_only, opaque=opaque)
        if isinstance(handle, OperatorStateHandle):
            yield task
        else:
            parts = parts_of(handle, part_bytes)
            yield from (attrs.evolve(task, key_groups=part if len(parts) > 1 else None) for part in parts)


def stream_handles(operator: SavepointOperator) -> Iterator[KeyedHandle | OperatorStateHandle]:
    """Yield the handles of an operator's streams whose headers can be read."""
    for subtask in operator.stored.subtasks:
        if subtask.managed_keyed is not None and not operator.unreadable_keyed:
            yield subtask.managed_keyed
        if subtask.lists is not None and not operator.unreadable_lists:
            yield subtask.lists


def parts_of(handle: KeyedHandle, part_bytes: int) -> list[range]:
    """Return the key groups of a stream, divided into parts of about equal numbers."""
    groups = handle.key_groups
    count = min(max(handle.size // part_bytes, 1), max(len(groups), 1))
    bounds = [groups.start + len(groups) * part // count for part in range(count + 1)]
    return [range(*bound) for bound in pairwise(bounds)]


class _Measured:
    """A byte source that reports how many bytes are read.

    Args:
        source: The bytes.
        take: Called with the number of bytes of each read.
    """

    def __init__(self, source: ByteSource, take: Take) -> None:
        self._source, self._take = source, take
        self.name, self.size = source.name, source.size
        self.piece_bytes, self.pieces = source.piece_bytes, source.pieces

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        data = self._source.read_at(offset, size)
        self._take(len(data))
        return data
