"""Byte rewrites of rows: a mask whose bits move with the columns, and the columns that are not null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .. import rewrite
from .rules import RowConversion
from .serializers import RowSerializer

if TYPE_CHECKING:
    from ..defaults import Default
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer

    Origin = tuple[int | Default | None, Conversion]
    """The origin of a new column: the position of the old one or a default, and the conversion."""


def _row(new: RowSerializer, old: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    if not isinstance(old, RowSerializer) or old.names:
        return None  # restored serializers have no names, by which columns would pair differently
    if isinstance(conversion, RowConversion):
        origins: list[Origin] = [(origin, convert) for _, origin, convert in conversion.columns]
    elif conversion is None and len(old.columns) == len(new.columns):
        origins = [(place, None) for place in range(len(new.columns))]
    else:
        return None
    return _Making(new, old, origins).made()


@attrs.frozen
class _Making:
    new: RowSerializer
    old: RowSerializer
    origins: list[Origin]

    def made(self) -> rewrite.ByteRewrite | None:
        parts = self._parts()
        if parts is None:
            return None
        leading = self.old.leading_bits
        mask, emitted = self._kind_bits(), list[int | bytes]()
        clear = [leading + place for place, column in enumerate(self.old.columns) if not column.optional]
        if not self.new.supports_row_kind:
            clear += range(leading)
        for column, (origin, _) in zip(self.new.columns, self.origins, strict=True):
            if isinstance(origin, int):
                mask.append(leading + origin)
                emitted.append(origin)
                clear += [] if column.optional else [leading + origin]
                continue
            data = rewrite.constant(column.serializer, origin)
            if data is None or not (data or column.optional):
                return None
            mask.append(rewrite.UNSET if data else rewrite.SET)
            emitted += [data] if data else []
        return rewrite.Masked(parts, leading, tuple(clear), tuple(mask), tuple(emitted))

    def _parts(self) -> tuple[rewrite.ByteRewrite, ...] | None:
        """Return the byte rewrites of the stored columns, also of dropped ones, which are read and must be valid."""
        takers = {origin: place for place, (origin, _) in enumerate(self.origins) if isinstance(origin, int)}
        parts = []
        for place, stored in enumerate(self.old.columns):
            writer, convert = stored.serializer, None
            if place in takers:
                writer, convert = self.new.columns[takers[place]].serializer, self.origins[takers[place]][1]
            part = rewrite.rewrite_of(stored.serializer, convert, writer)
            if part is None:
                return None
            parts.append(rewrite.present(part) if place in takers else part)
        return tuple(parts)

    def _kind_bits(self) -> list[int]:
        if not self.new.supports_row_kind:
            return []
        kept = range(self.old.leading_bits)
        return [*kept] or [rewrite.UNSET] * self.new.leading_bits


REWRITES: RewriteTable = {RowSerializer: _row}
