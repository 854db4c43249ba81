"""Values of a type, as its serializer accepts them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

from ....serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ....serializers.containers.either import EitherSerializer, Left, Right
from ....serializers.containers.lists import ListSerializer, SetSerializer
from ....serializers.containers.maps import MapSerializer
from ....serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from ....serializers.containers.optional import OptionalSerializer
from ....serializers.containers.ttl import TtlSerializer, TtlValue
from ....serializers.containers.tuples import TupleSerializer
from ....serializers.enums.serializers import EnumSerializer
from ....serializers.enums.symbols import Symbol
from ....serializers.errors import DeclarationError
from ....serializers.flink.void import VoidSerializer
from ....serializers.flink.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespace,
    VoidNamespaceSerializer,
)
from ....serializers.hints import serializer_for
from ....serializers.primitives.big_numbers import DecimalSerializer
from ....serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ....serializers.primitives.text import CharSerializer, StringSerializer
from ....serializers.records.recursive import RecordReference
from ....serializers.records.serializers import DescribedRecordSerializer
from ....serializers.records.values import Record
from ....serializers.rows.serializers import RowSerializer
from ....serializers.rows.values import Row, RowKind
from ....serializers.temporal.java_sql import (
    DateSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from ....serializers.temporal.java_time import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSerializer,
)
from ....serializers.temporal.sql_values import SqlDate, SqlTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import SearchStrategy

    from ....serializers.records.fields import RecordField
    from ....serializers.serializer import TypeSerializer

_MOST_ITEMS = 4
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years of Python's datetime


def values_of(
    hint: Any, *, own: Mapping[type[TypeSerializer[Any]], SearchStrategy[Any]] | None = None
) -> SearchStrategy[Any]:
    """Draw values of a type which its serializer writes, and reads back as equal values.

    Extreme numbers, empty texts and containers, and every symbol of an enum come often. Floats are never NaN, which is
    not equal to itself, and texts have no lone surrogates.

    Args:
        hint: The type hint or serializer.
        own: Strategies for serializers of your own, by class; used wherever such a serializer is part of the type.

    Raises:
        DeclarationError: The type has no serializer, or a serializer in it has no strategy.
    """
    return _Drawing(dict(own or {})).values(serializer_for(hint))


def _whole(bits: int) -> SearchStrategy[int]:
    least, most = -(1 << bits), (1 << bits) - 1
    return st.sampled_from([0, 1, -1, most, least]) | st.integers(least, most)


def _with_zeros(floats: SearchStrategy[float]) -> SearchStrategy[float]:
    return st.sampled_from([0.0, -0.0]) | floats


_decimals = st.builds(lambda digits, exponent: Decimal(f"{digits}E{exponent}"), _whole(80), st.integers(-12, 3))
_millis = st.sampled_from([0, _FIRST_MS, _LAST_MS]) | st.integers(_FIRST_MS, _LAST_MS)
_moments = st.datetimes(timezones=st.just(dt.UTC))

_SIMPLE: dict[type[TypeSerializer[Any]], SearchStrategy[Any]] = {
    ByteSerializer: _whole(7),
    ShortSerializer: _whole(15),
    IntSerializer: _whole(31),
    LongSerializer: _whole(63),
    BigIntSerializer: _whole(63) | _whole(130),
    FloatSerializer: _with_zeros(st.floats(width=32, allow_nan=False)),
    DoubleSerializer: _with_zeros(st.floats(allow_nan=False)),
    BooleanSerializer: st.booleans(),
    StringSerializer: st.text(max_size=12),
    CharSerializer: st.characters(max_codepoint=0xFFFF),
    BytesSerializer: st.binary(max_size=12),
    DecimalSerializer: _decimals,
    InstantSerializer: _moments,
    LocalDateSerializer: st.dates(),
    LocalTimeSerializer: st.times(),
    LocalDateTimeSerializer: st.datetimes(),
    DateSerializer: _millis.map(lambda millis: _EPOCH + dt.timedelta(milliseconds=millis)),
    SqlTimestampSerializer: _moments,
    SqlDateSerializer: _millis.map(SqlDate),
    SqlTimeSerializer: _millis.map(SqlTime),
    VoidSerializer: st.none(),
    VoidNamespaceSerializer: st.just(VoidNamespace()),
    GlobalWindowSerializer: st.just(GlobalWindow()),
    TimeWindowSerializer: st.builds(TimeWindow, _whole(63), _whole(63)),
}


@attrs.define
class _Drawing:
    """One traversal of a type.

    Attributes:
        own: Strategies for the caller's own serializers.
        records: Strategies for the records that contain themselves, by name, for the references to them.
    """

    own: dict[type[TypeSerializer[Any]], SearchStrategy[Any]]
    records: dict[str, SearchStrategy[Any]] = attrs.field(factory=dict)

    def values(self, serializer: TypeSerializer[Any]) -> SearchStrategy[Any]:
        """Return the strategy for one serializer."""
        simple = {**_SIMPLE, **self.own}.get(type(serializer))
        if simple is not None:
            if isinstance(serializer, TemporalSerializer) and serializer.exact:
                return simple.map(_exact(serializer))
            return simple
        return self._composed(serializer)

    def _composed(self, serializer: TypeSerializer[Any]) -> SearchStrategy[Any]:  # noqa: PLR0912 - a case for each
        match serializer:
            case OptionalSerializer():
                return st.none() | self.values(serializer.value)
            case ListSerializer() | PrimitiveArraySerializer():
                return st.lists(self.values(serializer.element), max_size=_MOST_ITEMS)
            case StringArraySerializer():
                return st.lists(self._nullable(StringSerializer(), serializer.nullable_elements), max_size=_MOST_ITEMS)
            case GenericArraySerializer():
                elements = self._nullable(serializer.element, serializer.nullable_elements)
                return st.lists(elements, max_size=_MOST_ITEMS)
            case SetSerializer():
                elements = self._nullable(serializer.element, serializer.nullable_elements)
                make = st.frozensets if serializer.frozen else st.sets
                return make(elements, max_size=_MOST_ITEMS)
            case MapSerializer():
                held = self._nullable(serializer.value, serializer.nullable_values)
                return st.dictionaries(self.values(serializer.key), held, max_size=_MOST_ITEMS)
            case TupleSerializer():
                return st.tuples(*map(self.values, serializer.fields))
            case EitherSerializer():
                return st.builds(Left, self.values(serializer.left)) | st.builds(Right, self.values(serializer.right))
            case EnumSerializer():
                cls, name = serializer.enum_class, serializer.name
                generic = [Symbol(symbol, name) for symbol in serializer.symbols]
                return st.sampled_from(generic if cls is None else list(cls))
            case TtlSerializer():
                return st.builds(TtlValue, _whole(40).map(abs), self.values(serializer.value))
            case RowSerializer():
                return self._rows(serializer)
            case DescribedRecordSerializer():
                return self._records(serializer)
            case RecordReference():
                return st.deferred(lambda: self.records[serializer.name])
        raise DeclarationError(
            f"there is no strategy for values of {serializer.describe()}",
            advice=f"pass one: own={{{type(serializer).__name__}: …}}",
        )

    def _nullable(self, serializer: TypeSerializer[Any], is_nullable: bool) -> SearchStrategy[Any]:  # noqa: FBT001 - a flag of the layout
        return st.none() | self.values(serializer) if is_nullable else self.values(serializer)

    def _field(self, field: RecordField) -> SearchStrategy[Any]:
        return self._nullable(field.serializer, field.optional)

    def _rows(self, serializer: RowSerializer) -> SearchStrategy[Any]:
        names = [column.name for column in serializer.columns if column.name]
        kinds = st.sampled_from(list(RowKind)) if serializer.supports_row_kind else st.just(RowKind.INSERT)
        items = st.tuples(*map(self._field, serializer.columns))

        def made(held: tuple[Any, ...], kind: RowKind) -> Row[*tuple[Any, ...]]:
            return Row._of(held, names, kind)  # noqa: SLF001 - the names may be any text

        return st.builds(made, items, kinds)

    def _records(self, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
        circle = {name: one for name, one in serializer.circle.items() if name not in self.records}
        self.records.update({name: self._later(one) for name, one in circle.items()})
        subclasses = [self.values(subclass) for _, subclass in serializer.registered]
        return st.one_of(self._one_record(serializer), *subclasses)

    def _later(self, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
        return st.deferred(lambda: self._one_record(serializer))

    def _one_record(self, serializer: DescribedRecordSerializer[Any]) -> SearchStrategy[Any]:
        cls, name = serializer.python_class, serializer.name

        def made(items: dict[str, Any]) -> Any:
            return Record(name, items) if cls is None else cls(**items)

        fields = {field.init_name or field.attribute or field.name: self._field(field) for field in serializer.fields}
        return st.fixed_dictionaries(fields).map(made)


def _exact(serializer: TemporalSerializer) -> Callable[[Any], Any]:
    """Return the conversion of a Python value to the exact class; exact values stay as they are."""
    made = serializer.value_class
    return lambda value: value if isinstance(value, made) else made.from_python(value)
