"""Columns of containers: structs, binary, arrays and maps.

Elements of a set have no defined order.

    tuple   struct f0, f1, …                byte array             binary
    either  struct is_left, left, right     list, set, array, map  array, map
    ttl     struct last_access_ms, value
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.bytes_at import byte_strings, none, number_array, numbers_at
from ..columns.codec import (
    ColumnCodec,
    Decoded,
    EncodedColumn,
    is_array,
    is_binary,
    names_of,
    not_in_column,
    nulls_of,
    number_bytes,
    numbers_of,
    plain,
    taken,
    told_at,
    wrong,
)
from ..columns.nested import OptionalCodec, Part, StructCodec, counted, separated, struct_array
from ..errors import ValueNotConvertible, cause_text, shown
from ..primitives.columns import long_codec
from .arrays import BytesSerializer, PrimitiveArraySerializer
from .lists import ArrayListSerializer, ListSerializer, MapSerializer, SetSerializer
from .object_arrays import GenericArraySerializer, StringArraySerializer
from .ttl import TtlSerializer, TtlValue
from .tuples import EitherSerializer, Left, Right, TupleSerializer
from .wrappers import OptionalSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..columns.codec import Cells, Codecs, ColumnTable, Singly, Taker

STAMPED, _EITHER = ("last_access_ms", "value"), ("is_left", "left", "right")
_NO_STAMP = (
    "has no time of last access: use a struct of last_access_ms and value, or a function that returns "
    "TtlValue(last_access_ms, value)"
)


@attrs.frozen
class TupleCodec(StructCodec):
    """Tuples: the fields, without bytes between them."""

    def _arrow_value(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        return {part.name: told_at(part.codec, item, f"({index})") for index, (part, item) in pairs}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not pa.types.is_struct(kind) or kind.num_fields != len(self.parts):
            yield path, wrong(self.serializer, kind, f"a struct of {len(self.parts)} fields")
            return
        for index, part in enumerate(self.parts):
            yield from part.codec.mismatches(kind.field(index).type, f"{path}({index})")

    def taker(self) -> Taker:
        takers = [part.codec.taker() for part in self.parts]
        return lambda value: tuple(taken(*pair) for pair in zip(takers, value.values(), strict=True))

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        for part, field in zip(self.parts, kind, strict=True):
            yield part.codec, field.type, f"{path}.{field.name}"


@attrs.frozen
class TtlCodec(StructCodec):
    """Values with the time of their last access."""

    def _arrow_value(self, value: Any) -> Any:
        return {STAMPED[0]: value.last_access_ms, STAMPED[1]: self.parts[1].codec.tell(value.value)}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if names_of(kind) != STAMPED:
            yield path, _NO_STAMP
            return
        for part, field in zip(self.parts, kind, strict=True):
            yield from part.codec.mismatches(field.type, f"{path}.{part.name}")

    def taker(self) -> Taker:
        taker = self.parts[1].codec.taker()
        return lambda value: TtlValue(value[STAMPED[0]], taken(taker, value[STAMPED[1]]))

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.parts[1].codec, kind.field(1).type, f"{path}.{kind.field(1).name}"


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

    def _arrow_value(self, value: Any) -> Any:
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

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if names_of(kind) != _EITHER or not pa.types.is_boolean(kind.field(0).type):
            what = "is of one type, but one of two is declared: use a struct of is_left, left and right"
            yield path, f"{what}, or a function that returns Left(value) or Right(value)"
            return
        yield from self.left.mismatches(kind.field(1).type, f"{path}.left")
        yield from self.right.mismatches(kind.field(2).type, f"{path}.right")

    def taker(self) -> Taker:
        sides: dict[bool, tuple[type[Left[Any] | Right[Any]], Taker | None, str]] = {
            True: (Left, self.left.taker(), "left"),
            False: (Right, self.right.taker(), "right"),
        }

        def take(value: dict[str, Any]) -> Any:
            side, taker, name = sides[value["is_left"]]
            return side(taken(taker, value[name]))

        return take

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.left, kind.field(1).type, f"{path}.left"
        yield self.right, kind.field(2).type, f"{path}.right"


@attrs.frozen
class BinaryCodec(ColumnCodec):
    """Byte arrays: i32 n, n bytes."""

    kind = pa.binary()

    def _arrow_value(self, value: Any) -> Any:
        return bytes(value)

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(4)
        sizes = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
        odd = odd | (sizes < 0) | (begins + sizes > cells.limits)
        ends = np.where(odd, begins, begins + sizes)
        return Decoded(byte_strings(cells.data, begins, ends), ends, odd)

    def _fits(self, kind: pa.DataType) -> bool:
        return is_binary(kind)

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not is_binary(column.type):
            return None
        declined = nulls_of(column)
        column = pc.fill_null(column, b"") if column.null_count else column
        lengths = numbers_of(pc.binary_length(column))
        return EncodedColumn((number_bytes(lengths, ">i4"), pc.cast(column, pa.large_binary())), declined)


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

    def _arrow_value(self, value: Any) -> Any:
        return [told_at(self.element, item, "[]") for item in value]

    def decode(self, cells: Cells) -> Decoded:
        found = (separated if self.is_separated else counted)(self.item, cells)
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        return Decoded(pa.ListArray.from_arrays(offsets, found.column, type=self.kind), found.ends, found.odd)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not is_array(kind):
            yield path, wrong(self.serializer, kind, "an array")
            return
        yield from self.element.mismatches(kind.value_type, f"{path}[]")

    def taker(self) -> Taker | None:
        element = self.element.taker()
        return None if element is None else lambda value: [taken(element, item) for item in value]

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.element, kind.value_type, f"{path}[]"


@attrs.frozen
class SetCodec(ListCodec):
    """Sets."""

    def taker(self) -> Taker:
        element = self.element.taker()
        twice = "an element twice, but a set is declared"
        return lambda value: _distinct(frozenset, [taken(element, item) for item in value], "set", twice)


@attrs.frozen
class PairCodec(StructCodec):
    """Decoded entries of a map: key and value."""

    def _arrow_value(self, value: Any) -> Any:
        key, item = value
        return {"key": self.parts[0].codec.tell(key), "value": self.parts[1].codec.tell(item)}


@attrs.frozen
class MapCodec(ColumnCodec):
    """Maps.

    Attributes:
        key: The codec of the keys.
        value: The codec of the values.
        pair: The codec of the stored pairs of key and value.
    """

    key: ColumnCodec
    value: ColumnCodec
    pair: PairCodec

    @property
    def kind(self) -> pa.DataType:
        return pa.map_(pa.field("key", self.key.kind, nullable=False), pa.field("value", self.value.kind))

    def _arrow_value(self, value: Any) -> Any:
        pairs = []
        for name, item in value.items():
            key = told_at(self.key, name, "<key>")
            if key is None:
                raise not_in_column(value, "has a null key, which Spark maps cannot have", "leave the state out")
            pairs.append((key, told_at(self.value, item, "{}")))
        return pairs

    def decode(self, cells: Cells) -> Decoded:
        found = counted(self.pair, cells)
        keys, values = found.column.flatten()
        if keys.null_count:  # Arrow does not allow null keys: reading singly finds the row
            return Decoded(pa.nulls(len(cells), self.kind), found.ends, ~none(len(cells)))
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        column = pa.MapArray.from_arrays(offsets, keys, values, type=self.kind)
        return Decoded(column, found.ends, found.odd)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not pa.types.is_map(kind):
            yield path, wrong(self.serializer, kind, "a map")
            return
        yield from self.key.mismatches(kind.key_type, f"{path}{{key}}")
        yield from self.value.mismatches(kind.item_type, f"{path}{{}}")

    def taker(self) -> Taker:
        key, value = self.key.taker(), self.value.taker()
        return lambda pairs: _distinct(
            dict, [(taken(key, name), taken(value, item)) for name, item in pairs], "map", "a key twice"
        )

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.key, kind.key_type, f"{path}{{key}}"
        yield self.value, kind.item_type, f"{path}{{}}"


def _distinct(kind: Callable[[list[Any]], Any], items: list[Any], what: str, twice: str) -> Any:
    """Return a set or a map of items, of which no two may be equal."""
    try:
        found = kind(items)
    except TypeError as error:
        raise ValueNotConvertible(f"{shown(items)} cannot be a {what}: {cause_text(error)}") from error
    if len(found) != len(items):
        raise ValueNotConvertible(f"{shown(items)} contains {twice}")
    return found


def list_state_codec(codecs: Codecs, serializer: ListSerializer[Any]) -> ListCodec:
    """Return the codec of the values of a list state, which have a byte between the elements."""
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, element, is_separated=True)


def _list(codecs: Codecs, serializer: Any) -> ColumnCodec:
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, element)


def _object_array(codecs: Codecs, serializer: GenericArraySerializer[Any]) -> ColumnCodec:
    element = codecs.of(serializer.element)
    return ListCodec(serializer, element, OptionalCodec(serializer.element, element, null_flag=0))


def _set(codecs: Codecs, serializer: SetSerializer[Any]) -> ColumnCodec:
    element = codecs.of(serializer.element)
    return SetCodec(serializer, element, OptionalCodec(serializer.element, element))


def map_codec(codecs: Codecs, serializer: MapSerializer[Any, Any]) -> ColumnCodec:
    """Return the codec of maps."""
    key, value = codecs.of(serializer.key), codecs.of(serializer.value)
    parts = (Part("key", key), Part("value", OptionalCodec(serializer.value, value)))
    return MapCodec(serializer, key, value, PairCodec(serializer, parts))


def _tuple(codecs: Codecs, serializer: TupleSerializer) -> ColumnCodec:
    parts = tuple(Part(f"f{index}", codecs.of(field)) for index, field in enumerate(serializer.fields))
    codec = TupleCodec(serializer, parts)
    return codec if parts else codecs.other(serializer, codec)  # one without fields is stored as one byte


def _ttl(codecs: Codecs, serializer: TtlSerializer[Any]) -> ColumnCodec:
    return TtlCodec(serializer, (Part(STAMPED[0], long_codec()), Part(STAMPED[1], codecs.of(serializer.value))))


COLUMNS: ColumnTable = {
    BytesSerializer: plain(BinaryCodec),
    OptionalSerializer: lambda codecs, one: OptionalCodec(one, codecs.of(one.value), one.padding),
    ListSerializer: _list,
    ArrayListSerializer: _list,
    PrimitiveArraySerializer: _list,
    StringArraySerializer: _list,
    SetSerializer: _set,
    GenericArraySerializer: _object_array,
    MapSerializer: map_codec,
    TupleSerializer: _tuple,
    EitherSerializer: lambda codecs, one: EitherCodec(one, codecs.of(one.left), codecs.of(one.right)),
    TtlSerializer: _ttl,
}
