"""JSON forms of namespaces, of what is always null, and of what only Kryo reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..json_forms import as_is
from .kryo import KryoSerializerSnapshot
from .void import VoidSerializerSnapshot
from .windows import (
    GlobalWindow,
    GlobalWindowSerializerSnapshot,
    TimeWindow,
    TimeWindowSerializerSnapshot,
    VoidNamespace,
    VoidNamespaceSerializerSnapshot,
)

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger


def _window(_: object) -> Tagger:
    return lambda value: {"$window": [value.start, value.end]}


def _void_namespace(_: object) -> Tagger:
    return lambda _: {"$void": True}


def _global_window(_: object) -> Tagger:
    return lambda _: {"$global": True}


def _kryo(snapshot: KryoSerializerSnapshot) -> Tagger:
    return lambda value: {"$opaque": f"{snapshot.describe()} {value.data.hex()}"}


JSON_FORMS: JsonFormTable = {
    TimeWindowSerializerSnapshot: _window,
    VoidNamespaceSerializerSnapshot: _void_namespace,
    GlobalWindowSerializerSnapshot: _global_window,
    VoidSerializerSnapshot: as_is,
    KryoSerializerSnapshot: _kryo,
    # A user's serializer may return them too.
    TimeWindow: _window,
    VoidNamespace: _void_namespace,
    GlobalWindow: _global_window,
}
