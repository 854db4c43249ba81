"""Handles: the pointers in `_metadata` to the bytes of state.

    stream handle    u8 tag: 0 null; 1 inline: UTF name, i32 n, bytes[n]
                             2 absolute file: i64 size, UTF URI; 6 relative file: UTF path, i64 size
    keyed handle     u8 tag: 0 none; 7 canonical, 3 native (old), 12 native: i32 first key group, i32 n, n x i64 offset,
                             stream handle; 12 then: UTF handle id
    operator handle  u8 tag: 0 null; 4: i32 n, n x (UTF name, u8 mode, i32 m, m x i64 offset), stream handle

Source: format notes 3.3 to 3.5. Tags of other kinds of snapshot are recognised, and refused by name.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, TypeAlias, assert_never

import attrs

from ...serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ..storage.stores import bare

if TYPE_CHECKING:
    from ...serializers.views import DataInputView, DataOutputView

NULL, INLINE, ABSOLUTE_FILE, RELATIVE_FILE = 0, 1, 2, 6
CANONICAL, NATIVE_OLD, NATIVE = 7, 3, 12
OPERATOR = 4

CANONICAL_ADVICE = "take a savepoint in the canonical format (the default of `flink savepoint`) and use that"
_ROCKSDB = "a native or incremental RocksDB snapshot, which holds RocksDB's own files"
_CHANGELOG = "a snapshot of the changelog state backend"
_MERGED = "a checkpoint with merged files"
_OTHER_KEYED = {5: _ROCKSDB, 11: _ROCKSDB, **dict.fromkeys((8, 9, 10, 13, 14), _CHANGELOG)}
_OTHER_STREAM = {3: "a key-group handle used as a stream", 15: _MERGED, 16: _MERGED}
_OTHER_OPERATOR = {17: _MERGED}


@attrs.frozen
class InlineHandle:
    """State inside `_metadata`.

    Attributes:
        name: Any name; Flink writes a UUID.
        data: The bytes of state.
    """

    name: str
    data: bytes = attrs.field(repr=False)

    @property
    def size(self) -> int:
        """The number of bytes of state."""
        return len(self.data)


@attrs.frozen
class RelativeFileHandle:
    """A file beside `_metadata`; such a savepoint may be moved.

    Attributes:
        path: Relative to the folder of `_metadata`.
        size: Its size in bytes.
    """

    path: str
    size: int


@attrs.frozen
class AbsoluteFileHandle:
    """A file at an absolute URI.

    Attributes:
        uri: The URI, such as `file:/…` or `s3://…`.
        size: Its size in bytes.
    """

    uri: str = attrs.field(repr=bare)
    size: int


StreamHandle: TypeAlias = InlineHandle | RelativeFileHandle | AbsoluteFileHandle
"""A pointer to a stream of bytes; the format's null handle is None."""


@attrs.frozen
class KeyedHandle:
    """Keyed state of one subtask: a stream, and the offset of each key group in it.

    Attributes:
        tag: `CANONICAL`, `NATIVE` or `NATIVE_OLD`; it chooses the reader of the stream.
        first_key_group: The key group of the first offset.
        offsets: Positions in the stream; in a canonical stream 0 means that the key group is empty.
        stream: The stream.
        handle_id: A UUID; only with `NATIVE`.
    """

    tag: int
    first_key_group: int
    offsets: tuple[int, ...] = attrs.field(repr=False)
    stream: StreamHandle
    handle_id: str = ""

    @property
    def is_canonical(self) -> bool:
        """Whether the stream is in the canonical format."""
        return self.tag == CANONICAL

    @property
    def key_groups(self) -> range:
        """The key groups that the handle covers."""
        return range(self.first_key_group, self.first_key_group + len(self.offsets))

    def reaches(self, key_groups: range) -> bool:
        """Whether the handle covers any of these key groups."""
        own = self.key_groups
        return own.start < key_groups.stop and key_groups.start < own.stop


class DistributionMode(enum.IntEnum):
    """How operator state is distributed over subtasks on restore; the value is the one in `_metadata`."""

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


@attrs.frozen
class OperatorStateOffsets:
    """The positions of the elements of one operator state.

    Attributes:
        name: The name of the state.
        mode: How its elements are distributed.
        offsets: One position for each element; for a broadcast state one position for the whole map.
    """

    name: str
    mode: DistributionMode
    offsets: tuple[int, ...] = attrs.field(repr=False)


@attrs.frozen
class OperatorStateHandle:
    """Operator state of one subtask."""

    states: tuple[OperatorStateOffsets, ...]
    stream: StreamHandle


def read_stream_handle(source: DataInputView) -> StreamHandle | None:
    """Read a stream handle, or None for the null one."""
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == NULL:
        return None
    if tag == INLINE:
        name = source.read_utf()
        return InlineHandle(name, source.read_fully(source.read_size("bytes of inline state")))
    if tag == RELATIVE_FILE:
        path = source.read_utf()
        return RelativeFileHandle(path, _read_file_size(source))
    if tag == ABSOLUTE_FILE:
        size = _read_file_size(source)
        return AbsoluteFileHandle(source.read_utf(), size)
    raise _unknown(tag, _OTHER_STREAM, "stream handle", start)


def write_stream_handle(handle: StreamHandle | None, target: DataOutputView) -> None:
    """Write a stream handle."""
    match handle:
        case None:
            target.write_byte(NULL)
        case InlineHandle():
            target.write_byte(INLINE)
            target.write_utf(handle.name)
            target.write_int(len(handle.data))
            target.write(handle.data)
        case RelativeFileHandle():
            target.write_byte(RELATIVE_FILE)
            target.write_utf(handle.path)
            target.write_long(handle.size)
        case AbsoluteFileHandle():
            target.write_byte(ABSOLUTE_FILE)
            target.write_long(handle.size)
            target.write_utf(handle.uri)
        case _:
            assert_never(handle)


def read_keyed_handle(source: DataInputView) -> KeyedHandle | None:
    """Read a keyed handle, or None where there is no keyed state.

    Raises:
        UnsupportedFormat: The handle is of another kind of snapshot; the message says which.
        CorruptSavepoint: The handle is damaged.
    """
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == NULL:
        return None
    if tag not in {CANONICAL, NATIVE, NATIVE_OLD}:
        raise _unknown(tag, _OTHER_KEYED, "keyed state handle", start)
    first = source.read_int()
    if first < 0:
        raise CorruptSavepoint(f"the first key group is {first}", offset=source.position - 4)
    offsets = _read_offsets(source, "key groups")
    stream = _required(read_stream_handle(source), start)
    return KeyedHandle(tag, first, offsets, stream, source.read_utf() if tag == NATIVE else "")


def write_keyed_handle(handle: KeyedHandle | None, target: DataOutputView) -> None:
    """Write a keyed handle."""
    if handle is None:
        target.write_byte(NULL)
        return
    target.write_byte(handle.tag)
    target.write_int(handle.first_key_group)
    _write_offsets(handle.offsets, target)
    write_stream_handle(handle.stream, target)
    if handle.tag == NATIVE:
        target.write_utf(handle.handle_id)


def read_operator_handle(source: DataInputView) -> OperatorStateHandle | None:
    """Read an operator state handle, or None for the null one; raises as `read_keyed_handle`."""
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == NULL:
        return None
    if tag != OPERATOR:
        raise _unknown(tag, _OTHER_OPERATOR, "operator state handle", start)
    count = source.read_size("operator states", least_bytes_each=7)
    states = tuple(_read_operator_state(source) for _ in range(count))
    if len({state.name for state in states}) < count:
        raise CorruptSavepoint("two operator states have the same name", offset=start)
    return OperatorStateHandle(states, _required(read_stream_handle(source), start))


def write_operator_handle(handle: OperatorStateHandle | None, target: DataOutputView) -> None:
    """Write an operator state handle."""
    if handle is None:
        target.write_byte(NULL)
        return
    target.write_byte(OPERATOR)
    target.write_int(len(handle.states))
    for state in handle.states:
        target.write_utf(state.name)
        target.write_byte(state.mode)
        _write_offsets(state.offsets, target)
    write_stream_handle(handle.stream, target)


def _read_operator_state(source: DataInputView) -> OperatorStateOffsets:
    name = source.read_utf()
    with located(state=name):
        mode = source.read_unsigned_byte()
        if mode > DistributionMode.BROADCAST:
            raise CorruptSavepoint(f"{mode} is not a distribution mode", offset=source.position - 1)
        return OperatorStateOffsets(name, DistributionMode(mode), _read_offsets(source, "elements"))


def _read_offsets(source: DataInputView, what: str) -> tuple[int, ...]:
    count = source.read_size(what, least_bytes_each=8)
    start = source.position
    offsets = struct.unpack(f">{count}q", source.read_fully(8 * count))
    if count and min(offsets) < 0:
        index = next(index for index, offset in enumerate(offsets) if offset < 0)
        raise CorruptSavepoint(f"{offsets[index]} is not a position in a stream", offset=start + 8 * index)
    return offsets


def _write_offsets(offsets: tuple[int, ...], target: DataOutputView) -> None:
    target.write_int(len(offsets))
    for offset in offsets:
        target.write_long(offset)


def _read_file_size(source: DataInputView) -> int:
    size = source.read_long()
    if size < 0:
        raise CorruptSavepoint(f"{size} is not the size of a file", offset=source.position - 8)
    return size


def _required(stream: StreamHandle | None, start: int) -> StreamHandle:
    if stream is None:
        raise CorruptSavepoint("a handle of state points at no stream", offset=start)
    return stream


def _unknown(tag: int, known: dict[int, str], what: str, start: int) -> CorruptSavepoint | UnsupportedFormat:
    if tag in known:
        return UnsupportedFormat(
            f"the {what} is of {known[tag]}; this release does not read those",
            advice=CANONICAL_ADVICE,
            offset=start,
        )
    return CorruptSavepoint(f"{tag} is no kind of {what}", offset=start)
