"""Which keys have a Java hash that is the same everywhere, so that Flink finds what is written under them.

Source: format notes 5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

STABLE_TYPES = frozenset({"byte", "short", "int", "long", "boolean", "char", "string", "float", "double"})


def is_stable(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether keys of this type hash to the same in every JVM: Flink's own types of these, and tuples of them."""
    if not snapshot.is_flink:
        return False
    if snapshot.kind == "tuple":
        return all(map(is_stable, snapshot.children()))
    return snapshot.describe() in STABLE_TYPES
