"""The contract of a backend: the keyed state of one subtask, alive.

A backend keeps working state and hands out handles and timer queues, and it can freeze what it holds. A frozen state
is read as a stored one is: by a header and canonical blocks. So savepoints, restore, rescaling, the check and the
migration work for every backend. Source: runtime notes, sections 2 and 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from ...compat.description import SerializerDescription, StateDescription, StateKind
from ...compat.lazy_tables import tables_of
from ...serializers.errors import DeclarationError
from ...serializers.flink.namespaces import TimerSerializer
from .state_types import with_serializers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedReader, KeyedStreamHeader
    from ..runtime.descriptors import StateDescriptor
    from ..runtime.states import State
    from ..storage.files import Folder
    from ..timers import TimeDomain
    from .lazy_forms import Layout
    from .restore_check import RestoreCheck
    from .snapshots import SnapshotStrategy


class TimerQueue(Protocol):
    """The timers of one service and one time domain, of all keys of the subtask."""

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Add a timer; return False where there is the same one already."""

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove a timer; there may be none."""

    def first_timestamp(self) -> int | None:
        """Return the time of the first timer in milliseconds; None where there is none."""

    def poll(self, until: int) -> tuple[int, Any, Any] | None:
        """Remove and return the first timer that fires at `until` or before, as (time, key, namespace); else None."""

    def timers(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield all timers, in no order."""


class FrozenState(Protocol):
    """The keyed state of a subtask as it was when it was frozen; the backend goes on meanwhile.

    Attributes:
        header: The key snapshot and the states: the index of a state is its id in the blocks.
    """

    @property
    def header(self) -> KeyedStreamHeader:
        """The key snapshot and the states: the index of a state is its id in the blocks."""

    def blocks(self, key_groups: range | None = None, state_ids: Collection[int] | None = None) -> Iterator[Block]:
        """Yield the canonical blocks of some key groups and states (by default all), key groups ascending.

        Within a key group the states are in the order of their ids. It may be called from another thread.
        """

    def release(self) -> None:
        """Release what the backend kept for this; calling it twice is harmless."""


class KeyedStateBackend(ABC):
    """The keyed state of one subtask.

    Attributes:
        key: The serializer of the keys.
        max_parallelism: The number of key groups of the operator.
        key_groups: Those of this subtask.
        current_key: The key that all handles follow. Read only: `set_current_key` changes it.
        restore_check: Judges the states that are registered after a restore; None: whoever restores has judged them.
        cleans_up_incrementally: Whether each access of a state with TTL looks for expired values of some other keys,
            as in Flink on the heap only.
    """

    cleans_up_incrementally: ClassVar[bool] = False

    key: TypeSerializer[Any]
    max_parallelism: int
    key_groups: range
    current_key: Any
    restore_check: RestoreCheck | None = None

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Refuse `Backend()`, which PyFlink has: a backend is that of one subtask, whose keys are known later."""
        if not args and "key" not in options:
            given = ", ".join(f"{name}=…" for name in options)
            how = f"partial({cls.__name__}, {given})" if given else cls.__name__
            raise DeclarationError(
                f"{cls.__name__}({given}) would be the backend of a subtask, but it is not said of which",
                advice=f"pass what creates the backends: backend={how}",
            )
        return super().__new__(cls)

    @cached_property
    def expired(self) -> dict[str, Callable[[int], bool]]:
        """Whether a value with a time stamp (milliseconds) is left out of full snapshots, by the name of its state.

        The runtime fills it.
        """
        return {}

    @cached_property
    def swept(self) -> dict[str, Callable[[int], bool]]:
        """As `expired`, of the states whose expired values are also removed when nobody reads them.

        It stands for RocksDB's compaction filter, so only a backend with checkpoints of its files looks at it.
        """
        return {}

    @abstractmethod
    def set_current_key(self, key: Any) -> None:
        """Set the key that all handles follow.

        Raises:
            ValueNotConvertible: The key does not fit the key type, or is in no key group of this subtask.
        """

    def set_encoded_key(self, key: Any, group: int, data: bytes) -> None:
        """Set the key that all handles follow, where its key group and its bytes, by `key`, are known.

        Raises:
            ValueNotConvertible: As for `set_current_key`.
        """
        self.set_current_key(key)

    @abstractmethod
    def unset_current_key(self) -> None:
        """Have no current key: every access of keyed state and timers raises `DeclarationError` until the next key."""

    @abstractmethod
    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> State:
        """Return the handle of a state; the same one for the same name.

        With TTL it is the handle of the stamped values (`TtlValue`), which the runtime wraps.

        Raises:
            DeclarationError: The name is taken by a state of another type; the message names both.
        """

    @abstractmethod
    def create_timer_queue(self, service: str, domain: TimeDomain, namespace: TypeSerializer[Any]) -> TimerQueue:
        """Return the queue of a timer service; the same one for the same name and domain."""

    @abstractmethod
    def get_keys(self, state: str, namespace: Any) -> Iterator[Any]:
        """Yield the keys that have a value in a state and a namespace, in no order; values may be changed meanwhile."""

    def get_held(self, state: str) -> Iterator[tuple[Any, Any]]:
        """Yield the keys of a state without namespaces, each with the object that the backend holds for it.

        Values may be changed meanwhile. Only backends that clean up incrementally have any.
        """
        return iter(())

    @abstractmethod
    def freeze(self) -> FrozenState:
        """Return all that is held at this moment. It must be short: the function stands still meanwhile."""

    @abstractmethod
    def restore(self, stored: KeyedReader) -> None:
        """Take over the entries of a stored state that are in the key groups of this subtask.

        It is called before any handle is given, once for each stored subtask whose key groups overlap. The stored
        types are those of the stream; a descriptor that is registered later is checked against them (`taken_over`).
        """

    def taken_over(self, descriptor: StateDescriptor) -> StateDescriptor | None:
        """Return the descriptor that reads what is restored under its name.

        Backends call it for a state that is registered and was not before. It is None where the restore check does not
        let the stored values be read: the handle is then never used, because the restore fails.

        Raises:
            RestoreRefused: The program runs already, and the state cannot be taken over as it is.
        """
        if self.restore_check is None:
            return descriptor
        found = self.restore_check.taken_over(descriptor.describe())
        return None if found is None else with_serializers(descriptor, found)

    def layout_of(self, state: str, restored: Iterable[str]) -> Layout | None:
        """Return the tables of a state that is migrated lazily, after `taken_over`; None: it is not.

        Args:
            state: The name of the state.
            restored: The names of all restored tables.

        Raises:
            DeclarationError: There are several of this state, which only a restore check can judge, and there is none.
        """
        if self.restore_check is not None:
            return self.restore_check.layouts.get(state)
        if any(name != state for name in tables_of(state, restored)):
            raise DeclarationError(
                f"the state {state!r} is migrated lazily, so its values have several types",
                advice="set the backend's restore_check before states are registered",
            )
        return None

    def migrate_some(self, most: int) -> int:
        """Go on with the lazy migration of all states, as a step in the background.

        Args:
            most: The number of entries to move; 0: only the end of a migration is noticed.

        Returns:
            The number of entries that were moved; less than `most` only if none are left.
        """
        return 0

    def left_to_migrate(self) -> dict[str, int]:
        """Return the numbers of entries that are still in an old form, by state; they are counted now.

        With 0 the end is near: `migrate_some` moves its entries, as they are, to where Flink expects them.
        """
        return {}

    def reads_timers(self, name: str, namespace: TypeSerializer[Any]) -> bool:
        """Whether the restored timers of a queue can be read; else the restore fails. Raises as `taken_over`."""
        check = self.restore_check
        if check is None or not check.has_stored(name):
            return True
        timers = SerializerDescription.of(TimerSerializer(self.key, namespace))
        return check.taken_over(StateDescription(name, StateKind.TIMERS, timers)) is not None

    def adopt(self, handles: Sequence[KeyedHandle], folder: Folder) -> list[KeyedHandle]:
        """Take over stored files as they are, where the backend can; return the handles whose entries are left to read.

        It is called before `restore`, with all handles that have key groups of this subtask.

        Args:
            handles: The handles.
            folder: The folder of the `_metadata` that they are from.
        """
        return list(handles)

    def checkpoint_strategy(self) -> SnapshotStrategy[Any]:
        """Return how this backend writes checkpoints, the same for all of them: by default as savepoints."""
        from .snapshots import SavepointStrategy  # which knows backends

        return SavepointStrategy(self)

    @abstractmethod
    def dispose(self) -> None:
        """Free memory and files; the backend cannot be used afterwards. Disposing of it twice is harmless."""
