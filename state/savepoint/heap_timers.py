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
from .handles import NO_OFFSET, KeyGroupsHandle
from .sources import open_stream

if TYPE_CHECKING:
    from ..storage.files import Folder
    from .handles import KeyedHandle
    from .metadata import OperatorState
    from .reader import Savepoint, SavepointOperator

_MARK = bytes.fromhex("f1cd859f")
_SAVEPOINT = b"org.apache.flink.runtime.checkpoint.SavepointType"
MISSING = (
    "there are no timers: Flink leaves timers that a job keeps on the heap (timer-service.factory: HEAP) out of native "
    "savepoints; if this job sets timers, use its last checkpoint, or take a canonical savepoint"
)


def has_heap_timers(stored: OperatorState, folder: Folder) -> bool:
    """Whether the raw keyed state of an operator is timers; it is not where that cannot be read."""
    with suppress(StateShiftError):
        return any(_is_marked(subtask.raw_keyed, folder) for subtask in stored.subtasks if subtask.raw_keyed)
    return False


def _is_marked(handle: KeyedHandle, folder: Folder) -> bool:
    if not isinstance(handle, KeyGroupsHandle) or NO_OFFSET in handle.offsets or not handle.offsets:
        return False  # timers leave no key group out
    with open_stream(handle.stream, folder) as source:
        return source.read_at(handle.offsets[0], len(_MARK)) == _MARK


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
