"""The operator state of one subtask: a header, then elements at the positions in the handle.

    i32 6, bool compressed (not at version 5)
    i16 n, n x list state, i16 m, m x broadcast state (`meta_info`)
    the elements; where compressed, all of them one framed snappy stream, flushed before each element

An element ends where the next one of any state begins, or at the end. Elements are not decoded here. Source: format
notes, section 8.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.byte_forms import BOOLEAN, ByteForm, made
from ....serializers.errors import CorruptSavepoint, MigrationFailed, located
from ....serializers.limits import MAX_HEADER_BYTES, require_header
from ....serializers.registry import registry
from ....serializers.views import DataInputView, DataOutputView
from .handles import DistributionMode, OperatorStateOffsets
from .meta_info import MetaInfoKind, StateMetaInfo, meta_infos, stream_version
from .snappy import STREAM_HEADER, FrameWriter, decompress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .handles import OperatorStateHandle
    from .sources import ByteSource

STREAM_VERSION = 6
_WITHOUT_COMPRESSION = 5
_HEADERS_KEPT = 8


@attrs.frozen
class OperatorStreamHeader:
    """The header before the elements.

    Attributes:
        list_states: The states whose elements are distributed over subtasks, or go to all of them.
        broadcast_states: The states that are one map, the same in all subtasks.
        compressed: Whether the elements are compressed.
        version: The version of the header's own format.
    """

    list_states: tuple[StateMetaInfo, ...] = ()
    broadcast_states: tuple[StateMetaInfo, ...] = ()
    compressed: bool = False
    version: int = STREAM_VERSION

    @property
    def states(self) -> tuple[StateMetaInfo, ...]:
        """All states: list states, then broadcast states."""
        return self.list_states + self.broadcast_states

    def state(self, name: str, *, is_map: bool) -> StateMetaInfo | None:
        """Return the broadcast state or the list state of a name; None: there is none."""
        among = self.broadcast_states if is_map else self.list_states
        return next((one for one in among if one.name == name), None)


@attrs.frozen
class OperatorStream:
    """The operator state of one subtask, as raw bytes.

    Attributes:
        header: The states.
        elements: The elements of each list state in order, by the name of the state.
        broadcast: The whole map of each broadcast state, `i32 n, n x (key, value)`, by the name of the state.
        order: The names of all states in the order in which they were written, for a writer that keeps this order.
    """

    header: OperatorStreamHeader
    elements: dict[str, tuple[bytes, ...]] = attrs.field(repr=False)
    broadcast: dict[str, bytes] = attrs.field(repr=False)
    order: tuple[str, ...] = ()

    def parts_of(self, info: StateMetaInfo) -> tuple[bytes, ...]:
        """Return the elements of a state; for a broadcast state its map, if it has one."""
        if info.kind is MetaInfoKind.BROADCAST:
            return (self.broadcast[info.name],) if info.name in self.broadcast else ()
        return self.elements.get(info.name, ())


_VERSION = stream_version("operator state stream", _WITHOUT_COMPRESSION, STREAM_VERSION)
_STATES: dict[str, ByteForm[Any]] = {
    "list_states": meta_infos("operator list states"),
    "broadcast_states": meta_infos("broadcast states"),
}
_HEADERS = {
    _WITHOUT_COMPRESSION: made(partial(OperatorStreamHeader, version=_WITHOUT_COMPRESSION), _STATES),
    STREAM_VERSION: made(OperatorStreamHeader, {"compressed": BOOLEAN, **_STATES}),
}
"""What follows the version, by version."""


def read_operator_header(source: DataInputView) -> OperatorStreamHeader:
    """Read a header; raises as `read_keyed_header`."""
    version = _VERSION.read(source)
    header = _HEADERS[version].read(source)
    kinds = ((header.list_states, MetaInfoKind.OPERATOR), (header.broadcast_states, MetaInfoKind.BROADCAST))
    for infos, kind in kinds:
        for info in infos:
            if info.kind is not kind:
                raise CorruptSavepoint(f"a state of kind {info.kind.name} is listed as {kind.name}", state=info.name)
    return header


def write_operator_header(header: OperatorStreamHeader, target: DataOutputView) -> None:
    """Write a header; a header that was read is written with the same bytes."""
    _VERSION.write(target, header.version)
    _HEADERS[header.version].write(target, header)


def read_operator_stream(
    source: ByteSource, handle: OperatorStateHandle, wanted: Mapping[str, range] | None = None
) -> OperatorStream:
    """Read the operator state of one subtask into memory, where it fits, as it did in Flink.

    Args:
        source: The bytes of the stream.
        handle: The handle of the stream.
        wanted: The elements to read of each state, by their indexes in the handle. None: all elements of all states.

    Raises:
        UnknownSnapshot: A snapshot class is not registered; nothing of the stream can be read then.
        UnsupportedFormat: The kind of the stream or of a state is not known.
        CorruptSavepoint: Bytes or offsets are damaged.
    """
    with located(file=source.name):
        header, begin = _open_header(source, handle)
        if len({info.name for info in header.states}) < len(header.states):
            raise CorruptSavepoint("a list state and a broadcast state have the same name")
        for state in handle.states:
            _check(state, header, begin, source.size)
        places = sorted(
            (offset, at, index) for at, state in enumerate(handle.states) for index, offset in enumerate(state.offsets)
        )
        if places and places[0][0] != begin:
            raise CorruptSavepoint(f"{places[0][0] - begin} bytes belong to no state", offset=begin)
        found: list[dict[int, bytes]] = [{} for _ in handle.states]
        for (offset, at, index), (end, _, _) in pairwise([*places, (source.size, 0, 0)]):
            if wanted is None or index in wanted.get(handle.states[at].name, ()):
                found[at][index] = _element(source, offset, end, compressed=header.compressed)
        parts = {
            state.name: tuple(part for _, part in sorted(found[at].items())) for at, state in enumerate(handle.states)
        }
        elements = {info.name: parts.get(info.name, ()) for info in header.list_states}
        broadcast = {info.name: parts[info.name][0] for info in header.broadcast_states if parts.get(info.name)}
        return OperatorStream(header, elements, broadcast, tuple(state.name for state in handle.states))


def write_operator_stream(
    header: OperatorStreamHeader,
    elements: Mapping[str, Sequence[bytes]],
    broadcast: Mapping[str, bytes],
    write: Callable[[bytes], object],
) -> tuple[OperatorStateOffsets, ...]:
    """Write the operator state of one subtask.

    Args:
        header: The states, the same in all subtasks of an operator; and whether the elements are compressed.
        elements: The elements of each list state, by its name. A state that is left out has no elements.
        broadcast: The whole map of each broadcast state, by its name. A state that is left out is written empty.
        write: Takes the bytes, such as `FileOutput.write` or `bytearray.extend`.

    Returns:
        The offsets for the handle, lists first, in the order of the header.

    Raises:
        MigrationFailed: Elements are given of a state that the header does not have.
        DeclarationError: The header is larger, or a type is nested more deeply, than is read back.
    """
    unknown = {*elements, *broadcast} - {info.name for info in header.states}
    if unknown:
        raise MigrationFailed(f"there are elements of {', '.join(sorted(unknown))}, which the header does not list")
    stream = _Counted(write)
    start = DataOutputView()
    write_operator_header(attrs.evolve(header, version=STREAM_VERSION), start)
    require_header(len(start))
    stream.write(start.getvalue())
    frame = FrameWriter(stream.write) if header.compressed else None
    states = []
    for info in header.states:
        is_map = info.kind is MetaInfoKind.BROADCAST
        values = [broadcast.get(info.name, bytes(4))] if is_map else elements.get(info.name, ())
        offsets = []
        for value in values:
            offsets.append(stream.size)
            if frame is None:
                stream.write(value)
            else:
                frame.write(value)
                frame.flush()
        states.append(OperatorStateOffsets(info.name, mode_of(info), tuple(offsets)))
    return tuple(states)


@attrs.define
class _Counted:
    """Passes bytes on, and counts them."""

    target: Callable[[bytes], object]
    size: int = 0

    def write(self, data: bytes) -> None:
        self.target(data)
        self.size += len(data)


def mode_of(info: StateMetaInfo) -> DistributionMode:
    """Return how the elements of an operator state are distributed; raises `CorruptSavepoint`."""
    if info.kind is MetaInfoKind.BROADCAST:
        return DistributionMode.BROADCAST
    name = info.option("OPERATOR_STATE_DISTRIBUTION_MODE") or DistributionMode.SPLIT_DISTRIBUTE.name
    if name not in DistributionMode.__members__:
        raise CorruptSavepoint(f"{name!r} is not a distribution mode", state=info.name)
    return DistributionMode[name]


def read_operator_stream_header(source: ByteSource, handle: OperatorStateHandle) -> OperatorStreamHeader:
    """Read only the header of an operator state stream; raises as `read_operator_stream`."""
    with located(file=source.name):
        return _open_header(source, handle)[0]


def require_written_order(handle: OperatorStateHandle) -> None:
    """Refuse a handle that does not list the elements of a state in the order of the stream, as Flink writes them.

    Flink itself reads elements in any order, and then the list has another order.

    Raises:
        CorruptSavepoint: The offsets of a state do not ascend.
    """
    for state in handle.states:
        before = next((one for one, other in pairwise(state.offsets) if one > other), None)
        if before is not None:
            raise CorruptSavepoint(
                f"the element at byte {before} is listed before elements with smaller offsets", state=state.name
            )


def _open_header(source: ByteSource, handle: OperatorStateHandle) -> tuple[OperatorStreamHeader, int]:
    """Return the header, and the position of the first element."""
    end = min((offset for state in handle.states for offset in state.offsets), default=source.size)
    if end > min(source.size, MAX_HEADER_BYTES):
        raise CorruptSavepoint(f"the first element is listed at byte {end} of {source.size}", offset=0)
    data = source.read_at(0, end)
    header, begin = _parsed_header(data, registry.edition)
    if header.compressed and data.startswith(STREAM_HEADER, begin):
        begin += len(STREAM_HEADER)
    if begin != end:
        raise CorruptSavepoint(f"{end - begin} bytes after the header belong to no state", offset=begin)
    return header, begin


@lru_cache(maxsize=_HEADERS_KEPT)
def _parsed_header(
    data: bytes,
    registered: tuple[object, ...],  # noqa: ARG001 - part of the key
) -> tuple[OperatorStreamHeader, int]:
    """Parse a header and return it with its size; cached, as for keyed streams."""
    view = DataInputView(data)
    return read_operator_header(view), view.position


def _check(state: OperatorStateOffsets, header: OperatorStreamHeader, begin: int, size: int) -> None:
    with located(state=state.name):
        info = next((info for info in header.states if info.name == state.name), None)
        if info is None:
            raise CorruptSavepoint(f"the handle lists the state {state.name!r}, which the stream does not have")
        wrong = [offset for offset in state.offsets if not begin <= offset <= size]
        if wrong:
            raise CorruptSavepoint(f"an element is listed at byte {wrong[0]} of {size}", offset=size)
        if info.kind is MetaInfoKind.BROADCAST and len(state.offsets) != 1:
            raise CorruptSavepoint(f"a broadcast state has {len(state.offsets)} offsets and should have one")
        if state.mode is not mode_of(info):
            raise CorruptSavepoint(f"handle and stream disagree on how the elements of {state.name!r} are distributed")


def _element(source: ByteSource, start: int, end: int, *, compressed: bool) -> bytes:
    if compressed:
        return b"".join(decompress(source, start, end))
    return source.read_at(start, end - start)
