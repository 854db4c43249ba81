"""A keyed state backend over any sorted store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ..entry_keys import decode
from ..savepoint.database_stream import DatabaseStreamReader
from ..key_groups import prefix_size
from ..savepoint.meta_info import NAMESPACE_SERIALIZER
from ..savepoint.state_kinds import entry_key_format, info_snapshot
from ..timers import TimerServiceDescriptor, queue_name
from ..transcode.choice import ExecutorName
from .key_bytes import CurrentKey, namespace_bytes
from .keyed_backend import KeyedStateBackend
from .registered_states import RegisteredStates
from .sorted_handles import (
    SortedAggregatingState,
    SortedListState,
    SortedMapState,
    SortedReducingState,
    SortedValueState,
)
from .sorted_timers import HELD_TIMERS, SortedTimerQueue
from .write_cache import WriteCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...serializers.serializer import TypeSerializer
    from ..descriptors import StateDescriptor
    from ..runtime.states import State
    from ..savepoint.keyed_readers import KeyedReader
    from ..timers import TimeDomain
    from .sorted_store import SortedStore, SortedView
    from .write_cache import CachedTable

CACHE_BYTES = 32 << 20
"""The size of the write-back cache by default."""

_HANDLES: dict[StateKind, Callable[..., Any]] = {
    StateKind.VALUE: SortedValueState,
    StateKind.LIST: SortedListState,
    StateKind.MAP: SortedMapState,
    StateKind.REDUCING: SortedReducingState,
    StateKind.AGGREGATING: SortedAggregatingState,
}


@attrs.frozen(slots=False)
class FrozenTables(DatabaseStreamReader):
    """A frozen sorted backend; it is read as the database of a stored subtask is."""

    _view: SortedView = attrs.field(kw_only=True)

    def release(self) -> None:
        """Let the store drop what it kept for this; calling it twice is harmless."""
        self._view.release()


class SortedStateBackend(KeyedStateBackend):
    """The keyed state of one subtask in a sorted store.

    Args:
        store: The store, whose tables get the names of the states.
        key: The serializer of the keys.
        max_parallelism: The number of key groups of the operator.
        key_groups: Those of this subtask.
        cache_bytes: The size of the write-back cache.
        heap_timers: Whether all timers are held in memory, and are written to the store when the backend is frozen.
        held_timers: How many timers of a key group are held in memory if not all of them are.
    """

    def __init__(
        self,
        store: SortedStore,
        key: TypeSerializer[Any],
        max_parallelism: int,
        key_groups: range,
        *,
        cache_bytes: int = CACHE_BYTES,
        heap_timers: bool = False,
        held_timers: int = HELD_TIMERS,
    ) -> None:
        self.key, self.max_parallelism, self.key_groups = key, max_parallelism, key_groups
        self._store = store
        self._current = CurrentKey(key, max_parallelism, key_groups)
        self._states = RegisteredStates(key)
        self._cache = WriteCache(cache_bytes)
        self._timer_cache = WriteCache(sys.maxsize) if heap_timers else self._cache
        self._tables: dict[str, CachedTable] = {}
        self._handles: dict[str, State] = {}
        self._queues: dict[str, SortedTimerQueue] = {}
        self._held_timers = sys.maxsize if heap_timers else held_timers

    @property
    def current_key(self) -> Any:
        """The key that all handles follow."""
        return self._current.key

    def set_current_key(self, key: Any) -> None:
        self._current.set(key)

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> State:
        self._states.register(descriptor.describe())
        handle = self._handles.get(descriptor.name)
        if handle is None:
            table = self._table(descriptor.name, self._cache)
            handle = _HANDLES[descriptor.kind](descriptor, self.key, self._current, table)
            self._handles[descriptor.name] = handle
        return handle

    def create_timer_queue(
        self, service: str, domain: TimeDomain, namespace: TypeSerializer[Any]
    ) -> SortedTimerQueue:
        descriptions = TimerServiceDescriptor(service, namespace=namespace).describe(self.key)
        description = next(one for one in descriptions if one.name == queue_name(service, domain))
        self._states.register(description)
        if description.name not in self._queues:
            self._queues[description.name] = SortedTimerQueue(
                self._table(description.name, self._timer_cache),
                self._current,
                self.key_groups,
                self.key,
                namespace,
                self._held_timers,
            )
        return self._queues[description.name]

    def get_keys(self, state: str, namespace: Any) -> Iterator[Any]:
        info = self._states[state]
        form = entry_key_format(info, self.key, self.max_parallelism)
        wanted = namespace_bytes(info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer(), namespace)
        before: bytes | None = None
        for keys, _ in self._table(state, self._cache).items(*self._bounds()):
            for entry in map(form.split, keys):
                if entry.namespace == wanted and entry.key != before:
                    before = entry.key
                    yield decode(self.key, entry.key)

    def freeze(self) -> FrozenTables:
        self.flush()
        view, prefix = self._store.freeze(), prefix_size(self.max_parallelism)
        name = f"the live state of key groups {self.key_groups.start} to {self.key_groups.stop - 1}"
        return FrozenTables(self._states.header(), name, ExecutorName.PLAIN, view, self.key_groups, prefix, view=view)

    def flush(self) -> None:
        """Write what is held in memory to the store."""
        if self._timer_cache is not self._cache:
            self._timer_cache.empty()
        self._cache.flush()

    def restore(self, stored: KeyedReader) -> None:
        self._states.restore(stored.header)
        tables = [self._store.table(info.name) for info in stored.header.states]
        for block in stored.blocks(self.key_groups):
            tables[block.state_id].write(dict(block.items()))

    def dispose(self) -> None:
        self._store.close()

    def _table(self, name: str, cache: WriteCache) -> CachedTable:
        if name not in self._tables:
            self._tables[name] = cache.table(self._store.table(name))
        return self._tables[name]

    def _bounds(self) -> tuple[bytes, bytes]:
        """Return the first key of all entries, and a key after all of them."""
        start, stop = self.key_groups.start, self.key_groups.stop
        return start.to_bytes(self._current.prefix, "big"), stop.to_bytes(self._current.prefix, "big")
