"""The heap backend: working state as Python objects in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ....compat.lazy_tables import tables_of
from ....serializers.errors import CorruptSavepoint, DeclarationError
from ....serializers.flink.namespaces import VOID_NAMESPACE
from ...entry_keys import decode, encode
from ...formats.flink.keyed_stream import KeyedStreamHeader
from ...formats.flink.meta_info import NAMESPACE_SERIALIZER, merged_info
from ...formats.flink.state_kinds import entry_key_format, info_snapshot
from ..keyed_backend import KeyedStateBackend
from ..lazy_forms import OldForm
from ..snapshots import HeapCheckpointStrategy
from ..state_types import info_of, queue_info, refuse_other_kind, refuse_other_type
from .entry_codecs import FrozenHeap, FrozenTable, StateCodec, StoredState, TimerCodec
from .states import CHECKED_HANDLES, HANDLES
from .tables import CurrentKey
from .timers import HeapTimerQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....compat.plan import StatePlan
    from ....serializers.serializer import TypeSerializer
    from ...formats.flink.keyed_stream import KeyedReader
    from ...formats.flink.meta_info import StateMetaInfo
    from ...runtime.descriptors import StateDescriptor
    from ...timers import TimeDomain
    from .entry_codecs import Codec, FrozenPart
    from .states import HeapState


@attrs.define
class _Live:
    """A state that has a handle: its description, its table, and what turns that into entries."""

    info: StateMetaInfo
    table: Any  # a handle, or a timer queue
    codec: Codec

    def freeze(self) -> FrozenPart:
        return FrozenTable(self.table.freeze(), self.codec)


@attrs.define
class _Stored:
    """A restored state for which no handle was asked yet."""

    info: StateMetaInfo
    state: StoredState = attrs.field(factory=StoredState)

    def freeze(self) -> FrozenPart:
        return StoredState(dict(self.state.found))


class HashMapStateBackend(CurrentKey, KeyedStateBackend):
    """Keyed state as Python objects: fast, as long as it fits the memory.

    A value belongs to the state as soon as it is handed over: an object that is changed afterwards changes the state
    unseen. Values are held against their types only when a snapshot writes them, unless it `checks_values`.

    Args:
        key: The serializer of the keys.
        max_parallelism: The number of key groups of the operator.
        key_groups: Those of this subtask.

    Attributes:
        checks_values: Whether a value is held against its type when it is handed over, as with RocksDB. That takes as
            long as writing it. Who creates the backend sets it before states are registered.
    """

    cleans_up_incrementally = True

    def __init__(self, key: TypeSerializer[Any], max_parallelism: int, key_groups: range) -> None:
        super().__init__(key, max_parallelism, key_groups)
        self._states: dict[str, _Live | _Stored] = {}

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> HeapState:
        known = self._known(info_of(descriptor))
        if known is None:
            taken = self.taken_over(descriptor)
            used = taken or descriptor
            handle = (CHECKED_HANDLES if self.checks_values else HANDLES)[used.kind](self, used)
            live = _Live(info_of(used), handle, StateCodec(self, used, handle))
            known = self._begin(live, reads=taken is not None)
        return known.table  # type: ignore[no-any-return]

    def create_timer_queue(self, service: str, domain: TimeDomain, namespace: TypeSerializer[Any]) -> HeapTimerQueue:
        info = queue_info(service, domain, self.key, namespace)
        known = self._known(info)
        if known is None:
            reads, queue = self.reads_timers(info.name, namespace), HeapTimerQueue(self, namespace)
            known = self._begin(_Live(info, queue, TimerCodec(self, namespace, queue)), reads=reads)
        return known.table  # type: ignore[no-any-return]

    def _known(self, info: StateMetaInfo) -> _Live | None:
        """Return the state of a description if it has a handle already; raises `DeclarationError`."""
        known = self._states.get(info.name)
        if isinstance(known, _Live):
            refuse_other_type(known.info, info)
            return known
        if known is not None and self.restore_check is None:
            refuse_other_kind(known.info, info)
        return None

    def _begin(self, live: _Live, *, reads: bool = True) -> _Live:
        """Register a state with a handle; what was restored is read into its table, where it may be read."""
        layout = self.layout_of(live.info.name, self._states) if reads else None
        plans = {} if layout is None else layout.plans
        for name in tables_of(live.info.name, self._states) if reads else ():
            self._read(self._states[name], plans.get(name), live.codec)
            if name != live.info.name:
                del self._states[name]
        self._states[live.info.name] = live  # in the place of the restored one
        return live

    def _read(self, stored: _Live | _Stored, plan: StatePlan | None, codec: Codec) -> None:
        """Read the restored entries of a state into its table; those in an old form are migrated on the way."""
        if isinstance(stored, _Live):
            return
        form = OldForm(stored.info, plan, self.key.snapshot_configuration(), self.max_parallelism)
        for key_group, blocks in stored.state.found.items():
            for block in blocks:
                for key, value in form.block(block).items():
                    codec.read(key_group - self.key_groups.start, key, value)

    def get_keys(self, state: str, namespace: Any) -> Iterator[Any]:
        held = self._states.get(state)
        if isinstance(held, _Live):
            yield from held.table.keys_in(namespace)
        elif held is not None:
            keys = entry_key_format(held.info, self.key, self.max_parallelism)
            space = info_snapshot(held.info, NAMESPACE_SERIALIZER).restore_serializer()
            wanted = encode(space, VOID_NAMESPACE if namespace is None else namespace)
            blocks = (block for found in held.state.found.values() for block in found)
            parts = (keys.split(key) for block in blocks for key, _ in block.items())
            for key in dict.fromkeys(part.key for part in parts if part.namespace == wanted):
                yield decode(self.key, key)

    def get_held(self, state: str) -> Iterator[tuple[Any, Any]]:
        held = self._states.get(state)
        return held.table.held() if isinstance(held, _Live) else iter(())

    def freeze(self) -> FrozenHeap:
        infos = tuple(held.info for held in self._states.values())
        header = KeyedStreamHeader(self.key.snapshot_configuration(), infos)
        parts = [held.freeze() for held in self._states.values()]
        return FrozenHeap(header, self.key_groups, parts, self.snapshots)

    def restore(self, stored: KeyedReader) -> None:
        names = [self._stored(info) for info in stored.header.states]
        for block in stored.blocks(self.key_groups):
            block.refuse_oversized()
            names[block.state_id].state.add(block)

    def _stored(self, info: StateMetaInfo) -> _Stored:
        """Return where a restored state is kept; its description describes what all subtasks wrote."""
        known = self._states.setdefault(info.name, _Stored(info))
        if isinstance(known, _Live):
            raise DeclarationError(
                f"the state {info.name!r} is in use already", advice="restore a backend before its states are used"
            )
        known.info, disagreed = merged_info(known.info, info)
        if disagreed:
            raise CorruptSavepoint(f"the subtasks describe the state {info.name!r} differently", state=info.name)
        return known

    def checkpoint_strategy(self) -> HeapCheckpointStrategy:
        return HeapCheckpointStrategy(self)

    def dispose(self) -> None:
        self._states.clear()
        self.snapshots.clear()
        self.forget()
