"""Binary rows, arrays and maps of Flink SQL.

    row     u8 kind, null bits from bit 8 on, zeros to full words of 8 bytes; a slot of 8 bytes a field; variable part
    array   i32 n, null bits in words of 4 bytes, n items of their size, zeros to a multiple of 8 bytes; variable part
    map     i32 size of the key array, key array, value array

All numbers are little-endian. What does not fit a slot lies in the variable part, each item padded to 8 bytes: the slot
is `offset << 32 | size`, from the beginning of the row or array. Up to seven bytes lie in the slot itself, whose last
byte is then their number with the top bit set. A decimal of more than 18 digits is big-endian, and takes 16 bytes; a
time stamp of more than three digits has its milliseconds in the variable part, and nanoseconds in place of the size.

`encode_row` writes what Flink's `RowDataSerializer` writes. Source: native snapshot notes, 7.
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, add_step, shown
from ..rows.values import Row, RowKind
from .logical_types import LogicalType
from .values import RowData, TimestampData

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_WORD, _HALF = 8, 0xFFFFFFFF
_MOST_DIGITS_OF_A_LONG, _DECIMAL_ROOM = 18, 16
_DIGITS_OF_A_MILLISECOND = 3
_MOST_IN_A_SLOT = 7
_LAST_BYTE, _IN_SLOT = 56, 0x80
_MOST_DIGITS = 40
_EXACT = Context(prec=2 * _MOST_DIGITS)
TIMESTAMPS = frozenset({"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"})
_FORMS = {
    "BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "h", "INTEGER": "i", "DATE": "i", "TIME_WITHOUT_TIME_ZONE": "i",
    "INTERVAL_YEAR_MONTH": "i", "BIGINT": "q", "INTERVAL_DAY_TIME": "q", "FLOAT": "f", "DOUBLE": "d",
}  # fmt: skip
NUMBERS = {root: struct.Struct("<" + form) for root, form in _FORMS.items()}
_COUNT = LogicalType("INTEGER", is_nullable=False)
_U64, _I64, _I32 = struct.Struct("<Q"), struct.Struct("<q"), struct.Struct("<i")


def is_wide_decimal(of: LogicalType) -> bool:
    """Whether decimals of a type do not fit a slot."""
    return of.root == "DECIMAL" and of.parameter("precision") > _MOST_DIGITS_OF_A_LONG


def is_fine_timestamp(of: LogicalType) -> bool:
    """Whether time stamps of a type do not fit a slot."""
    return of.root in TIMESTAMPS and of.parameter("precision") > _DIGITS_OF_A_MILLISECOND


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Return a decimal, with exactly so many digits behind the point."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def unscaled_of(value: Any, of: LogicalType) -> int:
    """Return the digits of a decimal of a type, as an integer.

    Raises:
        ValueNotConvertible: The type has not so many digits.
    """
    precision, scale = of.parameter("precision"), of.parameter("scale")
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueNotConvertible(f"{shown(value)} is not a finite Decimal")
    with localcontext(prec=2 * _MOST_DIGITS):
        scaled = value.scaleb(scale) if value.adjusted() < _MOST_DIGITS else Decimal(10**_MOST_DIGITS)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**precision:
        raise ValueNotConvertible(f"{shown(value)} does not fit {of.describe()}")
    return unscaled


def decode_row(data: bytes, types: Sequence[LogicalType]) -> RowData:
    """Return the row of bytes.

    Raises:
        CorruptSavepoint: They are not a row of such fields.
    """
    heads = _row_head(len(types))
    part = _Bytes(data, 0, len(data))
    part.require(heads + _WORD * len(types))
    if data[0] >= len(RowKind):
        raise CorruptSavepoint(f"a row has the kind {data[0]}, which does not exist")
    values: list[Any] = []
    for index, of in enumerate(types):
        bit = _WORD + index
        null = data[bit >> 3] >> (bit & 7) & 1
        values.append(None if null else _within(part, heads + _WORD * index, of, f"({index})"))
    return RowData._read(values, RowKind(data[0]))  # noqa: SLF001 - public API of rows


def _within(part: _Bytes, at: int, of: LogicalType, step: str) -> Any:
    try:
        return _read(part, at, of)
    except StateShiftError as error:
        add_step(error, step)
        raise


def _row_head(count: int) -> int:
    return (count + 8 + 63) // 64 * _WORD


@attrs.frozen
class _Bytes:
    """A row, an array, or what lies within.

    Attributes:
        data: The bytes around it.
        start: Where it begins.
        size: Its number of bytes.
    """

    data: bytes = attrs.field(repr=False)
    start: int
    size: int

    def require(self, least: int) -> None:
        """Refuse a part that is too short."""
        if self.size < least:
            raise CorruptSavepoint(f"a row or an array has {self.size} bytes, and needs at least {least}")

    def word(self, at: int) -> int:
        """Return the slot at a position."""
        found: int = _U64.unpack_from(self.data, self.start + at)[0]
        return found

    def pointed(self, word: int) -> _Bytes:
        """Return what a slot points at."""
        return self.part(word >> 32, word & _HALF)

    def part(self, offset: int, size: int) -> _Bytes:
        """Return a part."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise CorruptSavepoint(f"a value of {size} bytes at {offset} is not within the {self.size} bytes around it")
        return _Bytes(self.data, self.start + offset, size)

    def taken(self) -> bytes:
        """Return the bytes."""
        return self.data[self.start : self.start + self.size]


def _read(part: _Bytes, at: int, of: LogicalType) -> Any:
    number = NUMBERS.get(of.root)
    if number is not None:
        return number.unpack_from(part.data, part.start + at)[0]
    word = part.word(at)
    if of.root == "DECIMAL":
        return _decimal(part, word, of)
    if of.root in TIMESTAMPS:
        if not is_fine_timestamp(of):
            return TimestampData(_I64.unpack(word.to_bytes(_WORD, "little"))[0])
        there = part.part(word >> 32, _WORD)
        return TimestampData(_I64.unpack_from(there.data, there.start)[0], word & _HALF)
    read = _READERS.get(of.root)
    if read is None:
        raise _unknown(of)
    if word >> 63:
        size = word >> _LAST_BYTE & ~_IN_SLOT
        if size > _MOST_IN_A_SLOT:
            raise CorruptSavepoint(f"a slot of 8 bytes says that it holds {size}")
        return read(_Bytes(part.data, part.start + at, size), of)
    return read(part.pointed(word), of)


def _unknown(of: LogicalType) -> ValueNotConvertible:
    return ValueNotConvertible(f"values of the type {of.describe()} are not read by this release")


def _decimal(part: _Bytes, word: int, of: LogicalType) -> Decimal:
    if is_wide_decimal(of):
        unscaled = int.from_bytes(part.pointed(word).taken(), "big", signed=True)
    else:
        unscaled = _I64.unpack(word.to_bytes(_WORD, "little"))[0]
    if abs(unscaled) >= 10 ** of.parameter("precision"):
        raise CorruptSavepoint(f"a decimal has more digits than {of.describe()} holds")
    return decimal_of(unscaled, of.parameter("scale"))


def _text(found: _Bytes, _: LogicalType) -> str:
    return text_of(found.taken())


def text_of(data: bytes) -> str:
    """Return a text in UTF-8; raises `CorruptSavepoint` where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptSavepoint("a text is not UTF-8") from error


def _bytes(found: _Bytes, _: LogicalType) -> bytes:
    return found.taken()


def decode_value(data: bytes, of: LogicalType) -> Any:
    """Return the value of bytes, of a type of `encode_value`; raises `CorruptSavepoint` where they are none."""
    return _READERS[of.root](_Bytes(data, 0, len(data)), of)


def _items(found: _Bytes, element: LogicalType) -> list[Any]:
    found.require(4)
    count = _I32.unpack_from(found.data, found.start)[0]
    width, heads = _width(element), _array_head(count)
    if count < 0 or heads + width * count > found.size:
        raise CorruptSavepoint(f"an array of {found.size} bytes says that it has {count} items")
    bits = found.start + 4
    items = []
    for index in range(count):
        null = found.data[bits + (index >> 3)] >> (index & 7) & 1
        items.append(None if null else _within(found, heads + width * index, element, "[]"))
    return items


def _width(of: LogicalType) -> int:
    number = NUMBERS.get(of.root)
    return _WORD if number is None else number.size


def _array_head(count: int) -> int:
    return 4 + (count + 31) // 32 * 4


def _map(found: _Bytes, of: LogicalType) -> dict[Any, Any]:
    found.require(4)
    size = _I32.unpack_from(found.data, found.start)[0]
    key, value = map_types(of)
    keys = [frozen(one) for one in _items(found.part(4, size), key)]
    values = _items(found.part(4 + size, found.size - 4 - size), value)
    pairs = dict(zip(keys, values, strict=False))
    if len(pairs) < len(keys) or len(values) != len(keys):
        raise CorruptSavepoint("a map has a key twice, or not as many keys as values")
    return pairs


def map_types(of: LogicalType) -> tuple[LogicalType, LogicalType]:
    """Return the types of keys and values; a multiset has numbers as values."""
    return of.types if len(of.types) > 1 else (*of.types, _COUNT)  # type: ignore[return-value]


def frozen(value: Any) -> Any:
    """Return a value as a key of a dict: a list as a tuple, a dict as a tuple of pairs."""
    if isinstance(value, list):
        return tuple(map(frozen, value))
    return tuple((frozen(key), frozen(item)) for key, item in value.items()) if isinstance(value, dict) else value


def _row(found: _Bytes, of: LogicalType) -> RowData:
    return decode_row(found.taken(), of.types)


_READERS: dict[str, Callable[[_Bytes, LogicalType], Any]] = {
    "CHAR": _text, "VARCHAR": _text, "BINARY": _bytes, "VARBINARY": _bytes, "RAW": _bytes,
    "ARRAY": lambda found, of: _items(found, of.types[0]), "MAP": _map, "MULTISET": _map,
    "ROW": _row, "STRUCTURED_TYPE": _row,
}  # fmt: skip


def encode_row(value: Any, types: Sequence[LogicalType], reserved: Collection[int] = ()) -> bytes:
    """Return the bytes that Flink's serializer of rows writes for a row.

    Args:
        value: The row.
        types: The types of its fields.
        reserved: The fields whose null has the form that generated code writes: with room for a value.

    Raises:
        ValueNotConvertible: It is no such row.
    """
    if not isinstance(value, Row):
        raise ValueNotConvertible(f"{shown(value)} is not a Row")
    if len(value) != len(types):
        raise ValueNotConvertible(f"{shown(value)} has {len(value)} fields, but {len(types)} are declared")
    writer = _Writer(_row_head(len(types)), _WORD, [_WORD] * len(types))
    writer.data[0] = value._kind.value  # noqa: SLF001 - public despite the underscore
    for index, (item, of) in enumerate(zip(value, types, strict=True)):
        writer.put(index, item, of, f"({index})")
        if item is None and index in reserved:
            writer.reserve(index, room_of_null(of))
    return bytes(writer.data)


def room_of_null(of: LogicalType) -> int:
    """Return the bytes that generated code reserves for a null of a type."""
    return _DECIMAL_ROOM if is_wide_decimal(of) else _WORD if is_fine_timestamp(of) else 0


def has_reserved_null(data: bytes, types: Sequence[LogicalType], index: int) -> bool:
    """Whether a null field of a row has the form that generated code writes: an offset, and room for a value."""
    if not room_of_null(types[index]):
        return False
    (slot,) = _U64.unpack_from(data, _row_head(len(types)) + _WORD * index)
    return bool(slot)


def rescaled(value: Any, scale: int) -> int:
    """Return a number as a whole one of units of so many digits behind the point."""
    return int(Decimal(value).scaleb(scale, _EXACT))


def _encode_array(value: Any, element: LogicalType) -> bytes:
    """Return the bytes of an array; raises `ValueNotConvertible` where the value is none."""
    if not isinstance(value, list | tuple):
        raise ValueNotConvertible(f"{shown(value)} is not a list")
    writer = _Writer(_array_head(len(value)), 4 * _WORD, [_width(element)] * len(value))
    _I32.pack_into(writer.data, 0, len(value))
    for index, item in enumerate(value):
        writer.put(index, item, element, "[]")
    return bytes(writer.data)


def _encode_map(value: Any, of: LogicalType) -> bytes:
    """Return the bytes of a map; raises `ValueNotConvertible` where the value is none."""
    if not isinstance(value, dict):
        raise ValueNotConvertible(f"{shown(value)} is not a dict")
    key, item = map_types(of)
    keys, items = _encode_array(list(value), key), _encode_array(list(value.values()), item)
    return _I32.pack(len(keys)) + keys + items


class _Writer:
    """Writes a row or an array: null bits and slots first, then what does not fit.

    Args:
        heads: The bytes before the first slot.
        first_bit: The bit that says whether the first value is null.
        widths: The bytes of each slot.
    """

    def __init__(self, heads: int, first_bit: int, widths: list[int]) -> None:
        self.first_bit = first_bit
        self.places = [heads + width * index for index, width in enumerate(widths)]
        size = heads + sum(widths)
        self.data = bytearray(size + -size % _WORD)

    def put(self, index: int, value: Any, of: LogicalType, step: str) -> None:
        """Write a value into its slot; an error names the step to it."""
        try:
            if value is None:
                bit = self.first_bit + index
                self.data[bit >> 3] |= 1 << (bit & 7)
            else:
                self._put(self.places[index], value, of)
        except StateShiftError as error:
            add_step(error, step)
            raise

    def reserve(self, index: int, room: int) -> None:
        """Reserve room for a null."""
        if room:
            self._point(self.places[index], b"", room=room, said=0)

    def _put(self, at: int, value: Any, of: LogicalType) -> None:
        number = NUMBERS.get(of.root)
        if number is not None:
            number.pack_into(self.data, at, _checked(value, of))
        elif of.root == "DECIMAL":
            unscaled = unscaled_of(value, of)
            if is_wide_decimal(of):
                self._point(at, big_endian(unscaled), room=_DECIMAL_ROOM)
            else:
                _I64.pack_into(self.data, at, unscaled)
        elif of.root in TIMESTAMPS:
            require_timestamp(value, of)
            if is_fine_timestamp(of):
                self._point(at, _I64.pack(value.millisecond), said=value.nano_of_millisecond)
            else:
                _I64.pack_into(self.data, at, value.millisecond)
        else:
            data = encode_value(value, of)
            if of.root in _IN_SLOTS and len(data) <= _MOST_IN_A_SLOT:
                self.data[at : at + len(data)] = data
                self.data[at + _WORD - 1] = _IN_SLOT | len(data)
            else:
                self._point(at, data)

    def _point(self, at: int, data: bytes, *, room: int = 0, said: int | None = None) -> None:
        _U64.pack_into(self.data, at, len(self.data) << 32 | (len(data) if said is None else said))
        size = max(room, len(data))
        self.data += data + bytes(size - len(data) + -size % _WORD)


def big_endian(unscaled: int) -> bytes:
    """Return an integer as Java's `BigInteger` has it: as few bytes as possible, at least one."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "DATE", "TIME_WITHOUT_TIME_ZONE", "INTERVAL_YEAR_MONTH", "BIGINT",
             "INTERVAL_DAY_TIME"}  # fmt: skip


def _checked(value: Any, of: LogicalType) -> Any:
    """Return a number or a boolean that fits its type."""
    if of.root == "BOOLEAN":
        fits = isinstance(value, bool)
    elif of.root in _INTEGERS:
        bits = 8 * NUMBERS[of.root].size - 1
        fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    else:
        fits = isinstance(value, float | int) and not isinstance(value, bool)
    if not fits:
        raise ValueNotConvertible(f"{shown(value)} is no value of {of.describe()}")
    return value


def require_timestamp(value: Any, of: LogicalType) -> None:
    """Refuse what is no time stamp of a type.

    Raises:
        ValueNotConvertible: It is none.
    """
    fits = (
        isinstance(value, TimestampData)
        and -(1 << 63) <= value.millisecond < 1 << 63
        and 0 <= value.nano_of_millisecond < _NANOS
        and (is_fine_timestamp(of) or not value.nano_of_millisecond)
    )
    if not fits:
        raise ValueNotConvertible(f"{shown(value)} is no value of {of.describe()}")


_NANOS = 1_000_000


def encode_value(value: Any, of: LogicalType) -> bytes:
    """Return the bytes of a value that is no number: a text, bytes, an array, a map, a row.

    Raises:
        ValueNotConvertible: It is no value of the type.
    """
    write = _WRITERS.get(of.root)
    if write is None:
        raise _unknown(of)
    return write(value, of)


def _text_bytes(value: Any, of: LogicalType) -> bytes:
    if not isinstance(value, str):
        raise ValueNotConvertible(f"{shown(value)} is no value of {of.describe()}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueNotConvertible(f"{shown(value)} has a lone surrogate, which UTF-8 has no bytes for") from None


def _plain_bytes(value: Any, of: LogicalType) -> bytes:
    if not isinstance(value, bytes):
        raise ValueNotConvertible(f"{shown(value)} is no value of {of.describe()}")
    return value


def _row_bytes(value: Any, of: LogicalType) -> bytes:
    return encode_row(value, of.types)


_IN_SLOTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
_WRITERS: dict[str, Callable[[Any, LogicalType], bytes]] = {
    "CHAR": _text_bytes, "VARCHAR": _text_bytes, "BINARY": _plain_bytes, "VARBINARY": _plain_bytes,
    "RAW": _plain_bytes, "ARRAY": lambda value, of: _encode_array(value, of.types[0]),
    "MAP": _encode_map, "MULTISET": _encode_map, "ROW": _row_bytes, "STRUCTURED_TYPE": _row_bytes,
}  # fmt: skip
