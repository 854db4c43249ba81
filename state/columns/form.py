"""The form of a column: the Arrow type of a serializer's values, and how they get there.

There are two ways, with equal results. `tell` takes one value, as the serializer reads it, and gives what `pyarrow`
takes. `decode` takes the places of many values in a block of bytes and makes the array without an object of any value;
what it does not take (a subclass, a letter beyond ASCII in a nested place, damage) is *odd*: the caller reads those
rows, and no others, by the serializer, which is also what words the errors.
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
    """Where values lie.

    Attributes:
        raw: The bytes, with `bytes_at.PADDING` more at the end.
        data: The same for numpy.
        starts: Where each value begins; ascending, and never past its limit.
        limits: What each may not go past.
        executor: Who goes through them: machine code, or numpy.
    """

    raw: bytes = attrs.field(repr=False)
    data: Bytes = attrs.field(repr=False)
    starts: Places
    limits: Places
    executor: ExecutorName = ExecutorName.PLAIN

    def __len__(self) -> int:
        return len(self.starts)

    def moved(self, starts: Places) -> Cells:
        """Give the same rows at other places."""
        return Cells(self.raw, self.data, starts, self.limits, self.executor)

    def picked(self, rows: Any) -> Cells:
        """Give some of the rows: numbers or flags of them."""
        return Cells(self.raw, self.data, self.starts[rows], self.limits[rows], self.executor)

    def skipped_to(self, size: int) -> tuple[Cells, Flags]:
        """Give the same rows behind fixed bytes, and which rows do not have so many."""
        ends, odd = self.skipped(size)
        return self.moved(ends), odd

    def skipped(self, size: int) -> tuple[Places, Flags]:
        """Give where fixed bytes end, and which rows do not have so many."""
        ends = self.starts + size
        odd = ends > self.limits
        return (np.minimum(ends, self.limits), odd) if odd.any() else (ends, odd)


@attrs.frozen
class Decoded:
    """Values of many rows.

    Attributes:
        column: One value a row; those of odd rows mean nothing.
        ends: Where each value ends.
        odd: Which rows were not understood.
    """

    column: pa.Array
    ends: Places
    odd: Flags


@attrs.frozen
class ColumnForm(ABC):
    """How the values of one serializer stand in a column.

    Attributes:
        serializer: Reads them one by one.
    """

    serializer: TypeSerializer[Any]

    @property
    @abstractmethod
    def kind(self) -> pa.DataType:
        """The type of the column."""

    @property
    def size(self) -> int:
        """Bytes of every value, or -1 where they differ, or where values are decoded one by one."""
        return -1

    @property
    def is_plain(self) -> bool:
        """Whether equal values of the column are equal keys of the job: whole numbers, booleans, text."""
        return False

    def tell(self, value: Any) -> Any:
        """Give a value as `pa.array` takes it for `kind`; None stays None.

        Raises:
            ValueNotConvertible: The column cannot hold it.
        """
        return None if value is None else self._told(value)

    @abstractmethod
    def _told(self, value: Any) -> Any: ...

    def decode(self, cells: Cells) -> Decoded:
        """Decode the values of many rows."""
        return self.decode_singly(cells)

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        """Decode the values of the rows that have one; the others take no bytes, and are null."""
        inner = self.decode(cells.picked(present))
        ends, odd = cells.starts.copy(), none(len(cells))
        ends[present], odd[present] = inner.ends, inner.odd
        return Decoded(spread(inner.column, present), ends, odd)

    def decode_singly(self, cells: Cells) -> Decoded:
        """Decode each value by the serializer: the plain way, which all others must agree with."""
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
        """Make the column of told values."""
        return pa.array(values, self.kind)


def read_one(serializer: TypeSerializer[Any], source: DataInputView) -> Any:
    """Read a value; what a reader of the user's raises becomes an error of ours."""
    try:
        return serializer.deserialize(source)
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(
            f"a value cannot be read as {serializer.describe()}: {cause_text(error)}",
            advice="mend the serializer that is registered for it",
        ) from error


def told_at(form: ColumnForm, value: Any, step: str) -> Any:
    """Tell a part of a value; an error says by which step it was reached."""
    try:
        return form.tell(value)
    except StateShiftError as error:
        add_step(error, step)
        raise


def not_in_column(value: object, why: str, advice: str) -> ValueNotConvertible:
    """Say that a column cannot hold a value."""
    return ValueNotConvertible(f"{shown(value)} {why}", advice=advice)


EXACT = "read it with option('exact', 'true'), which gives such values as they are stored"
