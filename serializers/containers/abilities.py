"""What is registered for containers beside byte rewrites: hints, JSON, and the source that `init` writes."""

from __future__ import annotations

import types
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args

from ..errors import DeclarationError
from ..flink.namespaces import VoidSerializerSnapshot
from ..hints import Marker, serializer_for, strip_none
from ..json_forms import sorted_by_text, tagger_of
from ..primitives.numeric import ByteSerializer
from ..primitives.text import StringSerializer, StringSerializerSnapshot
from ..source import NoSourceError, Use, no_hint, or_none
from .arrays import (
    ARRAYS,
    BytePrimitiveArraySerializerSnapshot,
    BytesSerializer,
    PrimitiveArraySerializer,
    is_primitive,
)
from .lists import (
    ArrayListSerializerSnapshot,
    ListSerializer,
    ListSerializerSnapshot,
    MapSerializer,
    MapSerializerSnapshot,
    SetSerializer,
    SetSerializerSnapshot,
)
from .object_arrays import (
    GenericArraySerializer,
    GenericArraySerializerSnapshot,
    StringArraySerializer,
    StringArraySerializerSnapshot,
)
from .pieces import SequenceSnapshot
from .ttl import TtlSerializerSnapshot
from .tuples import (
    Either,
    EitherSerializer,
    JavaEitherSerializerSnapshot,
    Left,
    Right,
    Tuple0SerializerSnapshot,
    TupleSerializer,
    TupleSerializerSnapshot,
)
from .wrappers import NullableSerializerSnapshot, OptionalSerializer, TtlAwareSerializerSnapshot, without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..hints import HintTable
    from ..json_forms import JsonFormTable, Tagger
    from ..serializer import TypeSerializer
    from ..snapshot import CompositeTypeSerializerSnapshot
    from ..source import NullTable, Snapshot, SourceTable, StoredNulls, TypeSource
    from .arrays import PrimitiveArraySnapshot

T = TypeVar("T")


class _AsArray(Marker):
    """Marks a list hint as a Java array."""

    def serializer(self, hint: Any) -> TypeSerializer[Any]:
        """Return the serializer of an array: Java's primitives cannot be null, all else can."""
        bare, nullable = strip_none(get_args(hint)[0])
        element = serializer_for(bare)
        if isinstance(element, StringSerializer):
            return StringArraySerializer(nullable_elements=nullable)
        if not nullable and (is_primitive(element) or isinstance(element, ByteSerializer)):
            return PrimitiveArraySerializer(element)
        return GenericArraySerializer(element, nullable_elements=nullable)


Array = Annotated[list[T], _AsArray()]
"""A list that is an array in Java: `Array[Int32]` int[], `Array[Int32 | None]` Integer[], `Array[str]` String[]."""


def _set_hint(_: Any, arguments: tuple[Any, ...], *, frozen: bool = False) -> TypeSerializer[Any]:
    element, nullable = strip_none(arguments[0])
    return SetSerializer(serializer_for(element), nullable_elements=nullable, frozen=frozen)


def _dict(_: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    value, nullable = strip_none(arguments[1])
    return MapSerializer(serializer_for(arguments[0]), serializer_for(value), nullable_values=nullable)


def _tuple_hint(hint: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    if Ellipsis in arguments:
        raise DeclarationError(f"{hint} has no fixed number of items", advice="use list[...]")
    return TupleSerializer(tuple(serializer_for(item) for item in arguments if item != ()))


def _union(hint: Any, _: tuple[Any, ...]) -> TypeSerializer[Any]:
    bare, optional = strip_none(hint)
    if not optional:
        raise DeclarationError(f"{hint} is a union of several types", advice="only T | None can be stored")
    return OptionalSerializer(serializer_for(bare))


HINTS: HintTable = {
    bytes: BytesSerializer(),
    list: lambda _, arguments: ListSerializer(serializer_for(arguments[0])),
    set: _set_hint,
    frozenset: lambda hint, arguments: _set_hint(hint, arguments, frozen=True),
    dict: _dict,
    tuple: _tuple_hint,
    Either: lambda _, arguments: EitherSerializer(*map(serializer_for, arguments)),
    Union: _union,
    types.UnionType: _union,
}


def _list_form(snapshot: SequenceSnapshot) -> Tagger:
    element = tagger_of(snapshot.element_snapshot())
    return lambda value: [element(item) for item in value]


def _set_form(snapshot: Snapshot) -> Tagger:
    (element,) = map(tagger_of, snapshot.children())
    return lambda value: {"$set": sorted_by_text(element(item) for item in value)}


def map_tagger(key: Tagger, item: Tagger) -> Tagger:
    """Return the tagger of a map from the taggers of its keys and values."""
    return lambda value: {"$map": sorted_by_text([key(name), item(one)] for name, one in value.items())}


def _tuple_form(snapshot: Snapshot) -> Tagger:
    fields = [tagger_of(child) for child in snapshot.children()]
    return lambda value: {"$tuple": [field(item) for field, item in zip(fields, value, strict=True)]}


def _either_form(snapshot: Snapshot) -> Tagger:
    left, right = map(tagger_of, snapshot.children())
    return lambda value: {"$left": left(value.value)} if isinstance(value, Left) else {"$right": right(value.value)}


def _inner(snapshot: Snapshot) -> Tagger:
    return tagger_of(snapshot.children()[0])


def _ttl(snapshot: Snapshot) -> Tagger:
    inner = tagger_of(snapshot.children()[1])
    return lambda value: inner(value.value)


JSON_FORMS: JsonFormTable = {
    BytePrimitiveArraySerializerSnapshot: lambda _: lambda value: {"$bytes": bytes(value).hex()},
    SequenceSnapshot: _list_form,
    SetSerializerSnapshot: _set_form,
    MapSerializerSnapshot: lambda snapshot: map_tagger(*map(tagger_of, snapshot.children())),
    TupleSerializerSnapshot: _tuple_form,
    Tuple0SerializerSnapshot: _tuple_form,
    JavaEitherSerializerSnapshot: _either_form,
    NullableSerializerSnapshot: _inner,
    TtlSerializerSnapshot: _ttl,
    TtlAwareSerializerSnapshot: _inner,
}


COLLECTIONS = (ListSerializerSnapshot, SetSerializerSnapshot, MapSerializerSnapshot)


def _refuse_as_key(snapshot: Snapshot, use: Use) -> None:
    if use is Use.KEY:
        raise NoSourceError(f"{snapshot.describe()} cannot be looked up in Python, as a key or in a set")


def _array(source: TypeSource, snapshot: PrimitiveArraySnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    return f"Array[{source.hint(snapshot.element_snapshot())}]"


def _array_of_strings(_: TypeSource, snapshot: StringArraySerializerSnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    return "Array[str | None]"


def _array_of_objects(source: TypeSource, snapshot: GenericArraySerializerSnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    element = without_ttl_awareness(snapshot.element_snapshot())
    item = element.nested[0] if isinstance(element, NullableSerializerSnapshot) else element
    if isinstance(without_ttl_awareness(item), StringSerializerSnapshot):
        raise NoSourceError("no type hint says an array of strings that is no String[] for Flink")
    return f"Array[{or_none(source.hint(element))}]"


def _list_source(source: TypeSource, snapshot: ListSerializerSnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    return f"list[{source.hint(snapshot.nested[0])}]"


def _set_source(source: TypeSource, snapshot: SetSerializerSnapshot, use: Use) -> str:
    element = _item(source, source.hint(snapshot.nested[0], Use.KEY), snapshot)
    return f"{'frozenset' if use is Use.KEY else 'set'}[{element}]"


def _map_source(source: TypeSource, snapshot: MapSerializerSnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    key, value = snapshot.nested
    return f"dict[{source.hint(key, Use.KEY)}, {_item(source, source.hint(value), snapshot)}]"


def _item(source: TypeSource, hint: str, container: Snapshot) -> str:
    """Return the hint of an item, nullable where a null was found; the container has its own null flags."""
    return or_none(hint) if source.nulls.has_item(container) else hint


def _optional(source: TypeSource, snapshot: NullableSerializerSnapshot, use: Use) -> str:
    inner = without_ttl_awareness(snapshot.nested[0])
    if isinstance(inner, NullableSerializerSnapshot | VoidSerializerSnapshot):
        raise no_hint(snapshot)
    return f"{source.hint(inner, use)} | None"


def _of_all(name: str, source: TypeSource, snapshot: CompositeTypeSerializerSnapshot[Any], use: Use) -> str:
    """Return a name with the hints of all parts."""
    return f"{name}[{', '.join(source.hint(item, use) for item in snapshot.nested)}]"


def _ttl_aware(source: TypeSource, snapshot: TtlAwareSerializerSnapshot, use: Use) -> str:
    if snapshot.inner is None:
        raise no_hint(snapshot)
    return source.hint(snapshot.inner, use)


SOURCES: SourceTable = {
    BytesSerializer.snapshot: BytesSerializer.row.hint,
    **dict.fromkeys(ARRAYS.values(), _array),
    StringArraySerializerSnapshot: _array_of_strings,
    GenericArraySerializerSnapshot: _array_of_objects,
    ListSerializerSnapshot: _list_source,
    ArrayListSerializerSnapshot: _list_source,
    SetSerializerSnapshot: _set_source,
    MapSerializerSnapshot: _map_source,
    NullableSerializerSnapshot: _optional,
    TupleSerializerSnapshot: partial(_of_all, "tuple"),
    Tuple0SerializerSnapshot: "tuple[()]",
    JavaEitherSerializerSnapshot: partial(_of_all, "Either"),
    TtlAwareSerializerSnapshot: _ttl_aware,
}


def _look_into_list(nulls: StoredNulls, value: Iterable[Any], snapshot: SequenceSnapshot) -> None:
    element = snapshot.element_snapshot()
    for item in value:
        nulls.look(item, element)


def _look_into_set(nulls: StoredNulls, value: Iterable[Any], snapshot: SetSerializerSnapshot) -> None:
    if _has_null(value):
        nulls.add_container(snapshot)
    for item in value:
        nulls.look(item, snapshot.nested[0])


def _look_into_map(nulls: StoredNulls, value: dict[Any, Any], snapshot: MapSerializerSnapshot) -> None:
    if _has_null(value.values()):
        nulls.add_container(snapshot)
    for entry in value.items():
        for item, kind in zip(entry, snapshot.nested, strict=True):
            nulls.look(item, kind)


def _has_null(items: Iterable[Any]) -> bool:
    """Whether an item is null, or a null with a time stamp."""
    return any(getattr(item, "value", item) is None for item in items)


def _look_into_tuple(nulls: StoredNulls, value: Iterable[Any], snapshot: TupleSerializerSnapshot) -> None:
    for item, kind in zip(value, snapshot.nested, strict=True):
        nulls.look(item, kind)


def _look_within(nulls: StoredNulls, value: Any, snapshot: Snapshot) -> None:
    nulls.look(value, snapshot.children()[0])


NULLS: NullTable = {
    GenericArraySerializerSnapshot: _look_into_list,
    ListSerializerSnapshot: _look_into_list,
    ArrayListSerializerSnapshot: _look_into_list,
    SetSerializerSnapshot: _look_into_set,
    MapSerializerSnapshot: _look_into_map,
    TupleSerializerSnapshot: _look_into_tuple,
    JavaEitherSerializerSnapshot: lambda nulls, one, of: nulls.look(one.value, of.nested[isinstance(one, Right)]),
    NullableSerializerSnapshot: _look_within,
    TtlSerializerSnapshot: lambda nulls, stamped, snapshot: nulls.look(stamped.value, snapshot.nested[1]),
    TtlAwareSerializerSnapshot: _look_within,
}
