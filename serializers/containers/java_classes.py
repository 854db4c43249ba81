"""The Java classes of values, looked up by snapshot: an array of objects is stored with the class of its elements.

Flink loads that class on a restore, and compares it with the job's. Snapshots of families that are not listed here may
have a `java_class` attribute. Source: the type informations of Flink 2.3, whose `getTypeClass` returns the class that
the array's serializer stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..primitives.numeric import BASE
from .optional import NullableSerializerSnapshot
from .ttl_aware import without_ttl_awareness

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot

ANY_CLASS = "java.lang.Object"

_LANG, _TIME, _SQL, _UTIL, _TYPES = "java.lang.", "java.time.", "java.sql.", "java.util.", "org.apache.flink.types."

_OF_SIMPLE = {
    "Boolean": _LANG + "Boolean",
    "Byte": _LANG + "Byte",
    "Short": _LANG + "Short",
    "Int": _LANG + "Integer",
    "Long": _LANG + "Long",
    "Float": _LANG + "Float",
    "Double": _LANG + "Double",
    "Char": _LANG + "Character",
    "String": _LANG + "String",
    "Void": _LANG + "Void",
    "BigInt": "java.math.BigInteger",
    "BigDec": "java.math.BigDecimal",
    "Date": _UTIL + "Date",
    "SqlDate": _SQL + "Date",
    "SqlTime": _SQL + "Time",
    "SqlTimestamp": _SQL + "Timestamp",
    "LocalDate": _TIME + "LocalDate",
    "LocalTime": _TIME + "LocalTime",
    "LocalDateTime": _TIME + "LocalDateTime",
    "Instant": _TIME + "Instant",
}
_OF_PRIMITIVE_ARRAYS = {
    "Boolean": "[Z",
    "Byte": "[B",
    "Char": "[C",
    "Short": "[S",
    "Int": "[I",
    "Long": "[J",
    "Float": "[F",
    "Double": "[D",
}
_BY_ID = {f"{BASE}{name}Serializer${name}SerializerSnapshot": java for name, java in _OF_SIMPLE.items()} | {
    f"{BASE}array.{name}PrimitiveArraySerializer${name}PrimitiveArraySerializerSnapshot": java
    for name, java in _OF_PRIMITIVE_ARRAYS.items()
}
_BY_KIND = {
    "list": _UTIL + "List",
    "set": _UTIL + "Set",
    "map": _UTIL + "Map",
    "row": _TYPES + "Row",
    "either": _TYPES + "Either",
}


def java_class_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
    """Return the class of values as Java's `Class.getName` does; `java.lang.Object` if it is not known."""
    snapshot = without_ttl_awareness(snapshot)
    if isinstance(snapshot, NullableSerializerSnapshot):
        return java_class_of(snapshot.nested[0])
    known = _BY_ID.get(snapshot.snapshot_id) or _BY_KIND.get(snapshot.kind)
    return known or getattr(snapshot, "java_class", "") or ANY_CLASS


def array_class_of(component: str) -> str:
    """Return the class of an array of a class: `[Ljava.lang.Long;`."""
    return f"[{component}" if component.startswith("[") else f"[L{component};"
