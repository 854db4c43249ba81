"""The streams of a new savepoint: headers of declared states, the entries of a value, the operator state of a subtask.

`SavepointWriter` and the bootstrap on Spark share this code, so that both write the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.description import StateDescription, StateKind
from ...serializers.errors import DeclarationError, IncompatibleState
from ...serializers.views import DataOutputView
from ..key_groups import has_stable_hash
from ..storage.publish import store_stream, stream_name
from .handles import OperatorStateHandle
from .keyed_stream import KeyedStreamHeader
from .meta_info import StateMetaInfo, broadcast_state, keyed_state, list_state, timer_state
from .operator_stream import OperatorStreamHeader, write_operator_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compat.targets import Target
    from ..job import Job, Operator
    from ..storage.files import Folder
    from ..storage.lineage import FileDigest

_MODES = {StateKind.SPLIT_LIST: "SPLIT_DISTRIBUTE", StateKind.UNION_LIST: "UNION"}


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
        advice="key by integers, strings, booleans, floats, or tuples of these",
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
    return keyed_state(state.name, state.kind.name, state.namespace.snapshot, state.value.snapshot)


def store_operator_state(
    folder: Folder,
    operator: Operator,
    subtask: int,
    elements: Mapping[str, Sequence[bytes]],
    broadcast: Mapping[str, Mapping[bytes, bytes]],
    *,
    compressed: bool = False,
) -> tuple[OperatorStateHandle | None, dict[str, FileDigest]]:
    """Write the list and broadcast states of one subtask; states without given elements are written empty.

    Returns:
        The handle (None where the operator has no such state), and the digest of the file, if a file is written.
    """
    states = [state for state in operator.describe().states if not state.kind.is_keyed]
    if not states:
        return None, {}
    lists = [state for state in states if state.key is None]
    header = OperatorStreamHeader(
        tuple(list_state(state.name, _MODES[state.kind], state.value.snapshot) for state in lists),
        tuple(
            broadcast_state(state.name, state.key.snapshot, state.value.snapshot)
            for state in states
            if state.key is not None
        ),
        compressed,
    )
    found = {state.name: list(elements.get(state.name, ())) for state in lists}
    maps = {info.name: _broadcast_bytes(broadcast.get(info.name, {})) for info in header.broadcast_states}
    data = bytearray()
    offsets = write_operator_stream(header, found, maps, data.extend)
    stream, files = store_stream(folder, stream_name(operator.id, "operator", subtask), bytes(data))
    return OperatorStateHandle(offsets, stream), files


def _broadcast_bytes(entries: Mapping[bytes, bytes]) -> bytes:
    target = DataOutputView()
    target.write_int(len(entries))
    for key, value in entries.items():
        target.write(key)
        target.write(value)
    return target.getvalue()
