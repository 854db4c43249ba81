"""Columns of records: a struct of the fields.

If a record has subclasses, the struct also has `class` and their fields, which are null in other classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..columns.bytes_at import spread
from ..columns.codec import ColumnCodec, Decoded, told_at
from ..columns.optional import OptionalCodec
from ..columns.parts import Part, decode_parts, struct_array, struct_of
from ..layout import NULL_RECORD, PLAIN_RECORD
from .pojo import PojoSerializer
from .serializers import DescribedRecordSerializer, RecordSerializer

if TYPE_CHECKING:
    from ..columns.bytes_at import Flags, Places
    from ..columns.codec import Cells
    from ..columns.factory import Codecs, ColumnTable


@attrs.frozen
class RecordCodec(ColumnCodec):
    """Records.

    Attributes:
        name: The name of the class.
        parts: The fields in stored order, each after a null flag.
        others: The fields of each subclass by its name, each with the name of its column.
    """

    name: str
    parts: tuple[Part, ...]
    others: tuple[tuple[str, tuple[tuple[str, Part], ...]], ...] = ()

    @property
    def kind(self) -> pa.DataType:
        fields = list(struct_of(self.parts))
        if not self.others:
            return pa.struct(fields)
        known = {part.name for part in self.parts}
        more = {column: part.codec.kind for _, parts in self.others for column, part in parts if column not in known}
        return pa.struct([pa.field("class", pa.string()), *fields, *(pa.field(*item) for item in more.items())])

    def _told(self, value: Any) -> Any:
        name, items = value._type_name, value._asdict()  # noqa: SLF001 - public despite the underscore
        parts = dict(self.others).get(name) or tuple((part.name, part) for part in self.parts)
        told = {column: told_at(part.codec, items[part.name], f".{part.name}") for column, part in parts}
        return told | {"class": name} if self.others else told

    def decode(self, cells: Cells) -> Decoded:
        flags = cells.data[cells.starts]
        plain = flags == PLAIN_RECORD
        begins, odd = cells.skipped(1)
        odd |= ~plain & (flags != NULL_RECORD)
        if plain.all():
            column, ends, inner_odd = self._plain(cells.moved(begins))
            return Decoded(column, ends, odd | inner_odd)
        column, inner_ends, inner_odd = self._plain(cells.moved(begins).picked(plain))
        ends = begins.copy()
        ends[plain] = inner_ends
        odd[plain] |= inner_odd
        return Decoded(spread(column, plain), ends, odd)

    def _plain(self, cells: Cells) -> tuple[pa.Array, Places, Flags]:
        behind_flags = tuple(Part(part.name, OptionalCodec(part.codec.serializer, part.codec)) for part in self.parts)
        columns, ends, odd = decode_parts(behind_flags, cells)
        if self.others:
            first = pa.array([self.name], pa.string()).take(pa.array(np.zeros(len(cells), np.int32)))
            rest = list(self.kind)[1 + len(columns) :]
            columns = [first, *columns, *(pa.nulls(len(cells), field.type) for field in rest)]
        return struct_array(self.kind, columns, len(cells)), ends, odd


def _record(codecs: Codecs, serializer: DescribedRecordSerializer[Any]) -> ColumnCodec:
    parts = _fields(codecs, serializer)
    kinds = {part.name: part.codec.kind for part in parts}
    others: dict[str, tuple[tuple[str, Part], ...]] = {}
    pending = [subclass for _, subclass in (*serializer.registered, *serializer.unregistered)]
    while pending:  # a subclass may have subclasses
        one = pending.pop(0)
        if one.name in others or one.name == serializer.name:
            continue
        named = []
        for part in _fields(codecs, one):
            column = part.name
            if kinds.setdefault(column, part.codec.kind) != part.codec.kind:  # fields of two classes with the same name
                column = f"{part.name} of {one.name}"
                kinds[column] = part.codec.kind
            named.append((column, part))
        others[one.name] = tuple(named)
        pending += [subclass for _, subclass in (*one.registered, *one.unregistered)]
    return RecordCodec(serializer, serializer.name, parts, tuple(others.items()))


def _fields(codecs: Codecs, serializer: DescribedRecordSerializer[Any]) -> tuple[Part, ...]:
    return tuple(Part(field.name, codecs.of(field.serializer)) for field in serializer.fields)


COLUMNS: ColumnTable = {
    RecordSerializer: _record,
    PojoSerializer: _record,
}
