"""Columns of enums: text, the name of the constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ..columns.bytes_at import numbers_at
from ..columns.codec import Decoded, is_text, plain
from ..columns.scalars import TextCodec
from .serializers import EnumSerializer, JavaEnumSerializer, Symbol

if TYPE_CHECKING:
    from ..columns.codec import Cells, ColumnTable, Taker


@attrs.frozen
class EnumCodec(TextCodec):
    """Enums: the name of the constant."""

    size = 4

    def _arrow_value(self, value: Any) -> Any:
        return value.name

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(4)
        ordinals = numbers_at(cells.data, cells.starts, ">i4")
        symbols: tuple[str, ...] = self.serializer.symbols  # type: ignore[attr-defined]  # of an enum
        outside = (ordinals < 0) | (ordinals >= len(symbols))
        names = pa.array(symbols, pa.string()).take(pa.array(ordinals, mask=outside))
        return Decoded(names, ends, odd | outside)

    def _fits(self, kind: pa.DataType) -> bool:
        return is_text(kind)

    def taker(self) -> Taker:
        return lambda value: Symbol(value) if isinstance(value, str) else value


COLUMNS: ColumnTable = {
    EnumSerializer: plain(EnumCodec),
    JavaEnumSerializer: plain(EnumCodec),
}
