"""What is registered for types of Flink SQL: the JSON forms of their values.

The tags:
    $sqlrow     kind (+I, -U, +U, -D), and fields by position; by name where a compiled plan says the names
    $decimal    [unscaled digits, scale]
    $timestamp  [milliseconds since 1970, nanoseconds within the millisecond]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..containers.abilities import map_tagger
from ..json_forms import as_is, sorted_by_text, tagged_float, tagger_of
from .binary_rows import map_types, unscaled_of
from .containers import LinkedListSerializerSnapshot, SortedMapSerializerSnapshot
from .serializers import (
    ArrayDataSerializerSnapshot,
    DecimalDataSerializerSnapshot,
    ExternalSerializerSnapshot,
    MapDataSerializerSnapshot,
    NullSerializerSnapshot,
    RawValueDataSerializerSnapshot,
    RowDataSerializerSnapshot,
    StringDataSerializerSnapshot,
    TimestampDataSerializerSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..json_forms import JsonFormTable, Tagger
    from .logical_types import LogicalType

_KINDS = ("+I", "-U", "+U", "-D")


def _of_type(of: LogicalType) -> Tagger:
    """Return the form of values of a type; None stays None."""
    make = _FORMS.get(of.root)
    convert = make(of) if make else as_is(of)
    return lambda value: None if value is None else convert(value)


def _row(types: tuple[LogicalType, ...], names: tuple[str, ...] = ()) -> Tagger:
    fields = [_of_type(of) for of in types]

    def convert(value: Any) -> Any:
        items: Any = [field(item) for field, item in zip(fields, value, strict=True)]
        if names:
            items = dict(zip(names, items, strict=True))
        return {"$sqlrow": {"kind": _KINDS[value._kind.value], "fields": items}}  # noqa: SLF001 - public despite the _

    return convert


def _items(of: LogicalType) -> Tagger:
    element = _of_type(of.types[0])
    return lambda value: [element(item) for item in value]


def _map(of: LogicalType) -> Tagger:
    key, item = map(_of_type, map_types(of))
    return lambda value: {"$map": sorted_by_text([key(one), item(other)] for one, other in value.items())}


def _decimal(of: LogicalType) -> Tagger:
    scale = of.parameter("scale")
    return lambda value: {"$decimal": [str(unscaled_of(value, of)), scale]}


def _timestamp(_: LogicalType) -> Tagger:
    return lambda value: {"$timestamp": [value.millisecond, value.nano_of_millisecond]}


def _bytes(_: LogicalType) -> Tagger:
    return lambda value: {"$bytes": value.hex()}


def _float(_: LogicalType) -> Tagger:
    return tagged_float


_FORMS: dict[str, Callable[[LogicalType], Tagger]] = {
    "FLOAT": _float, "DOUBLE": _float, "DECIMAL": _decimal, "BINARY": _bytes, "VARBINARY": _bytes, "RAW": _bytes,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp, "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp,
    "ARRAY": _items, "MAP": _map, "MULTISET": _map,
    "ROW": lambda of: _row(of.types), "STRUCTURED_TYPE": lambda of: _row(of.types),
}  # fmt: skip


def _inner(snapshot: RawValueDataSerializerSnapshot | ExternalSerializerSnapshot) -> Tagger:
    return tagger_of(snapshot.nested[0])


def _list(snapshot: LinkedListSerializerSnapshot) -> Tagger:
    element = tagger_of(snapshot.nested[0])
    return lambda value: [None if item is None else element(item) for item in value]


JSON_FORMS: JsonFormTable = {
    RowDataSerializerSnapshot: lambda snapshot: _row(snapshot.types, snapshot.names),
    ArrayDataSerializerSnapshot: lambda snapshot: _items(snapshot.type),
    MapDataSerializerSnapshot: lambda snapshot: _map(snapshot.type),
    DecimalDataSerializerSnapshot: lambda snapshot: _decimal(snapshot.restore_serializer().type),
    TimestampDataSerializerSnapshot: _timestamp,
    StringDataSerializerSnapshot: as_is,
    RawValueDataSerializerSnapshot: _inner,
    ExternalSerializerSnapshot: _inner,
    NullSerializerSnapshot: as_is,
    LinkedListSerializerSnapshot: _list,
    SortedMapSerializerSnapshot: lambda snapshot: map_tagger(*map(tagger_of, snapshot.children())),
}
