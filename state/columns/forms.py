"""The column form of each serializer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ...serializers.containers.either import EitherSerializer
from ...serializers.containers.lists import ArrayListSerializer, ListSerializer, SetSerializer
from ...serializers.containers.maps import MapSerializer
from ...serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from ...serializers.containers.optional import OptionalSerializer
from ...serializers.containers.ttl import TtlSerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.enums.serializers import EnumSerializer, JavaEnumSerializer
from ...serializers.errors import OldReaderUnavailable
from ...serializers.flink.kryo import KryoBytesSerializer
from ...serializers.flink.void import VoidSerializer
from ...serializers.flink.windows import GlobalWindowSerializer, TimeWindowSerializer, VoidNamespaceSerializer
from ...serializers.primitives.big_numbers import DecimalSerializer
from ...serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.primitives.text import CharSerializer, StringSerializer
from ...serializers.records.pojo import PojoSerializer
from ...serializers.records.serializers import DescribedRecordSerializer, RecordSerializer
from ...serializers.rows.serializers import RowSerializer
from ...serializers.temporal.java_sql import (
    DateSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from ...serializers.temporal.java_time import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSerializer,
)
from .fallback_columns import CounterpartForm, JsonForm
from .nested import EitherForm, PairForm, Part, RecordForm, RowForm, TtlForm, TupleForm, WindowForm
from .optional import OptionalForm
from .repeated import ListForm, MapForm
from .scalars import (
    BigIntForm,
    BinaryForm,
    BooleanForm,
    CharForm,
    DecimalForm,
    EnumForm,
    ExactNumberForm,
    FramedBytesForm,
    NothingForm,
    NumberForm,
    StringForm,
)
from .temporal import DateForm, DateTimeForm, ExactTimeForm, MillisForm, MomentForm, TimeForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer
    from .form import ColumnForm


@attrs.frozen
class Forms:
    """A factory of column forms.

    Attributes:
        exact: Whether big numbers and times become text, and rows have their kind: exactly as they are stored.
    """

    exact: bool = False

    def of(self, serializer: TypeSerializer[Any]) -> ColumnForm:
        """Return the form of a serializer's values; it must read generic values, as restored serializers do."""
        make = _MAKERS.get(type(serializer))
        if make is not None:
            return make(self, serializer)
        snapshot = serializer.snapshot_configuration()
        counterpart = snapshot.counterpart()
        if counterpart is not None:
            try:
                own = counterpart.serializer.snapshot_configuration().restore_serializer()
            except OldReaderUnavailable:  # an Avro union, which has no equivalent
                return JsonForm(serializer)
            return CounterpartForm(serializer, self.of(own), counterpart.to_own)
        return FramedBytesForm(serializer) if snapshot.kind == "pickle" else JsonForm(serializer)

    def parts(self, serializers: tuple[TypeSerializer[Any], ...]) -> tuple[Part, ...]:
        """Return parts that are named by position: f0, f1 and so on."""
        return tuple(Part(f"f{index}", self.of(serializer)) for index, serializer in enumerate(serializers))

    def separated(self, serializer: ListSerializer[Any]) -> ListForm:
        """Return the form of the values of a list state, which have a byte between the elements."""
        element = self.of(serializer.element)
        return ListForm(serializer, element, element, is_separated=True)


def _plain(form: type[ColumnForm], _: Forms, serializer: TypeSerializer[Any]) -> ColumnForm:
    return form(serializer)


def _number(kind: pa.DataType, stored: str, _: Forms, serializer: TypeSerializer[Any]) -> ColumnForm:
    return NumberForm(serializer, kind, stored)


def _big(form: type[ColumnForm], forms: Forms, serializer: TypeSerializer[Any]) -> ColumnForm:
    return ExactNumberForm(serializer) if forms.exact else form(serializer)


def _time(make: Callable[[TemporalSerializer], ColumnForm], forms: Forms, serializer: TemporalSerializer) -> ColumnForm:
    return ExactTimeForm(serializer) if forms.exact else make(serializer)


def _optional(forms: Forms, serializer: OptionalSerializer[Any]) -> ColumnForm:
    return OptionalForm(serializer, forms.of(serializer.value), serializer.padding)


def _list(forms: Forms, serializer: Any) -> ColumnForm:
    element = forms.of(serializer.element)
    return ListForm(serializer, element, element)


def _flagged_list(null_flag: int, forms: Forms, serializer: Any) -> ColumnForm:
    element = forms.of(serializer.element)
    return ListForm(serializer, element, OptionalForm(serializer.element, element, null_flag=null_flag))


def _map(forms: Forms, serializer: MapSerializer[Any, Any]) -> ColumnForm:
    value = OptionalForm(serializer.value, forms.of(serializer.value))
    return MapForm(serializer, PairForm(serializer, (Part("key", forms.of(serializer.key)), Part("value", value))))


def _tuple(forms: Forms, serializer: TupleSerializer) -> ColumnForm:
    # A tuple without fields is stored as one byte.
    return TupleForm(serializer, forms.parts(serializer.fields)) if serializer.fields else JsonForm(serializer)


def _row(forms: Forms, serializer: RowSerializer) -> ColumnForm:
    if not serializer.columns:
        return JsonForm(serializer)
    parts = tuple(
        Part(column.name or f"f{index}", forms.of(column.serializer)) for index, column in enumerate(serializer.columns)
    )
    return RowForm(serializer, parts, serializer.supports_row_kind, tells_kind=forms.exact)


def _either(forms: Forms, serializer: EitherSerializer) -> ColumnForm:
    return EitherForm(serializer, forms.of(serializer.left), forms.of(serializer.right))


def _ttl(forms: Forms, serializer: TtlSerializer[Any]) -> ColumnForm:
    last_access = NumberForm(LongSerializer(), pa.int64(), ">i8")
    return TtlForm(serializer, (Part("last_access_ms", last_access), Part("value", forms.of(serializer.value))))


def _window(_: Forms, serializer: TimeWindowSerializer) -> ColumnForm:
    bound = NumberForm(LongSerializer(), pa.int64(), ">i8")
    return WindowForm(serializer, (Part("start", bound), Part("end", bound)))


def _record(forms: Forms, serializer: DescribedRecordSerializer[Any]) -> ColumnForm:
    parts = _fields(forms, serializer)
    kinds = {part.name: part.form.kind for part in parts}
    others: dict[str, tuple[tuple[str, Part], ...]] = {}
    pending = [subclass for _, subclass in (*serializer.registered, *serializer.unregistered)]
    while pending:  # a subclass may have subclasses
        one = pending.pop(0)
        if one.name in others or one.name == serializer.name:
            continue
        named = []
        for part in _fields(forms, one):
            column = part.name
            if kinds.setdefault(column, part.form.kind) != part.form.kind:  # fields of two classes with the same name
                column = f"{part.name} of {one.name}"
                kinds[column] = part.form.kind
            named.append((column, part))
        others[one.name] = tuple(named)
        pending += [subclass for _, subclass in (*one.registered, *one.unregistered)]
    return RecordForm(serializer, serializer.name, parts, tuple(others.items()))


def _fields(forms: Forms, serializer: DescribedRecordSerializer[Any]) -> tuple[Part, ...]:
    return tuple(Part(field.name, forms.of(field.serializer)) for field in serializer.fields)


_MAKERS: dict[type, Callable[[Forms, Any], ColumnForm]] = {
    ByteSerializer: partial(_number, pa.int8(), ">i1"),
    ShortSerializer: partial(_number, pa.int16(), ">i2"),
    IntSerializer: partial(_number, pa.int32(), ">i4"),
    LongSerializer: partial(_number, pa.int64(), ">i8"),
    FloatSerializer: partial(_number, pa.float32(), ">f4"),
    DoubleSerializer: partial(_number, pa.float64(), ">f8"),
    BooleanSerializer: partial(_plain, BooleanForm),
    BigIntSerializer: partial(_big, BigIntForm),
    DecimalSerializer: partial(_big, DecimalForm),
    StringSerializer: partial(_plain, StringForm),
    CharSerializer: partial(_plain, CharForm),
    BytesSerializer: partial(_plain, BinaryForm),
    EnumSerializer: partial(_plain, EnumForm),
    JavaEnumSerializer: partial(_plain, EnumForm),
    KryoBytesSerializer: partial(_plain, FramedBytesForm),
    VoidSerializer: partial(_plain, NothingForm),
    VoidNamespaceSerializer: partial(_plain, NothingForm),
    GlobalWindowSerializer: partial(_plain, NothingForm),
    InstantSerializer: partial(_time, lambda serializer: MomentForm(serializer, 1, has_nanos=True)),
    DateSerializer: partial(_time, lambda serializer: MomentForm(serializer, 1000, has_nanos=False)),
    SqlTimestampSerializer: partial(_time, lambda serializer: MomentForm(serializer, 1000, has_nanos=True)),
    LocalDateSerializer: partial(_time, DateForm),
    LocalTimeSerializer: partial(_time, TimeForm),
    LocalDateTimeSerializer: partial(_time, DateTimeForm),
    SqlDateSerializer: partial(_plain, MillisForm),
    SqlTimeSerializer: partial(_plain, MillisForm),
    OptionalSerializer: _optional,
    ListSerializer: _list,
    ArrayListSerializer: _list,
    PrimitiveArraySerializer: _list,
    StringArraySerializer: _list,
    SetSerializer: partial(_flagged_list, 1),
    GenericArraySerializer: partial(_flagged_list, 0),
    MapSerializer: _map,
    TupleSerializer: _tuple,
    RowSerializer: _row,
    EitherSerializer: _either,
    TtlSerializer: _ttl,
    TimeWindowSerializer: _window,
    RecordSerializer: _record,
    PojoSerializer: _record,
}
"""The makers by exact type, because a subclass may write other bytes."""
