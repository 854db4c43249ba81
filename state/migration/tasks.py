"""What a migration is divided into: streams to write, each by one task, and what a task gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .rekey_task import RekeyTask

if TYPE_CHECKING:
    from ...compat.plan import OperatorPlan
    from ..savepoint.handles import KeyedHandle, OperatorStateHandle, OperatorStateOffsets, StreamHandle
    from ..savepoint.operator_stream import (
        OperatorStreamHeader,
    )
    from ..storage.lineage import StateCount
    from ..storage.sink import StoredBytes
    from .redistribution import Share
    from .rekey_task import Digests


@attrs.frozen
class KeyedTask:
    """Rewrite the keyed state of a range of key groups into the stream of one new subtask.

    Attributes:
        plan: Of the operator.
        title: What messages call the operator.
        subtask: Of the result.
        parallelism: Number of subtasks of the result.
        key_groups: Exactly those of the subtask.
        max_parallelism: Number of key groups of the operator.
        handles: The stored streams that hold any of them.
        digests: By the path of such a stream's file, what its digest must be; of those that this task looks at whole.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    parallelism: int
    key_groups: range
    max_parallelism: int
    handles: tuple[KeyedHandle, ...] = attrs.field(repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """About how much there is to read: of each stream the share of its key groups."""
        return sum(
            handle.stream.size * len(_common(handle.key_groups, self.key_groups)) // len(handle.key_groups)
            for handle in self.handles
        )


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


@attrs.frozen
class OperatorTask:
    """Rewrite list and broadcast states into the stream of one new subtask.

    Attributes:
        plan: Of the operator.
        title: What messages call the operator.
        subtask: Of the result.
        shares: What the subtask takes from stored streams.
        header: The states that all subtasks list where they are dealt out anew; None: those of its one stored stream.
        digests: By the path of a stored stream's file, what its digest must be.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    shares: tuple[Share, ...] = attrs.field(repr=False)
    header: OperatorStreamHeader | None = attrs.field(default=None, repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """About how much there is to read."""
        return sum(share.size_bytes for share in self.shares)


@attrs.frozen
class CopyTask:
    """Copy a file as it is.

    Attributes:
        title: What messages call the operator.
        name: What the copy is called.
        stream: The file; never inline.
        xxh128: Its digest where the source's lineage tells it, or "".
        handle: What tells of its entries or elements; None: it is raw state, of which nothing is known.
        max_parallelism: Number of key groups of the operator.
    """

    title: str
    name: str
    stream: StreamHandle
    xxh128: str = ""
    handle: KeyedHandle | OperatorStateHandle | None = attrs.field(default=None, repr=False)
    max_parallelism: int = 0

    @property
    def size_bytes(self) -> int:
        """How much there is to copy."""
        return self.stream.size


Task = KeyedTask | RekeyTask | OperatorTask | CopyTask


@attrs.frozen
class TaskResult:
    """What a task wrote.

    Attributes:
        stored: The stream, in memory or under an attempt's name.
        offsets: Of key groups, for a keyed stream.
        states: Of elements, for an operator stream.
        counts: Of each state (rule RUN-2).
        quarantine: The file with values that do not fit, under an attempt's name; None where there were none.
        sent: Where keys were written anew, of the first subtask: the counts of everything that was read for all of
            them. What the subtasks have received must be that.
        lacks_numba: Whether plain Python did it only because numba is not installed where it was done.
    """

    stored: StoredBytes
    offsets: tuple[int, ...] = attrs.field(default=(), repr=False)
    states: tuple[OperatorStateOffsets, ...] = attrs.field(default=(), repr=False)
    counts: tuple[StateCount, ...] = ()
    quarantine: StoredBytes | None = None
    sent: tuple[StateCount, ...] = ()
    lacks_numba: bool = False

    @property
    def files(self) -> tuple[StoredBytes, ...]:
        """What was written: the stream, and the quarantine where there is one."""
        return (self.stored,) if self.quarantine is None else (self.stored, self.quarantine)
