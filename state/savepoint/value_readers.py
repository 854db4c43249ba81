"""Who reads the values of a state: its serializer, restored; and where a frame tells the end of a value, opaque bytes.

Entries frame the whole value of value state and each value of map state, offsets each element of an operator's
list. There a value that only Kryo reads is taken as bytes, up to the end of its frame. Source: format notes 7 and 10.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...serializers.containers.maps import MapSerializer, MapSerializerSnapshot
from ...serializers.containers.ttl import TtlSerializer, TtlSerializerSnapshot
from ...serializers.containers.ttl_aware import without_ttl_awareness
from ...serializers.errors import StateShiftError, add_step
from ...serializers.flink.kryo import KryoSerializerSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot

_NOT_FRAMED = {StateKind.LIST, StateKind.BROADCAST, StateKind.TIMERS}


def value_reader(kind: StateKind, snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializer[Any]:
    """Restore the reader of a state's values.

    Args:
        kind: Of the state: it tells what is framed.
        snapshot: As in the state's metadata: of list and map state that of the whole.

    Raises:
        OldReaderUnavailable: Nothing reads them; with the path to what cannot be read.
    """
    snapshot = without_ttl_awareness(snapshot)
    if kind is StateKind.MAP and isinstance(snapshot, MapSerializerSnapshot):
        with step("{}"):
            value = _framed(snapshot.nested[1])
        return MapSerializer(snapshot.restore_nested(0), value, nullable_values=True)
    return snapshot.restore_serializer() if kind in _NOT_FRAMED | {StateKind.MAP} else _framed(snapshot)


def _framed(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializer[Any]:
    """Restore the reader of values that end where their frame does."""
    snapshot = without_ttl_awareness(snapshot)
    if isinstance(snapshot, KryoSerializerSnapshot):
        return snapshot.restore_framed()
    if isinstance(snapshot, TtlSerializerSnapshot):
        return TtlSerializer(_framed(snapshot.nested[1]))
    return snapshot.restore_serializer()


@contextmanager
def step(name: str) -> Iterator[None]:
    """Tell errors by which step of a path their value was reached."""
    try:
        yield
    except StateShiftError as error:
        add_step(error, name)
        raise
