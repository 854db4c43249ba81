"""The keyed state of one subtask: a header, then key groups with the entries of all states.

    i32 6, bool compressed, SNAP2 key serializer, i16 n, n x state (`meta_info`)
    at the offset of each non-empty key group: `blocks`; where compressed, one framed snappy stream (`snappy`)

Nothing here decodes a key or a value. Source: format notes, sections 4 and 5.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ....serializers.byte_forms import BOOLEAN, made, stepped
from ....serializers.errors import CorruptSavepoint, MigrationFailed, located
from ....serializers.limits import MAX_HEADER_BYTES, require_header
from ....serializers.registry import registry
from ....serializers.views import DataInputView, DataOutputView
from ...transcode.executor_choice import ExecutorName
from .blocks import END_MARK, LAST_FLAG, MARGIN_BYTES, Block, BlockWalker
from .key_group_ranges import OVERLAP_BYTES, KeyGroupRange, extents, pieces_of, runs_of, walked
from .meta_info import SERIALIZER_SNAPSHOT, StateMetaInfo, meta_infos, stream_version
from .snappy import FrameWriter, decompress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ....serializers.snapshot import TypeSerializerConfigSnapshot
    from .handles import KeyedHandle, KeyGroupsHandle
    from .key_group_ranges import Extent
    from .sources import ByteSource

STREAM_VERSION = 6
RUN_BYTES = 4 << 20
_LARGE_BYTES = 1 << 16
_HEADERS_KEPT = 8
_WHOLE_BYTES = 3 << 20
"""The size up to which a key group is read at once; a longer one is read in pieces."""
_LENGTH_BYTES = 4


@attrs.frozen
class KeyedStreamHeader:
    """The header before the entries; it is the same in canonical and native streams.

    Attributes:
        key_snapshot: The snapshot of the key serializer.
        states: The states in the order of the file: the index of a state is its id in the entries.
        compressed: Whether each key group is compressed.
        version: The version of the header's own format.
    """

    key_snapshot: TypeSerializerConfigSnapshot[Any]
    states: tuple[StateMetaInfo, ...]
    compressed: bool = False
    version: int = STREAM_VERSION

    def state_id(self, name: str) -> int:
        """Return the id of a state; raises `KeyError` where there is none of that name."""
        for index, state in enumerate(self.states):
            if state.name == name:
                return index
        raise KeyError(name)


_HEADER = made(
    KeyedStreamHeader,
    {
        "version": stream_version("keyed stream", STREAM_VERSION),
        "compressed": BOOLEAN,
        "key_snapshot": stepped("<key>", SERIALIZER_SNAPSHOT),
        "states": meta_infos("keyed states"),
    },
)


def read_keyed_header(source: DataInputView) -> KeyedStreamHeader:
    """Read a header.

    Raises:
        UnknownSnapshot: A snapshot class is not registered; nothing of the stream can be read then.
        UnsupportedFormat: The kind of the stream or of a state is not known.
        CorruptSavepoint: The bytes are damaged.
    """
    return _HEADER.read(source)


def write_keyed_header(header: KeyedStreamHeader, target: DataOutputView) -> None:
    """Write a header; a header that was read is written with the same bytes.

    Raises:
        DeclarationError: It is larger, or a type is nested more deeply, than is read back.
    """
    _HEADER.write(target, header)
    require_header(len(target))


@attrs.frozen(slots=False)
class KeyedReader(ABC):
    """Reads the keyed state of one subtask as canonical blocks, in whatever format it is stored.

    Attributes:
        header: The key snapshot and the states; the index of a state is its id in the blocks.
        name: The name of the stream in messages.
        executor: The executor that finds the entries.
    """

    header: KeyedStreamHeader
    name: str
    executor: ExecutorName

    has_states_apart: ClassVar[bool] = False
    """Whether a state is read without the bytes of the others."""

    @property
    def hidden(self) -> dict[str, str]:
        """The states whose entries cannot be reached, each with the reason; none where every value has a length."""
        return {}

    @property
    def foreign(self) -> int:
        """The number of stored entries of other key groups, which are left out; only files of databases have any."""
        return 0

    @abstractmethod
    def blocks(
        self, key_groups: range | None = None, state_ids: Collection[int] | None = None, *, beginning: bytes = b""
    ) -> Iterator[Block]:
        """Yield the blocks of some key groups and states (by default all), key groups ascending, states as stored.

        A long block is yielded in several consecutive pieces, so that memory is bounded.

        Args:
            key_groups: The key groups.
            state_ids: The states.
            beginning: The bytes with which the keys begin that the caller wants: a reader that finds them in sorted
                entries may leave out others. It has to leave timers, which do not begin with their keys.

        Raises:
            OldReaderUnavailable: The ends of the entries of a requested state cannot be found (native formats only).
            CorruptSavepoint: The bytes are damaged.
        """


@attrs.frozen(slots=False)
class KeyedStreamReader(KeyedReader):
    """Reads the keyed state of one subtask from a canonical stream, a few megabytes at a time. Created with `open`.

    Attributes:
        source: The bytes of the stream.
    """

    source: ByteSource
    _extents: tuple[Extent, ...] = attrs.field(repr=False)

    @classmethod
    def open(
        cls, source: ByteSource, handle: KeyGroupsHandle, executor: ExecutorName = ExecutorName.OBJECTS
    ) -> KeyedStreamReader:
        """Read the header of the stream of `handle`, and check the offsets; raises as `read_keyed_header`."""
        with located(file=source.name):
            return cls(_open_header(source, handle), source.name, executor, source, tuple(extents(source, handle)))

    @property
    def key_groups(self) -> tuple[int, ...]:
        """The key groups that have entries, ascending."""
        return tuple(extent.key_group for extent in self._extents)

    def size_of(self, key_group: int) -> int:
        """Return the size of a key group in the stream (compressed, where it is) in bytes; 0 where it is empty."""
        return sum(extent.end - extent.start for extent in self._extents if extent.key_group == key_group)

    def blocks(
        self, key_groups: range | None = None, state_ids: Collection[int] | None = None, *, beginning: bytes = b""
    ) -> Iterator[Block]:
        chosen = self._chosen(key_groups)
        return (block for block in self._found(chosen) if state_ids is None or block.state_id in state_ids)

    def _chosen(self, key_groups: range | None) -> list[Extent]:
        return [extent for extent in self._extents if key_groups is None or extent.key_group in key_groups]

    def _found(self, extents: list[Extent]) -> Iterator[Block]:
        with located(file=self.source.name):
            for found in self._ranges(extents):
                yield from found.blocks() if isinstance(found, KeyGroupRange) else found

    def ranges(self, key_groups: range | None = None) -> Iterator[KeyGroupRange | Iterator[Block]]:
        """Yield some key groups (by default all) as stored, several at once; for a long or compressed one its blocks.

        The caller must consume these blocks before it requests the next item.
        """
        return self._ranges(self._chosen(key_groups))

    def _ranges(self, extents: list[Extent]) -> Iterator[KeyGroupRange | Iterator[Block]]:
        states = len(self.header.states)
        if self.header.compressed:
            for extent in extents:
                pieces = decompress(self.source, extent.start, extent.end)
                yield walked(extent, BlockWalker(extent.key_group, states, pieces, executor=self.executor))
            return
        most = min(RUN_BYTES, self.source.piece_bytes)
        for run in runs_of(extents, most):
            start, end = run[0].start, run[-1].end
            if end - start <= max(most, _WHOLE_BYTES):
                yield KeyGroupRange(tuple(run), self._read(start, start, end - start), states, self.executor)
            else:
                pieces = (self._read(start, *place) for place in pieces_of(run, most))
                yield run[0].blocks(pieces, states, self.executor)

    def _read(self, start: int, offset: int, size: int) -> memoryview:
        """Read a piece of the run at `start` into writable memory, with up to `OVERLAP_BYTES` of the bytes before it.

        The memory extends up to `MARGIN_BYTES` past the returned view, where the file does.
        """
        before, margin = min(OVERLAP_BYTES, offset - start), min(MARGIN_BYTES, self.source.size - offset - size)
        return BytesIO(self.source.read_at(offset - before, before + size + margin)).getbuffer()[: before + size]


def read_stream_header(source: ByteSource, handle: KeyedHandle) -> KeyedStreamHeader:
    """Read only the header of keyed state, canonical or native; raises as `read_keyed_header`."""
    with located(file=source.name):
        return _open_header(source, handle)


def _open_header(source: ByteSource, handle: KeyedHandle) -> KeyedStreamHeader:
    end = source.size if handle.header_end is None else handle.header_end
    if end > min(source.size, MAX_HEADER_BYTES):
        raise CorruptSavepoint(f"the first key group is listed at byte {end} of {source.size}", offset=0)
    return _parsed_header(source.read_at(0, end), registry.edition)


@lru_cache(maxsize=_HEADERS_KEPT)
def _parsed_header(data: bytes, edition: int) -> KeyedStreamHeader:  # noqa: ARG001 - part of the key
    """Parse a header; cached, because the subtasks' headers are mostly equal and may have very many states.

    Args:
        data: The header.
        edition: The edition of the registry: with other snapshot classes the same bytes have another meaning.
    """
    view = DataInputView(data)
    header = read_keyed_header(view)
    if view.remaining():
        raise CorruptSavepoint(
            f"{view.remaining()} bytes after the header belong to no key group", offset=view.position
        )
    return header


class KeyedStreamWriter:
    """Writes the keyed state of one subtask, in bounded memory.

    Call `add` with blocks, key groups ascending and the pieces of a block one after the other; then `finish`. The
    writer takes ownership of the blocks: it sets the flag of the last entry in their memory, where that is writable.

    Args:
        header: The key snapshot and the states, and whether each key group is compressed.
        key_groups: Exactly the key groups of the subtask, as `key_group_range` returns them.
        write: Takes the bytes, such as `FileOutput.write` or `bytearray.extend`.

    Attributes:
        size: The number of bytes passed to `write` so far, or waiting to be.
        entries: The number of entries written so far, by state id.
    """

    def __init__(
        self, header: KeyedStreamHeader, key_groups: range, write: Callable[[bytes | memoryview], object]
    ) -> None:
        self._key_groups = key_groups
        self._reached = key_groups.start - 1
        self._write = write
        self._offsets = [0] * len(key_groups)
        self._buffer = DataOutputView()
        self._flushed = 0
        self._pending: Block | None = None
        self._seen: set[int] = set()
        self._compressed = header.compressed
        self._frame: FrameWriter | None = None
        self.entries = [0] * len(header.states)
        write_keyed_header(attrs.evolve(header, version=STREAM_VERSION), self._buffer)

    @property
    def size(self) -> int:
        """The number of bytes passed to `write` so far, or waiting to be."""
        return self._flushed + len(self._buffer)

    def add(self, block: Block) -> None:
        """Append a block, or the next piece of one; an empty block is left out.

        Raises:
            MigrationFailed: The block is out of order, or the stream does not have its key group or state.
        """
        if not block.entries:
            return
        block.refuse_oversized()
        before = self._pending
        if before is None or (before.key_group, before.state_id) != (block.key_group, block.state_id):
            self._switch(before, block)
        else:
            self._emit(before.data)
        self.entries[block.state_id] += block.entries
        self._pending = block

    def add_key_groups(
        self, key_groups: Sequence[int], offsets: Sequence[int], data: memoryview, entries: Sequence[int]
    ) -> None:
        """Append whole key groups in the format of the stream, which is not compressed; raises as `add`.

        Args:
            key_groups: The key groups.
            offsets: The position of each in the data; -1 for an empty one.
            data: The bytes of the key groups.
            entries: The number of entries of each state.
        """
        if self._pending is not None:
            self._end_key_group(self._pending)
            self._pending = None
        start, begin = self.size, self._begin_key_group
        for key_group, offset in zip(key_groups, offsets, strict=True):
            if offset >= 0:
                begin(key_group, start + offset)
        self.entries = [before + more for before, more in zip(self.entries, entries, strict=True)]
        self._emit(data)

    def finish(self) -> tuple[int, ...]:
        """Write the remaining bytes, and return the offset of each key group (0: empty) for the handle."""
        if self._pending is not None:
            self._end_key_group(self._pending)
            self._pending = None
        self._flush()
        return tuple(self._offsets)

    def _switch(self, before: Block | None, block: Block) -> None:
        if not 0 <= block.state_id < len(self.entries):
            raise MigrationFailed(f"state {block.state_id} came for a stream of {len(self.entries)} states")
        if before is not None and block.key_group == before.key_group:
            self._close(before)
        else:
            if before is not None:
                self._end_key_group(before)
            self._begin_key_group(block.key_group, self.size)
            self._seen.clear()
            if self._compressed:
                self._frame = FrameWriter(self._put)
        if block.state_id in self._seen:
            raise MigrationFailed(f"state {block.state_id} came twice in key group {block.key_group}")
        self._seen.add(block.state_id)
        self._emit(block.state_id.to_bytes(2, "big"))

    def _begin_key_group(self, key_group: int, offset: int) -> None:
        if key_group not in self._key_groups:
            raise MigrationFailed(
                f"key group {key_group} came for a stream of key groups {self._key_groups.start} to"
                f" {self._key_groups.stop - 1}"
            )
        if key_group <= self._reached:
            raise MigrationFailed(f"key group {key_group} came after key group {self._reached}")
        self._reached = key_group
        self._offsets[key_group - self._key_groups.start] = offset

    def _end_key_group(self, last: Block) -> None:
        self._close(last)
        self._emit(END_MARK.to_bytes(2, "big"))
        if self._frame is not None:
            self._frame.flush()

    def _close(self, block: Block) -> None:
        """Write the last piece of a block, with the flag of the last entry."""
        data, flag = memoryview(block.data), block.find_last_entry() + _LENGTH_BYTES
        if not data.readonly:
            data[flag] |= LAST_FLAG
            self._emit(data)
            return
        self._emit(data[:flag])
        self._emit(bytes([data[flag] | LAST_FLAG]))
        self._emit(data[flag + 1 :])

    def _emit(self, data: bytes | memoryview) -> None:
        if self._frame is not None:
            self._frame.write(data)
        elif len(data) >= _LARGE_BYTES:
            self._flush()
            self._flushed += len(data)
            self._write(data)
        else:
            self._put(data)
        if len(self._buffer) >= RUN_BYTES:
            self._flush()

    def _put(self, data: bytes | memoryview) -> None:
        self._buffer.write(data)

    def _flush(self) -> None:
        if not len(self._buffer):
            return
        data, self._buffer = self._buffer.getvalue(), DataOutputView()
        self._flushed += len(data)
        self._write(data)


def write_keyed_stream(
    header: KeyedStreamHeader, key_groups: range, blocks: Iterable[Block]
) -> tuple[bytes, tuple[int, ...]]:
    """Write a stream to memory; return its bytes and the offsets for its handle."""
    data = bytearray()
    writer = KeyedStreamWriter(header, key_groups, data.extend)
    for block in blocks:
        writer.add(block)
    offsets = writer.finish()
    return bytes(data), offsets
