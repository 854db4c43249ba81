"""The Java classes of values: an array of objects is stored with the class of its elements.

Flink loads that class on a restore, and compares it with the job's. A snapshot names it in its `java_class`, if it has
one. Source: the type informations of Flink 2.3, whose `getTypeClass` returns the class that the array's serializer
stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ttl_aware import without_ttl_awareness

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot

ANY_CLASS = "java.lang.Object"


def java_class_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
    """Return the class of values as Java's `Class.getName` does; `java.lang.Object` if it is not known."""
    known: str = getattr(without_ttl_awareness(snapshot), "java_class", "")
    return known or ANY_CLASS


def array_class_of(component: str) -> str:
    """Return the class of an array of a class: `[Ljava.lang.Long;`."""
    return f"[{component}" if component.startswith("[") else f"[L{component};"
