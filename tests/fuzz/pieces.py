"""Savepoints taken apart into the pieces that a mutation should hit one at a time, and put together again.

A byte that goes missing in a header moves every offset after it, and a reader gives up at the first of them. Here the
offsets follow, compressed pieces are mutated before they are compressed, and so a mutation reaches the code it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import cramjam

from stateshift import DataInputView
from stateshift.serializers.snapshot import read_versioned_snapshot
from stateshift.state.formats.flink.handles import DatabaseHandle, InlineHandle, KeyGroupsHandle, OperatorStateHandle
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.snappy import STREAM_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stateshift.state.formats.flink.handles import KeyedHandle
    from stateshift.state.formats.flink.metadata import OperatorState, SavepointMetadata

_COMPRESSED_AT = 4  # after the i32 version of a stream


@attrs.frozen
class Pieces:
    """The pieces of an input, and what makes an input of as many pieces."""

    parts: list[bytes]
    join: Callable[[Sequence[bytes]], bytes]


def whole(data: bytes) -> Pieces:
    """Take an input as one piece."""
    return Pieces([data], lambda parts: parts[0])


def streams_apart(data: bytes) -> Pieces:
    """Take a `_metadata` with inline streams apart: headers, key groups, elements."""
    metadata = read_metadata(data)
    streams = [_stream_apart(handle) for handle in _handles(metadata)]

    def join(parts: Sequence[bytes]) -> bytes:
        left = iter(parts)
        handles = iter([rebuild([next(left) for _ in pieces]) for pieces, rebuild in streams])
        return write_metadata(with_handles(metadata, lambda _: next(handles)))

    return Pieces([part for pieces, _ in streams for part in pieces], join)


def snapshots_apart(count: int) -> Callable[[bytes], Pieces]:
    """Give the function that takes `count` snapshots and the rest apart."""

    def apart(data: bytes) -> Pieces:
        source, parts = DataInputView(data), []
        for _ in range(count):
            start = source.position
            read_versioned_snapshot(source)
            parts.append(source.span(start))
        return Pieces([*parts, source.read_fully(source.remaining())], b"".join)

    return apart


def with_handles(
    metadata: SavepointMetadata, change: Callable[[KeyedHandle | OperatorStateHandle], object]
) -> SavepointMetadata:
    """Put other handles in place of those of managed state, in the order of `_handles`."""

    def changed(operator: OperatorState) -> OperatorState:
        subtasks = tuple(
            attrs.evolve(
                subtask,
                **{
                    part: change(getattr(subtask, part))
                    for part in ("managed_keyed", "managed_operator")
                    if getattr(subtask, part) is not None
                },
            )
            for subtask in operator.subtasks
        )
        return attrs.evolve(operator, subtasks=subtasks)

    return attrs.evolve(metadata, operators=tuple(map(changed, metadata.operators)))


def _handles(metadata: SavepointMetadata) -> Iterator[KeyedHandle | OperatorStateHandle]:
    for operator in metadata.operators:
        for subtask in operator.subtasks:
            for handle in (subtask.managed_keyed, subtask.managed_operator):
                if handle is not None:
                    yield handle


Rebuild = "Callable[[Sequence[bytes]], KeyedHandle | OperatorStateHandle]"


def _stream_apart(handle: KeyedHandle | OperatorStateHandle) -> tuple[list[bytes], Rebuild]:
    """Cut a stream where the offsets of its handle say; a stream that cannot be cut stays as it is, in no piece."""
    if not isinstance(handle.stream, InlineHandle) or isinstance(handle, DatabaseHandle):
        return [], lambda _: handle
    data = handle.stream.data
    is_keyed = isinstance(handle, KeyGroupsHandle)
    offsets = [handle.offsets] if is_keyed else [state.offsets for state in handle.states]
    # A canonical keyed stream has no bytes of an empty key group, and 0 for its offset.
    starts = sorted({offset for some in offsets for offset in some if offset})
    if not starts or starts[-1] > len(data):
        return [data], lambda parts: attrs.evolve(handle, stream=InlineHandle("", parts[0]))
    is_compressed = data[_COMPRESSED_AT : _COMPRESSED_AT + 1] == b"\1"
    coded = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    parts = [data[: starts[0]], *(map(_decompress, coded) if is_compressed else coded)]

    def rebuild(parts: Sequence[bytes]) -> KeyedHandle | OperatorStateHandle:
        pieces = [parts[0], *(_compress(part, framed=is_keyed) if is_compressed else part for part in parts[1:])]
        at, moved = len(pieces[0]), {0: 0}
        for start, piece in zip(starts, pieces[1:], strict=True):
            moved[start] = at
            at += len(piece)
        stream = InlineHandle("", b"".join(pieces))
        if is_keyed:
            return attrs.evolve(handle, offsets=tuple(moved[offset] for offset in handle.offsets), stream=stream)
        states = tuple(
            attrs.evolve(state, offsets=tuple(moved[offset] for offset in state.offsets)) for state in handle.states
        )
        return attrs.evolve(handle, states=states, stream=stream)

    return parts, rebuild


def compressed(handle: KeyedHandle) -> KeyedHandle:
    """Give a keyed stream as it is with compression on."""
    (header, *groups), rebuild = _stream_apart(handle)
    flagged = header[:_COMPRESSED_AT] + b"\1" + header[_COMPRESSED_AT + 1 :]
    return rebuild([flagged, *(_compress(group, framed=True) for group in groups)])


def _decompress(data: bytes) -> bytes:
    framed = data if data.startswith(STREAM_HEADER) else STREAM_HEADER + data
    try:
        return bytes(cramjam.snappy.decompress(framed))
    except cramjam.DecompressionError:
        return data


def _compress(data: bytes, *, framed: bool) -> bytes:
    coded = bytes(cramjam.snappy.compress(data))
    return coded if framed else coded.removeprefix(STREAM_HEADER)
