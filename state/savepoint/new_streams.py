"""The streams of a new savepoint: headers of declared states, the entries of a value, the operator state of a subtask.

`SavepointWriter` and the bootstrap on Spark share this code, so that both write the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError, IncompatibleState
from ...serializers.views import DataOutputView
from ..formats.flink.blocks import Block
from ..formats.flink.handles import CANONICAL, KeyGroupsHandle, OperatorStateHandle
from ..formats.flink.keyed_stream import KeyedStreamHeader, write_keyed_stream
from ..formats.flink.meta_info import MetaInfoKind, StateMetaInfo, broadcast_state, keyed_state, list_state, timer_state
from ..formats.flink.metadata import OperatorState, SubtaskState
from ..formats.flink.operator_stream import OperatorStreamHeader, write_operator_stream
from ..key_groups import has_stable_hash
from ..publication.publish import stream_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ...compat.description import StateDescription
    from ...compat.targets import Target
    from ..formats.flink.handles import KeyedHandle
    from ..job import Job, Operator
    from ..publication.commit import Commit


def refuse_unstable_key(operator: Operator) -> None:
    """Refuse a key type whose Java hash this release cannot compute, in an operator that Flink could restore.

    Raises:
        DeclarationError: All types of the operator are Flink's, and its keys have no hash that is equal in every JVM.
    """
    if operator.key is None or not operator.describe().is_flink_restorable or has_stable_hash(operator.key):
        return
    raise DeclarationError(
        f"keys of type {operator.key.describe()} have no hash that is the same in every JVM, "
        "so Flink would not find them",
        advice="key by integers, strings, booleans, floats, or tuples or rows of these",
        operator=operator.uid or operator.id,
    )


def check_job(job: Job, restore_target: Target) -> None:
    """Refuse a job that the target could not restore.

    Raises:
        DeclarationError: Flink would compute another hash of a key.
        IncompatibleState: An operator has a type that Flink does not know, and the target is Flink.
    """
    for operator in job.operators:
        refuse_unstable_key(operator)
        description = operator.describe()
        if restore_target.is_flink and not description.is_flink_restorable:
            kept = [state for state in description.states if not all(p.snapshot.is_flink for p in state.serializers())]
            types = ", ".join(f"{state.name} ({state.describe()})" for state in kept) or "its key"
            raise IncompatibleState(
                f"Flink cannot restore the operator: it does not know the type of {types}",
                advice='use types that Flink has: a record with @record(java_class="…"), tuples, numbers, strings',
                operator=operator.uid or operator.id,
            )


def keyed_header(operator: Operator) -> KeyedStreamHeader | None:
    """Return the header of an operator's keyed streams; None where it has no keyed state."""
    states = [state for state in operator.describe().states if state.kind.is_keyed]
    if operator.key is None or not states:
        return None
    return KeyedStreamHeader(operator.key.snapshot_configuration(), tuple(map(_keyed_info, states)))


def _keyed_info(state: StateDescription) -> StateMetaInfo:
    if state.namespace is None:  # not a state descriptor's: a queue of timers
        return timer_state(state.name, state.value.snapshot)
    return keyed_state(state.name, state.kind.row.flink, state.namespace.snapshot, state.value.snapshot)


def new_operator(
    operator: Operator, max_parallelism: int, keyed: Sequence[KeyedHandle | None], lists: Sequence[OperatorStateHandle]
) -> OperatorState:
    """Return the state of a declared operator; it has as many subtasks as there are handles of keyed streams.

    Args:
        operator: The operator.
        max_parallelism: The number of key groups.
        keyed: The keyed stream of each subtask; None where the operator has no keyed state.
        lists: The list and broadcast state of each subtask; empty where the operator has none.
    """
    subtasks = tuple(
        SubtaskState(index, managed_keyed=handle, managed_operator=lists[index] if lists else None)
        for index, handle in enumerate(keyed)
    )
    identity = bytes.fromhex(operator.id), len(keyed), max_parallelism, operator.name, operator.uid
    return OperatorState(*identity, subtasks=subtasks)


def put_keyed_state(
    commit: Commit,
    name: str,
    header: KeyedStreamHeader,
    key_groups: range,
    entries: Mapping[str, Mapping[bytes, bytes]],
    prefix: int,
) -> KeyGroupsHandle:
    """Write the keyed states of a subtask.

    Args:
        commit: The new savepoint.
        name: The name of the stream.
        header: Its header.
        key_groups: Its key groups; entries of others are left out.
        entries: The entries of each state, by its name.
        prefix: The number of bytes of a key group.
    """
    items: dict[tuple[int, int], list[tuple[bytes, bytes]]] = defaultdict(list)
    for index, info in enumerate(header.states):
        for key, value in entries[info.name].items():
            group = int.from_bytes(key[:prefix], "big")
            if group in key_groups:
                items[group, index].append((key, value))
    blocks = [Block.of(group, index, sorted(found)) for (group, index), found in sorted(items.items())]
    data, offsets = write_keyed_stream(header, key_groups, blocks)
    return KeyGroupsHandle(CANONICAL, key_groups.start, offsets, commit.put(name, data))


def operator_infos(operator: Operator) -> list[StateMetaInfo]:
    """Return the descriptions of an operator's list and broadcast states for a header."""
    return [operator_info(state) for state in operator.describe().states if not state.kind.is_keyed]


def put_operator_state(
    commit: Commit,
    operator_id: str,
    infos: Collection[StateMetaInfo],
    elements: Sequence[Mapping[str, Sequence[bytes]]],
    broadcast: Mapping[str, Mapping[bytes, bytes]],
    *,
    compressed: bool = False,
) -> list[OperatorStateHandle]:
    """Write the list and broadcast states of an operator; states without given elements are written empty.

    Args:
        commit: The new savepoint.
        operator_id: The id of the operator.
        infos: The descriptions of its states.
        elements: The elements of each subtask, by the name of the state.
        broadcast: The maps that all subtasks have, by the name of the state.
        compressed: Whether elements are compressed.

    Returns:
        The handle of each subtask; none where the operator has no such state.
    """
    if not infos:
        return []
    header = operator_header(infos, compressed=compressed)
    maps = {info.name: broadcast_bytes(broadcast.get(info.name, {})) for info in header.broadcast_states}
    handles = []
    for subtask, found in enumerate(elements):
        data = bytearray()
        offsets = write_operator_stream(header, found, maps, data.extend)
        stream = commit.put(stream_name(operator_id, "operator", subtask), bytes(data))
        handles.append(OperatorStateHandle(offsets, stream))
    return handles


def operator_info(state: StateDescription) -> StateMetaInfo:
    """Return the description of an operator state for a header."""
    if state.key is None:
        return list_state(state.name, state.kind.row.flink, state.value.snapshot)
    return broadcast_state(state.name, state.key.snapshot, state.value.snapshot)


def operator_header(infos: Iterable[StateMetaInfo], *, compressed: bool = False) -> OperatorStreamHeader:
    """Return the header of a stream with some operator states, of which lists come first."""
    states = tuple(infos)
    lists = tuple(info for info in states if info.kind is MetaInfoKind.OPERATOR)
    return OperatorStreamHeader(lists, tuple(info for info in states if info not in lists), compressed)


def broadcast_bytes(entries: Mapping[bytes, bytes]) -> bytes:
    """Return the whole map of a broadcast state (format notes 8)."""
    target = DataOutputView()
    target.write_int(len(entries))
    for key, value in entries.items():
        target.write(key)
        target.write(value)
    return target.getvalue()
