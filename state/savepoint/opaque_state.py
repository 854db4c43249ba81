"""State that is carried over as bytes, since only the operator itself can read it: raw state, that of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from xxhash import xxh3_128

from ..formats.flink.sources import open_stream
from .heap_timers import has_heap_timers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.metadata import OperatorState
    from ..storage.files import Folder

COORDINATOR, RAW_KEYED, RAW_OPERATOR = "coordinator state", "raw keyed state", "raw operator state"


@attrs.frozen
class CarriedState:
    """State of one kind of an operator.

    Attributes:
        kind: `COORDINATOR`, `RAW_KEYED` or `RAW_OPERATOR`.
        what: The kind in words, with what is known of its content.
        streams: The streams, by the subtask that has them; that of a coordinator by "coordinator".
        offsets: What the handle of each stream says of positions in it; it is part of the state.
        is_timers: Whether it is the timers of a job that keeps them on the heap, which Flink reads by itself.
    """

    kind: str
    what: str
    streams: dict[str, StreamHandle] = attrs.field(repr=False)
    offsets: dict[str, Any] = attrs.field(factory=dict, repr=False)
    is_timers: bool = False

    @property
    def size_bytes(self) -> int:
        """The number of bytes of all streams."""
        return sum(stream.size for stream in self.streams.values())

    def content(self, folder: Folder) -> dict[str, tuple[str, Any]]:
        """Return digest and offsets of each stream; a stream that cannot be read is an error of `open_stream`."""
        return {name: (_digest(stream, folder), self.offsets.get(name)) for name, stream in self.streams.items()}


def carried_states(stored: OperatorState, folder: Folder) -> Iterator[CarriedState]:
    """Yield the state of an operator that is carried over as bytes, by its kind; nothing is read but a mark of timers.

    Args:
        stored: The operator's entry in `_metadata`.
        folder: The folder of the savepoint.
    """
    if stored.coordinator is not None:
        yield CarriedState(COORDINATOR, COORDINATOR, {"coordinator": stored.coordinator})
    subtasks = sorted(stored.subtasks, key=lambda subtask: subtask.index)
    keyed = {f"subtask {one.index}": one.raw_keyed for one in subtasks if one.raw_keyed is not None}
    if keyed:
        is_timers = has_heap_timers(stored, folder)
        timers = " (timers that the job kept on the heap)" if is_timers else ""
        offsets = {name: (handle.key_groups, getattr(handle, "offsets", ())) for name, handle in keyed.items()}
        streams = {name: handle.stream for name, handle in keyed.items()}
        yield CarriedState(RAW_KEYED, RAW_KEYED + timers, streams, offsets, is_timers)
    others = {f"subtask {one.index}": one.raw_operator for one in subtasks if one.raw_operator is not None}
    if others:
        streams = {name: handle.stream for name, handle in others.items()}
        yield CarriedState(RAW_OPERATOR, RAW_OPERATOR, streams, {name: one.states for name, one in others.items()})


def _digest(stream: StreamHandle, folder: Folder) -> str:
    digest = xxh3_128()
    with open_stream(stream, folder) as source:
        for piece in source.pieces():
            digest.update(piece)
    return digest.hexdigest()
