"""What there is to do where all keys of an operator are written anew: which streams are read, and which are written.

Unlike other tasks these cannot read only what belongs to their own key groups: an entry may come from anywhere. So the
work has two halves with a shuffle between them; see `rekeying`. Source: rule ROLE-4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..savepoint.handles import RelativeFileHandle

if TYPE_CHECKING:
    from ...compat.plan import OperatorPlan
    from ..savepoint.handles import KeyedHandle, StreamHandle
    from ..savepoint.keyed_stream import KeyedStreamHeader

Digests = dict[str, str]
"""By the path of a file, its XXH3 of 128 bits, in hexadecimal."""
READING_BYTES = 64 << 20
"""About how much of a stored stream is read by one task."""


@attrs.frozen
class Reading:
    """A piece of the stored keyed state of an operator.

    Attributes:
        handle: A stored stream.
        key_groups: Those of its key groups that are read.
    """

    handle: KeyedHandle
    key_groups: range

    @property
    def is_first(self) -> bool:
        """Whether it is the first piece of its stream: whoever reads it looks at the digest of the whole."""
        return self.key_groups.start == self.handle.key_groups.start


@attrs.frozen
class RekeyTask:
    """Write the stream of one subtask of an operator whose keys are all written anew.

    Attributes:
        plan: Of the operator.
        title: What messages call the operator.
        subtask: Of the result.
        parallelism: Number of subtasks of the result.
        key_groups: Exactly those of the subtask.
        max_parallelism: Number of key groups of the result.
        stored_max_parallelism: Number of key groups of the source.
        handles: All stored streams of the operator.
        header: Of every stream of the result.
        digests: By the path of a stored stream's file, what its digest must be.
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
        """About how much there is to write: an even share."""
        return sum(handle.stream.size for handle in self.handles) // self.parallelism

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is read for all subtasks of the operator together."""
        return tuple(
            Reading(handle, handle.key_groups[start : start + step])
            for handle in self.handles
            for step in [_key_groups_at_once(handle)]
            for start in range(0, len(handle.key_groups), step)
        )


def _key_groups_at_once(handle: KeyedHandle) -> int:
    return max(1, len(handle.key_groups) * READING_BYTES // max(handle.stream.size, 1))


def digest_of(digests: Digests, stream: StreamHandle) -> str:
    """Give what the digest of a stream's file must be; "" where that is not to be looked at."""
    return digests.get(stream.path, "") if isinstance(stream, RelativeFileHandle) else ""
