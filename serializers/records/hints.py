"""Record classes as hints: the serializer of each is made of its fields."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from ..containers.wrappers import OptionalSerializer
from ..defaults import NO_VALUE, Default
from ..errors import DeclarationError
from ..hints import given_serializer, is_optional, serializer_for, strip_none
from ..snapshot import type_digest
from ..stored_names import qualified_name
from ..views import DataOutputView
from .classes import (
    NO_RECORD_OPTIONS,
    ClassField,
    Field,
    RecordField,
    check_default,
    class_fields,
    is_record_class,
    options_of,
    registered_subclasses,
)
from .pojo import PojoSerializer
from .recursive import check_in_time, record_name, record_or_reference
from .serializers import DescribedRecordSerializer, RecordSerializer

if TYPE_CHECKING:
    from ..serializer import TypeSerializer

T = TypeVar("T")

_NO_OPTIONS = Field()
_CONTAINERS = (list, set, frozenset, dict)


def serializer_of_class(cls: type) -> TypeSerializer[Any] | None:
    """Return the serializer of a record class, or a reference to it within its own cycle; None for any other class."""
    return record_or_reference(cls, _record_serializer) if is_record_class(cls) else None


def record_serializer(cls: type[T]) -> DescribedRecordSerializer[T]:
    """Return the serializer of a record class: `PojoSerializer` where `record` named a Java class.

    Raises:
        DeclarationError: A field cannot be stored, or a class with a Java class contains itself.
    """
    serializer = record_or_reference(cls, _record_serializer)
    assert isinstance(serializer, DescribedRecordSerializer)  # noqa: S101 - references occur only within a class
    return serializer


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
    while (origin := get_origin(hint)) is Annotated or is_optional(hint):
        if origin is Annotated:
            hint, *metadata = get_args(hint)
            given = given or given_serializer(hint, tuple(metadata))
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
