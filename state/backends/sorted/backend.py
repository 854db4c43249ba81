"""A keyed state backend over any sorted store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.lazy_tables import state_in
from ....serializers.errors import CorruptSavepoint, DeclarationError
from ...entry_keys import decode
from ...formats.flink.database_stream import DatabaseStreamReader
from ...formats.flink.keyed_stream import KeyedStreamHeader
from ...formats.flink.meta_info import NAMESPACE_SERIALIZER, merged_info
from ...formats.flink.state_kinds import entry_key_format, info_snapshot
from ...key_groups import prefix_size
from ...transcode.executor_choice import ExecutorName
from ..key_bytes import CurrentKey, namespace_bytes
from ..keyed_backend import KeyedStateBackend
from ..state_types import info_of, keeper, queue_info, refuse_other_kind, refuse_other_type
from .handles import HANDLES
from .lazy_table import LazyTable, LazyView
from .timers import HELD_TIMERS, SortedTimerQueue
from .write_cache import WriteCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....serializers.serializer import TypeSerializer
    from ...formats.flink.keyed_stream import KeyedReader
    from ...formats.flink.meta_info import StateMetaInfo
    from ...runtime.descriptors import StateDescriptor
    from ...runtime.states import State
    from ...timers import TimeDomain
    from .write_cache import CachedTable, SortedStore, SortedView

CACHE_BYTES = 32 << 20
"""The size of the write-back cache by default."""


@attrs.frozen(slots=False)
class FrozenTables(DatabaseStreamReader):
    """A frozen sorted backend; it is read as the database of a stored subtask is."""

    _view: SortedView = attrs.field(kw_only=True)

    def release(self) -> None:
        """Release what the store kept for this; calling it twice is harmless."""
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
        self._lazy: dict[str, LazyTable] = {}
        self._cache = WriteCache(cache_bytes)
        self._timer_cache = WriteCache(sys.maxsize) if heap_timers else self._cache
        self._handles: dict[str, State] = {}
        self._tables: dict[str, CachedTable] = {}
        self._swept_to: dict[str, bytes] = {}
        self._queues: dict[str, SortedTimerQueue] = {}
        self._held_timers = sys.maxsize if heap_timers else held_timers

    @property
    def current_key(self) -> Any:
        """The key that all handles follow."""
        return self._current.key

    def set_current_key(self, key: Any) -> None:
        self._current.set(key)

    def set_encoded_key(self, key: Any, group: int, data: bytes) -> None:
        self._current.set_encoded(key, group, data)

    def unset_current_key(self) -> None:
        self._current.unset()

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> State:
        name, info = descriptor.name, info_of(descriptor)
        self._require_same(info, is_live=name in self._handles)
        if name not in self._handles:
            taken = self.taken_over(descriptor)
            used = taken or descriptor
            table = self._tables[name] = self._state_table(info_of(used), reads=taken is not None)
            self._handles[name] = HANDLES[used.kind](used, self.key, self._current, table)
        return self._handles[name]

    def create_timer_queue(self, service: str, domain: TimeDomain, namespace: TypeSerializer[Any]) -> SortedTimerQueue:
        info = queue_info(service, domain, self.key, namespace)
        self._require_same(info, is_live=info.name in self._queues)
        if info.name not in self._queues:
            self.reads_timers(info.name, namespace)
            table, held = self._table(info, self._timer_cache), self._held_timers
            self._queues[info.name] = SortedTimerQueue(table, self._current, self.key_groups, self.key, namespace, held)
        return self._queues[info.name]

    def _require_same(self, info: StateMetaInfo, *, is_live: bool) -> None:
        """Refuse another type than that of the handle, or another kind than that of the restored state, of a name."""
        if is_live:
            lazy = self._lazy.get(info.name)
            refuse_other_type(self._infos[info.name] if lazy is None else lazy.info, info)
        elif info.name in self._infos and self.restore_check is None:
            refuse_other_kind(self._infos[info.name], info)

    def _table(self, info: StateMetaInfo, cache: WriteCache) -> CachedTable:
        """Return the table of a new handle; its types replace those of a restored state, which they can read."""
        self._infos[info.name] = info
        return cache.table(self._store.table(info.name))

    def _state_table(self, info: StateMetaInfo, *, reads: bool) -> CachedTable:
        """Return the table of a new handle of a state, which is over several where the state is migrated lazily."""
        layout = self.layout_of(info.name, self._infos) if reads else None
        if layout is None:
            return self._table(info, self._cache)
        key, is_alone = self.key.snapshot_configuration(), self.key_groups == range(self.max_parallelism)
        facts = key, self.max_parallelism, self._bounds()
        lazy = self._lazy[info.name] = LazyTable(self._store, self._infos, info, layout, *facts, is_alone=is_alone)
        return self._cache.table(lazy)

    def migrate_some(self, most: int) -> int:
        self._cache.flush()
        moved = 0
        for name, lazy in list(self._lazy.items()):
            moved += lazy.move(most - moved)
            if lazy.is_over:
                del self._lazy[name]
        return moved

    def left_to_migrate(self) -> dict[str, int]:
        self._cache.flush()
        return {name: lazy.left for name, lazy in self._lazy.items()}

    def get_keys(self, state: str, namespace: Any) -> Iterator[Any]:
        lazy = self._lazy.get(state)
        info = self._infos.get(state) if lazy is None else lazy.info
        if info is None:
            return
        form = entry_key_format(info, self.key, self.max_parallelism)
        wanted = namespace_bytes(info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer(), namespace)
        self._cache.flush()
        before: bytes | None = None
        table = self._store.table(state) if lazy is None else lazy
        for keys, _ in table.items(*self._bounds()):
            for entry in map(form.split, keys):
                if entry.namespace == wanted and entry.key != before:
                    before = entry.key
                    yield decode(self.key, entry.key)

    def freeze(self) -> FrozenTables:
        self.flush()
        header, prefix = self.header, prefix_size(self.max_parallelism)
        names = frozenset(info.name for info in header.states)
        forms = {name: lazy.forms() for name, lazy in self._lazy.items()}
        view = LazyView(names, self._store.freeze(), forms)
        name = f"the live state of key groups {self.key_groups.start} to {self.key_groups.stop - 1}"
        return FrozenTables(header, name, ExecutorName.OBJECTS, view, self.key_groups, prefix, view=view)

    @property
    def header(self) -> KeyedStreamHeader:
        """The key snapshot and the states, each in its present form."""
        infos = {
            name: self._lazy[name].info if name in self._lazy else self._infos[table]
            for table in self._infos
            for name in (state_in(table) if state_in(table) in self._lazy else table,)
        }
        return KeyedStreamHeader(self.key.snapshot_configuration(), tuple(infos.values()))

    @property
    def table_header(self) -> KeyedStreamHeader:
        """The key snapshot and the tables: those of states that are migrated lazily each with its form."""
        return KeyedStreamHeader(self.key.snapshot_configuration(), tuple(self._infos.values()))

    def flush(self) -> None:
        """Write what is held in memory to the store."""
        if self._timer_cache is not self._cache:
            self._timer_cache.flush()
        self._cache.flush()

    def sweep(self, most: int) -> None:
        """Remove what has expired among the next entries of each state in `swept`, but for those migrated lazily.

        Args:
            most: About how many entries of a state are looked at; the next call goes on after them.
        """
        for name in [name for name in self.swept if name not in self._lazy]:
            table, kept = self._tables[name], keeper(self._infos[name], self.swept[name])
            start, stop = self._bounds()
            changes: dict[bytes, bytes | None] = {}
            looked = 0
            for keys, values in table.items(self._swept_to.pop(name, start), stop):
                found = ((key, value, kept(value)) for key, value in zip(keys, values, strict=True))
                changes |= {key: left for key, value, left in found if left != value}
                looked += len(keys)
                if looked >= most:
                    self._swept_to[name] = keys[-1] + b"\0"
                    break
            for key, left in changes.items():
                table.put(key, left)

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
