"""The tasks of an operator whose keys are all rewritten: the streams to read, and the streams to write.

Unlike other tasks, these cannot read only their own key groups: an entry may come from any of them. So the work has two
halves with a shuffle between them; see `rekeying`. Source: rule ROLE-4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..formats.flink.handles import RelativeFileHandle
from ..runner import READING_BYTES

if TYPE_CHECKING:
    from ...compat.plan import OperatorPlan
    from ..formats.flink.handles import KeyedHandle, StreamHandle
    from ..formats.flink.keyed_stream import KeyedStreamHeader

Digests = dict[str, str]
"""The 128-bit XXH3 digests of files, in hexadecimal, by path."""


@attrs.frozen
class Reading:
    """A piece of the stored keyed state of an operator.

    Attributes:
        handle: A stored stream.
        key_groups: The part of its key groups that is read.
    """

    handle: KeyedHandle
    key_groups: range

    @property
    def is_first(self) -> bool:
        """Whether it is the first piece of its stream: its reader checks the digest of the whole stream."""
        return self.key_groups.start == self.handle.key_groups.start


@attrs.frozen
class RekeyTask:
    """A task that writes the stream of one subtask of an operator whose keys are all rewritten.

    Attributes:
        plan: The plan of the operator.
        title: The name of the operator in messages.
        subtask: The index of the new subtask.
        parallelism: The number of new subtasks.
        key_groups: The key groups of the new subtask.
        max_parallelism: The number of key groups of the result.
        stored_max_parallelism: The number of key groups of the source.
        handles: All stored streams of the operator.
        header: The header of every new stream.
        digests: The expected digests of the stored streams' files, by path.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    parallelism: int
    key_groups: range
    max_parallelism: int
    stored_max_parallelism: int
    handles: tuple[KeyedHandle, ...] = attrs.field(repr=False)
    header: KeyedStreamHeader = attrs.field(repr=False)
    digests: Digests = attrs.field(factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to write: an even share."""
        return sum(handle.size for handle in self.handles) // self.parallelism

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The pieces that are read for all subtasks of the operator together."""
        return tuple(
            Reading(handle, handle.key_groups[start : start + step])
            for handle in self.handles
            for step in [_key_groups_at_once(handle)]
            for start in range(0, len(handle.key_groups), step)
        )


def _key_groups_at_once(handle: KeyedHandle) -> int:
    return max(1, len(handle.key_groups) * READING_BYTES // max(handle.size, 1))


def digest_of(digests: Digests, stream: StreamHandle) -> str:
    """Return the expected digest of a stream's file; "" if it is not checked."""
    return digests.get(stream.path, "") if isinstance(stream, RelativeFileHandle) else ""
