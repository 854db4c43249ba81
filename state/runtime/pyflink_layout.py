"""How PyFlink keeps the states of a Python function: as other states than its descriptors name.

In process mode, PyFlink's default, Python's workers make bytes of values, and Flink keeps those:

    ValueState, ReducingState, AggregatingState   python-state-NAME, a list of one byte[]
    ListState                                     python-state-NAME, a list of byte[], each of one element or more
    MapState, broadcast state                     python-state-NAME, a map from ByteArrayWrapper to byte[]

In thread mode Flink keeps the values themselves, under NAME: value state, also of what is reduced or aggregated, list
state and map state. Integers are longs there, floats doubles, and chars texts; of rows and tuples Flink has a pickle.
PyFlink 2.3 fails at the first checkpoint of what has another type. In both modes, the key is a row of one column.

Source: savepoints of PyFlink 2.3, and `pyflink.datastream` (`python.execution-mode`).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.arrays import BytesSerializer
from ...serializers.containers.lists import MapSerializer
from ...serializers.containers.object_arrays import GenericArraySerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import DeclarationError
from ...serializers.flink.namespaces import SqlTimeWindowSerializer, TimeWindowSerializer
from ...serializers.hints import serializer_for
from ...serializers.pickled.serializers import PickleSerializer
from ...serializers.primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.primitives.text import CharSerializer, StringSerializer
from ...serializers.pyflink.coder_hints import coder_for
from ...serializers.pyflink.contents import ConvertEach, PyFlinkBytes, PyFlinkElements, PyFlinkKey
from ...serializers.rows.serializers import RowSerializer
from .descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from ...serializers.serializer import TypeSerializer

PREFIX = "python-state-"
"""What the name of a state in process mode begins with."""


class ExecutionMode(enum.StrEnum):
    """PyFlink's `python.execution-mode`."""

    PROCESS = "process"
    THREAD = "thread"


def stored_key(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer of the keys of a Python operator: a row of one column, the key."""
    return RowSerializer.of([serializer_for(hint)])


def stored_state(state: StateDescriptor, mode: ExecutionMode) -> Any:
    """Return the descriptor of the state as which PyFlink keeps a state of a function.

    Args:
        state: As the function declares it.
        mode: How its functions run.

    Raises:
        DeclarationError: PyFlink has no coder for the type; or it is declared how another kind of state, or bytes of
            Flink, become this one.
    """
    if mode is ExecutionMode.THREAD:
        return _in_threads(state)
    for name in ("transform", "fallback_deserializer"):
        if getattr(state, name) is not None:
            raise DeclarationError(
                f"the state {state.name!r} of a PyFlink operator has a {name}, and its entries are bytes of PyFlink",
                advice="use a converter, which gets the decoded value",
            )
    name, converter = PREFIX + state.name, state.converter
    common = {one: getattr(state, one) for one in ("time_to_live", "former_time_to_live")}
    common["namespace"] = _window_of(state)
    if isinstance(state, MapStateDescriptor):
        key, value = PyFlinkKey(coder_for(state.key_serializer)), PyFlinkBytes(coder_for(state.value_type))
        return MapStateDescriptor(name, key, value, converter=converter, **common)
    if isinstance(state, ListStateDescriptor):
        elements = PyFlinkElements(coder_for(state.element_serializer))
        each = None if converter is None else attrs.evolve(converter, function=ConvertEach(converter.function))
        return ListStateDescriptor(name, elements, converter=each, **common)
    single: Any = state
    value = PyFlinkBytes(coder_for(single.value_serializer))
    return ListStateDescriptor(name, value, converter=converter, **common)


def _window_of(state: StateDescriptor) -> TypeSerializer[Any]:
    """Return the namespace of a state: PyFlink's windows in time are those of Flink's table runtime."""
    return SqlTimeWindowSerializer() if type(state.namespace) is TimeWindowSerializer else state.namespace


def _in_threads(state: StateDescriptor) -> StateDescriptor:
    """Return the descriptor as which thread mode keeps a state."""
    others = {one.name: getattr(state, one.name) for one in attrs.fields(StateDescriptor) if one.name != "name"}
    others["namespace"] = _window_of(state)
    if isinstance(state, MapStateDescriptor):
        key, value = (_type_in_threads(serializer_for(one), state) for one in (state.key_serializer, state.value_type))
        return MapStateDescriptor(state.name, key, value, **others)
    if isinstance(state, ListStateDescriptor):
        return ListStateDescriptor(state.name, _type_in_threads(state.element_serializer, state), **others)
    single: Any = state
    return ValueStateDescriptor(state.name, _type_in_threads(single.value_serializer, state), **others)


_KEPT: dict[type[TypeSerializer[Any]], TypeSerializer[Any]] = {
    **dict.fromkeys((ByteSerializer, ShortSerializer, IntSerializer, LongSerializer), LongSerializer()),
    **dict.fromkeys((FloatSerializer, DoubleSerializer), DoubleSerializer()),
    **dict.fromkeys((CharSerializer, StringSerializer), StringSerializer()),
    BooleanSerializer: BooleanSerializer(),
    DecimalSerializer: DecimalSerializer(),
    **dict.fromkeys((BytesSerializer, PickleSerializer, RowSerializer, TupleSerializer), BytesSerializer()),
}
"""What thread mode keeps instead of a type: pickles, as bytes, of what Java has no class for."""


def _type_in_threads(serializer: TypeSerializer[Any], state: StateDescriptor) -> TypeSerializer[Any]:
    if isinstance(serializer, MapSerializer):
        parts = (_type_in_threads(one, state) for one in (serializer.key, serializer.value))
        return MapSerializer(*parts, nullable_values=serializer.nullable_values)
    if isinstance(serializer, GenericArraySerializer):
        return attrs.evolve(serializer, element=_type_in_threads(serializer.element, state))
    if type(serializer) not in _KEPT:
        raise DeclarationError(
            f"the state {state.name!r} has the type {serializer.describe()}, which PyFlink cannot keep in thread mode:"
            " its first checkpoint fails",
            advice='leave it out, or declare what runs in process mode: execution_mode="process"',
        )
    return _KEPT[type(serializer)]
