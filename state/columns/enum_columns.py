"""Columns of enums: text, the name of the constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.enums.serializers import EnumSerializer, JavaEnumSerializer
from .bytes_at import numbers_at
from .codec import Decoded
from .factory import plain
from .scalars import TextCodec

if TYPE_CHECKING:
    from .codec import Cells
    from .factory import ColumnTable


@attrs.frozen
class EnumCodec(TextCodec):
    """Enums: the name of the constant."""

    @property
    def size(self) -> int:
        return 4

    def _told(self, value: Any) -> Any:
        return value.name

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(4)
        ordinals = numbers_at(cells.data, cells.starts, ">i4")
        symbols: tuple[str, ...] = self.serializer.symbols  # type: ignore[attr-defined]  # of an enum
        outside = (ordinals < 0) | (ordinals >= len(symbols))
        names = pa.array(symbols, pa.string()).take(pa.array(ordinals, mask=outside))
        return Decoded(names, ends, odd | outside)


COLUMNS: ColumnTable = {
    EnumSerializer: plain(EnumCodec),
    JavaEnumSerializer: plain(EnumCodec),
}
