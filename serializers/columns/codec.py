"""The codec of a column: the Arrow type of a serializer's values, and their conversion to it and back.

There are two ways to read, with equal results. `tell` converts one value, as the serializer reads it, to a value that
`pyarrow` takes. `decode` takes the positions of many values in a block of bytes and builds the array without an object
for each value; rows that it does not support (a subclass, a nested non-ASCII character, damage) are *odd*: the caller
reads only those rows with the serializer, which also raises the errors.

There are two ways to write, too. `taker` returns a function that converts one value from Arrow to what the serializer
accepts. `encode` makes the bytes of a column without an object for each value; rows that it does not support (a
non-ASCII character, a number that may not fit, a null) are *declined*: the caller writes only those rows with the
serializer. The serializers thus remain the only authority on bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..errors import StateShiftError, ValueNotConvertible, add_step, cause_text, shown
from ..views import DataInputView
from .bytes_at import none, spread
from .kinds import wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..serializer import TypeSerializer
    from .bytes_at import Bytes, Flags, Places
    from .encoded import EncodedColumn, Singly
    from .flat import DecodeFlat

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
        return None if value is None else self._told(value)

    @abstractmethod
    def _told(self, value: Any) -> Any: ...

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
    try:
        return codec.tell(value)
    except StateShiftError as error:
        add_step(error, step)
        raise


def not_in_column(value: object, why: str, advice: str) -> ValueNotConvertible:
    """Return the error for a value that a column cannot represent."""
    return ValueNotConvertible(f"{shown(value)} {why}", advice=advice)


def taken(taker: Taker | None, value: Any) -> Any:
    """Return a value converted by a taker; None stays None."""
    return value if taker is None or value is None else taker(value)


EXACT = "read it with option('exact', 'true'), which returns such values as they are stored"
