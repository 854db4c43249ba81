"""Readers of a state's values: the restored serializer, or opaque bytes where a frame marks the end of a value.

Entries frame the whole value of value state and each value of map state, and offsets frame each element of an
operator's list. There a value that only Kryo can read is returned as bytes, up to the end of its frame. Source: format
notes 7 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....compat.description import ValueFraming
from ....serializers.containers.lists import MapSerializer, MapSerializerSnapshot
from ....serializers.containers.ttl import TtlSerializer, TtlSerializerSnapshot
from ....serializers.containers.wrappers import without_ttl_awareness
from ....serializers.errors import at_step
from ....serializers.flink.opaque import KryoSerializerSnapshot

if TYPE_CHECKING:
    from ....compat.description import StateKind
    from ....serializers.serializer import TypeSerializer
    from ....serializers.snapshot import TypeSerializerConfigSnapshot


def value_reader(kind: StateKind, snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializer[Any]:
    """Restore the reader of a state's values.

    Args:
        kind: The kind of the state, which determines what is framed.
        snapshot: The snapshot in the state's metadata; for list and map state that of the whole list or map.

    Raises:
        OldReaderUnavailable: No serializer reads the values; the error has the path to the part that cannot be read.
    """
    snapshot = without_ttl_awareness(snapshot)
    if kind.has_user_keys and isinstance(snapshot, MapSerializerSnapshot):
        with at_step("{}"):
            value = _framed(snapshot.nested[1])
        return MapSerializer(snapshot.restore_nested(0), value, nullable_values=True)
    is_framed = kind.row.framing is ValueFraming.WHOLE or kind.scope == "operator"
    return _framed(snapshot) if is_framed else snapshot.restore_serializer()


def _framed(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializer[Any]:
    """Restore the reader of values that end at the end of their frame."""
    snapshot = without_ttl_awareness(snapshot)
    if isinstance(snapshot, KryoSerializerSnapshot):
        return snapshot.restore_framed()
    if isinstance(snapshot, TtlSerializerSnapshot):
        return TtlSerializer(_framed(snapshot.nested[1]))
    return snapshot.restore_serializer()
