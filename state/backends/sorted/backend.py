"""A keyed state backend over any sorted store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import CorruptSavepoint, DeclarationError
from ...entry_keys import decode
from ...key_groups import prefix_size
from ...savepoint.database_stream import DatabaseStreamReader
from ...savepoint.keyed_stream import KeyedStreamHeader
from ...savepoint.meta_info import NAMESPACE_SERIALIZER, merged_info
from ...savepoint.state_kinds import entry_key_format, info_snapshot
from ...transcode.choice import ExecutorName
from ..keyed_backend import KeyedStateBackend
from ..state_types import info_of, queue_info, refuse_other_kind, refuse_other_type
from .handles import HANDLES
from .key_bytes import CurrentKey, namespace_bytes
from .timers import HELD_TIMERS, SortedTimerQueue
from .write_cache import WriteCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....serializers.serializer import TypeSerializer
    from ...descriptors import StateDescriptor
    from ...runtime.states import State
    from ...savepoint.keyed_readers import KeyedReader
    from ...savepoint.meta_info import StateMetaInfo
    from ...timers import TimeDomain
    from .store import SortedStore, SortedView
    from .write_cache import CachedTable

CACHE_BYTES = 32 << 20
"""The size of the write-back cache by default."""


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
        self._infos: dict[str, StateMetaInfo] = {}
        self._cache = WriteCache(cache_bytes)
        self._timer_cache = WriteCache(sys.maxsize) if heap_timers else self._cache
        self._handles: dict[str, State] = {}
        self._queues: dict[str, SortedTimerQueue] = {}
        self._held_timers = sys.maxsize if heap_timers else held_timers

    @property
    def current_key(self) -> Any:
        """The key that all handles follow."""
        return self._current.key

    def set_current_key(self, key: Any) -> None:
        self._current.set(key)

    def unset_current_key(self) -> None:
        self._current.unset()

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> State:
        name, info = descriptor.name, info_of(descriptor)
        self._require_same(info, is_live=name in self._handles)
        if name not in self._handles:
            table = self._table(info, self._cache)
            self._handles[name] = HANDLES[descriptor.kind](descriptor, self.key, self._current, table)
        return self._handles[name]

    def create_timer_queue(self, service: str, domain: TimeDomain, namespace: TypeSerializer[Any]) -> SortedTimerQueue:
        info = queue_info(service, domain, self.key, namespace)
        self._require_same(info, is_live=info.name in self._queues)
        if info.name not in self._queues:
            table, held = self._table(info, self._timer_cache), self._held_timers
            self._queues[info.name] = SortedTimerQueue(table, self._current, self.key_groups, self.key, namespace, held)
        return self._queues[info.name]

    def _require_same(self, info: StateMetaInfo, *, is_live: bool) -> None:
        """Refuse another type than that of the handle, or another kind than that of the restored state, of a name."""
        if info.name in self._infos:
            (refuse_other_type if is_live else refuse_other_kind)(self._infos[info.name], info)

    def _table(self, info: StateMetaInfo, cache: WriteCache) -> CachedTable:
        """Return the table of a new handle; its types replace those of a restored state, which they can read."""
        self._infos[info.name] = info
        return cache.table(self._store.table(info.name))

    def get_keys(self, state: str, namespace: Any) -> Iterator[Any]:
        if state not in self._infos:
            return
        info = self._infos[state]
        form = entry_key_format(info, self.key, self.max_parallelism)
        wanted = namespace_bytes(info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer(), namespace)
        self._cache.flush()
        before: bytes | None = None
        for keys, _ in self._store.table(state).items(*self._bounds()):
            for entry in map(form.split, keys):
                if entry.namespace == wanted and entry.key != before:
                    before = entry.key
                    yield decode(self.key, entry.key)

    def freeze(self) -> FrozenTables:
        self.flush()
        view, prefix = self._store.freeze(), prefix_size(self.max_parallelism)
        name = f"the live state of key groups {self.key_groups.start} to {self.key_groups.stop - 1}"
        return FrozenTables(self.header, name, ExecutorName.PLAIN, view, self.key_groups, prefix, view=view)

    @property
    def header(self) -> KeyedStreamHeader:
        """The key snapshot and the states."""
        return KeyedStreamHeader(self.key.snapshot_configuration(), tuple(self._infos.values()))

    def flush(self) -> None:
        """Write what is held in memory to the store."""
        if self._timer_cache is not self._cache:
            self._timer_cache.flush()
        self._cache.flush()

    def restore(self, stored: KeyedReader) -> None:
        for info in stored.header.states:
            self.add_stored(info)
        tables = [self._store.table(info.name) for info in stored.header.states]
        for block in stored.blocks(self.key_groups):
            tables[block.state_id].write(dict(block.items()))

    def add_stored(self, info: StateMetaInfo) -> None:
        """Add the description of a restored state.

        Raises:
            DeclarationError: The state has a handle already.
            CorruptSavepoint: Another subtask described it in another way.
        """
        if info.name in self._handles or info.name in self._queues:
            raise DeclarationError(
                f"the state {info.name!r} is in use already", advice="restore a backend before its states are used"
            )
        merged, disagreed = merged_info(self._infos.get(info.name, info), info)
        if disagreed:
            raise CorruptSavepoint(f"the subtasks describe the state {info.name!r} differently", state=info.name)
        self._infos[info.name] = merged

    def dispose(self) -> None:
        self._store.close()

    def _bounds(self) -> tuple[bytes, bytes]:
        """Return the first key of all entries, and a key after all of them."""
        start, stop = self.key_groups.start, self.key_groups.stop
        return start.to_bytes(self._current.prefix, "big"), stop.to_bytes(self._current.prefix, "big")
