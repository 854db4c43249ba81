"""Strategies of arrays, collections, tuples, optional and time-stamped values, made of those of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..drawing import MOST_ITEMS, always, whole
from .arrays import BytesSerializer, PrimitiveArraySerializer
from .lists import ArrayListSerializer, ListSerializer, MapSerializer, SetSerializer
from .object_arrays import GenericArraySerializer, StringArraySerializer
from .ttl import TtlSerializer, TtlValue
from .tuples import EitherSerializer, Left, Right, TupleSerializer
from .wrappers import OptionalSerializer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable


def _lists(drawing: Drawing, serializer: ListSerializer[Any] | PrimitiveArraySerializer) -> SearchStrategy[Any]:
    return st.lists(drawing.values(serializer.element), max_size=MOST_ITEMS)


def _object_arrays(drawing: Drawing, serializer: Any) -> SearchStrategy[Any]:
    elements = drawing.nullable(serializer.element, takes_null=serializer.nullable_elements)
    return st.lists(elements, max_size=MOST_ITEMS)


def _sets(drawing: Drawing, serializer: SetSerializer[Any]) -> SearchStrategy[Any]:
    elements = drawing.nullable(serializer.element, takes_null=serializer.nullable_elements)
    make = st.frozensets if serializer.frozen else st.sets
    return make(elements, max_size=MOST_ITEMS)


def _maps(drawing: Drawing, serializer: MapSerializer[Any, Any]) -> SearchStrategy[Any]:
    values = drawing.nullable(serializer.value, takes_null=serializer.nullable_values)
    return st.dictionaries(drawing.values(serializer.key), values, max_size=MOST_ITEMS)


STRATEGIES: StrategyTable = {
    BytesSerializer: always(st.binary(max_size=12)),
    PrimitiveArraySerializer: _lists,
    StringArraySerializer: _object_arrays,
    GenericArraySerializer: _object_arrays,
    ListSerializer: _lists,
    ArrayListSerializer: _lists,
    SetSerializer: _sets,
    MapSerializer: _maps,
    TupleSerializer: lambda drawing, serializer: st.tuples(*map(drawing.values, serializer.fields)),
    EitherSerializer: lambda drawing, serializer: (
        st.builds(Left, drawing.values(serializer.left)) | st.builds(Right, drawing.values(serializer.right))
    ),
    OptionalSerializer: lambda drawing, serializer: drawing.nullable(serializer.value, takes_null=True),
    TtlSerializer: lambda drawing, one: st.builds(TtlValue, whole(40).map(abs), drawing.values(one.value)),
}
