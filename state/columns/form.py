"""The form of a column: the Arrow type of a serializer's values, and their conversion to it.

There are two ways, with equal results. `tell` converts one value, as the serializer reads it, to a value that `pyarrow`
takes. `decode` takes the positions of many values in a block of bytes and builds the array without an object for each
value; rows that it does not support (a subclass, a nested non-ASCII character, damage) are *odd*: the caller reads only
those rows with the serializer, which also raises the errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ...serializers.errors import StateShiftError, ValueNotConvertible, add_step, cause_text, shown
from ...serializers.views import DataInputView
from ..transcode.choice import ExecutorName
from .bytes_at import none, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer
    from .bytes_at import Bytes, Flags, Places


@attrs.frozen
class Cells:
    """The positions of values.

    Attributes:
        raw: The bytes, with `bytes_at.PADDING` more at the end.
        data: The bytes as a numpy array.
        starts: The position of each value; ascending, and never past its limit.
        limits: The position that each value must not go past.
        executor: The executor that decodes them: machine code, or numpy.
    """

    raw: bytes = attrs.field(repr=False)
    data: Bytes = attrs.field(repr=False)
    starts: Places
    limits: Places
    executor: ExecutorName = ExecutorName.PLAIN

    def __len__(self) -> int:
        return len(self.starts)

    def moved(self, starts: Places) -> Cells:
        """Return the same rows at other positions."""
        return Cells(self.raw, self.data, starts, self.limits, self.executor)

    def picked(self, rows: Any) -> Cells:
        """Return some of the rows, by their indexes or flags."""
        return Cells(self.raw, self.data, self.starts[rows], self.limits[rows], self.executor)

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
class ColumnForm(ABC):
    """The column form of one serializer's values.

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


def told_at(form: ColumnForm, value: Any, step: str) -> Any:
    """Return a part of a value converted by `form.tell`; errors get `step` in their path."""
    try:
        return form.tell(value)
    except StateShiftError as error:
        add_step(error, step)
        raise


def not_in_column(value: object, why: str, advice: str) -> ValueNotConvertible:
    """Return the error for a value that a column cannot represent."""
    return ValueNotConvertible(f"{shown(value)} {why}", advice=advice)


EXACT = "read it with option('exact', 'true'), which returns such values as they are stored"
