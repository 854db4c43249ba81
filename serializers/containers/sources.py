"""What `init` writes for arrays, collections, tuples and optional values: hints made of the hints of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..flink.namespaces import VoidSerializerSnapshot
from ..primitives.text import StringSerializerSnapshot
from ..type_source import NoSourceError, Use, no_hint, or_none
from .arrays import ARRAYS, BytesSerializer
from .either import JavaEitherSerializerSnapshot, Right
from .lists import ArrayListSerializerSnapshot, ListSerializerSnapshot, SetSerializerSnapshot
from .maps import MapSerializerSnapshot
from .object_arrays import GenericArraySerializerSnapshot, StringArraySerializerSnapshot
from .optional import NullableSerializerSnapshot
from .ttl import TtlSerializerSnapshot
from .ttl_aware import TtlAwareSerializerSnapshot, without_ttl_awareness
from .tuples import Tuple0SerializerSnapshot, TupleSerializerSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..stored_nulls import NullTable, StoredNulls
    from ..type_source import Snapshot, SourceTable, TypeSource
    from .arrays import PrimitiveArraySnapshot
    from .sequences import SequenceSnapshot

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


def _list(source: TypeSource, snapshot: ListSerializerSnapshot, use: Use) -> str:
    _refuse_as_key(snapshot, use)
    return f"list[{source.hint(snapshot.nested[0])}]"


def _set(source: TypeSource, snapshot: SetSerializerSnapshot, use: Use) -> str:
    element = _item(source, source.hint(snapshot.nested[0], Use.KEY), snapshot)
    return f"{'frozenset' if use is Use.KEY else 'set'}[{element}]"


def _map(source: TypeSource, snapshot: MapSerializerSnapshot, use: Use) -> str:
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


def _tuple(source: TypeSource, snapshot: TupleSerializerSnapshot, use: Use) -> str:
    return f"tuple[{', '.join(source.hint(item, use) for item in snapshot.nested)}]"


def _either(source: TypeSource, snapshot: JavaEitherSerializerSnapshot, use: Use) -> str:
    left, right = (source.hint(side, use) for side in snapshot.nested)
    return f"Either[{left}, {right}]"


def _ttl_aware(source: TypeSource, snapshot: TtlAwareSerializerSnapshot, use: Use) -> str:
    if snapshot.inner is None:
        raise no_hint(snapshot)
    return source.hint(snapshot.inner, use)


SOURCES: SourceTable = {
    BytesSerializer.snapshot: BytesSerializer.row.hint,
    **dict.fromkeys(ARRAYS.values(), _array),
    StringArraySerializerSnapshot: _array_of_strings,
    GenericArraySerializerSnapshot: _array_of_objects,
    ListSerializerSnapshot: _list,
    ArrayListSerializerSnapshot: _list,
    SetSerializerSnapshot: _set,
    MapSerializerSnapshot: _map,
    NullableSerializerSnapshot: _optional,
    TupleSerializerSnapshot: _tuple,
    Tuple0SerializerSnapshot: "tuple[()]",
    JavaEitherSerializerSnapshot: _either,
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


def _look_into_either(nulls: StoredNulls, value: Any, snapshot: JavaEitherSerializerSnapshot) -> None:
    nulls.look(value.value, snapshot.nested[isinstance(value, Right)])


def _look_within(nulls: StoredNulls, value: Any, snapshot: Snapshot) -> None:
    nulls.look(value, snapshot.children()[0])


def _look_behind_stamp(nulls: StoredNulls, value: Any, snapshot: TtlSerializerSnapshot) -> None:
    nulls.look(value.value, snapshot.nested[1])


NULLS: NullTable = {
    GenericArraySerializerSnapshot: _look_into_list,
    ListSerializerSnapshot: _look_into_list,
    ArrayListSerializerSnapshot: _look_into_list,
    SetSerializerSnapshot: _look_into_set,
    MapSerializerSnapshot: _look_into_map,
    TupleSerializerSnapshot: _look_into_tuple,
    JavaEitherSerializerSnapshot: _look_into_either,
    NullableSerializerSnapshot: _look_within,
    TtlSerializerSnapshot: _look_behind_stamp,
    TtlAwareSerializerSnapshot: _look_within,
}
