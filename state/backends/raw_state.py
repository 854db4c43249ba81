"""Raw state: bytes that an operator writes itself, by key group or as parts, and that nobody else interprets.

    raw keyed      one stream; the handle has the position of each key group, or that it was left out
    raw operator   one stream; the handle has the positions of the parts, which are dealt out evenly

Source: format notes, section 4; Flink's `KeyedStateCheckpointOutputStream` and `OperatorStateCheckpointOutputStream`.
"""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import TYPE_CHECKING

from ...serializers.errors import CorruptSavepoint, DeclarationError
from ..formats.flink.handles import (
    NATIVE,
    NO_OFFSET,
    DistributionMode,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorStateOffsets,
)
from ..formats.flink.sources import open_stream
from ..runtime.checkpointed import DEFAULT_STATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..formats.flink.handles import KeyedHandle, StreamHandle
    from ..formats.flink.redistribution import Share
    from ..publication.commit import Commit
    from ..storage.files import Folder


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
