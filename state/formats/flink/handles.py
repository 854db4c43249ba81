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
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs

from ....serializers.byte_forms import (
    BOOLEAN,
    INT,
    LONG,
    UTF,
    ByteForm,
    checked,
    made,
    many,
    mapped,
    member,
    several,
    sized,
)
from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ...storage.stores import bare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ....serializers.views import DataInputView, DataOutputView

NULL, INLINE, ABSOLUTE_FILE, RELATIVE_FILE, SEGMENT, EMPTY = 0, 1, 2, 6, 15, 16
CANONICAL, NATIVE_OLD, NATIVE = 7, 3, 12
NO_OFFSET = -1
DATABASE, DATABASE_OLD = 11, 5
OPERATOR, OPERATOR_MERGED = 4, 17

CANONICAL_ADVICE = "take a savepoint in the canonical format (the default of `flink savepoint`) and use that"
_CHANGELOG = "a checkpoint of the changelog state backend, whose latest changes are in a log beside the state"


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

    is_canonical: ClassVar[bool] = False
    """Whether the state is in the canonical format: it never is."""
    keyed_format: ClassVar[str] = "database"
    """The format of the state."""
    frames_values: ClassVar[bool] = True
    """Whether each value has its length: the database has it."""
    header_end: ClassVar[int | None] = None
    """The end of the header in its stream: nothing follows it."""

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


def _handles(
    what: str, forms: Mapping[int, ByteForm[Any]], tag_of: Callable[[Any], int], others: Mapping[int, str]
) -> ByteForm[Any]:
    """Return the form of handles of one sort, whose tag chooses what follows; None is the tag `NULL` alone.

    Args:
        what: The sort, for errors.
        forms: What follows each tag.
        tag_of: Returns the tag of a handle.
        others: The tags of other kinds of snapshot, with what those are: they are refused by name.
    """

    def read(source: DataInputView) -> Any:
        start = source.position
        tag = source.read_unsigned_byte()
        if tag in forms:
            return forms[tag].read(source)
        if tag in others:
            raise UnsupportedFormat(
                f"the {what} is of {others[tag]}; this release does not read those",
                advice=CANONICAL_ADVICE,
                offset=start,
            )
        if tag != NULL:
            raise CorruptSavepoint(f"{tag} is no kind of {what}", offset=start)
        return None

    def write(target: DataOutputView, handle: Any) -> None:
        tag = NULL if handle is None else tag_of(handle)
        target.write_byte(tag)
        if handle is not None:
            forms[tag].write(target, handle)

    return ByteForm(read, write)


def _natural(form: ByteForm[int], problem: str) -> ByteForm[int]:
    return checked(form, lambda number: number >= 0, problem)


_SIZE = _natural(LONG, "{} is not the size of a file")
_STREAM_TAGS = {
    InlineHandle: INLINE,
    RelativeFileHandle: RELATIVE_FILE,
    AbsoluteFileHandle: ABSOLUTE_FILE,
    SegmentHandle: SEGMENT,
    EmptyHandle: EMPTY,
}
STREAM_HANDLE: ByteForm[StreamHandle | None] = _handles(
    "stream handle",
    {
        INLINE: made(InlineHandle, {"name": UTF, "data": sized("inline state")}),
        RELATIVE_FILE: made(RelativeFileHandle, {"path": UTF, "size": _SIZE}),
        ABSOLUTE_FILE: made(AbsoluteFileHandle, {"size": _SIZE, "uri": UTF}),
        SEGMENT: made(
            SegmentHandle,
            {
                "start": _natural(LONG, "{} is not a position in a file"),
                "size": _SIZE,
                "scope": INT,
                "uri": UTF,
                "segment_id": UTF,
            },
        ),
        EMPTY: ByteForm(lambda _: EmptyHandle(), lambda _, __: None, 0),
    },
    lambda handle: _STREAM_TAGS[type(handle)],
    {3: "a key-group handle used as a stream"},
)
_STREAM = checked(STREAM_HANDLE, lambda stream: stream is not None, "a handle of state points at no stream")


def _offsets(what: str, least: int = 0) -> ByteForm[tuple[int, ...]]:
    """Return the form of positions in a stream: their number, and each as an i64, the least of which is given."""

    def read(source: DataInputView) -> tuple[int, ...]:
        count = source.read_size(what, least_bytes_each=8)
        start = source.position
        offsets = struct.unpack(f">{count}q", source.read_fully(8 * count))
        if count and min(offsets) < least:
            index = next(index for index, offset in enumerate(offsets) if offset < least)
            raise CorruptSavepoint(f"{offsets[index]} is not a position in a stream", offset=start + 8 * index)
        return offsets

    def write(target: DataOutputView, offsets: tuple[int, ...]) -> None:
        target.write(struct.pack(f">i{len(offsets)}q", len(offsets), *offsets))

    return ByteForm(read, write, 4)


_FIRST_KEY_GROUP = _natural(INT, "the first key group is {}")
_KEY_GROUPS = mapped(
    several(_FIRST_KEY_GROUP, _natural(INT, "the number of key groups is {}")),
    lambda pair: range(pair[0], sum(pair)),
    lambda key_groups: (key_groups.start, len(key_groups)),
)
_FILES = many(made(DatabaseFile, {"name": UTF, "stream": _STREAM}), "files of a database")


def _keyed_handles(least: int) -> ByteForm[KeyedHandle | None]:
    """Return the form of keyed handles; `least` is the least offset of a key group."""
    groups: dict[str, ByteForm[Any]] = {
        "first_key_group": _FIRST_KEY_GROUP,
        "offsets": _offsets("key groups", least),
        "stream": _STREAM,
    }
    written: dict[str, ByteForm[Any]] = {"checkpoint_id": LONG, "backend_id": UTF, "key_groups": _KEY_GROUPS}
    files: dict[str, ByteForm[Any]] = {"stream": _STREAM, "shared": _FILES, "private": _FILES}
    forms: dict[int, ByteForm[Any]] = {
        CANONICAL: made(partial(KeyGroupsHandle, CANONICAL), groups),
        NATIVE_OLD: made(partial(KeyGroupsHandle, NATIVE_OLD), groups),
        NATIVE: made(partial(KeyGroupsHandle, NATIVE), {**groups, "handle_id": UTF}),
        DATABASE_OLD: _apart(made(partial(DatabaseHandle, DATABASE_OLD), {**written, **files})),
        DATABASE: _apart(
            made(partial(DatabaseHandle, DATABASE), {**written, "checkpointed_bytes": _SIZE, **files, "handle_id": UTF})
        ),
    }
    return _handles(
        "keyed state handle", forms, lambda handle: handle.tag, dict.fromkeys((8, 9, 10, 13, 14), _CHANGELOG)
    )


def _apart(form: ByteForm[DatabaseHandle]) -> ByteForm[DatabaseHandle]:
    def has_names(handle: DatabaseHandle) -> bool:
        return len({file.name for file in handle.files}) == len(handle.files)

    return checked(form, has_names, "two files of a database have the same name")


KEYED_HANDLE = _keyed_handles(0)
RAW_KEYED_HANDLE = _keyed_handles(NO_OFFSET)
"""Of keyed state that an operator wrote itself: it may leave key groups out, whose offset is `NO_OFFSET`."""

_STATES = many(
    made(
        OperatorStateOffsets,
        {
            "name": UTF,
            "mode": member(DistributionMode, "{} is not a distribution mode"),
            "offsets": _offsets("elements"),
        },
        within=lambda name: located(state=name),
    ),
    "operator states",
    apart="name",
)
_MERGED = made(MergedFolders, {"task_owned": UTF, "shared": UTF, "empty": BOOLEAN})
OPERATOR_HANDLE: ByteForm[OperatorStateHandle | None] = _handles(
    "operator state handle",
    {
        OPERATOR: made(OperatorStateHandle, {"states": _STATES, "stream": _STREAM}),
        OPERATOR_MERGED: made(OperatorStateHandle, {"states": _STATES, "merged": _MERGED, "stream": _STREAM}),
    },
    lambda handle: OPERATOR if handle.merged is None else OPERATOR_MERGED,
    {},
)
