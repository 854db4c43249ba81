"""Functions with operator state: state of the subtask, which belongs to no key.

Source: Flink's documentation, "Working with State", operator state; runtime notes, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError
from .descriptors import ListStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .descriptors import MapStateDescriptor
    from .runtime_context import KeyedStateStore
    from .states import BroadcastState, ListState

DEFAULT_STATE = "_default_"
"""The name under which Flink keeps the list of a `ListCheckpointed` function, and raw operator state."""


class OperatorStateStore(ABC):
    """Returns the handles of operator states; the same one for the same name.

    All methods raise `DeclarationError` where the name is taken by a state of another type or another distribution, or
    the descriptor has TTL, which only keyed state can have.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> ListState[Any]:
        """Return a list whose elements are dealt out evenly when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> ListState[Any]:
        """Return a list that each subtask gets whole after a restore: the elements of all subtasks."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> BroadcastState[Any, Any]:
        """Return a map that is equal in every subtask."""


@attrs.frozen(kw_only=True)
class FunctionInitializationContext:
    """What a function gets before it is opened, at a start and after a restore.

    Attributes:
        operator_states: The operator states.
        keyed_states: The keyed states; they have no key yet.
        restored_checkpoint_id: The id of the checkpoint that was restored; None: the state is new.
        raw_keyed: What the operator itself wrote for the key groups of this subtask: (key group, bytes).
        raw_operator: The parts that the operator itself wrote, dealt out evenly.
    """

    operator_states: OperatorStateStore
    keyed_states: KeyedStateStore
    restored_checkpoint_id: int | None = None
    raw_keyed: Sequence[tuple[int, bytes]] = ()
    raw_operator: Sequence[bytes] = ()

    def is_restored(self) -> bool:
        """Whether state was restored."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the checkpoint that was restored; None: the state is new."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return where the function gets its operator states."""
        return self.operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return where the function gets its keyed states; without keys, each method raises `DeclarationError`."""
        return self.keyed_states

    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, bytes]]:
        """Yield what the operator itself wrote: key group and bytes."""
        return iter(self.raw_keyed)

    def get_raw_operator_state_inputs(self) -> Iterator[bytes]:
        """Yield the parts that the operator itself wrote."""
        return iter(self.raw_operator)


@attrs.frozen
class FunctionSnapshotContext:
    """What a function gets when a snapshot is taken.

    Attributes:
        checkpoint_id: The id of the checkpoint.
        checkpoint_timestamp: When it was triggered: milliseconds since 1970 UTC.
        raw_keyed: What the operator itself writes, by key group.
        raw_operator: The parts that the operator itself writes.
    """

    checkpoint_id: int
    checkpoint_timestamp: int
    raw_keyed: dict[int, bytearray] = attrs.field(factory=dict, init=False)
    raw_operator: list[bytes] = attrs.field(factory=list, init=False)

    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint, which grows."""
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return when the checkpoint was triggered, in milliseconds since 1970 UTC."""
        return self.checkpoint_timestamp

    def write_raw_keyed_state(self, key_group: int, data: bytes) -> None:
        """Append bytes of the operator's own to those of a key group; nobody else interprets them.

        They are dealt out with the key groups.
        """
        self.raw_keyed.setdefault(key_group, bytearray()).extend(data)

    def write_raw_operator_state(self, data: bytes) -> None:
        """Write a part of the operator's own bytes; parts are dealt out evenly, and nobody else interprets them."""
        self.raw_operator.append(bytes(data))


class CheckpointedFunction(ABC):
    """A function that keeps operator state, or asks for keyed state before it is opened."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the states, and take over what was restored; it is called before `open`."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the states up to date, because a snapshot is taken."""


class CheckpointedRestoring(ABC):
    """A function that takes over the list of a former `ListCheckpointed`, and writes none.

    It may be a `CheckpointedFunction`, too, which goes on with the elements in a state of its own. The list is empty
    once it has been taken over, so `restore_state` is then called once, and before `initialize_state`. Source: Flink
    1.3, `AbstractStreamOperator.initializeState`.

    Attributes:
        state_type: The type hint or serializer of the elements.
    """

    state_type: Any

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Take over the elements that this subtask gets; it is called after a restore only, before `open`."""


class ListCheckpointed(CheckpointedRestoring):
    """A function whose state is a list, which is dealt out evenly when the parallelism changes.

    Of a function that is a `CheckpointedFunction`, too, only the methods of that are called, as in Flink.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """Return the elements; the list and its elements are not changed afterwards."""


class CheckpointListener(ABC):
    """A function that learns when a checkpoint is complete."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """React to a checkpoint that is complete, in all subtasks and operators."""


def initialize_state(function: Any, context: FunctionInitializationContext) -> None:
    """Call what a function has to initialize its states, with what was restored."""
    if not isinstance(function, CheckpointedFunction):
        if isinstance(function, CheckpointedRestoring):
            state = _list_of(function, context.operator_states)
            if context.is_restored():
                function.restore_state(list(state.get()))
            state.clear()
        return
    if isinstance(function, CheckpointedRestoring) and not isinstance(function, ListCheckpointed):
        _take_over(function, context)
    function.initialize_state(context)


def register_former_list(function: Any, operator_states: OperatorStateStore) -> None:
    """Register the list of the older interface that a restore would take over, for a check without one."""
    if isinstance(function, CheckpointedRestoring) and not isinstance(function, ListCheckpointed):
        _list_of(function, operator_states)


def _take_over(function: CheckpointedRestoring, context: FunctionInitializationContext) -> None:
    """Pass a function the elements of the older interface, if there are any left."""
    if not context.is_restored():
        return  # a new job has no such state
    state = _list_of(function, context.operator_states)
    elements = list(state.get())
    state.clear()
    if elements:
        function.restore_state(elements)


def snapshot_state(function: Any, context: FunctionSnapshotContext, operator_states: OperatorStateStore) -> None:
    """Call what a function has to bring its states up to date before a snapshot."""
    if isinstance(function, CheckpointedFunction):
        function.snapshot_state(context)
    elif isinstance(function, ListCheckpointed):
        elements = function.snapshot_state(context.checkpoint_id, context.checkpoint_timestamp)
        _list_of(function, operator_states).update(elements)


def _list_of(function: CheckpointedRestoring, operator_states: OperatorStateStore) -> ListState[Any]:
    if not hasattr(function, "state_type"):
        raise DeclarationError(
            f"{type(function).__qualname__} has no state_type, the type of the elements of its list",
            advice="add it to the class, such as: state_type = int",
        )
    return operator_states.get_list_state(ListStateDescriptor(DEFAULT_STATE, function.state_type))
