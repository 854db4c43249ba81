"""What a backend knows of the types of its states: their descriptions, and what is left of expired entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs

from ...serializers.errors import DeclarationError
from ...serializers.flink.namespaces import TimerSerializer
from ...serializers.snapshot import require_registered
from ...serializers.views import SEPARATOR, DataInputView
from ..entry_keys import end_of
from ..formats.flink.blocks import Block
from ..formats.flink.meta_info import StateMetaInfo, keyed_state, merged_info, timer_state
from ..formats.flink.state_kinds import keyed_kind
from ..timers import TimeDomain, queue_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...compat.description import StateDescription
    from ...serializers.serializer import TypeSerializer
    from ..runtime.descriptors import StateDescriptor
    from .keyed_backend import FrozenState

    Expired = Callable[[int], bool]
    Kept = Callable[[bytes], bytes | None]
    """Returns the part of an entry's value bytes that is kept; None where nothing is."""


def info_of(descriptor: StateDescriptor) -> StateMetaInfo:
    """Return the description of the state of a descriptor.

    Raises:
        DeclarationError: A snapshot class of its serializers is not registered.
    """
    namespace = descriptor.namespace.snapshot_configuration()
    value = descriptor.state_serializer().snapshot_configuration()
    for snapshot in (namespace, value):
        require_registered(snapshot, f"the state {descriptor.name!r}")
    return keyed_state(descriptor.name, descriptor.kind.row.flink, namespace, value)


@attrs.frozen
class _Reconfigured:
    """A descriptor with another serializer, which reads and writes what is stored."""

    _descriptor: StateDescriptor
    _serializer: TypeSerializer[Any]
    namespace: TypeSerializer[Any]

    def state_serializer(self) -> TypeSerializer[Any]:
        return self._serializer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._descriptor, name)


def with_serializers(descriptor: StateDescriptor, taken: StateDescription) -> StateDescriptor:
    """Return the descriptor with the serializers of values and namespaces that a restore check has chosen."""
    namespace = descriptor.namespace if taken.namespace is None else taken.namespace.new_side()
    return cast("StateDescriptor", _Reconfigured(descriptor, taken.value.new_side(), namespace))


def queue_info(
    service: str, domain: TimeDomain, key: TypeSerializer[Any], namespace: TypeSerializer[Any]
) -> StateMetaInfo:
    """Return the description of a queue of timers."""
    timers = TimerSerializer(key, namespace).snapshot_configuration()
    require_registered(timers, f"the timers of {service!r}")
    return timer_state(queue_name(service, domain), timers)


def refuse_other_type(known: StateMetaInfo, asked: StateMetaInfo) -> None:
    """Refuse a second type under the name of a state.

    Raises:
        DeclarationError: The two differ in their kind, or in the type of their values or namespaces.
    """
    if not _same_kind(known, asked) or merged_info(known, asked)[1]:
        raise DeclarationError(
            f"the state {asked.name!r} is {_shown(known)}, and is asked for as {_shown(asked)}",
            advice="use one descriptor for a name, or two names",
        )


def refuse_other_kind(stored: StateMetaInfo, asked: StateMetaInfo) -> None:
    """Refuse a descriptor whose kind is not that of the restored state, which no check of types can have passed.

    Raises:
        DeclarationError: The two kinds differ.
    """
    if not _same_kind(stored, asked):
        raise DeclarationError(
            f"the state {asked.name!r} was restored as {_shown(stored)}, and is asked for as {_shown(asked)}",
            advice="migrate the savepoint, or use another name",
        )


def _same_kind(one: StateMetaInfo, other: StateMetaInfo) -> bool:
    return (one.kind, one.options) == (other.kind, other.options)


def _shown(info: StateMetaInfo) -> str:
    return f"{keyed_kind(info)} state of {info.value.describe()}"


_STAMP_BYTES = 8


def unexpired_blocks(frozen: FrozenState, expired: Mapping[str, Expired]) -> Iterator[Block]:
    """Yield the blocks of a frozen state without the values that have expired.

    Args:
        frozen: The state.
        expired: Whether a time stamp in milliseconds is too old, by the names of states with TTL. Other states are
            whole.
    """
    infos = enumerate(frozen.header.states)
    kept = {state_id: keeper(info, expired[info.name]) for state_id, info in infos if info.name in expired}
    for block in frozen.blocks():
        keep = kept.get(block.state_id)
        if keep is None:
            yield block
            continue
        items = [(key, left) for key, value in block.items() if (left := keep(value)) is not None]
        if items:
            yield Block.of(block.key_group, block.state_id, items)


def keeper(info: StateMetaInfo, expired: Expired) -> Kept:
    """Return what decides which part of an entry of a state with TTL is kept."""
    kind = keyed_kind(info)
    if kind.has_elements:
        return _Elements(kind.item_of(info.value.restore_serializer()), expired)
    flag = 1 if kind.has_user_keys else 0

    def keep(value: bytes) -> bytes | None:
        is_null = flag and value[0]
        return None if not is_null and expired(_stamp(value, flag)) else value

    return keep


class _Elements:
    """Keeps the elements of a list that live."""

    def __init__(self, element: Any, expired: Expired) -> None:
        self._end, self._expired = end_of(element), expired

    def __call__(self, value: bytes) -> bytes | None:
        source, elements = DataInputView(value), []
        while source.remaining():
            start = source.position
            self._end.skip(source)
            if not self._expired(_stamp(value, start)):
                elements.append(source.span(start))
            if source.remaining():
                source.skip_bytes(len(SEPARATOR))
        return SEPARATOR.join(elements) if elements else None


def _stamp(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + _STAMP_BYTES], "big", signed=True)
