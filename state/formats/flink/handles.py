"""Handles: the pointers in `_metadata` to the bytes of state.

    stream handle    u8 tag: 0 null; 1 inline: UTF name, i32 n, bytes[n]
                             2 absolute file: i64 size, UTF URI; 6 relative file: UTF path, i64 size
                             15 segment of a file: i64 start, i64 size, i32 scope, UTF URI, UTF id; 16 empty
    keyed handle     u8 tag: 0 none; 7 canonical, 3 native (old), 12 native: i32 first key group, i32 n, n x i64 offset,
                             stream handle; 12 then: UTF handle id
                             11, 5 (old) database: i64 checkpoint id, UTF backend id, i32 first key group, i32 number of
                             key groups, 11 then: i64 size; stream handle of the header, twice i32 n, n x (UTF file
                             name, stream handle), 11 then: UTF handle id
    operator handle  u8 tag: 0 null; 4, 17 merged: i32 n, n x (UTF name, u8 mode, i32 m, m x i64 offset),
                             17 then: UTF folder of the task, UTF shared folder, bool empty; stream handle

Source: format notes 3.3 to 3.5; notes on native snapshots, section 1. Tags of other kinds of snapshot are recognised,
and refused by name.
"""

from __future__ import annotations

import enum
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import attrs

from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ...storage.stores import bare

if TYPE_CHECKING:
    from ....serializers.views import DataInputView, DataOutputView

NULL, INLINE, ABSOLUTE_FILE, RELATIVE_FILE, SEGMENT, EMPTY = 0, 1, 2, 6, 15, 16
CANONICAL, NATIVE_OLD, NATIVE = 7, 3, 12
NO_OFFSET = -1
DATABASE, DATABASE_OLD = 11, 5
OPERATOR, OPERATOR_MERGED = 4, 17

CANONICAL_ADVICE = "take a savepoint in the canonical format (the default of `flink savepoint`) and use that"
_CHANGELOG = "a checkpoint of the changelog state backend, whose latest changes are in a log beside the state"
_OTHER_KEYED = dict.fromkeys((8, 9, 10, 13, 14), _CHANGELOG)
_OTHER_STREAM = {3: "a key-group handle used as a stream"}
_LEAST_FILE_BYTES = 3


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


@attrs.frozen
class SegmentHandle:
    """A part of a file in which a checkpoint merged several; always at an absolute URI.

    Attributes:
        uri: The URI of the file.
        start: The position of the first byte in the file.
        size: The number of bytes.
        scope: 0 where the file belongs to one subtask, 1 where subtasks share it.
        segment_id: A UUID.
    """

    uri: str = attrs.field(repr=bare)
    start: int
    size: int
    scope: int
    segment_id: str


@attrs.frozen
class EmptyHandle:
    """A stream without bytes, which a checkpoint with merged files has for operators without operator state."""

    size: int = attrs.field(default=0, init=False)


StreamHandle: TypeAlias = InlineHandle | RelativeFileHandle | AbsoluteFileHandle | SegmentHandle | EmptyHandle
"""A pointer to a stream of bytes; the format's null handle is None."""


class _OfState:
    """What handles of state have in common."""

    __slots__ = ()
    stream: Any

    @property
    def streams(self) -> tuple[StreamHandle, ...]:
        """All streams of the handle."""
        return (self.stream,)

    @property
    def size(self) -> int:
        """The number of bytes of all streams."""
        return sum(stream.size for stream in self.streams)


class _OfKeyGroups(_OfState):
    """What handles of keyed state have in common."""

    __slots__ = ()
    key_groups: Any

    def reaches(self, key_groups: range) -> bool:
        """Whether the handle covers any of these key groups."""
        own = self.key_groups
        return bool(own.start < key_groups.stop and key_groups.start < own.stop)


@attrs.frozen
class KeyGroupsHandle(_OfKeyGroups):
    """Keyed state of one subtask: a stream, and the offset of each key group in it.

    Attributes:
        tag: `CANONICAL`, `NATIVE` or `NATIVE_OLD`; it chooses the reader of the stream.
        first_key_group: The key group of the first offset.
        offsets: Positions in the stream; 0 means that the key group is empty in a canonical stream, `NO_OFFSET` that it
            was left out in a raw one.
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
    def keyed_format(self) -> str:
        """The format of the state: `canonical`, or `heap`, the heap backend's own."""
        return "canonical" if self.is_canonical else "heap"

    @property
    def frames_values(self) -> bool:
        """Whether each value has its length, so that it can be copied without knowing its type."""
        return self.is_canonical

    @property
    def header_end(self) -> int | None:
        """The end of the header in the stream; None where nothing follows it."""
        return min((offset for offset in self.offsets if offset), default=None)

    def group_sizes(self, key_groups: range) -> dict[int, int]:
        """Return the bytes of each key group that may have entries; approximate for the last one in the stream."""
        filled = sorted((offset, group) for group, offset in zip(key_groups, self.offsets, strict=True) if offset)
        edges = [*filled, (self.stream.size, -1)]
        return {group: max(end - offset, 1) for (offset, group), (end, _) in pairwise(edges)}

    @property
    def key_groups(self) -> range:
        """The key groups that the handle covers."""
        return range(self.first_key_group, self.first_key_group + len(self.offsets))


@attrs.frozen
class DatabaseFile:
    """A file of a database.

    Attributes:
        name: The name that the database gives it, such as `000012.sst`.
        stream: Its bytes.
    """

    name: str
    stream: StreamHandle


@attrs.frozen
class DatabaseHandle(_OfKeyGroups):
    """Keyed state of one subtask as the files of a RocksDB or ForSt database.

    Flink calls it `IncrementalRemoteKeyedStateHandle`; native savepoints have it, too.

    Attributes:
        tag: `DATABASE` or `DATABASE_OLD`.
        checkpoint_id: The id of the checkpoint that wrote it.
        backend_id: A UUID of the state backend that wrote it.
        key_groups: The key groups that the handle covers; the files may have entries of others.
        stream: The header: the key snapshot and the states.
        shared: The files with entries (`.sst`), which later checkpoints may use, too.
        private: The files of this checkpoint alone: `CURRENT`, `MANIFEST-…`, `OPTIONS-…`.
        checkpointed_bytes: The number of bytes that the checkpoint says to have; only with `DATABASE`.
        handle_id: A UUID; only with `DATABASE`.
    """

    tag: int
    checkpoint_id: int
    backend_id: str
    key_groups: range
    stream: StreamHandle
    shared: tuple[DatabaseFile, ...] = attrs.field(repr=False)
    private: tuple[DatabaseFile, ...] = attrs.field(repr=False)
    checkpointed_bytes: int = 0
    handle_id: str = ""

    @property
    def is_canonical(self) -> bool:
        """Whether the state is in the canonical format: it never is."""
        return False

    @property
    def keyed_format(self) -> str:
        """The format of the state: `database`."""
        return "database"

    @property
    def frames_values(self) -> bool:
        """Whether each value has its length: the database has it."""
        return True

    @property
    def header_end(self) -> int | None:
        """The end of the header in its stream: nothing follows it."""
        return None

    def group_sizes(self, key_groups: range) -> dict[int, int]:
        """Return the bytes of some key groups: a database does not say them, so they are taken to be equal."""
        return dict.fromkeys(key_groups, max(self.size // max(len(self.key_groups), 1), 1))

    @property
    def first_key_group(self) -> int:
        """The first key group that the handle covers."""
        return self.key_groups.start

    @property
    def files(self) -> tuple[DatabaseFile, ...]:
        """All files of the database."""
        return (*self.shared, *self.private)

    @property
    def streams(self) -> tuple[StreamHandle, ...]:
        """The header and all files."""
        return (self.stream, *(file.stream for file in self.files))


KeyedHandle: TypeAlias = KeyGroupsHandle | DatabaseHandle
"""A pointer to the keyed state of one subtask."""


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
class MergedFolders:
    """What a checkpoint with merged files says of an operator's folders.

    Attributes:
        task_owned: The URI of the folder for files of one subtask.
        shared: The URI of the folder for files that subtasks share.
        empty: Whether there is no operator state.
    """

    task_owned: str = attrs.field(repr=bare)
    shared: str = attrs.field(repr=bare)
    empty: bool


@attrs.frozen
class OperatorStateHandle(_OfState):
    """Operator state of one subtask.

    Attributes:
        states: The positions of the elements of each state.
        stream: The stream.
        merged: Only in a checkpoint with merged files.
    """

    states: tuple[OperatorStateOffsets, ...]
    stream: StreamHandle
    merged: MergedFolders | None = attrs.field(default=None, repr=False)


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
    if tag == SEGMENT:
        return _read_segment(source)
    if tag == EMPTY:
        return EmptyHandle()
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
        case SegmentHandle():
            target.write_byte(SEGMENT)
            target.write_long(handle.start)
            target.write_long(handle.size)
            target.write_int(handle.scope)
            target.write_utf(handle.uri)
            target.write_utf(handle.segment_id)
        case EmptyHandle():
            target.write_byte(EMPTY)
        case _:
            assert_never(handle)


def _read_segment(source: DataInputView) -> SegmentHandle:
    at = source.position
    start = source.read_long()
    if start < 0:
        raise CorruptSavepoint(f"{start} is not a position in a file", offset=at)
    size, scope = _read_file_size(source), source.read_int()
    return SegmentHandle(source.read_utf(), start, size, scope, source.read_utf())


def read_keyed_handle(source: DataInputView, *, is_raw: bool = False) -> KeyedHandle | None:
    """Read a keyed handle, or None where there is no keyed state.

    Args:
        source: The bytes of `_metadata`, at the handle.
        is_raw: Whether the operator wrote the stream itself: it may leave key groups out, whose offset is `NO_OFFSET`.

    Raises:
        UnsupportedFormat: The handle is of another kind of snapshot; the message says which.
        CorruptSavepoint: The handle is damaged.
    """
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == NULL:
        return None
    if tag in {DATABASE, DATABASE_OLD}:
        return _read_database_handle(source, tag)
    if tag not in {CANONICAL, NATIVE, NATIVE_OLD}:
        raise _unknown(tag, _OTHER_KEYED, "keyed state handle", start)
    first = _read_first_key_group(source)
    offsets = _read_offsets(source, "key groups", least=NO_OFFSET if is_raw else 0)
    stream = _required(read_stream_handle(source), start)
    return KeyGroupsHandle(tag, first, offsets, stream, source.read_utf() if tag == NATIVE else "")


def _read_first_key_group(source: DataInputView) -> int:
    first = source.read_int()
    if first < 0:
        raise CorruptSavepoint(f"the first key group is {first}", offset=source.position - 4)
    return first


def _read_database_handle(source: DataInputView, tag: int) -> DatabaseHandle:
    start = source.position - 1
    checkpoint_id, backend_id, first = source.read_long(), source.read_utf(), _read_first_key_group(source)
    count = source.read_int()
    if count < 0:
        raise CorruptSavepoint(f"the number of key groups is {count}", offset=source.position - 4)
    checkpointed_bytes = _read_file_size(source) if tag == DATABASE else 0
    stream = _required(read_stream_handle(source), start)
    shared, private = _read_database_files(source), _read_database_files(source)
    names = [file.name for file in (*shared, *private)]
    if len(set(names)) < len(names):
        raise CorruptSavepoint("two files of a database have the same name", offset=start)
    handle_id = source.read_utf() if tag == DATABASE else ""
    key_groups = range(first, first + count)
    return DatabaseHandle(
        tag, checkpoint_id, backend_id, key_groups, stream, shared, private, checkpointed_bytes, handle_id
    )


def _read_database_files(source: DataInputView) -> tuple[DatabaseFile, ...]:
    files = []
    for _ in range(source.read_size("files of a database", least_bytes_each=_LEAST_FILE_BYTES)):
        start = source.position
        files.append(DatabaseFile(source.read_utf(), _required(read_stream_handle(source), start)))
    return tuple(files)


def write_keyed_handle(handle: KeyedHandle | None, target: DataOutputView) -> None:
    """Write a keyed handle."""
    if handle is None:
        target.write_byte(NULL)
        return
    if isinstance(handle, DatabaseHandle):
        _write_database_handle(handle, target)
        return
    target.write_byte(handle.tag)
    target.write_int(handle.first_key_group)
    _write_offsets(handle.offsets, target)
    write_stream_handle(handle.stream, target)
    if handle.tag == NATIVE:
        target.write_utf(handle.handle_id)


def _write_database_handle(handle: DatabaseHandle, target: DataOutputView) -> None:
    target.write_byte(handle.tag)
    target.write_long(handle.checkpoint_id)
    target.write_utf(handle.backend_id)
    target.write_int(handle.key_groups.start)
    target.write_int(len(handle.key_groups))
    if handle.tag == DATABASE:
        target.write_long(handle.checkpointed_bytes)
    write_stream_handle(handle.stream, target)
    for files in (handle.shared, handle.private):
        target.write_int(len(files))
        for file in files:
            target.write_utf(file.name)
            write_stream_handle(file.stream, target)
    if handle.tag == DATABASE:
        target.write_utf(handle.handle_id)


def read_operator_handle(source: DataInputView) -> OperatorStateHandle | None:
    """Read an operator state handle, or None for the null one; raises as `read_keyed_handle`."""
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == NULL:
        return None
    if tag not in {OPERATOR, OPERATOR_MERGED}:
        raise _unknown(tag, {}, "operator state handle", start)
    count = source.read_size("operator states", least_bytes_each=7)
    states = tuple(_read_operator_state(source) for _ in range(count))
    if len({state.name for state in states}) < count:
        raise CorruptSavepoint("two operator states have the same name", offset=start)
    merged = None
    if tag == OPERATOR_MERGED:
        merged = MergedFolders(source.read_utf(), source.read_utf(), source.read_boolean())
    return OperatorStateHandle(states, _required(read_stream_handle(source), start), merged)


def write_operator_handle(handle: OperatorStateHandle | None, target: DataOutputView) -> None:
    """Write an operator state handle."""
    if handle is None:
        target.write_byte(NULL)
        return
    target.write_byte(OPERATOR if handle.merged is None else OPERATOR_MERGED)
    target.write_int(len(handle.states))
    for state in handle.states:
        target.write_utf(state.name)
        target.write_byte(state.mode)
        _write_offsets(state.offsets, target)
    if handle.merged is not None:
        target.write_utf(handle.merged.task_owned)
        target.write_utf(handle.merged.shared)
        target.write_boolean(handle.merged.empty)
    write_stream_handle(handle.stream, target)


def _read_operator_state(source: DataInputView) -> OperatorStateOffsets:
    name = source.read_utf()
    with located(state=name):
        mode = source.read_unsigned_byte()
        if mode > DistributionMode.BROADCAST:
            raise CorruptSavepoint(f"{mode} is not a distribution mode", offset=source.position - 1)
        return OperatorStateOffsets(name, DistributionMode(mode), _read_offsets(source, "elements"))


def _read_offsets(source: DataInputView, what: str, *, least: int = 0) -> tuple[int, ...]:
    count = source.read_size(what, least_bytes_each=8)
    start = source.position
    offsets = struct.unpack(f">{count}q", source.read_fully(8 * count))
    if count and min(offsets) < least:
        index = next(index for index, offset in enumerate(offsets) if offset < least)
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
