"""Conversion of Python type hints to serializers.

int Long, Int8/Int16/Int32 Byte/Short/Int, BigInt BigInteger, float Double, Float32 Float, bool, str, Char, bytes,
Decimal, datetime and AwareDatetime Instant, NaiveDatetime LocalDateTime, date LocalDate, time LocalTime, list[T],
set[T], dict[K, V], tuple[A, B], T | None, Array[T] a Java array, Row[A, B], Either[A, B], None Void, the exact
temporal values, enum classes, attrs classes, dataclasses, named tuples, any class given to `register_serializer`,
and Annotated[T, serializer] for everything else.

Source: DESIGN, section 3.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import types
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, overload

from .containers.arrays import BytesSerializer, PrimitiveArraySerializer, is_primitive
from .containers.either import Either, EitherSerializer
from .containers.lists import ListSerializer, SetSerializer
from .containers.maps import MapSerializer
from .containers.object_arrays import GenericArraySerializer, StringArraySerializer
from .containers.optional import OptionalSerializer
from .containers.tuples import TupleSerializer
from .defaults import Default
from .enums.serializers import EnumSerializer
from .errors import DeclarationError, shown
from .flink.void import VoidSerializer
from .flink.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespace,
    VoidNamespaceSerializer,
)
from .primitives.big_numbers import DecimalSerializer
from .primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from .primitives.text import CharSerializer, StringSerializer
from .records.classes import (
    NO_RECORD_OPTIONS,
    NO_VALUE,
    ClassField,
    Field,
    check_default,
    class_fields,
    is_record_class,
    options_of,
    registered_subclasses,
)
from .records.fields import RecordField
from .records.pojo import PojoSerializer
from .records.recursive_classes import check_in_time, record_name, record_or_reference
from .records.serializers import DescribedRecordSerializer, RecordSerializer
from .registry import registry
from .rows.serializers import RowSerializer
from .rows.values import Row
from .serializer import TypeSerializer
from .snapshot import type_digest
from .stored_names import qualified_name
from .temporal.java_sql import DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer
from .temporal.java_time import InstantSerializer, LocalDateSerializer, LocalDateTimeSerializer, LocalTimeSerializer
from .temporal.sql_values import JavaDate, SqlDate, SqlTime, SqlTimestamp
from .temporal.values import Instant, LocalDate, LocalDateTime, LocalTime
from .views import DataOutputView

T = TypeVar("T")

if TYPE_CHECKING:
    from .type_variables import V

    MYPY = False  # only mypy treats a variable of this name as true
    if MYPY:
        from typing import _SpecialForm as _NoClass
    else:
        from builtins import object as _NoClass  # noqa: N812
    Hint = type[V] | TypeSerializer[V] | types.UnionType | _NoClass | None
    """A type hint for `V`. Where the hint is not a class (`int | None`; outside mypy `Int32`), `V` is unknown.

    mypy infers no `V` from a union with `object`; other checkers have no narrower type for `Annotated[...]`.
    """

Int8 = Annotated[int, ByteSerializer()]
Int16 = Annotated[int, ShortSerializer()]
Int32 = Annotated[int, IntSerializer()]
BigInt = Annotated[int, BigIntSerializer()]
Float32 = Annotated[float, FloatSerializer()]
Char = Annotated[str, CharSerializer()]
AwareDatetime = Annotated[dt.datetime, InstantSerializer()]
"""A datetime with a time zone, stored as an instant and read in UTC; a bare `datetime` means the same."""
NaiveDatetime = Annotated[dt.datetime, LocalDateTimeSerializer()]
"""A datetime without a time zone."""


class _AsArray:
    """Marks a list hint as a Java array."""


Array = Annotated[list[T], _AsArray()]
"""A list that is an array in Java: `Array[Int32]` int[], `Array[Int32 | None]` Integer[], `Array[str]` String[]."""

_PLAIN: dict[object, TypeSerializer[Any]] = {
    int: LongSerializer(),
    float: DoubleSerializer(),
    bool: BooleanSerializer(),
    str: StringSerializer(),
    bytes: BytesSerializer(),
    decimal.Decimal: DecimalSerializer(),
    None: VoidSerializer(),
    types.NoneType: VoidSerializer(),
    GlobalWindow: GlobalWindowSerializer(),
    TimeWindow: TimeWindowSerializer(),
    dt.datetime: InstantSerializer(),
    dt.date: LocalDateSerializer(),
    dt.time: LocalTimeSerializer(),
    Instant: InstantSerializer(exact=True),
    LocalDate: LocalDateSerializer(exact=True),
    LocalTime: LocalTimeSerializer(exact=True),
    LocalDateTime: LocalDateTimeSerializer(exact=True),
    JavaDate: DateSerializer(exact=True),
    SqlDate: SqlDateSerializer(exact=True),
    SqlTime: SqlTimeSerializer(exact=True),
    SqlTimestamp: SqlTimestampSerializer(exact=True),
    VoidNamespace: VoidNamespaceSerializer(),
}
_NO_OPTIONS = Field()
_CONTAINERS = (list, set, frozenset, dict)
_SUPPORTED = (
    "int, float, bool, str, bytes, Decimal, datetime, date, time, list, set, dict, tuple, T | None, enums, attrs and "
    "data classes"
)


@overload
def serializer_for(hint: TypeSerializer[V]) -> TypeSerializer[V]: ...


@overload
def serializer_for(hint: type[V]) -> TypeSerializer[V]: ...


@overload
def serializer_for(hint: object) -> TypeSerializer[Any]: ...


def serializer_for(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer for a type hint; a serializer is returned as it is.

    Raises:
        DeclarationError: There is none; the message lists the supported hints and says how to register a serializer.
    """
    if isinstance(hint, TypeSerializer):
        return hint
    registered = registry.serializer_for(hint)
    if registered is not None:
        return registered
    try:
        if hint in _PLAIN:
            return _PLAIN[hint]
    except TypeError as error:
        if get_origin(hint) is None:  # a serializer within Annotated may have a default that cannot be hashed
            raise DeclarationError(f"{shown(hint)} is not a type hint") from error
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        given = _given_serializer(arguments[0], arguments[1:])
        return serializer_for(arguments[0]) if given is None else given
    if origin in {Union, types.UnionType}:
        bare, optional = strip_none(hint)
        if not optional:
            raise DeclarationError(f"{hint} is a union of several types", advice="only T | None can be stored")
        return OptionalSerializer(serializer_for(bare))
    if origin is not None:
        return _generic(hint, origin, arguments)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return EnumSerializer.of(hint)
    if is_record_class(hint):
        return record_or_reference(hint, _record_serializer)
    raise _unknown(hint)


def as_serializer(hint: Hint[V]) -> TypeSerializer[V]:
    """Return what `serializer_for` returns; as the converter of a field, it lets type checkers infer `V`."""
    return serializer_for(hint)


def _unknown(hint: object) -> DeclarationError:
    name = getattr(hint, "__qualname__", None) or str(hint)
    if isinstance(hint, TypeVar):
        return DeclarationError(
            "a generic type hint needs type arguments", advice="write it with its types: Array[int]"
        )
    if isinstance(hint, str):
        return DeclarationError(f"{hint!r} is a string, not a type", advice="give the type itself, without quotes")
    if hint in (*_CONTAINERS, tuple, Either, Row):
        return DeclarationError(f"{name} needs type arguments", advice=f"write {name}[...] with its item types")
    return DeclarationError(
        f"no serializer is known for {name}",
        advice=f"use one of {_SUPPORTED}; or register_serializer({name}, …); or Annotated[{name}, YourSerializer()]",
    )


def _generic(hint: object, origin: object, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    if origin is list:
        return ListSerializer(serializer_for(arguments[0]))
    if origin in {set, frozenset}:
        element, nullable = strip_none(arguments[0])
        return SetSerializer(serializer_for(element), nullable_elements=nullable, frozen=origin is frozenset)
    if origin is dict:
        value, nullable = strip_none(arguments[1])
        return MapSerializer(serializer_for(arguments[0]), serializer_for(value), nullable_values=nullable)
    if origin is tuple:
        if Ellipsis in arguments:
            raise DeclarationError(f"{hint} has no fixed number of items", advice="use list[...]")
        return TupleSerializer(tuple(serializer_for(item) for item in arguments if item != ()))
    if origin is Row:
        return RowSerializer(tuple(_column(item) for item in arguments))
    if origin is Either:
        return EitherSerializer(*map(serializer_for, arguments))
    raise _unknown(hint)


def _column(hint: Any) -> RecordField:
    bare, optional = strip_none(hint)
    return RecordField("", serializer_for(bare), optional=optional)


def _array(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer of an array with elements of a hint: Java's primitives cannot be null, all else can."""
    bare, nullable = strip_none(hint)
    element = serializer_for(bare)
    if isinstance(element, StringSerializer):
        return StringArraySerializer(nullable_elements=nullable)
    if not nullable and (is_primitive(element) or isinstance(element, ByteSerializer)):
        return PrimitiveArraySerializer(element)
    return GenericArraySerializer(element, nullable_elements=nullable)


def _given_serializer(hint: Any, metadata: tuple[Any, ...]) -> TypeSerializer[Any] | None:
    given = next((item for item in metadata if isinstance(item, TypeSerializer | _AsArray)), None)
    return _array(get_args(hint)[0]) if isinstance(given, _AsArray) else given


def strip_none(hint: Any) -> tuple[Any, bool]:
    """Take `| None` off a hint, where the layout around it has a null flag.

    None is the only value of Void (the hint `None`), so such a flag is always set for it, as in Flink.
    """
    if not _is_optional(hint):
        return hint, hint is None or hint is types.NoneType
    return Union[tuple(member for member in get_args(hint) if member is not types.NoneType)], True  # noqa: UP007 - many


def _is_optional(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType} and types.NoneType in get_args(hint)


def record_serializer(cls: type[T]) -> DescribedRecordSerializer[T]:
    """Return the serializer of a record class: `PojoSerializer` where `record` named a Java class.

    Raises:
        DeclarationError: A field cannot be stored, or a class with a Java class contains itself.
    """
    serializer = record_or_reference(cls, _record_serializer)
    assert isinstance(serializer, DescribedRecordSerializer)  # noqa: S101 - references occur only within a class
    return serializer


registry.make_records_with(record_serializer)


def _record_serializer(cls: type[T]) -> DescribedRecordSerializer[T]:
    options = options_of(cls)
    is_pojo = bool(options.java_class)
    fields = sorted((record_field(cls, field, is_pojo=is_pojo) for field in class_fields(cls)), key=lambda f: f.name)
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DeclarationError(f"two fields of {qualified_name(cls)} are stored as {twice!r}")
    # Subclasses are distinguished by tags within their base, and so are never references.
    subclasses: list[DescribedRecordSerializer[Any]] = [_record_serializer(sub) for sub in registered_subclasses(cls)]
    make: type[DescribedRecordSerializer[T]] = PojoSerializer if is_pojo else RecordSerializer
    return make(
        name=record_name(cls),
        fields=tuple(fields),
        python_class=cls,
        python_name=qualified_name(cls),
        aliases=options.aliases,
        retired=options.retired,
        retired_types=tuple((name, *retired_type(hint)) for name, hint in options.retired_types),
        registered=tuple((subclass.name, subclass) for subclass in subclasses),
    )


def retired_type(hint: Any) -> tuple[str, str]:
    """Return the description of a retired field's type, and the digest that identifies it."""
    snapshot = serializer_for(strip_none(hint)[0]).snapshot_configuration()
    return snapshot.describe(), type_digest(snapshot)


def record_field(cls: type, field: ClassField, *, is_pojo: bool = False) -> RecordField:
    """Return a field of a class as it is stored.

    Raises:
        DeclarationError: Its type or its default cannot be stored.
    """
    hint, given, options = field.hint, None, _NO_OPTIONS
    optional = False
    while (origin := get_origin(hint)) is Annotated or _is_optional(hint):
        if origin is Annotated:
            hint, *metadata = get_args(hint)
            given = given or _given_serializer(hint, tuple(metadata))
            options = next((item for item in metadata if isinstance(item, Field)), options)
        else:
            hint, optional = strip_none(hint)
    optional = optional or hint is None or hint is types.NoneType
    serializer: TypeSerializer[Any] = given or serializer_for(hint)
    if is_pojo and optional and given is None and origin in _CONTAINERS:
        # Flink 2 extracts such a field as Nullable<List<…>> (format notes 6.2)
        serializer = OptionalSerializer(serializer)
    base = options_of(field.declared_by) if field.declared_by is not cls else NO_RECORD_OPTIONS
    on_none = None if options.on_none is NO_VALUE else Default(options.on_none)
    if field.default is not None or on_none is not None:
        _check_defaults(cls, field, on_none, serializer, optional=optional)
    return RecordField(
        name=options.name or field.attribute,
        serializer=serializer,
        optional=optional,
        attribute=field.attribute,
        init_name=field.init_name,
        aliases=options.aliases,
        default=field.default,
        on_none=on_none,
        declared_by=options.declared_by or base.java_class,
        declared_aliases=base.aliases,
    )


def _check_defaults(
    cls: type, field: ClassField, on_none: Default | None, serializer: TypeSerializer[Any], *, optional: bool
) -> None:
    where = f"{qualified_name(cls)}.{field.attribute}"

    def encode(value: Any) -> None:
        serializer.serialize(value, DataOutputView())

    check_in_time(lambda: check_default(where, field.default, encode))
    check_in_time(lambda: check_default(f"{where} (on_none)", on_none, encode))
    if field.default == Default(None) and not optional:
        raise DeclarationError(f"{where} has the default None but is not declared optional", advice="write … | None")
