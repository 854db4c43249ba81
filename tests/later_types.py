"""Later versions of stored types: what a program might ask for next, derived from the types in a savepoint."""

from __future__ import annotations

from functools import singledispatch

import attrs

from stateshift import StateShiftError, check
from stateshift.compat.description import SerializerDescription, StateKind
from stateshift.compat.plan import StateAction
from stateshift.compat.planner import plan
from stateshift.serializers.containers.arrays import PrimitiveArraySerializer
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.defaults import Default
from stateshift.serializers.primitives.numeric import (
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.rows.serializers import RowSerializer

WIDER = {
    ByteSerializer: ShortSerializer,
    ShortSerializer: IntSerializer,
    IntSerializer: LongSerializer,
    LongSerializer: DoubleSerializer,
    FloatSerializer: DoubleSerializer,
}


@singledispatch
def wider(serializer):
    """Give the type with every number in it wider, and every record with a field more."""
    return WIDER.get(type(serializer), lambda: serializer)()


@wider.register(ListSerializer)
@wider.register(SetSerializer)
@wider.register(GenericArraySerializer)
@wider.register(PrimitiveArraySerializer)
def _(serializer):
    return attrs.evolve(serializer, element=wider(serializer.element))


@wider.register(TtlSerializer)
@wider.register(OptionalSerializer)
@wider.register(MapSerializer)
def _(serializer):
    return attrs.evolve(serializer, value=wider(serializer.value))


@wider.register
def _(serializer: EitherSerializer):
    return attrs.evolve(serializer, left=wider(serializer.left), right=wider(serializer.right))


@wider.register
def _(serializer: TupleSerializer):
    return attrs.evolve(serializer, fields=tuple(map(wider, serializer.fields)))


def _wider_field(field):
    return attrs.evolve(field, serializer=wider(field.serializer))


@wider.register
def _(serializer: RowSerializer):
    return attrs.evolve(serializer, columns=tuple(map(_wider_field, serializer.columns)))


@wider.register
def _(serializer: PojoSerializer):
    added = RecordField("inserted", LongSerializer(), default=Default(-7))
    fields = sorted([*map(_wider_field, serializer.fields), added], key=lambda field: field.name)
    return attrs.evolve(serializer, fields=tuple(fields))


def optional(kind, serializer):
    """Give the type with values, elements or values of a map that may be null."""
    if kind is StateKind.LIST:
        return attrs.evolve(serializer, element=_optional(serializer.element))
    if kind is StateKind.MAP:
        return attrs.evolve(serializer, value=_optional(serializer.value))
    return _optional(serializer)


def _optional(serializer):
    if isinstance(serializer, TtlSerializer):
        return attrs.evolve(serializer, value=OptionalSerializer(serializer.value))
    return OptionalSerializer(serializer)


def later_version(job):
    """Give a description of stored state in which every type that has a later one by which bytes change has it."""
    operators = (
        attrs.evolve(operator, states=tuple(_later_state(job, operator, state) for state in operator.states))
        for operator in job.operators
    )
    return attrs.evolve(job, operators=tuple(operators))


def _later_state(job, operator, state):
    if state.kind is StateKind.TIMERS:
        return state
    try:
        stored = state.value.snapshot.restore_serializer()
    except StateShiftError:  # such values cannot be read
        return state
    return next((new for new in _versions(state, stored) if _is_converted(job, operator, state, new)), state)


def _versions(state, stored):
    for make in (wider, lambda serializer: optional(state.kind, serializer)):
        yield attrs.evolve(state, value=SerializerDescription.of(make(stored)))


def _is_converted(job, operator, state, new):
    old, becomes = (attrs.evolve(job, operators=(attrs.evolve(operator, states=(one,)),)) for one in (state, new))
    try:
        found = plan(check(old, becomes)).operators[0].states[0]
    except StateShiftError:
        return False
    return found.action is StateAction.CONVERT
