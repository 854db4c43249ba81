"""Encoding of columns of values to the bytes that their serializers write, a block at a time.

Numbers, booleans, dates and times, ASCII strings, bytes, tuples, optional values and records of these are encoded
without making an object of any value. Any other row (with a non-ASCII character, a number that may not fit, a null) is
*declined*: the caller writes only that row with the serializer itself, which also raises the errors. Values of other
types are written one by one. The serializers thus remain the only authority on bytes.

numpy comes with the extra `spark`; nothing else imports this module. Source: performance notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.containers.arrays import BytesSerializer
from ...serializers.containers.optional import OptionalSerializer
from ...serializers.containers.ttl import TtlSerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import StateShiftError, ValueNotConvertible, cause_text, shown
from ...serializers.flink.windows import TimeWindowSerializer
from ...serializers.layout import PLAIN_RECORD
from ...serializers.primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.primitives.text import StringSerializer
from ...serializers.records.pojo import PojoSerializer
from ...serializers.records.serializers import RecordSerializer
from ..savepoint.entry_keys import encode
from .column_types import column_of_field
from .column_values import listed, value_reader
from .temporal_columns import temporal_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...serializers.records.serializers import DescribedRecordSerializer
    from ...serializers.serializer import TypeSerializer

Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""One boolean per row."""

Matrix = np.ndarray[Any, np.dtype[np.uint8]]
"""One row of bytes for each value, all of one length."""

_INTEGERS = {ByteSerializer: ">i1", ShortSerializer: ">i2", IntSerializer: ">i4", LongSerializer: ">i8"}
_EXACT_INTEGERS = 1 << 53
_NOTHING = pa.scalar(b"", pa.large_binary())


@attrs.frozen
class EncodedColumn:
    """The bytes of the values of a column.

    Attributes:
        pieces: The parts whose concatenation is the bytes of each value: matrices, or Arrow arrays of binary.
        declined: The rows whose bytes are meaningless.
    """

    pieces: tuple[Matrix | pa.Array, ...]
    declined: Flags

    def join(self) -> pa.Array:
        """Return the bytes of each value as one Arrow array (large_binary, without nulls)."""
        return join_pieces(self.pieces)


def encode_column(serializer: TypeSerializer[Any], column: pa.Array) -> EncodedColumn:
    """Encode a block of values.

    Args:
        serializer: The serializer of the values. For a record or tuple, `column` is a struct.
        column: The values; `column_types.mismatches` has accepted its type.
    """
    family = type(serializer)
    if family in _INTEGERS and pa.types.is_integer(column.type):
        return _integers(column, np.dtype(_INTEGERS[family]))
    encoder = _ENCODERS.get(family)
    encoded = encoder(serializer, column) if encoder is not None else _temporal(serializer, column)
    return encoded if encoded is not None else _one_by_one(serializer, column)


def encode_values(serializer: TypeSerializer[Any], column: pa.Array, rows: Sequence[int]) -> list[bytes]:
    """Encode some rows with the serializer itself; its errors get the row as `error.row`."""
    read = value_reader(serializer)
    found = []
    for row, value in zip(rows, listed(column.take(pa.array(rows, pa.int64()))), strict=True):
        try:
            found.append(_written(serializer, read, value))
        except StateShiftError as error:
            error.row = row  # type: ignore[attr-defined]  # read by the caller, which knows the row's key
            raise
    return found


def _written(serializer: TypeSerializer[Any], read: Callable[[Any], Any], value: Any) -> bytes:
    """Encode one value; an exception of a user's serializer becomes a `ValueNotConvertible`."""
    try:
        return encode(serializer, read(value))
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(
            f"{shown(value)} cannot be written: {cause_text(error)}",
            advice="fix the serializer, or pass a value that it accepts with value=<a function of the row>",
        ) from error


def fixed_width(matrix: Matrix) -> pa.Array:
    """Return a matrix as an Arrow array of binary."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return binary_of(pa.py_buffer(np.ascontiguousarray(matrix)), offsets)


def binary_of(data: pa.Buffer | None, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    """Return the bytes between consecutive offsets as an Arrow array of binary."""
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), data])


def offsets_of(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the offsets of the values of an Arrow array of binary (large_binary) in its data, and the last end."""
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]


def number_bytes(values: np.ndarray[Any, Any], form: str) -> Matrix:
    """Return numbers as a matrix of their bytes in the numpy format `form`, such as `>i4`."""
    dtype = np.dtype(form)
    return np.ascontiguousarray(values.astype(dtype)).view(np.uint8).reshape(len(values), dtype.itemsize)


def join_pieces(pieces: Sequence[Matrix | pa.Array]) -> pa.Array:
    """Join pieces row by row; neighbouring matrices are put side by side first."""
    arrays: list[pa.Array] = []
    matrices: list[Matrix] = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            matrices.append(piece)
            continue
        if matrices:
            arrays.append(fixed_width(np.hstack(matrices)))
            matrices = []
        arrays.append(piece)
    if matrices:
        arrays.append(fixed_width(np.hstack(matrices)))
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _NOTHING)


def nulls_of(column: pa.Array) -> Flags:
    """Return which rows are null."""
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=bool)


def numbers_of(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return numbers or booleans as a numpy array, nulls as zero."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(False if pa.types.is_boolean(column.type) else 0, column.type))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _integers(column: pa.Array, form: np.dtype[Any]) -> EncodedColumn:
    values = numbers_of(column)
    declined = nulls_of(column)
    if values.dtype.itemsize > form.itemsize:
        limits = np.iinfo(form)
        declined |= (values < limits.min) | (values > limits.max)
    return EncodedColumn((number_bytes(values, form.str),), declined)


def _temporal(serializer: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    numbers = temporal_numbers(serializer, column)
    if numbers is None:
        return None
    pieces = tuple(number_bytes(values, form) for values, form in numbers.parts)
    return EncodedColumn(pieces, numbers.declined | nulls_of(column))


def _booleans(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    if not pa.types.is_boolean(column.type):
        return None
    return EncodedColumn((numbers_of(column).astype(np.uint8).reshape(-1, 1),), nulls_of(column))


def _doubles(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    values = _floating(column)
    if values is None:
        return None
    return EncodedColumn((number_bytes(values, ">f8"),), nulls_of(column) | _inexact(column))


def _floats(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    values = _floating(column)
    if values is None:
        return None
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    declined = nulls_of(column) | _inexact(column) | (np.isinf(rounded) & ~np.isinf(values))
    return EncodedColumn((number_bytes(rounded, ">f4"),), declined)


def _floating(column: pa.Array) -> np.ndarray[Any, Any] | None:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    return numbers_of(column).astype(np.float64)


def _inexact(column: pa.Array) -> Flags:
    """Return which integers a double might round; these are left to the serializer."""
    if not pa.types.is_integer(column.type):
        return np.zeros(len(column), dtype=bool)
    values = numbers_of(column)
    return np.asarray((values > _EXACT_INTEGERS) | (values < -_EXACT_INTEGERS))


def _strings(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    declined = nulls_of(column)
    column = pc.fill_null(column, "") if column.null_count else column
    declined |= ~np.asarray(pc.string_is_ascii(column).to_numpy(zero_copy_only=False), dtype=bool)
    lengths = numbers_of(pc.binary_length(column)).astype(np.int64)
    return EncodedColumn((_varints(lengths + 1), pc.cast(column, pa.large_binary())), declined)


def _varints(values: np.ndarray[Any, Any]) -> Matrix | pa.Array:
    """Encode numbers below 2^35 as `read_varint` reads them."""
    if not len(values) or values.max() < 0x80:
        return values.astype(np.uint8).reshape(-1, 1)
    places = np.arange(5) * 7
    digits = values[:, None] >> places & 0x7F
    used = (values[:, None] >> places > 0) | (places == 0)
    more = np.zeros_like(used)
    more[:, :-1] = used[:, 1:]
    data = (digits | more << 7).astype(np.uint8)[used]
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return binary_of(pa.py_buffer(np.ascontiguousarray(data)), offsets)


def _byte_strings(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return None
    declined = nulls_of(column)
    column = pc.fill_null(column, b"") if column.null_count else column
    lengths = numbers_of(pc.binary_length(column))
    return EncodedColumn((number_bytes(lengths, ">i4"), pc.cast(column, pa.large_binary())), declined)


def _tuples(serializer: TupleSerializer, column: pa.Array) -> EncodedColumn | None:
    if not pa.types.is_struct(column.type) or not serializer.fields:
        return None
    return _together(
        [encode_column(field, part) for field, part in zip(serializer.fields, column.flatten(), strict=True)],
        nulls_of(column),
    )


def _pairs(first: TypeSerializer[Any], second: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    if not pa.types.is_struct(column.type):
        return None
    one, other = column.flatten()
    return _together([encode_column(first, one), encode_column(second, other)], nulls_of(column))


def _stamped(serializer: TtlSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    return _pairs(LongSerializer(), serializer.value, column)


def _windows(_: TypeSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    return _pairs(LongSerializer(), LongSerializer(), column)


def _optional(serializer: OptionalSerializer[Any], column: pa.Array) -> EncodedColumn:
    return _behind_flag(serializer.value, column, b"\1" + bytes(serializer.padding))


def _records(serializer: DescribedRecordSerializer[Any], column: pa.Array) -> EncodedColumn | None:
    if not pa.types.is_struct(column.type):
        return None
    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    parts = dict(zip(names, column.flatten(), strict=True))
    plain: Matrix = np.full((len(column), 1), PLAIN_RECORD, dtype=np.uint8)
    encoded = [EncodedColumn((plain,), nulls_of(column))]
    for field in serializer.fields:
        name = column_of_field(field, names)
        if not name:
            encoded.append(_constant(field.serializer, field.default.make() if field.default else None, len(column)))
        elif field.optional:
            encoded.append(_behind_flag(field.serializer, parts[name], b"\1"))
        else:
            part = encode_column(field.serializer, parts[name])
            flag: Matrix = np.zeros((len(column), 1), dtype=np.uint8)
            encoded.append(EncodedColumn((flag, *part.pieces), part.declined | nulls_of(parts[name])))
    return _together(encoded, np.zeros(len(column), dtype=bool))


def _constant(serializer: TypeSerializer[Any], value: Any, count: int) -> EncodedColumn:
    """Encode a field without a column: its null flag and its default."""
    data = b"\1" if value is None else b"\0" + encode(serializer, value)
    return EncodedColumn((np.tile(np.frombuffer(data, np.uint8), (count, 1)),), np.zeros(count, dtype=bool))


def _together(parts: list[EncodedColumn], declined: Flags) -> EncodedColumn:
    for part in parts:
        declined = declined | part.declined
    return EncodedColumn(tuple(piece for part in parts for piece in part.pieces), declined)


def _behind_flag(serializer: TypeSerializer[Any], column: pa.Array, null: bytes) -> EncodedColumn:
    """Encode values after a flag byte, nulls as `null`."""
    missing = nulls_of(column)
    zero: Matrix = np.zeros((len(column), 1), dtype=np.uint8)
    if not missing.any():
        inner = encode_column(serializer, column)
        return EncodedColumn((zero, *inner.pieces), inner.declined)
    inner = encode_column(serializer, column.drop_null())
    declined = np.zeros(len(column), dtype=bool)
    declined[~missing] = inner.declined
    present = join_pieces((zero[~missing], *inner.pieces))
    return EncodedColumn((spread(present, missing, null),), declined)


def spread(values: pa.Array, missing: Flags, filler: bytes) -> pa.Array:
    """Return an array with values in the rows that are not missing, and `filler` in the others."""
    places = np.cumsum(~missing) - 1
    return values.take(pa.array(places, mask=missing)).fill_null(pa.scalar(filler, pa.large_binary()))


def _one_by_one(serializer: TypeSerializer[Any], column: pa.Array) -> EncodedColumn:
    declined = np.zeros(len(column), dtype=bool)
    found = []
    read = value_reader(serializer)
    for row, value in enumerate(listed(column)):
        try:
            found.append(_written(serializer, read, value))
        except StateShiftError:  # raised again, with the key, when the row is written alone
            declined[row] = True
            found.append(b"")
    return EncodedColumn((pa.array(found, pa.large_binary()),), declined)


_ENCODERS: dict[type, Callable[[Any, pa.Array], EncodedColumn | None]] = {
    BooleanSerializer: _booleans,
    DoubleSerializer: _doubles,
    FloatSerializer: _floats,
    StringSerializer: _strings,
    BytesSerializer: _byte_strings,
    TupleSerializer: _tuples,
    OptionalSerializer: _optional,
    RecordSerializer: _records,
    PojoSerializer: _records,
    TtlSerializer: _stamped,
    TimeWindowSerializer: _windows,
}
"""By exact type: a subclass may write other bytes."""
