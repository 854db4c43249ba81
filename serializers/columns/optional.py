"""Columns of values that may be null and have a null flag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from .codec import ColumnCodec, Decoded
from .encoded import EncodedColumn, join_pieces, nulls_of, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from .codec import Cells, Taker
    from .encoded import Matrix, Singly


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

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        return self.value.mismatches(kind, path)

    def taker(self) -> Taker | None:
        return self.value.taker()

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn:
        return behind_flag(self.value, column, b"\1" + bytes(self.padding), singly)

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.value, kind, path


def behind_flag(codec: ColumnCodec, column: pa.Array, null: bytes, singly: Singly) -> EncodedColumn:
    """Encode values after a flag byte, nulls as `null`."""
    missing = nulls_of(column)
    zero: Matrix = np.zeros((len(column), 1), dtype=np.uint8)
    if not missing.any():
        inner = codec.encode(column, singly)
        return EncodedColumn((zero, *inner.pieces), inner.declined)
    inner = codec.encode(column.drop_null(), singly)
    declined = np.zeros(len(column), dtype=bool)
    declined[~missing] = inner.declined
    present = join_pieces((zero[~missing], *inner.pieces))
    return EncodedColumn((spread(present, missing, null),), declined)
