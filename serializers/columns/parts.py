"""Structs: values with parts that lie one after the other, and the codec of those that are nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from .bytes_at import none
from .codec import ColumnCodec, Decoded
from .encoded import nulls_of, together
from .fixed_parts import decode_flat, decode_numbers

if TYPE_CHECKING:
    from .bytes_at import Flags, Places
    from .codec import Cells
    from .encoded import EncodedColumn, Singly


@attrs.frozen
class Part:
    """A part of a struct.

    Attributes:
        name: The name of the part in the struct.
        codec: The codec of the part.
    """

    name: str
    codec: ColumnCodec


def struct_of(parts: tuple[Part, ...]) -> pa.DataType:
    """Return the Arrow type of a struct with these parts."""
    return pa.struct([pa.field(part.name, part.codec.kind) for part in parts])


def struct_array(kind: pa.DataType, columns: list[pa.Array], count: int, valid: Flags | None = None) -> pa.Array:
    """Return an array of `count` structs of the columns, which may be none."""
    if not columns:
        return pa.array([{}] * count, kind)
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def decode_parts(parts: tuple[Part, ...], cells: Cells) -> tuple[list[pa.Array], Places, Flags]:
    """Decode consecutive parts; return their columns, the positions after the last part, and the odd rows."""
    columns: list[pa.Array] = []
    odd = none(len(cells))
    while len(columns) < len(parts):
        codecs = [part.codec for part in parts[len(columns) :]]
        several = decode_flat(codecs, cells) or decode_numbers(codecs, cells)
        if several is not None:
            columns += several.columns
            cells = cells.moved(several.ends)
            odd |= several.odd
            continue
        found = parts[len(columns)].codec.decode(cells)
        columns.append(found.column)
        odd |= found.odd
        cells = cells.moved(found.ends)
    return columns, cells.starts, odd


@attrs.frozen
class StructCodec(ColumnCodec):
    """Values that are stored as their parts, without bytes between them, and become a struct."""

    parts: tuple[Part, ...]

    @property
    def kind(self) -> pa.DataType:
        return struct_of(self.parts)

    @property
    def size(self) -> int:
        sizes = [part.codec.size for part in self.parts]
        return -1 if -1 in sizes or not sizes else sum(sizes)

    def decode(self, cells: Cells) -> Decoded:
        columns, ends, odd = decode_parts(self.parts, cells)
        return Decoded(struct_array(self.kind, columns, len(cells)), ends, odd)

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not pa.types.is_struct(column.type) or not self.parts:
            return None
        pairs = zip(self.parts, column.flatten(), strict=True)
        return together([part.codec.encode(field, singly) for part, field in pairs], nulls_of(column))
