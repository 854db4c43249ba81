"""Writes the heap backend's native format from canonical blocks; `heap_native_stream` reads it and has its layout.

A key group is held in memory until it is complete, because the number of a state's entries is written before them.
Source: format notes, section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, assert_never

import attrs

from ....compat.description import ValueFraming
from ....serializers.errors import MigrationFailed, located
from ....serializers.rewrite import Fixed
from ....serializers.views import SEPARATOR, DataInputView, DataOutputView
from ...entry_keys import end_of
from .keyed_stream import write_keyed_header
from .snappy import FrameWriter
from .state_kinds import entry_key_format, keyed_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ....serializers.rewrite import ByteRewrite
    from ....serializers.serializer import TypeSerializer
    from ...entry_keys import EntryKeyFormat
    from .blocks import Block
    from .keyed_stream import KeyedStreamHeader
    from .meta_info import StateMetaInfo

_SIZE_BYTES, _ID_BYTES = 4, 2
_NULL = b"\x01"


class _Form(Protocol):
    """The entries of one state in one key group."""

    def add(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add canonical entries."""

    def take(self) -> tuple[int, bytes]:
        """Return the number of entries and their bytes, and begin with the next key group."""


class _Whole:
    """A state with one value for each key and namespace."""

    def __init__(self, keys: EntryKeyFormat) -> None:
        self._keys, space = keys, keys.namespace
        self._end = -space.size if isinstance(space, Fixed) and not keys.is_ambiguous else 0
        self._count, self._data = 0, bytearray()

    def add(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        pieces, prefix, end, split, stored = list[bytes](), self._keys.prefix, self._end, self._keys.split, self._value
        for key, value in entries:
            if end:  # the namespace is found from the end, whatever the key is
                pieces += key[end:], key[prefix:end], stored(value)
            else:
                place = split(key)
                pieces += place.namespace, place.key, stored(value)
        self._extend(pieces, len(pieces) // 3)

    def _extend(self, pieces: list[bytes], count: int) -> None:
        self._count += count
        self._data += b"".join(pieces)

    def _value(self, value: bytes) -> bytes:
        return value

    def take(self) -> tuple[int, bytes]:
        taken = self._count, bytes(self._data)
        self._count, self._data = 0, bytearray()
        return taken


class _List(_Whole):
    """List state: the elements follow their number, with nothing between them."""

    def __init__(self, keys: EntryKeyFormat, element: ByteRewrite) -> None:
        super().__init__(keys)
        self._element = element

    def _value(self, value: bytes) -> bytes:
        elements = list(self._elements(DataInputView(value)))
        return len(elements).to_bytes(_SIZE_BYTES, "big") + b"".join(elements)

    def _elements(self, source: DataInputView) -> Iterator[bytes]:
        while source.remaining():
            start = source.position
            self._element.skip(source)
            yield source.span(start)
            if source.remaining():
                source.skip_bytes(len(SEPARATOR))


class _Timers(_Whole):
    """Timers: time, key and namespace in their order."""

    def add(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        timers = [key[self._keys.prefix :] for key, _ in entries]
        self._extend(timers, len(timers))


class _Map:
    """Map state: the canonical entries of a map become one."""

    def __init__(self, keys: EntryKeyFormat) -> None:
        self._keys = keys
        self._maps: dict[bytes, list[bytes]] = {}

    def add(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in entries:
            place = self._keys.split(key)
            pairs = self._maps.setdefault(place.namespace + place.key, [])
            pairs += place.user_key, _NULL if value[:1] == _NULL else value

    def take(self) -> tuple[int, bytes]:
        maps, self._maps = self._maps, {}
        data = bytearray()
        for place, pairs in maps.items():
            data += place + (len(pairs) // 2).to_bytes(_SIZE_BYTES, "big") + b"".join(pairs)
        return len(maps), bytes(data)


def _form(info: StateMetaInfo, key: TypeSerializer[Any], max_parallelism: int) -> _Form:
    keys, kind = entry_key_format(info, key, max_parallelism), keyed_kind(info)
    match kind.row.framing:
        case None:
            return _Timers(keys)
        case ValueFraming.WHOLE:
            return _Whole(keys)
        case ValueFraming.NULLABLE:
            return _Map(keys)
        case ValueFraming.SEPARATED:
            return _List(keys, end_of(kind.item_of(info.value.restore_serializer())))
        case _:
            assert_never(kind.row.framing)


@attrs.define
class NativeStreamWriter:
    """Writes the keyed state of one subtask in the heap backend's format; used as `KeyedStreamWriter`.

    Attributes:
        header: The key snapshot and the states, and whether the states are compressed.
        key_groups: Exactly the key groups of the subtask.
        max_parallelism: The number of key groups of the operator.
        write: Takes the bytes.
        size: The number of bytes written so far.
        entries: The number of canonical entries so far, by state id.

    Raises:
        OldReaderUnavailable: A type in the header has no end that can be found; raised when a writer is made.
    """

    header: KeyedStreamHeader
    key_groups: range
    max_parallelism: int
    write: Callable[[bytes], object]
    size: int = attrs.field(default=0, init=False)
    entries: list[int] = attrs.field(init=False)
    _offsets: list[int] = attrs.field(factory=list, init=False)
    _forms: list[_Form] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        key = self.header.key_snapshot.restore_serializer()
        self.entries = [0] * len(self.header.states)
        self._forms = []
        for info in self.header.states:
            with located(state=info.name):
                self._forms.append(_form(info, key, self.max_parallelism))
        target = DataOutputView()
        write_keyed_header(self.header, target)
        self._put(target.getvalue())

    def add(self, block: Block) -> None:
        """Append a block, or the next piece of one, key groups ascending.

        Raises:
            MigrationFailed: The block is out of order, or the stream does not have its key group.
        """
        if block.key_group < self._current or block.key_group not in self.key_groups:
            raise MigrationFailed(f"key group {block.key_group} came for a stream that goes on at {self._current}")
        while self._current < block.key_group:
            self._end_key_group()
        form = self._forms[block.state_id]
        with located(state=self.header.states[block.state_id].name):
            form.add(block.items())
        self.entries[block.state_id] += block.entries

    def finish(self) -> tuple[int, ...]:
        """Write the remaining key groups, and return the offset of each for the handle."""
        while self._current < self.key_groups.stop:
            self._end_key_group()
        return tuple(self._offsets)

    @property
    def _current(self) -> int:
        """The key group that is not complete."""
        return self.key_groups.start + len(self._offsets)

    def _end_key_group(self) -> None:
        key_group = self._current
        self._offsets.append(self.size)
        self._put(key_group.to_bytes(_SIZE_BYTES, "big"))
        for state_id, form in enumerate(self._forms):
            count, data = form.take()
            head = state_id.to_bytes(_ID_BYTES, "big") + count.to_bytes(_SIZE_BYTES, "big")
            if self.header.compressed:
                frame = FrameWriter(self._put)
                frame.write(head)
                frame.write(data)
                frame.flush()
            else:
                self._put(head + data)

    def _put(self, data: bytes) -> None:
        self.size += len(data)
        self.write(data)
