"""Strategies of records, of their registered subclasses, and of records that contain themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .classes import Record
from .pojo import PojoSerializer
from .recursive import RecordReference, RecursiveRecordSerializer
from .serializers import RecordSerializer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable
    from .serializers import DescribedRecordSerializer


def _records(drawing: Drawing, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
    circle = {name: one for name, one in serializer.circle.items() if name not in drawing.named}
    drawing.named.update({name: _later(drawing, one) for name, one in circle.items()})
    subclasses = [drawing.values(subclass) for _, subclass in serializer.registered]
    return st.one_of(_one_record(drawing, serializer), *subclasses)


def _later(drawing: Drawing, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
    return st.deferred(lambda: _one_record(drawing, serializer))


def _one_record(drawing: Drawing, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
    cls, name = serializer.python_class, serializer.name

    def made(items: dict[str, Any]) -> Any:
        return Record(name, items) if cls is None else cls(**items)

    fields = {
        field.init_name or field.attribute or field.name: drawing.nullable(field.serializer, takes_null=field.optional)
        for field in serializer.fields
    }
    return st.fixed_dictionaries(fields).map(made)


STRATEGIES: StrategyTable = {
    RecordSerializer: _records,
    PojoSerializer: _records,
    RecursiveRecordSerializer: _records,
    RecordReference: lambda drawing, serializer: st.deferred(lambda: drawing.named[serializer.name]),
}
