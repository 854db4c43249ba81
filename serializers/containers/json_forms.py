"""JSON forms of arrays, collections, tuples, optional and time-stamped values: made of the forms of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..json_forms import sorted_by_text, tagger_of
from .arrays import BytePrimitiveArraySerializerSnapshot
from .either import JavaEitherSerializerSnapshot, Left
from .lists import SetSerializerSnapshot
from .maps import MapSerializerSnapshot
from .optional import NullableSerializerSnapshot
from .sequences import SequenceSnapshot
from .ttl import TtlSerializerSnapshot
from .ttl_aware import TtlAwareSerializerSnapshot
from .tuples import Tuple0SerializerSnapshot, TupleSerializerSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from ..snapshot import TypeSerializerConfigSnapshot

    Snapshot = TypeSerializerConfigSnapshot[Any]


def _bytes(_: object) -> Tagger:
    return lambda value: {"$bytes": bytes(value).hex()}


def _list(snapshot: SequenceSnapshot) -> Tagger:
    element = tagger_of(snapshot.element_snapshot())
    return lambda value: [element(item) for item in value]


def _set(snapshot: Snapshot) -> Tagger:
    (element,) = map(tagger_of, snapshot.children())
    return lambda value: {"$set": sorted_by_text(element(item) for item in value)}


def _map(snapshot: Snapshot) -> Tagger:
    return map_tagger(*map(tagger_of, snapshot.children()))


def map_tagger(key: Tagger, item: Tagger) -> Tagger:
    """Return the tagger of a map from the taggers of its keys and values."""
    return lambda value: {"$map": sorted_by_text([key(name), item(one)] for name, one in value.items())}


def _tuple(snapshot: Snapshot) -> Tagger:
    fields = [tagger_of(child) for child in snapshot.children()]
    return lambda value: {"$tuple": [field(item) for field, item in zip(fields, value, strict=True)]}


def _either(snapshot: Snapshot) -> Tagger:
    left, right = map(tagger_of, snapshot.children())
    return lambda value: {"$left": left(value.value)} if isinstance(value, Left) else {"$right": right(value.value)}


def _inner(snapshot: Snapshot) -> Tagger:
    return tagger_of(snapshot.children()[0])


def _ttl(snapshot: Snapshot) -> Tagger:
    inner = tagger_of(snapshot.children()[1])
    return lambda value: inner(value.value)


JSON_FORMS: JsonFormTable = {
    BytePrimitiveArraySerializerSnapshot: _bytes,
    SequenceSnapshot: _list,
    SetSerializerSnapshot: _set,
    MapSerializerSnapshot: _map,
    TupleSerializerSnapshot: _tuple,
    Tuple0SerializerSnapshot: _tuple,
    JavaEitherSerializerSnapshot: _either,
    NullableSerializerSnapshot: _inner,
    TtlSerializerSnapshot: _ttl,
    TtlAwareSerializerSnapshot: _inner,
}
