"""What is registered for namespaces, for what is always null, and for what only Kryo reads."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from ..json_forms import as_is
from .namespaces import (
    CountWindow,
    CountWindowSerializer,
    CountWindowSerializerSnapshot,
    GlobalWindow,
    GlobalWindowSerializer,
    GlobalWindowSerializerSnapshot,
    SqlGlobalWindowSerializerSnapshot,
    SqlTimeWindowSerializerSnapshot,
    TimeWindow,
    TimeWindowSerializer,
    TimeWindowSerializerSnapshot,
    VoidNamespace,
    VoidNamespaceSerializer,
    VoidNamespaceSerializerSnapshot,
    VoidSerializer,
    VoidSerializerSnapshot,
)
from .opaque import KryoSerializerSnapshot

if TYPE_CHECKING:
    from ..hints import HintTable
    from ..json_forms import JsonFormTable, Tagger
    from ..source import SourceTable

HINTS: HintTable = {
    None: VoidSerializer(),
    types.NoneType: VoidSerializer(),
    CountWindow: CountWindowSerializer(),
    GlobalWindow: GlobalWindowSerializer(),
    TimeWindow: TimeWindowSerializer(),
    VoidNamespace: VoidNamespaceSerializer(),
}


def _window(_: object) -> Tagger:
    return lambda value: {"$window": [value.start, value.end]}


def _count_window(_: object) -> Tagger:
    return lambda value: {"$count_window": value.id}


def _void_namespace(_: object) -> Tagger:
    return lambda _: {"$void": True}


def _global_window(_: object) -> Tagger:
    return lambda _: {"$global": True}


JSON_FORMS: JsonFormTable = {
    TimeWindowSerializerSnapshot: _window,
    SqlTimeWindowSerializerSnapshot: _window,
    VoidNamespaceSerializerSnapshot: _void_namespace,
    CountWindowSerializerSnapshot: _count_window,
    GlobalWindowSerializerSnapshot: _global_window,
    SqlGlobalWindowSerializerSnapshot: _global_window,
    VoidSerializerSnapshot: as_is,
    KryoSerializerSnapshot: lambda snapshot: lambda value: {"$opaque": f"{snapshot.describe()} {value.data.hex()}"},
    # A user's serializer may return them too.
    TimeWindow: _window,
    CountWindow: _count_window,
    VoidNamespace: _void_namespace,
    GlobalWindow: _global_window,
}


SOURCES: SourceTable = {
    VoidSerializer.snapshot: VoidSerializer.row.hint,
    TimeWindowSerializerSnapshot: "TimeWindow",
    SqlTimeWindowSerializerSnapshot: "SqlTimeWindow",
    CountWindowSerializerSnapshot: "CountWindow",
    VoidNamespaceSerializerSnapshot: "VoidNamespace",
    GlobalWindowSerializerSnapshot: "GlobalWindow",
}
