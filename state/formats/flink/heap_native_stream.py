"""The heap backend's native format: keyed state of one subtask, converted to canonical entries while it is read.

    at the offset of each key group, none of which is 0: i32 key group number
    then each state, where compressed as a separate framed snappy stream: u16 state id, i32 n, n x entry
    entry of a state   namespace, key, value (a whole list or map)
    entry of a timer   i64 time, key, namespace

The order of the states is not that of the header, and is the same in all key groups. Entries have no length, so every
value must be skipped according to its type. If the end of a state's values cannot be found, the states after it are
hidden, unless the stream is compressed. Source: format notes, section 9.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import attrs

from ....compat.description import StateKind, ValueFraming
from ....serializers.errors import CorruptSavepoint, OldReaderUnavailable, located
from ....serializers.rewrite import Fixed, Sequence
from ....serializers.views import SEPARATOR, DataInputView
from ...entry_keys import EntryKey, end_of
from ...key_groups import prefix_size
from ...transcode.executor_choice import ExecutorName
from .blocks import Block
from .key_group_ranges import extents
from .keyed_stream import RUN_BYTES, KeyedReader, read_stream_header
from .meta_info import MetaInfoKind
from .snappy import decompress
from .state_kinds import entry_key_format, keyed_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ....serializers.rewrite import ByteRewrite
    from ....serializers.serializer import TypeSerializer
    from ...entry_keys import EntryKeyFormat
    from .handles import KeyGroupsHandle
    from .key_group_ranges import Extent
    from .keyed_stream import KeyedStreamHeader
    from .meta_info import StateMetaInfo
    from .sources import ByteSource

_NULL, _PRESENT = b"\x01", b"\x00"
_LEAST_ENTRY_BYTES = 2
_TIME_BYTES = 8
_GROUP_BYTES = 4
_STREAM_START, _CHUNK_HEADER_BYTES = b"\xff", 4
_Items = list[tuple[bytes, bytes]]


class _Shape(Protocol):
    """The layout of the entries of one state."""

    def read(self, source: DataInputView, key_group: int) -> _Items:
        """Read one entry; return its canonical entries as pairs of key bytes and value bytes."""


@attrs.frozen
class _Timers:
    timer: ByteRewrite
    prefix: int

    def read(self, source: DataInputView, key_group: int) -> _Items:
        return [(key_group.to_bytes(self.prefix, "big") + _passed(source, self.timer), b"")]


@attrs.frozen
class _Whole:
    """A state with one value for each key and namespace."""

    keys: EntryKeyFormat
    value: ByteRewrite

    def read(self, source: DataInputView, key_group: int) -> _Items:
        place = _place(source, self.keys, key_group)
        return [(self.keys.join(place), _passed(source, self.value))]


@attrs.frozen
class _List:
    """List state: the canonical value has one byte between the elements; an empty list has no entry."""

    keys: EntryKeyFormat
    element: ByteRewrite

    def read(self, source: DataInputView, key_group: int) -> _Items:
        place = _place(source, self.keys, key_group)
        elements = [_passed(source, self.element) for _ in range(source.read_size("elements of a list"))]
        return [(self.keys.join(place), SEPARATOR.join(elements))] if elements else []


@attrs.frozen
class _Map:
    """Map state: each pair of a map becomes a canonical entry."""

    keys: EntryKeyFormat
    user_key: ByteRewrite
    value: ByteRewrite

    def read(self, source: DataInputView, key_group: int) -> _Items:
        place = _place(source, self.keys, key_group)
        items: _Items = []
        for _ in range(source.read_size("entries of a map", least_bytes_each=_LEAST_ENTRY_BYTES)):
            key = self.keys.join(attrs.evolve(place, user_key=_passed(source, self.user_key)))
            items.append((key, _NULL if source.read_boolean() else _PRESENT + _passed(source, self.value)))
        return items


def _passed(source: DataInputView, layout: ByteRewrite) -> bytes:
    start = source.position
    layout.skip(source)
    return source.span(start)


def _place(source: DataInputView, keys: EntryKeyFormat, key_group: int) -> EntryKey:
    namespace = _passed(source, keys.namespace)
    return EntryKey(key_group, _passed(source, keys.key), namespace)


def _shape(info: StateMetaInfo, key: TypeSerializer[Any], max_parallelism: int) -> _Shape:
    """Return the layout of entries; raises `OldReaderUnavailable` where the end of a value cannot be found."""
    if info.kind is MetaInfoKind.KEY_VALUE_V2:
        raise OldReaderUnavailable("state of the asynchronous state API (KEY_VALUE_V2) is not read by this release")
    kind, value = keyed_kind(info), info.value.restore_serializer()
    if kind is StateKind.TIMERS:
        parts = [end_of(child.restore_serializer()) for child in info.value.children()]
        return _Timers(Sequence((Fixed(_TIME_BYTES), *parts)), prefix_size(max_parallelism))
    keys = entry_key_format(info, key, max_parallelism)
    pieces: list[Any] = [getattr(value, name, None) for _, name in kind.row.pieces]
    if None in pieces:
        raise OldReaderUnavailable(f"the entries of {kind} state are described as {info.value.describe()}")
    ends = map(end_of, pieces or [value])
    match kind.row.framing:
        case ValueFraming.SEPARATED:
            return _List(keys, *ends)
        case ValueFraming.NULLABLE:
            return _Map(keys, *ends)
        case ValueFraming.WHOLE | None:
            return _Whole(keys, *ends)
        case _:
            assert_never(kind.row.framing)


@attrs.frozen
class _Shapes:
    """The layout of each state's entries by id; for other states, why the ends of their entries cannot be found."""

    known: dict[int, _Shape]
    unknown: dict[int, str]

    @classmethod
    def of(cls, header: KeyedStreamHeader, max_parallelism: int) -> _Shapes:
        known: dict[int, _Shape] = {}
        unknown: dict[int, str] = {}
        for state_id, info in enumerate(header.states):
            try:
                known[state_id] = _shape(info, header.key_snapshot.restore_serializer(), max_parallelism)
            except OldReaderUnavailable as error:
                unknown[state_id] = error.what.splitlines()[0]
        return cls(known, unknown)


@attrs.frozen(slots=False)
class NativeStreamReader(KeyedReader):
    """Reads the keyed state of one subtask from the heap backend's native format. Created with `open`.

    A key group is held in memory while it is read, as Flink itself held it.

    Attributes:
        source: The bytes of the stream.
    """

    source: ByteSource
    _extents: tuple[Extent, ...] = attrs.field(repr=False)
    _shapes: _Shapes = attrs.field(repr=False)

    @classmethod
    def open(
        cls,
        source: ByteSource,
        handle: KeyGroupsHandle,
        max_parallelism: int,
        executor: ExecutorName = ExecutorName.OBJECTS,
    ) -> NativeStreamReader:
        """Read the header of the stream of `handle`, and check the offsets; raises as `read_keyed_header`."""
        header = read_stream_header(source, handle)
        with located(file=source.name):
            if not all(handle.offsets):
                group = handle.key_groups[handle.offsets.index(0)]
                raise CorruptSavepoint(
                    f"key group {group} has no place in the stream, as each has in this format", offset=0
                )
            shapes = _Shapes.of(header, max_parallelism)
            return cls(header, source.name, executor, source, tuple(extents(source, handle)), shapes)

    @cached_property
    def hidden(self) -> dict[str, str]:
        """The states whose entries cannot be reached, each with the reason; one key group is read to find them."""
        states, unknown = self.header.states, self._shapes.unknown
        hidden = {states[state_id].name: why for state_id, why in unknown.items()}
        if not unknown or self.header.compressed or not self._extents:
            return hidden
        order: list[int] = []
        with suppress(OldReaderUnavailable):
            for _ in self._key_group(self._extents[0], range(len(states)), order):
                pass
        first = next((state_id for state_id in order if state_id in unknown), None)
        if first is not None:
            reached = {states[state_id].name for state_id in order[: order.index(first)]}
            why = f"in the heap backend's native format it lies behind the state {states[first].name!r}, whose values "
            why += f"have no end that can be found: {unknown[first]}"
            hidden = {state.name: why for state in states if state.name not in reached} | hidden
        return hidden

    def blocks(
        self, key_groups: range | None = None, state_ids: Collection[int] | None = None, *, beginning: bytes = b""
    ) -> Iterator[Block]:
        wanted = range(len(self.header.states)) if state_ids is None else state_ids
        for extent in self._extents:
            if key_groups is None or extent.key_group in key_groups:
                with located(file=self.source.name, offset=extent.start):
                    yield from self._key_group(extent, wanted, [])

    def _key_group(self, extent: Extent, wanted: Collection[int], seen: list[int]) -> Iterator[Block]:
        group, states = extent.key_group, self.header.states
        left = set(wanted)
        for start, view in self._views(extent):
            while view.remaining() and (left or len(wanted) == len(states)):
                try:
                    state_id = view.read_unsigned_short()
                    if state_id in seen or state_id >= len(states):
                        problem = "occurs twice" if state_id in seen else "is not in the header"
                        raise CorruptSavepoint(f"key group {group}: the state with id {state_id} {problem}")
                    seen.append(state_id)
                    left.discard(state_id)
                    with located(state=states[state_id].name):
                        yield from self._state(view, group, state_id, wanted)
                except CorruptSavepoint as error:
                    place = error.where.pop("offset", view.position)
                    error.where["offset"] = extent.start if start is None else start + int(str(place))
                    raise
        if left:
            raise CorruptSavepoint(f"key group {group} ends before the state {states[min(left)].name!r}")

    def _views(self, extent: Extent) -> Iterator[tuple[int | None, DataInputView]]:
        """Yield the parts to read: the whole key group, or the content of each state's compressed stream.

        Each is yielded with its position in the stream; None where it is compressed, as it has no position there.
        """
        start = extent.start + _GROUP_BYTES
        found = DataInputView(
            self.source.read_at(extent.start, min(_GROUP_BYTES, extent.end - extent.start))
        ).read_int()
        if found != extent.key_group:
            raise CorruptSavepoint(f"key group {found} lies where key group {extent.key_group} should")
        if not self.header.compressed:
            yield start, DataInputView(self.source.read_at(start, extent.end - start))
            return
        for begin, end in pairwise([*self._stream_starts(start, extent.end), extent.end]):
            yield None, DataInputView(b"".join(decompress(self.source, begin, end)))

    def _stream_starts(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions of the framed snappy streams, found by the headers of their chunks."""
        position = start
        while position < end:
            chunk = self.source.read_at(position, min(_CHUNK_HEADER_BYTES, end - position))
            if chunk[:1] == _STREAM_START:
                yield position
            elif position == start:
                raise CorruptSavepoint("compressed state does not begin as such", offset=start)
            position += _CHUNK_HEADER_BYTES + int.from_bytes(chunk[1:], "little")

    def _state(self, view: DataInputView, key_group: int, state_id: int, wanted: Collection[int]) -> Iterator[Block]:
        count = view.read_size("entries of a state")
        shape = self._shapes.known.get(state_id)
        if shape is None:
            self._pass_hidden(view, state_id, count, wanted)
            return
        items: _Items = []
        size = 0
        for _ in range(count):
            entry = shape.read(view, key_group)
            if state_id not in wanted:
                continue
            items += entry
            size += sum(len(key) + len(value) for key, value in entry)
            if size >= RUN_BYTES:
                yield Block.of(key_group, state_id, items)
                items, size = [], 0
        if items:
            yield Block.of(key_group, state_id, items)

    def _pass_hidden(self, view: DataInputView, state_id: int, count: int, wanted: Collection[int]) -> None:
        """Skip a state that cannot be read, if it is empty or in a separate compressed stream; else raise."""
        if count and (state_id in wanted or not self.header.compressed):
            raise OldReaderUnavailable(
                f"the end of its values cannot be found: {self._shapes.unknown[state_id]}",
                state=self.header.states[state_id].name,
                advice="take a savepoint in the canonical format (the default of `flink savepoint`), which frames every"
                " value",
            )
        if count:
            view.skip_bytes(view.remaining())
