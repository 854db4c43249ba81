"""Columns of records: a struct of the fields.

If a record has subclasses, the struct also has `class` and their fields, which are null in other classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..columns.bytes_at import spread
from ..columns.codec import ColumnCodec, Decoded, EncodedColumn, names_of, nulls_of, taken, together, told_at, wrong
from ..columns.nested import OptionalCodec, Part, behind_flag, decode_parts, struct_array, struct_of
from ..columns.scalars import TextCodec
from ..views import DataOutputView
from .classes import Record
from .pojo import PojoSerializer
from .recursive import RecordReference
from .serializers import NULL_RECORD, PLAIN_RECORD, DescribedRecordSerializer, RecordSerializer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..columns.bytes_at import Flags, Places
    from ..columns.codec import Cells, Codecs, ColumnTable, Matrix, Singly, Taker
    from .classes import RecordField


@attrs.frozen
class RecordCodec(ColumnCodec):
    """Records.

    Attributes:
        name: The name of the class.
        parts: The fields in stored order, each after a null flag.
        others: The fields of each subclass by its name, each with the name of its column.
    """

    serializer: DescribedRecordSerializer[Any]
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

    def _arrow_value(self, value: Any) -> Any:
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

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not pa.types.is_struct(kind):
            yield path, wrong(self.serializer, kind, "a struct")
            return
        for field, codec, name in self._columns(names_of(kind)):
            if name:
                yield from codec.mismatches(kind.field(name).type, f"{path}.{field.name}")
            elif field.default is None:
                yield f"{path}.{field.name}", f"there is no column for the field {field.name!r}, and it has no default"

    def taker(self) -> Taker:
        takers = {part.name: part.codec.taker() for part in self.parts}

        def take(value: dict[str, Any]) -> Record:
            fields = {}
            for field in self.serializer.fields:
                name = column_of_field(field, list(value))
                if name:
                    fields[field.name] = taken(takers[field.name], value[name])
                else:
                    fields[field.name] = field.default.make() if field.default else None
            return Record(self.name, fields)

        return take

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not pa.types.is_struct(column.type):
            return None
        names = names_of(column.type)
        found = dict(zip(names, column.flatten(), strict=True))
        plain: Matrix = np.full((len(column), 1), PLAIN_RECORD, dtype=np.uint8)
        encoded = [EncodedColumn((plain,), nulls_of(column))]
        for field, codec, name in self._columns(names):
            if not name:
                encoded.append(_constant(field, len(column)))
            elif field.optional:
                encoded.append(behind_flag(codec, found[name], b"\1", singly))
            else:
                part = codec.encode(found[name], singly)
                flag: Matrix = np.zeros((len(column), 1), dtype=np.uint8)
                encoded.append(EncodedColumn((flag, *part.pieces), part.declined | nulls_of(found[name])))
        return together(encoded, np.zeros(len(column), dtype=bool))

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        for _, codec, name in self._columns(names_of(kind)):
            if name:
                yield codec, kind.field(name).type, f"{path}.{name}"

    def _columns(self, names: Sequence[str]) -> Iterator[tuple[RecordField, ColumnCodec, str]]:
        """Yield each field with its codec and its column, "" if it has none."""
        for field, part in zip(self.serializer.fields, self.parts, strict=True):
            yield field, part.codec, column_of_field(field, names)


def _constant(field: RecordField, count: int) -> EncodedColumn:
    """Encode a field without a column: its null flag and its default."""
    value = field.default.make() if field.default else None
    target = DataOutputView()
    if value is not None:
        field.serializer.serialize(value, target)
    data = b"\1" if value is None else b"\0" + target.getvalue()
    return EncodedColumn((np.tile(np.frombuffer(data, np.uint8), (count, 1)),), np.zeros(count, dtype=bool))


@attrs.frozen
class ReferenceCodec(TextCodec):
    """Records within themselves: a column holds them only as a part of the JSON of the whole record."""

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        yield (
            path,
            "is a record that contains itself, which a column cannot hold; use a function that returns the objects",
        )


def column_of_field(field: RecordField, names: Sequence[str]) -> str:
    """Return the column of a record's field: the one with its Python name, else its name in the state; "" if none."""
    return next((name for name in (field.attribute, field.name) if name and name in names), "")


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
    RecordReference: lambda codecs, serializer: codecs.other(serializer, ReferenceCodec(serializer)),
}
