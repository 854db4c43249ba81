"""The backend of operator state, one for all keyed backends: lists and broadcast maps as Python objects.

A snapshot writes it at once, while the function stands still: operator state is small. Source: runtime notes,
section 1; format notes, section 8.

Raw state is what an operator writes itself, by key group or as parts, and nobody else interprets:

    raw keyed      one stream; the handle has the position of each key group, or that it was left out
    raw operator   one stream; the handle has the positions of the parts, which are dealt out evenly

Source: format notes, section 4; Flink's `KeyedStateCheckpointOutputStream` and `OperatorStateCheckpointOutputStream`.
"""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ...compat.description import StateKind
from ...serializers.errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, located
from ...serializers.snapshot import require_registered
from ..entry_keys import decode, encode
from ..formats.flink.entries import read_broadcast
from ..formats.flink.handles import (
    NATIVE,
    NO_OFFSET,
    DistributionMode,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorStateOffsets,
)
from ..formats.flink.meta_info import DISTRIBUTION_MODE, merged_info
from ..formats.flink.operator_stream import read_operator_stream, write_operator_stream
from ..formats.flink.sources import open_stream
from ..job import broadcast_state, element_state
from ..runtime.checkpointed import DEFAULT_STATE, OperatorStateStore
from ..runtime.states import BroadcastState, ListState
from ..savepoint.new_streams import broadcast_bytes, operator_header, operator_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...compat.description import StateDescription
    from ...serializers.serializer import TypeSerializer
    from ..formats.flink.handles import KeyedHandle, StreamHandle
    from ..formats.flink.meta_info import StateMetaInfo
    from ..formats.flink.redistribution import Share
    from ..publication.commit import Commit
    from ..runtime.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
    from ..storage.files import Folder
    from .restore_check import RestoreCheck


class OperatorListState(ListState[Any]):
    """A list of the operator.

    Args:
        name: The name of the state.
        element: The serializer of the elements.
    """

    __slots__ = ("_element", "_elements", "_name")

    def __init__(self, name: str, element: TypeSerializer[Any]) -> None:
        self._name, self._element = name, element
        self._elements: list[Any] = []

    def get(self) -> list[Any]:
        return list(self._elements)

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        if any(value is None for value in values):
            raise ValueNotConvertible(
                "a list has no None as an element", state=self._name, advice="leave it out, as Flink requires"
            )
        self._elements.extend(values)

    def update(self, values: list[Any]) -> None:
        before, self._elements = self._elements, []
        try:
            self.add_all(list(values))
        except ValueNotConvertible:
            self._elements = before
            raise

    def clear(self) -> None:
        self._elements = []

    def set_current_namespace(self, namespace: Any) -> NoReturn:
        raise DeclarationError(f"the operator state {self._name!r} has no namespaces")

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> NoReturn:
        self.set_current_namespace(target)

    def stored(self) -> list[bytes]:
        """Return the elements as they are stored."""
        return [encode(self._element, value) for value in self._elements]

    def take_over(self, stored: Iterable[bytes]) -> None:
        """Take over stored elements."""
        self._elements += [decode(self._element, data) for data in stored]


class OperatorBroadcastState(BroadcastState[Any, Any]):
    """A map of the operator that is equal in every subtask.

    Args:
        key: The serializer of the map keys.
        value: The serializer of the values.
    """

    __slots__ = ("_entries", "_key", "_value")

    def __init__(self, key: TypeSerializer[Any], value: TypeSerializer[Any]) -> None:
        self._key, self._value = key, value
        self._entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._entries.items())

    def keys(self) -> list[Any]:
        return list(self._entries)

    def values(self) -> list[Any]:
        return list(self._entries.values())

    def is_empty(self) -> bool:
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        self._entries[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        self._entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()

    def stored(self) -> list[bytes]:
        """Return the map as it is stored: one element."""
        entries = {encode(self._key, key): encode(self._value, value) for key, value in self._entries.items()}
        return [broadcast_bytes(entries)]

    def take_over(self, stored: Iterable[bytes]) -> None:
        """Take over stored maps; all are equal."""
        for data in stored:
            self._entries.update(read_broadcast(data, self._key, self._value))


@attrs.define
class _Held:
    """A state.

    Attributes:
        info: Its description.
        handle: Its handle; None: nobody has asked for it.
        restored: What a handle takes over.
        carried: What is stored again without a handle.
    """

    info: StateMetaInfo
    handle: OperatorListState | OperatorBroadcastState | None = None
    restored: list[bytes] = attrs.field(factory=list)
    carried: list[bytes] = attrs.field(factory=list)

    def stored(self) -> list[bytes]:
        with located(state=self.info.name):
            return self.carried if self.handle is None else self.handle.stored()


class OperatorStateBackend(OperatorStateStore):
    """The operator state of one subtask.

    Args:
        restore_check: Judges the states that are registered; None: whoever restores has judged them.
    """

    def __init__(self, restore_check: RestoreCheck | None = None) -> None:
        self._states: dict[str, _Held] = {}
        self._check = restore_check

    def get_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> OperatorListState:
        return self._list(state_descriptor, StateKind.SPLIT_LIST)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> OperatorListState:
        return self._list(state_descriptor, StateKind.UNION_LIST)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> OperatorBroadcastState:
        state = broadcast_state(state_descriptor)
        return self._handle(state_descriptor, state)  # type: ignore[no-any-return]

    def _list(self, descriptor: ListStateDescriptor[Any], kind: StateKind) -> OperatorListState:
        return self._handle(descriptor, element_state(descriptor, kind))  # type: ignore[no-any-return]

    def _handle(self, descriptor: StateDescriptor, state: StateDescription) -> Any:
        info = operator_info(state)
        for part in (state.key, state.value):
            if part is not None:
                require_registered(part.snapshot, f"the operator state {info.name!r}")
        if descriptor.time_to_live:
            raise DeclarationError(
                f"the operator state {info.name!r} cannot have TTL: only keyed state has it", advice="leave TTL out"
            )
        held = self._states.setdefault(info.name, _Held(info))
        is_other = (held.info.kind, held.info.options) != (info.kind, info.options)
        is_judged = held.handle is None and self._check is not None
        if (is_other and not is_judged) or (held.handle is not None and merged_info(held.info, info)[1]):
            raise DeclarationError(
                f"the operator state {info.name!r} is {_shown(held.info)}, and is asked for as {_shown(info)}",
                advice="use one descriptor for a name, or two names",
            )
        if held.handle is None:
            taken = state if self._check is None else self._check.taken_over(state)
            used = taken or state
            new = _handle_of(used)
            with located(state=info.name):
                new.take_over(held.restored if taken is not None else ())
            held.info, held.handle, held.restored = operator_info(used), new, []
            held.carried = []
        return held.handle

    def restore(self, shares: Iterable[Share], folder: Folder) -> None:
        """Take over a subtask's shares of a stored operator's state, before any handle is given.

        Args:
            shares: The shares, from `deal_out_at_start`.
            folder: The folder of the `_metadata` that has the handles.

        Raises:
            UnknownSnapshot, UnsupportedFormat, CorruptSavepoint: As `read_operator_stream`.
        """
        for share in shares:
            with open_stream(share.handle.stream, folder) as source:
                stream = read_operator_stream(source, share.handle, share.elements)
            for info in stream.header.states:
                held, parts = self._states.setdefault(info.name, _Held(info)), stream.parts_of(info)
                held.restored += parts
                carried = share.carried.get(info.name, range(len(parts)))
                held.carried += parts[carried.start : carried.stop]

    def write(self, commit: Commit, name: str, *, compressed: bool = False) -> OperatorStateHandle | None:
        """Write the state as it is now; return its handle, or None where there is no state.

        Args:
            commit: The new snapshot.
            name: The name of the stream (`stream_name`).
            compressed: Whether elements are compressed.

        Raises:
            ValueNotConvertible: An element does not fit its type.
        """
        if not self._states:
            return None
        header = operator_header((held.info for held in self._states.values()), compressed=compressed)
        stored = {held.info.name: held.stored() for held in self._states.values()}
        lists = {info.name: stored[info.name] for info in header.list_states}
        maps = {info.name: stored[info.name][0] for info in header.broadcast_states if stored[info.name]}
        data = bytearray()
        offsets = write_operator_stream(header, lists, maps, data.extend)
        return OperatorStateHandle(offsets, commit.put(name, bytes(data)))


def _handle_of(state: StateDescription) -> OperatorListState | OperatorBroadcastState:
    value = state.value.new_side()
    if state.key is None:
        return OperatorListState(state.name, value)
    return OperatorBroadcastState(state.key.new_side(), value)


def _shown(info: StateMetaInfo) -> str:
    kinds = {"SPLIT_DISTRIBUTE": "a list", "UNION": "a union list", "BROADCAST": "a broadcast map"}
    return f"{kinds[info.option(DISTRIBUTION_MODE) or 'SPLIT_DISTRIBUTE']} of {info.value.describe()}"


def write_raw_keyed(
    parts: Mapping[int, bytes | bytearray], key_groups: range, commit: Commit, name: str
) -> KeyGroupsHandle | None:
    """Write raw keyed state; return its handle, or None where there is none.

    Args:
        parts: The bytes by key group.
        key_groups: The key groups of the subtask.
        commit: The new snapshot.
        name: The name of the stream.

    Raises:
        DeclarationError: A key group is not one of the subtask's.
    """
    strangers = parts.keys() - set(key_groups)
    if strangers:
        raise DeclarationError(
            f"raw state of key group {min(strangers)} was written by the subtask of key groups {key_groups.start} to"
            f" {key_groups.stop - 1}"
        )
    if not parts:
        return None
    data, offsets = bytearray(), []
    for group in key_groups:
        offsets.append(len(data) if group in parts else NO_OFFSET)
        data += parts.get(group, b"")
    return KeyGroupsHandle(NATIVE, key_groups.start, tuple(offsets), commit.put(name, bytes(data)), str(uuid.uuid4()))


def read_raw_keyed(handle: KeyedHandle, folder: Folder, key_groups: range) -> Iterator[tuple[int, bytes]]:
    """Yield key group and bytes for some key groups of raw keyed state.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        key_groups: The key groups that are wanted.
    """
    if not isinstance(handle, KeyGroupsHandle):
        raise CorruptSavepoint("raw keyed state is no stream")
    found = [(at, handle.first_key_group + index) for index, at in enumerate(handle.offsets) if at != NO_OFFSET]
    for group, data in _parts(handle.stream, folder, found):
        if group in key_groups:
            yield group, data


def write_raw_operator(parts: Sequence[bytes], commit: Commit, name: str) -> OperatorStateHandle | None:
    """Write raw operator state; return its handle, or None where there is none.

    Args:
        parts: The parts in their order.
        commit: The new snapshot.
        name: The name of the stream.
    """
    if not parts:
        return None
    offsets = tuple(sum(map(len, parts[:index])) for index in range(len(parts)))
    states = (OperatorStateOffsets(DEFAULT_STATE, DistributionMode.SPLIT_DISTRIBUTE, offsets),)
    return OperatorStateHandle(states, commit.put(name, b"".join(parts)))


def read_raw_operator(shares: Iterable[Share], folder: Folder) -> Iterator[bytes]:
    """Yield the parts of a subtask's shares of raw operator state, from `deal_out_at_start`."""
    for share in shares:
        for state in share.handle.states:
            wanted = share.elements.get(state.name, range(0))
            found = [(at, index) for index, at in enumerate(state.offsets)]
            yield from (data for index, data in _parts(share.handle.stream, folder, found) if index in wanted)


def _parts(stream: StreamHandle, folder: Folder, found: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each part; it ends where the next one begins."""
    with open_stream(stream, folder) as source:
        for (start, number), (end, _) in pairwise([*sorted(found), (source.size, 0)]):
            yield number, source.read_at(start, end - start)
