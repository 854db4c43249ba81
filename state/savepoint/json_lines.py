"""The entries of keyed state as JSON whose values are texts: a long value is in memory piece by piece.

Lists, arrays and map state are read, converted and written some elements at a time; the pairs of a map state are sorted
on disk where they are many. Any other value, such as a map in value state, is converted as a whole.
"""

from __future__ import annotations

import json
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from ...serializers.containers.pieces import STEP, SequenceSnapshot
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.errors import CorruptSavepoint, at_step
from ...serializers.json_forms import tagger_of
from ...serializers.views import DataInputView
from ...serializers.wording import json_text
from ..entry_keys import decode
from ..formats.flink.entries import each_entry, each_separated
from .json_encoding import place_tagger
from .long_texts import PIECE_BYTES, SortedLines, held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...serializers.json_forms import Tagger
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.entries import EntryDecoder
    from ..formats.flink.keyed_stream import KeyedReader
    from .reader import SavepointOperator
    from .states import SavepointState

    Place = Callable[[Any, Any], list[Any]]
    Row = tuple[list[Any], Iterable[str]]

_LONG_BYTES = 1 << 16
"""A value of fewer bytes is converted as a whole, which is faster."""
_NUMBER_DIGITS = 8


def json_rows(operator: SavepointOperator, state: SavepointState) -> Iterator[Row]:
    """Yield the entries of a keyed state, each as `[key]` or `[key, namespace]` and the pieces of the value's text.

    The pieces must be used before the next entry is asked for. An error within a value is raised before its first piece
    is yielded; errors are those of `tagged_rows`.

    Raises:
        NoSpaceLeft: The disk of temporary files is full.
    """
    place, snapshot = place_tagger(operator, state), without_ttl_awareness(state.description.value.snapshot)
    make = _map_rows if state.kind.has_user_keys else _value_rows
    return state.read_by(lambda reader, decoders: make(reader, decoders, snapshot, place))


def _value_rows(
    reader: KeyedReader, decoders: dict[int, EntryDecoder], snapshot: TypeSerializerConfigSnapshot[Any], place: Place
) -> Iterator[Row]:
    tag = tagger_of(snapshot)

    def read(decoder: EntryDecoder, user_key: bytes, data: bytes) -> Iterable[str]:
        if len(data) < _LONG_BYTES:
            return (json_text(tag(decoder.read_value(user_key, data))),)
        if snapshot.kind == "string":
            return _string(decode(decoder.value, data))
        pieces = held(_value(decoder, snapshot, data))
        return chain((next(pieces),), pieces)

    for (*_, key, namespace), decoder, texts in each_entry(reader, decoders, read):
        yield place(*decoder.read_key(key, namespace)), texts


def _map_rows(
    reader: KeyedReader, decoders: dict[int, EntryDecoder], snapshot: TypeSerializerConfigSnapshot[Any], place: Place
) -> Iterator[Row]:
    """Yield the maps of one key group after the other: their entries may be stored in any order."""
    key_tag, value_tag = map(tagger_of, snapshot.children())

    def read(decoder: EntryDecoder, user_key: bytes, data: bytes) -> str:
        name, value = decoder.read_value(user_key, data)
        return _sortable([key_tag(name), value_tag(value)])

    for (_, state_id), entries in groupby(each_entry(reader, decoders, read), lambda entry: entry[0][:2]):
        numbers: dict[tuple[bytes, bytes], int] = {}
        with SortedLines() as lines:
            for address, _, pair in entries:
                lines.add(f"{numbers.setdefault(address[2:], len(numbers)):0{_NUMBER_DIGITS}x}{pair}")
            maps = groupby(lines, lambda line: line[:_NUMBER_DIGITS])
            for (key, namespace), (_, pairs) in zip(numbers, maps, strict=True):
                texts = _joined(line[_NUMBER_DIGITS:-1].rpartition("\t")[2] for line in pairs)
                yield place(*decoders[state_id].read_key(key, namespace)), chain(('{"$map": [',), texts, ("]}",))


def _sortable(value: Any) -> str:
    """Return the line of a JSON value: its text, and before it what `sorted_by_text` sorts by, if that is another."""
    text = json_text(value)
    if "{" not in text and "\\u007f" not in text and text.isascii():
        return text + "\n"
    return f"{json.dumps(value, sort_keys=True)}\t{text}\n"


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts with commas between them, in pieces."""
    some, size, comma = list[str](), 0, ""
    for text in texts:
        some.append(text)
        size += len(text)
        if size >= PIECE_BYTES:
            yield comma + ", ".join(some)
            some, size, comma = [], 0, ", "
    if some:
        yield comma + ", ".join(some)


def _string(value: str) -> Iterator[str]:
    yield '"'
    for at in range(0, len(value), PIECE_BYTES):
        yield json_text(value[at : at + PIECE_BYTES])[1:-1]
    yield '"'


def _value(decoder: EntryDecoder, snapshot: TypeSerializerConfigSnapshot[Any], data: bytes) -> Iterator[str]:
    """Yield the text of a value in pieces."""
    source = DataInputView(data)
    if decoder.kind.has_elements and isinstance(snapshot, SequenceSnapshot):
        elements = each_separated(decoder.value.element, source)  # type: ignore[attr-defined]  # of a list
        yield from _array(tagger_of(snapshot.element_snapshot()), elements, source)
        return
    yield from _nested(decoder.value, snapshot, source)
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow a value", offset=source.position)


def _nested(serializer: Any, snapshot: TypeSerializerConfigSnapshot[Any], source: DataInputView) -> Iterator[str]:
    """Yield the text of a list or array in pieces, with or without TTL; of any other value at once."""
    snapshot = without_ttl_awareness(snapshot)
    if snapshot.kind == "ttl":
        source.read_long()
        yield from _nested(serializer.value, snapshot.children()[1], source)
    elif snapshot.kind == "optional" and source.peek(1) == b"\0":
        source.read_boolean()
        with at_step("?"):
            yield from _nested(serializer.value, snapshot.children()[0], source)
    elif isinstance(snapshot, SequenceSnapshot):
        count = source.read_size("elements of a list")
        elements = (_element(serializer, source) for _ in range(count))
        yield from _array(tagger_of(snapshot.element_snapshot()), elements, source)
    else:
        yield json_text(tagger_of(snapshot)(serializer.deserialize(source)))


def _element(serializer: Any, source: DataInputView) -> Any:
    """Read an element of a list or array, in some of which a flag says whether it is present."""
    return None if serializer.flags_elements and not source.read_boolean() else serializer.element.deserialize(source)


def _array(tag: Tagger, elements: Iterable[Any], source: DataInputView) -> Iterator[str]:
    """Yield the text of elements that are read from a view, of some of its bytes at a time."""
    some, start, before = list[Any](), source.position, "["
    with at_step(STEP):
        for element in elements:
            some.append(tag(element))
            if source.position - start >= PIECE_BYTES:
                yield before + json_text(some)[1:-1]
                some, start, before = [], source.position, ", "
    if some:
        yield before + json_text(some)[1:-1]
    yield "]" if some or before != "[" else "[]"
