"""The codec of a column: the Arrow type of a serializer's values, and their conversion to it and back.

There are two ways to read, with equal results. `tell` converts one value, as the serializer reads it, to a value that
`pyarrow` takes. `decode` takes the positions of many values in a block of bytes and builds the array without an object
for each value; rows that it does not support (a subclass, a nested non-ASCII character, damage) are *odd*: the caller
reads only those rows with the serializer, which also raises the errors.

There are two ways to write, too. `taker` returns a function that converts one value from Arrow to what the serializer
accepts. `encode` makes the bytes of a column without an object for each value; rows that it does not support (a
non-ASCII character, a number that may not fit, a null) are *declined*: the caller writes only those rows with the
serializer. The serializers thus remain the only authority on bytes.

The codec of each serializer is that of its family, else that of its counterpart, else JSON (`Codecs`). Encoded values
are pieces that are joined row by row (`EncodedColumn`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import OldReaderUnavailable, StateShiftError, ValueNotConvertible, at_step, cause_text, shown
from ..families import Ability, families
from ..views import DataInputView
from ..wording import one
from .bytes_at import none, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..serializer import TypeSerializer
    from .bytes_at import Bytes, DecodeFlat, Flags, Places

_SPARK_NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
    "large_string": "string", "large_binary": "binary", "date32[day]": "date",
    "time64[ns]": "time",
}  # fmt: skip


def wrong(serializer: TypeSerializer[Any], kind: pa.DataType, wanted: str = "") -> str:
    """Return what is wrong with a column of a type that does not fit a serializer; it may say which type is wanted."""
    needs = f" ({wanted})" if wanted else ""
    return f"is {one(spark_name(kind))}, and {serializer.describe()} is declared{needs}"


def is_array(kind: pa.DataType) -> bool:
    """Whether a column holds arrays; fixed-size arrays do not count, since Spark has none."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def spark_name(kind: pa.DataType) -> str:
    """Return Spark's name of a column type."""
    if pa.types.is_struct(kind):
        return "struct"
    if is_array(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(str(kind), str(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column holds byte strings of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def names_of(kind: pa.DataType) -> tuple[str, ...]:
    """Return the names of the fields of a struct; none for other types."""
    return tuple(field.name for field in kind) if pa.types.is_struct(kind) else ()


if TYPE_CHECKING:
    Singly = Callable[["ColumnCodec", pa.Array], "EncodedColumn"]
    """Encodes a column value by value, with the serializer of the codec."""

Matrix = np.ndarray[Any, np.dtype[np.uint8]]
"""One row of bytes for each value, all of one length."""

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


def together(parts: Sequence[EncodedColumn], declined: Flags) -> EncodedColumn:
    """Return values that consist of parts; a row is also declined where a part is."""
    for part in parts:
        declined = declined | part.declined
    return EncodedColumn(tuple(piece for part in parts for piece in part.pieces), declined)


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


def varints(values: np.ndarray[Any, Any]) -> Matrix | pa.Array:
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


def spread_bytes(values: pa.Array, missing: Flags, filler: bytes) -> pa.Array:
    """Return an array with values in the rows that are not missing, and `filler` in the others."""
    places = np.cumsum(~missing) - 1
    return values.take(pa.array(places, mask=missing)).fill_null(pa.scalar(filler, pa.large_binary()))


if TYPE_CHECKING:
    Taker = Callable[[Any], Any]


@attrs.frozen
class Cells:
    """The positions of values.

    Attributes:
        raw: The bytes, with `bytes_at.PADDING` more at the end.
        data: The bytes as a numpy array.
        starts: The position of each value; ascending, and never past its limit.
        limits: The position that each value must not go past.
        decode_flat: The machine code that decodes numbers, booleans and strings; None: numpy decodes them.
    """

    raw: bytes = attrs.field(repr=False)
    data: Bytes = attrs.field(repr=False)
    starts: Places
    limits: Places
    decode_flat: DecodeFlat | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def moved(self, starts: Places) -> Cells:
        """Return the same rows at other positions."""
        return Cells(self.raw, self.data, starts, self.limits, self.decode_flat)

    def picked(self, rows: Any) -> Cells:
        """Return some of the rows, by their indexes or flags."""
        return Cells(self.raw, self.data, self.starts[rows], self.limits[rows], self.decode_flat)

    def skipped_to(self, size: int) -> tuple[Cells, Flags]:
        """Return the same rows after `size` bytes, and which rows do not have so many bytes."""
        ends, odd = self.skipped(size)
        return self.moved(ends), odd

    def skipped(self, size: int) -> tuple[Places, Flags]:
        """Return the positions after `size` bytes, and which rows do not have so many bytes."""
        ends = self.starts + size
        odd = ends > self.limits
        return (np.minimum(ends, self.limits), odd) if odd.any() else (ends, odd)


@attrs.frozen
class Decoded:
    """The decoded values of many rows.

    Attributes:
        column: One value for each row; the values of odd rows have no meaning.
        ends: The position after each value.
        odd: Whether each row is odd: it could not be decoded.
    """

    column: pa.Array
    ends: Places
    odd: Flags


@attrs.frozen
class ColumnCodec(ABC):
    """The column codec of one serializer's values.

    Attributes:
        serializer: The serializer, which reads values one by one.
    """

    serializer: TypeSerializer[Any]

    @property
    @abstractmethod
    def kind(self) -> pa.DataType:
        """The type of the column."""

    @property
    def size(self) -> int:
        """The number of bytes of every value; -1 where it differs, or where values are decoded one by one."""
        return -1

    @property
    def is_plain(self) -> bool:
        """Whether equal values of the column are equal keys of the job: integers, booleans, text."""
        return False

    def tell(self, value: Any) -> Any:
        """Return a value as `pa.array` takes it for `kind`; None stays None.

        Raises:
            ValueNotConvertible: The column cannot represent the value.
        """
        return None if value is None else self._arrow_value(value)

    @abstractmethod
    def _arrow_value(self, value: Any) -> Any: ...

    def decode(self, cells: Cells) -> Decoded:
        """Decode the values of many rows."""
        return self.decode_singly(cells)

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        """Decode the values of the rows that are present; the other rows take no bytes, and are null."""
        inner = self.decode(cells.picked(present))
        ends, odd = cells.starts.copy(), none(len(cells))
        ends[present], odd[present] = inner.ends, inner.odd
        return Decoded(spread(inner.column, present), ends, odd)

    def decode_singly(self, cells: Cells) -> Decoded:
        """Decode each value with the serializer; all other ways to decode must have the same result."""
        values: list[Any] = []
        ends, odd = cells.starts.copy(), none(len(cells))
        for row, (start, limit) in enumerate(zip(cells.starts.tolist(), cells.limits.tolist(), strict=True)):
            source = DataInputView(cells.raw, start, limit)
            try:
                values.append(self.tell(read_one(self.serializer, source)))
                ends[row] = source.position
            except StateShiftError:
                values.append(None)
                odd[row] = True
        return Decoded(self.array(values), ends, odd)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return the column of values that `tell` has converted."""
        return pa.array(values, self.kind)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        """Find the parts of a column's type that do not fit the serializer.

        Integers wider than declared fit: each value is checked when it is written. By default any type fits, as for a
        user's own serializer.

        Yields:
            Pairs of a path below the column, and what is wrong there.
        """
        if not self._fits(kind):
            yield path, wrong(self.serializer, kind, self._wanted(kind))

    def _fits(self, kind: pa.DataType) -> bool:
        return True

    def _wanted(self, kind: pa.DataType) -> str:
        """Return the type that a column must have instead of `kind`; "" where the serializer says it."""
        return ""

    def taker(self) -> Taker | None:
        """Return the function that converts a value from Arrow, not None, to one that the serializer accepts.

        It raises `ValueNotConvertible` if that is impossible, as for a set with a repeated element. None: the
        serializer accepts what Arrow gives.
        """
        return None

    def encode(self, column: pa.Array, singly: Singly) -> EncodedColumn:
        """Encode the values of a column whose type fits; `singly` encodes what is not encoded by the block."""
        encoded = self._encoded(column, singly)
        return singly(self, column) if encoded is None else encoded

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        return None

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        """Yield codec, column type and path of the parts of the values; `kind` fits."""
        yield from ()


def read_one(serializer: TypeSerializer[Any], source: DataInputView) -> Any:
    """Read a value; convert exceptions of a user's serializer to `ValueNotConvertible`."""
    try:
        return serializer.deserialize(source)
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(
            f"a value cannot be read as {serializer.describe()}: {cause_text(error)}",
            advice="fix the serializer that is registered for it",
        ) from error


def told_at(codec: ColumnCodec, value: Any, step: str) -> Any:
    """Return a part of a value converted by `codec.tell`; errors get `step` in their path."""
    with at_step(step):
        return codec.tell(value)


def not_in_column(value: object, why: str, advice: str) -> ValueNotConvertible:
    """Return the error for a value that a column cannot represent."""
    return ValueNotConvertible(f"{shown(value)} {why}", advice=advice)


def taken(taker: Taker | None, value: Any) -> Any:
    """Return a value converted by a taker; None stays None."""
    return value if taker is None or value is None else taker(value)


EXACT = "read it exactly as it is stored: in Spark with option('exact', 'true'), elsewhere with exact"


if TYPE_CHECKING:
    Maker = Callable[["Codecs", Any], ColumnCodec]
    """Returns the codec of a serializer, made with those of its parts."""
    ColumnTable = Mapping[type, Maker]
    """The table of `Ability.COLUMNS`."""


@attrs.frozen
class Codecs:
    """A factory of column codecs.

    Attributes:
        other: Makes the codec of values without a column type of their own. Its arguments are the serializer, and the
            codec of the values that it takes from a column; None: it takes any.
        exact: Whether big numbers and times become text, and rows have their kind: exactly as they are stored.
    """

    other: Callable[[TypeSerializer[Any], ColumnCodec | None], ColumnCodec]
    exact: bool = False

    def of(self, serializer: TypeSerializer[Any]) -> ColumnCodec:
        """Return the codec of a serializer's values; it must read generic values, as restored serializers do."""
        make: Maker | None = families.find(Ability.COLUMNS, type(serializer))
        if make is not None:
            return make(self, serializer)
        counterpart = serializer.snapshot_configuration().counterpart()
        if counterpart is None:
            return self.other(serializer, self._inherited(serializer))
        try:
            own = counterpart.serializer.snapshot_configuration().restore_serializer()
        except OldReaderUnavailable:  # an Avro union, which has no equivalent
            return self.other(serializer, None)
        return CounterpartCodec(serializer, self.of(own), counterpart.to_own)

    def _inherited(self, serializer: TypeSerializer[Any]) -> ColumnCodec | None:
        """Return the codec of the nearest base class: a subclass takes its values, though it may write other bytes."""
        makers = (families.find(Ability.COLUMNS, cls) for cls in type(serializer).__mro__[1:])
        make: Maker | None = next((make for make in makers if make is not None), None)
        return None if make is None else make(self, serializer)


def plain(make: Callable[[Any], ColumnCodec]) -> Maker:
    """Return a maker of codecs that depend on nothing but the serializer."""
    return lambda _, serializer: make(serializer)


@attrs.frozen
class CounterpartCodec(ColumnCodec):
    """Values that have an equivalent built-in type.

    Attributes:
        own: The codec of the built-in type.
        to_own: Converts a value to the built-in type.
    """

    own: ColumnCodec
    to_own: Callable[[Any], Any]

    @property
    def kind(self) -> pa.DataType:
        return self.own.kind

    def _arrow_value(self, value: Any) -> Any:
        return self.own.tell(self.to_own(value))
