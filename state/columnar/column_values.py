"""The values of columns: as Python objects, and as the bytes that the serializers of declared types write.

A block is encoded at once. Rows that no codec encodes by the block are written one by one by the serializer itself,
which also raises the errors. Values that no other codec takes (a recursive record, an Avro union, a tuple or row
without fields, your own serializer) are the JSON that `export` writes.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ...serializers.columns.codec import Codecs, EncodedColumn, taken
from ...serializers.columns.scalars import TextCodec
from ...serializers.errors import StateShiftError, ValueNotConvertible, cause_text, shown
from ...serializers.json_forms import tagger_of
from ...serializers.temporal.values import Instant, LocalDate, LocalDateTime, LocalTime, TemporalValue, civil_date
from ..entry_keys import encode
from ..user_code import called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.columns.codec import ColumnCodec, Taker
    from ...serializers.serializer import TypeSerializer


def all_codecs(*, exact: bool = False) -> Codecs:
    """Return a factory of column codecs; `exact` as in `Codecs`."""
    return Codecs(JsonCodec, exact)


@attrs.frozen(slots=False)
class JsonCodec(TextCodec):
    """Values without a column type of their own: read as JSON, and written one by one.

    Attributes:
        taken: The codec of the values that the serializer takes from a column; None: it takes any.
    """

    taken: ColumnCodec | None = None

    @cached_property
    def _tagger(self) -> Callable[[Any], Any]:
        return tagger_of(self.serializer.snapshot_configuration())

    def _arrow_value(self, value: Any) -> Any:
        return super()._arrow_value(json.dumps(self._tagger(value), sort_keys=True))

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        return iter(()) if self.taken is None else self.taken.mismatches(kind, path)

    def taker(self) -> Taker | None:
        return None if self.taken is None else self.taken.taker()

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        return iter(()) if self.taken is None else self.taken.within(kind, path)


def python_values(serializer: TypeSerializer[Any], column: pa.Array) -> list[Any]:
    """Return the values of a column in the form that their serializer accepts."""
    read = value_reader(all_codecs().of(serializer))
    return [read(value) for value in listed(column)]


@attrs.frozen
class NotInPython:
    """A placeholder for a value that Python cannot represent, such as an array with a timestamp past the year 9999."""

    why: str


def listed(column: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects, or else as an exact temporal value or a `NotInPython`."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        if len(column) == 1:
            return [_exact(column) or NotInPython(cause_text(error))]
        return [value for row in range(len(column)) for value in listed(column.slice(row, 1))]
    return values


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _exact(column: pa.Array) -> TemporalValue | None:
    """Return the single date or time of a column, to the nanosecond and in any year; None if it is of another type."""
    kind = column.type
    if pa.types.is_date32(kind):
        return LocalDate(*civil_date(column.cast(pa.int32())[0].as_py()))
    if not (pa.types.is_timestamp(kind) or pa.types.is_time64(kind)):
        return None
    seconds, rest = divmod(column.cast(pa.int64())[0].as_py(), _PER_SECOND[kind.unit])
    nanos = rest * (10**9 // _PER_SECOND[kind.unit])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return Instant(seconds, nanos)
    days, second = divmod(seconds, 86_400)
    clock = (second // 3600, second // 60 % 60, second % 60, nanos)
    return LocalDateTime(*civil_date(days), *clock) if pa.types.is_timestamp(kind) else LocalTime(*clock)


def value_reader(codec: ColumnCodec) -> Callable[[Any], Any]:
    """Return a function that converts a value from Arrow to one that its serializer accepts.

    It raises `ValueNotConvertible` if that is impossible, as for a set with a repeated element.
    """
    taker = codec.taker()

    def read(value: Any) -> Any:
        if isinstance(value, NotInPython):
            raise ValueNotConvertible(
                f"Python cannot represent the value: {value.why}",
                advice="leave out arrays and maps with dates that are not in the years 1 to 9999, or with nanoseconds",
            )
        return taken(taker, value)

    return read


def encode_column(serializer: TypeSerializer[Any], column: pa.Array) -> EncodedColumn:
    """Encode a block of values.

    Args:
        serializer: The serializer of the values. For a record or tuple, `column` is a struct.
        column: The values; `column_types.mismatches` has accepted its type.
    """
    return all_codecs().of(serializer).encode(column, _one_by_one)


def encode_values(serializer: TypeSerializer[Any], column: pa.Array, rows: Sequence[int]) -> list[bytes]:
    """Encode some rows with the serializer itself; its errors get the row as `error.row`."""
    read = value_reader(all_codecs().of(serializer))
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
    return called(
        lambda: encode(serializer, read(value)),
        lambda: f"{shown(value)} cannot be written",
        "fix the serializer, or pass a value that it accepts with value=<a function of the row>",
    )


def _one_by_one(codec: ColumnCodec, column: pa.Array) -> EncodedColumn:
    declined = np.zeros(len(column), dtype=bool)
    found = []
    read = value_reader(codec)
    for row, value in enumerate(listed(column)):
        try:
            found.append(_written(codec.serializer, read, value))
        except StateShiftError:  # raised again, with the key, when the row is written alone
            declined[row] = True
            found.append(b"")
    return EncodedColumn((pa.array(found, pa.large_binary()),), declined)
