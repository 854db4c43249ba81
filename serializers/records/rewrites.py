"""Byte rewrites of records, and their packing.

Packing: records of numbers, booleans and texts, which are what most state consists of, as bytes by a few calls.

The bytes are those of the serializer, to which all that is not usual is left: a null, a subclass, a text that is long
or not ASCII, a value that does not fit, damaged bytes.

Rewrites: stored fields in stored order, each behind its null flag, and new fields in new order.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

from .. import rewrite
from ..primitives.numeric import BooleanSerializer, NumberSerializer
from ..primitives.text import StringSerializer
from .classes import builder, is_frozen_class
from .pojo import PojoSerializer
from .rules import RecordConversion
from .serializers import PLAIN_RECORD, DescribedRecordSerializer, RecordSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..defaults import Default
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from .classes import RecordField


@attrs.frozen(eq=False)
class PackedRecord:
    """The bytes of the records of one class.

    Attributes:
        pack: Returns the bytes of a value; None: the serializer is to write it.
        unpack: Returns the value of some bytes; None: the serializer is to read it.
        is_frozen: Whether a value never changes.
    """

    pack: Callable[[Any], bytes | None]
    unpack: Callable[[bytes | bytearray], Any]
    is_frozen: bool

    @classmethod
    def of(cls, serializer: object) -> PackedRecord | None:
        """Return it for a serializer of records; None: their fields are not all numbers, booleans and texts."""
        if not isinstance(serializer, DescribedRecordSerializer) or serializer.python_class is None:
            return None
        python_class, fields = serializer.python_class, serializer.fields
        kinds = [_kind(field) for field in fields]
        if not kinds or None in kinds:
            return None
        remembers = is_frozen_class(python_class, len(fields))
        return cls(_packing(python_class, fields, kinds), _unpacking(python_class, fields), remembers)


def _kind(field: RecordField) -> type | None:
    """Return the class of the usual values of a field; None: it is of another kind."""
    serializer = field.serializer
    if isinstance(serializer, BooleanSerializer):
        return bool
    if isinstance(serializer, NumberSerializer) and serializer.row.form:
        return float if serializer.is_rounded else int
    return str if type(serializer) is StringSerializer else None


def _runs(fields: Sequence[RecordField], flag: str) -> list[tuple[struct.Struct, int, bool]]:
    """Return the numbers between two texts: their form with the flags, how many they are, whether a text follows."""
    runs, form, count = [], ">", 0
    for field in fields:
        form += flag
        if isinstance(field.serializer, NumberSerializer | BooleanSerializer):
            form, count = form + (field.serializer.row.form[-1].replace("?", "B")), count + 1
        else:
            runs.append((struct.Struct(form), count, True))
            form, count = ">", 0
    if count:
        runs.append((struct.Struct(form), count, False))
    return runs


def _packing(
    python_class: type, fields: Sequence[RecordField], kinds: Sequence[type | None]
) -> Callable[[Any], bytes | None]:
    names = [field.attribute or field.name for field in fields]
    attributes: Callable[[Any], Any] = attrgetter(*names, names[0])  # with one more it always returns a tuple
    expected = (*kinds, kinds[0])
    runs, at = [], 0
    for form, count, has_text in _runs(fields, "x"):  # a pad byte is 0: the value is there
        runs.append((form.pack, at, at + count, has_text))
        at += count + has_text

    def pack(value: Any) -> bytes | None:
        if type(value) is not python_class:
            return None
        try:
            values = attributes(value)
            if tuple(map(type, values)) != expected:
                return None
            data = _HEAD
            for numbers, start, end, has_text in runs:
                data += numbers(*values[start:end])
                if has_text:
                    text = values[end]
                    if not text.isascii():
                        return None
                    data += _LENGTHS[len(text)] + text.encode()
        except (struct.error, OverflowError, AttributeError, IndexError):
            return None
        return data

    return pack


def _unpacking(python_class: Any, fields: Sequence[RecordField]) -> Callable[[bytes | bytearray], Any]:
    build = builder(python_class, [field.init_name or field.attribute or field.name for field in fields])
    runs = [(form.unpack_from, form.size, has_text) for form, _, has_text in _runs(fields, "B")]
    booleans = [at for at, field in enumerate(fields) if isinstance(field.serializer, BooleanSerializer)]

    def unpack(data: bytes | bytearray) -> Any:
        values: list[Any] = []
        at = 1
        try:
            for numbers, size, has_text in runs:
                found = numbers(data, at)
                if any(found[::2]):  # the flags of nulls
                    return None
                values += found[1::2]
                at += size
                if has_text:
                    end = at + data[at]
                    if not 0 < end - at < len(_LENGTHS) + 1:
                        return None
                    values.append(str(data[at + 1 : end], "ascii"))
                    at = end
            for place in booleans:
                values[place] = (False, True)[values[place]]
            return build(*values) if at == len(data) and data[:1] == _HEAD else None
        except Exception:  # noqa: BLE001 - the serializer says what is wrong
            return None

    return unpack


_HEAD = bytes([PLAIN_RECORD])
_LENGTHS = [bytes([size + 1]) for size in range(0x7F)]
"""The length of a text by its characters, as long as it takes one byte; it is stored plus one."""


_NULL, _PRESENT = b"\1", b"\0"

Moved = dict[str, tuple[str, "Conversion", "Default | None"]]
"""Name of a new field -> the stored field that it takes, its conversion, and what a stored null becomes."""


def _record(
    new: DescribedRecordSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a record, or None; values of subclasses, and nulls instead of a record, are odd."""
    old: Any = reader
    if not _is_generic(reader) or new.circle or old.circle:
        return None
    taken = _taken(new, old, conversion)
    if taken is None:
        return None
    moved, filled = taken
    parts: list[rewrite.ByteRewrite] = [rewrite.Literal(PLAIN_RECORD)]
    places: dict[str, int] = {}
    takers = {stored: field for field in new.fields for stored in moved.get(field.name, ())[:1]}
    for stored in old.fields:
        taker = takers.get(stored.name)
        part = _dropped(stored) if taker is None else _kept(stored, taker, moved[taker.name])
        if part is None:
            return None
        if taker is not None:
            places[taker.name] = len(parts)
        parts.append(part)
    emitted: list[int | bytes] = [0]
    for field in new.fields:
        constant = _field_bytes(field, rewrite.constant(field.serializer, filled.get(field.name)))
        piece = places.get(field.name, constant)
        if piece is None:
            return None
        emitted.append(piece)
    in_place = emitted == list(range(len(parts)))
    return rewrite.Sequence(tuple(parts), None if in_place else tuple(emitted))


def _is_generic(reader: Any) -> bool:
    """Whether a reader returns `Record`s, and not objects of a user's class."""
    return hasattr(reader, "fields") and getattr(reader, "python_class", reader) is None


def _taken(
    new: DescribedRecordSerializer[Any], old: Any, conversion: Conversion
) -> tuple[Moved, dict[str, Default]] | None:
    """Return what each new field takes, and the defaults of the others; None if that is not known."""
    if isinstance(conversion, RecordConversion):
        if old.name in conversion.subclasses:
            return None
        moved = {name: (stored, convert, on_none) for name, _, stored, convert, on_none in conversion.moved}
        return moved, dict(conversion.filled)
    is_same = old.name == new.name or not (new.registered or new.unregistered)
    if conversion is not None or not is_same:
        return None
    stored_names = {field.name for field in old.fields}
    return {field.name: (field.name, None, None) for field in new.fields if field.name in stored_names}, {}


def _dropped(stored: RecordField) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a dropped field, which is read all the same, and must be valid."""
    value = rewrite.rewrite_of(stored.serializer, None, stored.serializer)
    return None if value is None else rewrite.Nullable(value, null=_NULL if stored.optional else None)


def _kept(
    stored: RecordField, field: RecordField, taken: tuple[str, Conversion, Default | None]
) -> rewrite.ByteRewrite | None:
    _, convert, on_none = taken
    value = rewrite.rewrite_of(stored.serializer, convert, field.serializer)
    if value is None or stored.on_none is not None:
        return None
    null = None
    if stored.optional:
        becomes = rewrite.constant(field.serializer, on_none) if on_none is not None else b""
        null = _field_bytes(field, becomes)
    return rewrite.Nullable(rewrite.present(value), null=null)


def _field_bytes(field: RecordField, value: bytes | None) -> bytes | None:
    """Return the bytes of a field with a constant value, where b"" stands for null; None if there is no constant."""
    if value:
        return _PRESENT + value
    return _NULL if value == b"" and field.optional else None


REWRITES: RewriteTable = {RecordSerializer: _record, PojoSerializer: _record}
