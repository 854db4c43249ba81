"""Columns of arrays, lists, sets, maps, tuples, Either, and of optional and time-stamped values.

byte array             binary
list, set, array, map  array, map; the elements of a set have no defined order
tuple                  struct f0, f1, …
either                 struct is_left, left, right
ttl                    struct last_access_ms, value
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..columns.bytes_at import byte_strings, none, number_array, numbers_at
from ..columns.codec import ColumnCodec, Decoded, not_in_column, told_at
from ..columns.factory import plain
from ..columns.optional import OptionalCodec
from ..columns.parts import Part, StructCodec, struct_array
from ..columns.repeated import counted, separated
from ..primitives.columns import long_codec
from .arrays import BytesSerializer, PrimitiveArraySerializer
from .either import EitherSerializer, Left
from .lists import ArrayListSerializer, ListSerializer, SetSerializer
from .maps import MapSerializer
from .object_arrays import GenericArraySerializer, StringArraySerializer
from .optional import OptionalSerializer
from .ttl import TtlSerializer
from .tuples import TupleSerializer

if TYPE_CHECKING:
    from ..columns.codec import Cells
    from ..columns.factory import Codecs, ColumnTable


@attrs.frozen
class BinaryCodec(ColumnCodec):
    """Byte arrays: i32 n, n bytes."""

    @property
    def kind(self) -> pa.DataType:
        return pa.binary()

    def _told(self, value: Any) -> Any:
        return bytes(value)

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(4)
        sizes = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
        odd = odd | (sizes < 0) | (begins + sizes > cells.limits)
        ends = np.where(odd, begins, begins + sizes)
        return Decoded(byte_strings(cells.data, begins, ends), ends, odd)


@attrs.frozen
class ListCodec(ColumnCodec):
    """Lists, arrays and sets.

    Attributes:
        element: The codec of the elements.
        item: The codec of the stored elements: in sets and object arrays with a null flag before each.
        is_separated: Whether the lists are values of a list state, which have no count.
    """

    element: ColumnCodec
    item: ColumnCodec
    is_separated: bool = False

    @property
    def kind(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.kind))

    def _told(self, value: Any) -> Any:
        return [told_at(self.element, item, "[]") for item in value]

    def decode(self, cells: Cells) -> Decoded:
        found = (separated if self.is_separated else counted)(self.item, cells)
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        return Decoded(pa.ListArray.from_arrays(offsets, found.column, type=self.kind), found.ends, found.odd)


@attrs.frozen
class MapCodec(ColumnCodec):
    """Maps.

    Attributes:
        pair: The codec of the stored pairs of key and value.
    """

    pair: PairCodec

    @property
    def _key(self) -> ColumnCodec:
        return self.pair.parts[0].codec

    @property
    def _value(self) -> ColumnCodec:
        return self.pair.parts[1].codec

    @property
    def kind(self) -> pa.DataType:
        return pa.map_(pa.field("key", self._key.kind, nullable=False), pa.field("value", self._value.kind))

    def _told(self, value: Any) -> Any:
        pairs = []
        for name, item in value.items():
            key = told_at(self._key, name, "<key>")
            if key is None:
                raise not_in_column(value, "has a null key, which no map of Spark has", "leave the state out")
            pairs.append((key, told_at(self._value, item, "{}")))
        return pairs

    def decode(self, cells: Cells) -> Decoded:
        found = counted(self.pair, cells)
        keys, values = found.column.flatten()
        if keys.null_count:  # Arrow does not allow null keys: reading singly finds the row
            return Decoded(pa.nulls(len(cells), self.kind), found.ends, ~none(len(cells)))
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        column = pa.MapArray.from_arrays(offsets, keys, values, type=self.kind)
        return Decoded(column, found.ends, found.odd)


@attrs.frozen
class TupleCodec(StructCodec):
    """Tuples: the fields, without bytes between them."""

    def _told(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        return {part.name: told_at(part.codec, item, f"({index})") for index, (part, item) in pairs}


@attrs.frozen
class PairCodec(StructCodec):
    """Decoded entries of a map: key and value."""

    def _told(self, value: Any) -> Any:
        key, item = value
        return {"key": self.parts[0].codec.tell(key), "value": self.parts[1].codec.tell(item)}


@attrs.frozen
class TtlCodec(StructCodec):
    """Values with the time of their last access."""

    def _told(self, value: Any) -> Any:
        return {"last_access_ms": value.last_access_ms, "value": self.parts[1].codec.tell(value.value)}


@attrs.frozen
class EitherCodec(ColumnCodec):
    """Either values: a flag, and the value of the side that it names.

    Attributes:
        left: The codec of values after the flag 1.
        right: The codec of values after the flag 0.
    """

    left: ColumnCodec
    right: ColumnCodec

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


def list_state_codec(codecs: Codecs, serializer: ListSerializer[Any]) -> ListCodec:
    """Return the codec of the values of a list state, which have a byte between the elements."""
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, element, is_separated=True)


def _optional(codecs: Codecs, serializer: OptionalSerializer[Any]) -> ColumnCodec:
    return OptionalCodec(serializer, codecs.of(serializer.value), serializer.padding)


def _list(codecs: Codecs, serializer: Any) -> ColumnCodec:
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, element)


def _flagged_list(null_flag: int, codecs: Codecs, serializer: Any) -> ColumnCodec:
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, OptionalCodec(serializer.element, element, null_flag=null_flag))


def _map(codecs: Codecs, serializer: MapSerializer[Any, Any]) -> ColumnCodec:
    value = OptionalCodec(serializer.value, codecs.of(serializer.value))
    return MapCodec(serializer, PairCodec(serializer, (Part("key", codecs.of(serializer.key)), Part("value", value))))


def _tuple(codecs: Codecs, serializer: TupleSerializer) -> ColumnCodec:
    if not serializer.fields:  # it is stored as one byte
        return codecs.other(serializer)
    parts = tuple(Part(f"f{index}", codecs.of(field)) for index, field in enumerate(serializer.fields))
    return TupleCodec(serializer, parts)


def _either(codecs: Codecs, serializer: EitherSerializer) -> ColumnCodec:
    return EitherCodec(serializer, codecs.of(serializer.left), codecs.of(serializer.right))


def _ttl(codecs: Codecs, serializer: TtlSerializer[Any]) -> ColumnCodec:
    return TtlCodec(serializer, (Part("last_access_ms", long_codec()), Part("value", codecs.of(serializer.value))))


COLUMNS: ColumnTable = {
    BytesSerializer: plain(BinaryCodec),
    OptionalSerializer: _optional,
    ListSerializer: _list,
    ArrayListSerializer: _list,
    PrimitiveArraySerializer: _list,
    StringArraySerializer: _list,
    SetSerializer: partial(_flagged_list, 1),
    GenericArraySerializer: partial(_flagged_list, 0),
    MapSerializer: _map,
    TupleSerializer: _tuple,
    EitherSerializer: _either,
    TtlSerializer: _ttl,
}
