"""Columns of records, rows, tuples and other types with parts, as structs.

record   struct of its fields; if it has subclasses also `class` and their fields, null in other classes
row      struct f0, f1, … by position; the exact form has `row_kind` after them
tuple    struct f0, f1, …
either   struct is_left, left, right
ttl      struct last_access_ms, value
window   struct start, end: milliseconds since 1970
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ...serializers.containers.either import Left
from ...serializers.layout import NULL_RECORD, PLAIN_RECORD
from ...serializers.rows.values import RowKind
from .bytes_at import none, spread
from .fixed_parts import decode_flat, decode_numbers
from .form import EXACT, ColumnForm, Decoded, not_in_column, told_at
from .optional import OptionalForm

if TYPE_CHECKING:
    from .bytes_at import Flags, Places
    from .form import Cells

_KIND_BITS = 2


@attrs.frozen
class Part:
    """A part of a struct.

    Attributes:
        name: The name of the part in the struct.
        form: The form of the part.
    """

    name: str
    form: ColumnForm


def struct_of(parts: tuple[Part, ...]) -> pa.DataType:
    """Return the Arrow type of a struct with these parts."""
    return pa.struct([pa.field(part.name, part.form.kind) for part in parts])


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
        forms = [part.form for part in parts[len(columns) :]]
        several = decode_flat(forms, cells) or decode_numbers(forms, cells)
        if several is not None:
            columns += several.columns
            cells = cells.moved(several.ends)
            odd |= several.odd
            continue
        found = parts[len(columns)].form.decode(cells)
        columns.append(found.column)
        odd |= found.odd
        cells = cells.moved(found.ends)
    return columns, cells.starts, odd


@attrs.frozen
class TupleForm(ColumnForm):
    """Tuples: the fields, without bytes between them."""

    parts: tuple[Part, ...]

    @property
    def kind(self) -> pa.DataType:
        return struct_of(self.parts)

    @property
    def size(self) -> int:
        return size_of(self.parts)

    def _told(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        return {part.name: told_at(part.form, item, f"({index})") for index, (part, item) in pairs}

    def decode(self, cells: Cells) -> Decoded:
        columns, ends, odd = decode_parts(self.parts, cells)
        return Decoded(struct_array(self.kind, columns, len(cells)), ends, odd)


def size_of(parts: tuple[Part, ...]) -> int:
    """Return the number of bytes of all parts; -1 where it differs."""
    sizes = [part.form.size for part in parts]
    return -1 if -1 in sizes or not sizes else sum(sizes)


@attrs.frozen
class TtlForm(TupleForm):
    """Values with the time of their last access."""

    def _told(self, value: Any) -> Any:
        return {"last_access_ms": value.last_access_ms, "value": self.parts[1].form.tell(value.value)}


@attrs.frozen
class WindowForm(TupleForm):
    """Time windows."""

    def _told(self, value: Any) -> Any:
        return {"start": value.start, "end": value.end}


@attrs.frozen
class PairForm(TupleForm):
    """Decoded entries of a map: key and value."""


@attrs.frozen
class EitherForm(ColumnForm):
    """Either values: a flag, and the value of the side that it names.

    Attributes:
        left: The form of values after the flag 1.
        right: The form of values after the flag 0.
    """

    left: ColumnForm
    right: ColumnForm

    @property
    def kind(self) -> pa.DataType:
        return pa.struct([("is_left", pa.bool_()), ("left", self.left.kind), ("right", self.right.kind)])

    def _told(self, value: Any) -> Any:
        if isinstance(value, Left):
            return {"is_left": True, "left": told_at(self.left, value.value, "<left>")}
        return {"is_left": False, "right": told_at(self.right, value.value, "<right>")}

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(1)
        flags = cells.data[cells.starts]
        odd |= flags > 1
        left = self.left.decode_some(cells.moved(begins), flags == 1)
        right = self.right.decode_some(cells.moved(begins), flags != 1)
        columns = [pa.array(flags == 1), left.column, right.column]
        column = struct_array(self.kind, columns, len(cells))
        return Decoded(column, np.maximum(left.ends, right.ends), odd | left.odd | right.odd)


@attrs.frozen
class RowForm(ColumnForm):
    """Rows: a null mask, and the columns that are not null.

    Attributes:
        parts: The columns.
        has_kind: Whether the mask begins with the kind of the row.
        tells_kind: Whether the struct has `row_kind`; otherwise a row of another kind than INSERT is an error.
    """

    parts: tuple[Part, ...]
    has_kind: bool
    tells_kind: bool = False

    @property
    def kind(self) -> pa.DataType:
        fields = list(struct_of(self.parts))
        return pa.struct([*fields, pa.field("row_kind", pa.string())] if self.tells_kind else fields)

    def _told(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        told = {part.name: told_at(part.form, item, f"({index})") for index, (part, item) in pairs}
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
            found = part.form.decode_some(behind, ~missing) if missing.any() else part.form.decode(behind)
            columns.append(found.column)
            ends, odd = found.ends, odd | found.odd
        if self.tells_kind:
            columns.append(pa.array([RowKind.INSERT.name], pa.string()).take(pa.array(np.zeros(len(cells), np.int32))))
        return Decoded(struct_array(self.kind, columns, len(cells)), ends, odd)


def _bit(cells: Cells, bit: int) -> Flags:
    flags: Flags = (cells.data[cells.starts + bit // 8] & (0x80 >> bit % 8)) != 0
    return flags


@attrs.frozen
class RecordForm(ColumnForm):
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
        more = {column: part.form.kind for _, parts in self.others for column, part in parts if column not in known}
        return pa.struct([pa.field("class", pa.string()), *fields, *(pa.field(*item) for item in more.items())])

    def _told(self, value: Any) -> Any:
        name, items = value._type_name, value._asdict()  # noqa: SLF001 - public despite the underscore
        parts = dict(self.others).get(name) or tuple((part.name, part) for part in self.parts)
        told = {column: told_at(part.form, items[part.name], f".{part.name}") for column, part in parts}
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
        behind_flags = tuple(Part(part.name, OptionalForm(part.form.serializer, part.form)) for part in self.parts)
        columns, ends, odd = decode_parts(behind_flags, cells)
        if self.others:
            first = pa.array([self.name], pa.string()).take(pa.array(np.zeros(len(cells), np.int32)))
            rest = list(self.kind)[1 + len(columns) :]
            columns = [first, *columns, *(pa.nulls(len(cells), field.type) for field in rest)]
        return struct_array(self.kind, columns, len(cells)), ends, odd
