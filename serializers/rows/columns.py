"""Columns of rows: a struct of the fields, named f0, f1, … where they have no names.

The exact codec has `row_kind` after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..columns.codec import EXACT, ColumnCodec, Decoded, names_of, not_in_column, taken, told_at, wrong
from ..columns.nested import Part, struct_array, struct_of
from .serializers import RowSerializer
from .values import Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..columns.bytes_at import Flags
    from ..columns.codec import Cells, Codecs, ColumnTable, Taker

_KIND_BITS = 2


@attrs.frozen
class RowCodec(ColumnCodec):
    """Rows: a null mask, and the columns that are not null.

    Attributes:
        parts: The columns.
        has_kind: Whether the mask begins with the kind of the row.
        tells_kind: Whether the struct has `row_kind`; otherwise a row of another kind than INSERT is an error.
    """

    serializer: RowSerializer
    parts: tuple[Part, ...]
    has_kind: bool
    tells_kind: bool = False

    @property
    def kind(self) -> pa.DataType:
        fields = list(struct_of(self.parts))
        return pa.struct([*fields, pa.field("row_kind", pa.string())] if self.tells_kind else fields)

    def _arrow_value(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        told = {part.name: told_at(part.codec, item, f"({index})") for index, (part, item) in pairs}
        kind: RowKind = value._kind  # noqa: SLF001 - public despite the underscore
        if self.tells_kind:
            told["row_kind"] = kind.name
        elif kind is not RowKind.INSERT:
            raise not_in_column(value, f"is a row of kind {kind.name}, but a struct has no kind", EXACT)
        return told

    def decode(self, cells: Cells) -> Decoded:
        leading = _KIND_BITS if self.has_kind else 0
        bits = leading + len(self.parts)
        ends, odd = cells.skipped((bits + 7) // 8)
        for bit in [*range(leading), *range(bits, bits + -bits % 8)]:
            odd = odd | _bit(cells, bit)
        columns = []
        for place, part in enumerate(self.parts, leading):
            missing, behind = _bit(cells, place), cells.moved(ends)
            found = part.codec.decode_some(behind, ~missing) if missing.any() else part.codec.decode(behind)
            columns.append(found.column)
            ends, odd = found.ends, odd | found.odd
        if self.tells_kind:
            columns.append(pa.array([RowKind.INSERT.name], pa.string()).take(pa.array(np.zeros(len(cells), np.int32))))
        return Decoded(struct_array(self.kind, columns, len(cells)), ends, odd)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        count, names = len(self.parts), names_of(kind)
        if not pa.types.is_struct(kind) or not (self.serializer.names or len(names) == count):
            yield path, wrong(self.serializer, kind, f"a struct of {count} fields")
            return
        for index, (column, part) in enumerate(zip(self.serializer.columns, self.parts, strict=True)):
            if column.name and column.name not in names:
                yield f"{path}.{column.name}", f"there is no column for the row's {column.name!r}"
                continue
            place = names.index(column.name) if column.name else index
            yield from part.codec.mismatches(kind.field(place).type, path + self.serializer.step(index))

    def taker(self) -> Taker:
        takers = [part.codec.taker() for part in self.parts]
        names = self.serializer.names

        def take(value: dict[str, Any]) -> Row[*tuple[Any, ...]]:
            items = [value[name] for name in names] if names else value.values()
            return Row._of([taken(*pair) for pair in zip(takers, items, strict=True)], names)  # noqa: SLF001 - its factory

        return take

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        for index, (column, part) in enumerate(zip(self.serializer.columns, self.parts, strict=True)):
            field = kind.field(column.name or index)
            yield part.codec, field.type, f"{path}.{field.name}"


def _bit(cells: Cells, bit: int) -> Flags:
    flags: Flags = (cells.data[cells.starts + bit // 8] & (0x80 >> bit % 8)) != 0
    return flags


def _row(codecs: Codecs, serializer: RowSerializer) -> ColumnCodec:
    parts = tuple(
        Part(column.name or f"f{index}", codecs.of(column.serializer))
        for index, column in enumerate(serializer.columns)
    )
    codec = RowCodec(serializer, parts, serializer.supports_row_kind, tells_kind=codecs.exact)
    return codec if parts else codecs.other(serializer, codec)


COLUMNS: ColumnTable = {RowSerializer: _row}
