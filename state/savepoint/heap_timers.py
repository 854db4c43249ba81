"""Timers of jobs on RocksDB that keep them on the heap (`state.backend.rocksdb.timer-service.factory: HEAP`).

A checkpoint has them as raw keyed state: the stream of each key group begins with a mark. Flink restores them from
there whatever the backend, its kind of timers and the parallelism; so they are carried over as bytes. A native
savepoint does not have them at all: Flink loses them. Source: Flink's `InternalTimerServiceSerializationProxy`,
`PostVersionedIOReadableWritable` and `RocksDBKeyedStateBackend.requiresLegacySynchronousTimerSnapshots`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...compat.description import StateKind
from ...serializers.errors import StateShiftError
from ..formats.flink.handles import NO_OFFSET, KeyGroupsHandle
from ..formats.flink.sources import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.metadata import OperatorState
    from ..storage.files import Folder
    from .reader import Savepoint, SavepointOperator

_MARK = bytes.fromhex("f1cd859f")
_WINDOW_BYTES = 64 << 10
"""How many bytes are read at once: on a store each read is a request, and key groups are often small."""
_SAVEPOINT = b"org.apache.flink.runtime.checkpoint.SavepointType"
MISSING = (
    "there are no timers: Flink leaves timers that a job keeps on the heap (timer-service.factory: HEAP) out of native "
    "savepoints; if this job sets timers, use its last checkpoint, or take a canonical savepoint"
)


def has_heap_timers(stored: OperatorState, folder: Folder) -> bool:
    """Whether the raw keyed state of an operator is timers; it is not where that cannot be read."""
    handles = [subtask.raw_keyed for subtask in stored.subtasks if subtask.raw_keyed is not None]
    with suppress(StateShiftError):
        return any(next((has for _, has in _marks(handle, folder)), False) for handle in handles)
    return False


def unmarked_timers(stored: OperatorState, folder: Folder) -> str:
    """Return the streams that lack the mark of timers although others of the operator have it, in words, or "".

    Each stream is named by its subtask, with the first key group that lacks the mark.

    Raises:
        StateShiftError: A stream cannot be read.
    """
    marks = {one.index: list(_marks(one.raw_keyed, folder)) for one in stored.subtasks if one.raw_keyed is not None}
    if not any(has for found in marks.values() for _, has in found):
        return ""
    lacking = {index: next((group for group, has in found if not has), None) for index, found in marks.items()}
    return ", ".join(
        f"subtask {index}" + ("" if group is None else f" at key group {group:,}")
        for index, group in sorted(lacking.items())
        if group is not None or not marks[index]
    )


def _marks(handle: KeyedHandle, folder: Folder) -> Iterator[tuple[int, bool]]:
    """Yield each key group of a stream, and whether its part begins with the mark; nothing if it cannot be timers."""
    if not isinstance(handle, KeyGroupsHandle) or NO_OFFSET in handle.offsets:
        return  # timers leave no key group out
    with open_stream(handle.stream, folder) as source:
        start, data = 0, b""
        for group, offset in zip(handle.key_groups, handle.offsets, strict=True):
            if not start <= offset <= start + len(data) - len(_MARK):
                left = source.size - offset  # positions in state that is no timers may mean anything
                start, data = offset, source.read_at(offset, min(_WINDOW_BYTES, left)) if left > 0 else b""
            yield group, data[offset - start :][: len(_MARK)] == _MARK


def missing_timers(savepoint: Savepoint) -> str:
    """Return a warning if a native savepoint has no timers but may be of a job that sets some, or "".

    It is "" for a damaged savepoint, too.

    A job keeps all its timers in one place, and a database has a queue for each timer service, even for one without
    timers. So one queue in any operator shows that none are missing.
    """
    operators = [operator for operator in savepoint.operators if operator.keyed_format == "database"]
    is_native_savepoint = operators and _SAVEPOINT in savepoint.metadata.properties
    with suppress(StateShiftError):
        return MISSING if is_native_savepoint and not any(map(_may_have_timers, operators)) else ""
    return ""


def _may_have_timers(operator: SavepointOperator) -> bool:
    return bool(operator.unreadable_keyed) or any(state.kind is StateKind.TIMERS for state in operator.states)
