"""Columns of values that may be null and have a null flag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from .codec import ColumnCodec, Decoded

if TYPE_CHECKING:
    import pyarrow as pa

    from .codec import Cells


@attrs.frozen
class OptionalCodec(ColumnCodec):
    """A flag and the value, or a null.

    Attributes:
        value: The codec of the values.
        padding: The number of bytes that replace the value of a null.
        null_flag: The flag of a null: 1 nearly everywhere, 0 in object arrays.
    """

    value: ColumnCodec
    padding: int = 0
    null_flag: int = 1

    @property
    def kind(self) -> pa.DataType:
        return self.value.kind

    def _told(self, value: Any) -> Any:
        return self.value.tell(value)

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(1)
        flags = cells.data[cells.starts]
        if self.null_flag and not flags.any():  # the usual case: no null, and no damage
            inner = self.value.decode(cells.moved(begins))
            return Decoded(inner.column, inner.ends, odd | inner.odd)
        odd |= flags > 1
        present = flags != self.null_flag
        inner = self.value.decode_some(cells.moved(begins), present)
        if not self.padding:
            return Decoded(inner.column, inner.ends, odd | inner.odd)
        padded, short = cells.moved(begins).skipped(self.padding)
        ends = np.where(present, inner.ends, padded)
        return Decoded(inner.column, ends, odd | inner.odd | (short & ~present))
