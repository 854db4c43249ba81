"""How PyFlink keeps the states of a Python function: as other states than its descriptors name.

In process mode, PyFlink's default, Python's workers make bytes of values, and Flink keeps those:

    ValueState, ReducingState, AggregatingState   python-state-NAME, a list of one byte[]
    ListState                                     python-state-NAME, a list of byte[], each of one element or more
    MapState, broadcast state                     python-state-NAME, a map from ByteArrayWrapper to byte[]

In thread mode Flink keeps values of Java, under NAME: value state, also of what is reduced or aggregated, list state
and map state. Numbers are long or double; rows and tuples are pickles. In both modes the key is a row of one column,
and windows in time are those of Flink's table runtime.

Source: savepoints of PyFlink 2.3, and `pyflink.datastream` (`python.execution-mode`).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.pyflink_names import PREFIX
from ...serializers.errors import DeclarationError, located
from ...serializers.flink.namespaces import SqlTimeWindowSerializer, TimeWindowSerializer
from ...serializers.hints import serializer_for
from ...serializers.pyflink.coder_hints import coder_for
from ...serializers.pyflink.contents import ConvertEach, PyFlinkBytes, PyFlinkElements, PyFlinkKey
from ...serializers.pyflink.java_types import java_type
from ...serializers.rows.serializers import RowSerializer
from .descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from ...serializers.serializer import TypeSerializer


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
        with located(state=state.name):
            return _of_java(state)
    if state.fallback_deserializer is not None:
        raise DeclarationError(
            f"the state {state.name!r} of a PyFlink operator has a fallback_deserializer, and its entries are bytes of"
            " PyFlink",
            advice="use a converter, which gets the decoded value",
        )
    stored = _of_bytes(state)
    # It takes what the function had, and a descriptor refuses one that takes the kind as which it is kept.
    object.__setattr__(stored, "transform", state.transform)
    return stored


def _of_bytes(state: StateDescriptor) -> StateDescriptor:
    """Return the descriptor of a state in process mode."""
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


def _of_java(state: StateDescriptor) -> StateDescriptor:
    """Return the descriptor of a state in thread mode; what is reduced or aggregated is kept as a value."""
    given: Any = state
    others = {one.name: getattr(state, one.name) for one in attrs.fields(StateDescriptor) if one.name != "name"}
    others["namespace"] = _window_of(state)
    if isinstance(state, MapStateDescriptor):
        return MapStateDescriptor(state.name, java_type(state.key_serializer), java_type(state.value_type), **others)
    if isinstance(state, ListStateDescriptor):
        return ListStateDescriptor(state.name, java_type(state.element_serializer), **others)
    return ValueStateDescriptor(state.name, java_type(given.value_serializer), **others)
