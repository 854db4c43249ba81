"""`coder_for`: the serializer that writes as the coder does which PyFlink chooses for a type.

Most coders write what a serializer of Flink writes, and are that serializer here. Source: `from_type_info` in
`pyflink.fn_execution.coders` of PyFlink 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ..containers.lists import ListSerializer, MapSerializer
from ..containers.object_arrays import GenericArraySerializer, StringArraySerializer
from ..containers.tuples import TupleSerializer
from ..containers.wrappers import OptionalSerializer
from ..errors import DeclarationError
from ..hints import serializer_for
from ..pickled.serializers import PickleSerializer, UnopenedPickleSerializer
from ..primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ..primitives.text import CharSerializer, StringSerializer
from ..records.serializers import RecordSerializer
from ..rows.serializers import RowSerializer
from ..temporal.serializers import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from .coders import (
    CODERS,
    CoderDateSerializer,
    CoderDecimalSerializer,
    CoderStringSerializer,
    CoderTimeSerializer,
    CoderTimestampSerializer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeSerializer

    Coder = Callable[[Any], TypeSerializer[Any]]

PROTOCOL = 4
"""The protocol of `pickle.dumps` in the versions of Python that PyFlink 2.3 runs on."""


def coder_for(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer that writes exactly the bytes of PyFlink's coder of a type, for one value.

    Nulls are read and written wherever the coder has a flag for them: in lists, arrays and values of maps, whatever the
    hint says; in the columns of a row, as they are declared.

    Args:
        hint: A type hint, also what a word of `Types` returns; or a serializer.

    Raises:
        DeclarationError: PyFlink has no coder for the type.
    """
    serializer = serializer_for(hint)
    coder = _CODERS.get(type(serializer))
    if coder is None:
        from ..avro.serializers import AvroSerializer

        if isinstance(serializer, AvroSerializer):
            raise DeclarationError(
                "what PyFlink's coder of Avro records writes (GenericRecordAvroTypeInfo) is not read here: it is no"
                " word of Types",
                advice="leave the state out: it is carried over as bytes",
            )
        name = serializer.describe()
        way = next((way for cls, way in _OTHERS.items() if isinstance(serializer, cls)), _ANY)
        raise DeclarationError(f"PyFlink has no coder for {name}, so its jobs have no such state", advice=way)
    return coder(serializer)


_ANY = "declare the type with which the job of PyFlink declares the state, as by a word of Types"
_OTHERS: dict[type, str] = {
    RecordSerializer: "name its fields as the columns of a row: row_of(…), which is Types.ROW_NAMED",
    LocalDateSerializer: "use Types.SQL_DATE(), whose values are datetime.date in PyFlink",
    LocalTimeSerializer: "use Types.SQL_TIME(), whose values are datetime.time in PyFlink",
    LocalDateTimeSerializer: "use Types.SQL_TIMESTAMP(), whose values are datetime.datetime in PyFlink",
    OptionalSerializer: "leave out `| None`: only columns of rows, elements of lists and values of maps may be null",
}


def _kept(serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
    return serializer


def _bare(serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
    """Return the coder of a part for which the layout around it has a null flag."""
    return coder_for(serializer.value if isinstance(serializer, OptionalSerializer) else serializer)


def _elements(serializer: ListSerializer[Any] | GenericArraySerializer[Any] | StringArraySerializer) -> Any:
    element: TypeSerializer[Any] = serializer.element
    return GenericArraySerializer(_bare(element), nullable_elements=True)


def _primitives(serializer: PrimitiveArraySerializer) -> TypeSerializer[Any]:
    is_text = isinstance(serializer.element, CharSerializer)
    return ListSerializer(CoderStringSerializer()) if is_text else serializer


def _tuple(serializer: TupleSerializer) -> TypeSerializer[Any]:
    if not serializer.fields:
        raise DeclarationError("PyFlink has no coder for a tuple without items", advice=_ANY)
    return TupleSerializer(tuple(map(coder_for, serializer.fields)))


def _row(serializer: RowSerializer) -> TypeSerializer[Any]:
    columns = tuple(
        attrs.evolve(column, serializer=_bare(column.serializer), optional=_may_be_null(column))
        for column in serializer.columns
    )
    return attrs.evolve(serializer, columns=columns)


def _may_be_null(column: Any) -> bool:
    return bool(column.optional) or isinstance(column.serializer, OptionalSerializer)


_CODERS: dict[type, Coder] = {
    **dict.fromkeys((BooleanSerializer, ByteSerializer, ShortSerializer, IntSerializer, LongSerializer), _kept),
    **dict.fromkeys((FloatSerializer, DoubleSerializer, BytesSerializer, UnopenedPickleSerializer, *CODERS), _kept),
    **dict.fromkeys((StringSerializer, CharSerializer), lambda _: CoderStringSerializer()),
    BigIntSerializer: lambda _: LongSerializer(),
    DecimalSerializer: lambda _: CoderDecimalSerializer(),
    InstantSerializer: lambda one: attrs.evolve(one, allow_null=True),
    SqlDateSerializer: lambda _: CoderDateSerializer(),
    SqlTimeSerializer: lambda _: CoderTimeSerializer(),
    SqlTimestampSerializer: lambda _: CoderTimestampSerializer(),
    PickleSerializer: lambda one: attrs.evolve(one, protocol=PROTOCOL),
    **dict.fromkeys((ListSerializer, GenericArraySerializer, StringArraySerializer), _elements),
    PrimitiveArraySerializer: _primitives,
    MapSerializer: lambda one: MapSerializer(coder_for(one.key), _bare(one.value), nullable_values=True),
    TupleSerializer: _tuple,
    RowSerializer: _row,
}
