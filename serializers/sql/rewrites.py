"""Byte rewrites of values of Flink SQL.

A row is read as Flink's serializer of rows writes it; one of another form is odd. There is no byte rewrite of rows with
maps, and of decimals of more than 18 digits that get more behind the point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .. import rewrite
from ..containers.rewrites import map_rewrite
from ..errors import StateShiftError
from ..rewrite import MOST_NANOS, NewSlot, Slot, SlotChange, SlotForm
from .binary_rows import NUMBERS, TIMESTAMPS, encode_row, is_fine_timestamp, is_wide_decimal
from .containers import SortedMapSerializer
from .row_changes import RowChange, Scaled
from .serializers import (
    DecimalDataSerializer,
    ExternalSerializer,
    NullSerializer,
    RowDataSerializer,
    StringDataSerializer,
    TimestampDataSerializer,
)
from .values import RowData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from .logical_types import LogicalType

_HEAD, _WORD = 8, 8
_LONGEST = (1 << 63) - 1
_FORMS = {
    "FLOAT": SlotForm.SINGLE, "CHAR": SlotForm.TEXT, "VARCHAR": SlotForm.TEXT, "BINARY": SlotForm.BYTES,
    "VARBINARY": SlotForm.BYTES, "RAW": SlotForm.BEHIND, "ROW": SlotForm.ROW, "STRUCTURED_TYPE": SlotForm.ROW,
    "ARRAY": SlotForm.ARRAY,
}  # fmt: skip


def _row(
    writer: RowDataSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, RowDataSerializer):
        return None
    slots = _slots(reader.stored.types)
    if slots is None:
        return None
    if conversion is None:
        return rewrite.BinaryRow(slots) if reader.stored.types == writer.stored.types else None
    return _changed_row(slots, conversion) if isinstance(conversion, RowChange) else None


def _slots(types: Sequence[LogicalType]) -> tuple[Slot, ...] | None:
    found = [_slot(of) for of in types]
    slots = tuple(one for one in found if one is not None)
    return slots if len(slots) == len(found) else None


def _slot(of: LogicalType) -> Slot | None:
    """Return the slot of values of a type; None if it is not known."""
    if of.root in NUMBERS and of.root != "FLOAT":
        size = NUMBERS[of.root].size
        most = 1 << 8 * size - 1
        return Slot(SlotForm.NUMBER, size, *((0, 1) if of.root == "BOOLEAN" else (-most, most - 1)))
    if of.root in TIMESTAMPS:
        return Slot(SlotForm.FINE) if is_fine_timestamp(of) else Slot(SlotForm.NUMBER, 8, -_LONGEST - 1, _LONGEST)
    if of.root == "DECIMAL":
        most = 10 ** of.parameter("precision")
        if is_wide_decimal(of):
            size = most.bit_length() // 8  # so many bytes hold no more digits
            return Slot(SlotForm.WIDE, low=most >> 8 * (size + 1 - _WORD), high=size)
        return Slot(SlotForm.NUMBER, 8, 1 - most, most - 1)
    form = _FORMS.get(of.root)
    inner = _slots(of.types) if form in {SlotForm.ROW, SlotForm.ARRAY} else ()
    return None if form is None or inner is None else Slot(form, 4 if form is SlotForm.SINGLE else 8, inner=inner)


def _changed_row(slots: tuple[Slot, ...], conversion: RowChange) -> rewrite.ByteRewrite | None:
    old, types = conversion.types
    made, emitted = list(slots), []
    for of, (_, source, begins, convert, needs_value) in zip(types, conversion.columns, strict=True):
        found = _begun(begins, of) if source is None else _taken(made, source, (old[source], of), convert)
        if found is None:
            return None
        emitted.append(found)
        if source is not None and needs_value:
            made[source] = attrs.evolve(made[source], is_required=True)
    sources = [one.source for one in emitted if one.source >= 0]
    if len(set(sources)) < len(sources):
        return None
    return rewrite.BinaryRow(tuple(made), tuple(emitted))


def _begun(value: Any, of: LogicalType) -> NewSlot | None:
    """Return the slot of a constant: what a row of this one field has behind its head, its offset from 0 on."""
    if value is None:
        return NewSlot(SlotChange.BEGUN)
    try:
        data = encode_row(RowData(value), [of])[_HEAD:]
    except StateShiftError:
        return None
    if len(data) > _WORD:
        data = (int.from_bytes(data[:_WORD], "little") - (_HEAD + _WORD << 32)).to_bytes(_WORD, "little") + data[_WORD:]
    return NewSlot(SlotChange.BEGUN, constant=data)


def _taken(
    slots: list[Slot], source: int, types: tuple[LogicalType, LogicalType], convert: Conversion
) -> NewSlot | None:
    """Return the slot of a value that is taken over, and make the old one accept only what can be."""
    (old, new), slot = types, slots[source]
    after = _slot(new)
    if after is None or not isinstance(convert, Scaled | None):
        return None
    before = old.parameter("scale") if old.root == "DECIMAL" else 0
    factor = 1 if convert is None else 10 ** (convert.scale - before)
    if slot.form is after.form and factor == 1 and slot.size == after.size:
        return NewSlot(SlotChange.KEPT, source)
    if slot.form is SlotForm.SINGLE and after.form is SlotForm.NUMBER:
        return NewSlot(SlotChange.TO_DOUBLE, source)
    if slot.form is not SlotForm.NUMBER:
        return None
    if after.form is SlotForm.FINE:
        return NewSlot(SlotChange.TO_FINE, source)
    most = _LONGEST // factor
    slots[source] = attrs.evolve(slot, low=max(slot.low, -most), high=min(slot.high, most))
    if after.form is SlotForm.WIDE:
        return NewSlot(SlotChange.TO_WIDE, source, factor)
    return NewSlot(SlotChange.SCALED, source, factor, after.size)


def _kept(parts: Any) -> Any:
    """Return the rewrite of values that stay as they are, in bytes that follow from their serializer."""

    def found(writer: Any, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
        return parts(writer) if conversion is None and reader == writer else None

    return found


def _decimal(serializer: DecimalDataSerializer) -> rewrite.ByteRewrite | None:
    if is_wide_decimal(serializer.type):
        return None
    most = 10**serializer.precision - 1
    return rewrite.Ranged(8, -most, most)


def _timestamp(serializer: TimestampDataSerializer) -> rewrite.ByteRewrite:
    if not is_fine_timestamp(serializer.type):
        return rewrite.Fixed(8)
    return rewrite.Sequence((rewrite.Fixed(8), rewrite.Ranged(4, 0, MOST_NANOS)))


REWRITES: RewriteTable = {
    RowDataSerializer: _row,
    DecimalDataSerializer: _kept(_decimal),
    TimestampDataSerializer: _kept(_timestamp),
    StringDataSerializer: _kept(lambda _: rewrite.Utf8()),
    NullSerializer: _kept(lambda _: rewrite.Literal(0)),
    ExternalSerializer: _kept(lambda one: rewrite.rewrite_of(one.inner, None, one.inner)),
    SortedMapSerializer: map_rewrite,
}
