"""Strategies of values of Flink SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..containers.lists import MapSerializer
from ..drawing import MOST_ITEMS, always, whole
from ..rows.values import RowKind
from .binary_rows import TIMESTAMPS, decimal_of, frozen, is_fine_timestamp, map_types
from .containers import LinkedListSerializer, SortedMapSerializer
from .serializers import (
    ArrayDataSerializer,
    DecimalDataSerializer,
    ExternalSerializer,
    MapDataSerializer,
    NullSerializer,
    RawValueDataSerializer,
    RowDataSerializer,
    StringDataSerializer,
    TimestampDataSerializer,
)
from .values import RowData, TimestampData

if TYPE_CHECKING:
    from decimal import Decimal

    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable
    from .logical_types import LogicalType

_TEXTS = st.text(st.characters(codec="utf-8"))
_PLAIN: dict[str, SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(), "TINYINT": whole(7), "SMALLINT": whole(15), "INTEGER": whole(31), "DATE": whole(31),
    "TIME_WITHOUT_TIME_ZONE": whole(31), "INTERVAL_YEAR_MONTH": whole(31), "BIGINT": whole(63),
    "INTERVAL_DAY_TIME": whole(63), "FLOAT": st.floats(width=32), "DOUBLE": st.floats(),
    "CHAR": _TEXTS, "VARCHAR": _TEXTS, "BINARY": st.binary(), "VARBINARY": st.binary(), "RAW": st.binary(),
}  # fmt: skip


def values_of(of: LogicalType) -> SearchStrategy[Any]:
    """Return the strategy of the values of a type, which are None where it is nullable."""
    values = _values(of)
    return st.none() | values if of.is_nullable else values


def _values(of: LogicalType) -> SearchStrategy[Any]:
    if of.root in TIMESTAMPS:
        return _timestamps(of)
    if of.root == "DECIMAL":
        return _decimals(of.parameter("precision"), of.parameter("scale"))
    if of.root == "ARRAY":
        return st.lists(values_of(of.types[0]), max_size=MOST_ITEMS)
    if of.root in {"MAP", "MULTISET"}:
        key, item = map(values_of, map_types(of))
        return st.dictionaries(key.map(frozen), item, max_size=MOST_ITEMS)
    return _rows(of.types) if of.fields else _PLAIN[of.root]


def _rows(types: tuple[LogicalType, ...]) -> SearchStrategy[RowData]:
    def made(items: tuple[Any, ...], kind: RowKind) -> RowData:
        return RowData._read(list(items), kind)  # noqa: SLF001 - of this package

    return st.builds(made, st.tuples(*map(values_of, types)), st.sampled_from(RowKind))


def _decimals(precision: int, scale: int) -> SearchStrategy[Decimal]:
    most = 10**precision - 1
    unscaled = st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most, most)
    return unscaled.map(lambda digits: decimal_of(digits, scale))


def _timestamps(of: LogicalType) -> SearchStrategy[TimestampData]:
    return st.builds(TimestampData, whole(63), st.integers(0, 999_999) if is_fine_timestamp(of) else st.just(0))


def _inner(drawing: Drawing, serializer: Any) -> SearchStrategy[Any]:
    return drawing.values(serializer.inner)


def _lists(drawing: Drawing, serializer: LinkedListSerializer) -> SearchStrategy[list[Any]]:
    element = drawing.values(serializer.element)
    return st.lists(st.none() | element if serializer.has_null_mask else element, max_size=MOST_ITEMS)


STRATEGIES: StrategyTable = {
    RowDataSerializer: lambda _, one: _rows(one.stored.types),
    ArrayDataSerializer: lambda _, one: _values(one.stored.type),
    MapDataSerializer: lambda _, one: _values(one.stored.type),
    DecimalDataSerializer: lambda _, one: _values(one.type),
    TimestampDataSerializer: lambda _, one: _values(one.type),
    StringDataSerializer: always(_TEXTS),
    RawValueDataSerializer: _inner,
    ExternalSerializer: _inner,
    NullSerializer: always(st.none()),
    LinkedListSerializer: _lists,
    SortedMapSerializer: lambda drawing, one: drawing.values(MapSerializer(one.key, one.value)),
}
