"""What the shipped strategies draw, as plain data: types, values of a type, and later versions of a type."""

from __future__ import annotations

import enum
from typing import Annotated, get_args, get_origin

from evolution.avro_shapes import avro_values
from evolution.declared import Declared
from evolution.sealed import OpenedSerializer, SealedSerializer
from evolution.shapes import (
    NOTHING,
    EitherOf,
    EnumOf,
    Field,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    TupleOf,
    array_of,
)
from evolution.values import LATELY, LEAF_HINTS, LONG_AGO, plain
from hypothesis import strategies as st

from stateshift import AvroSerializer, Either, Row, TtlValue, serializer_for
from stateshift.compat.testing import strategies
from stateshift.compat.testing.strategies.hints import RecordClass
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.defaults import NO_VALUE
from stateshift.serializers.drawing import Drawing
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.hints import strip_none
from stateshift.serializers.primitives.text import StringSerializer

KINDS = {hint: kind for kind, hint in LEAF_HINTS.items()}


def types(**options):
    """Draw what `types` of the package draws."""
    return strategies.types(**options).map(shape_of)


@st.composite
def evolved(draw, shape):
    """Draw the type after one change of those that `evolutions` of the package makes.

    A record that changes, or in which something does, is made again as the package makes it: without its subclasses.
    """
    declared = Declared.of(shape)
    return shape_of(draw(strategies.evolutions(declared.hint, most=1)).hint, declared.shapes)


def values_of(shape):
    """Draw values of a type."""
    declared = Declared.of(shape)
    return held_by(serializer_for(declared.hint), declared)


def held_by(serializer, declared):
    """Draw values that a serializer of a program writes, as plain data."""
    own = {
        StringSerializer: strategies.values_of(str) | st.just("\ud800"),
        BytesSerializer: strategies.values_of(bytes) | st.text(max_size=3).map(str.encode),
        SealedSerializer: st.integers(0, 9),
        OpenedSerializer: st.integers(0, 9),
    }
    return _Drawing(own, declared=declared).values(serializer).map(plain)


class _Drawing(Drawing):
    """The shipped drawing of values, with Avro, and with stamps around the reference time of the runs."""

    def __init__(self, own, declared):
        super().__init__(own)
        self.declared = declared

    def values(self, serializer):
        if isinstance(serializer, AvroSerializer):
            shape = self.declared.shapes[id(serializer)]
            return avro_values(shape).map(lambda value: self.declared.value(value, shape))
        if isinstance(serializer, TtlSerializer):
            return st.builds(TtlValue, st.sampled_from([LONG_AGO, LATELY]), self.values(serializer.value))
        return super().values(serializer)


def shape_of(hint, known=None):
    """Return a type as plain data; `known` has the shapes of classes and serializers that were declared, by id."""
    known = known or {}

    def each(parts):
        return tuple(shape_of(part, known) for part in parts)

    bare, is_optional = strip_none(hint)
    if is_optional:
        return Maybe(shape_of(bare, known))
    if bare in KINDS:
        return Leaf(KINDS[bare])
    origin, arguments = get_origin(bare), get_args(bare)
    if origin is Annotated:
        shapes = [known[id(one)] for one in arguments[1:] if id(one) in known]
        return shapes[0] if shapes else array_of(*each(get_args(arguments[0])))
    if id(bare) in known:
        return known[id(bare)]
    if origin is not None:
        parts = each(arguments)
        if origin is tuple:
            return TupleOf(parts)
        if origin is Row:
            return RowOf(tuple(Field("", part) for part in parts))
        return {list: ListOf, frozenset: SetOf, dict: MapOf, Either: EitherOf}[origin](*parts)
    if issubclass(bare, enum.Enum):
        told = EnumSerializer.of(bare)
        return EnumOf(told.name, told.symbols, told.aliases, told.symbol_aliases, told.default)
    told = RecordClass.of(bare)
    fields = tuple(_field(one, known) for one in told.attributes)
    return RecordOf(f"{told.module}.{told.name}", fields, told.java_class, told.aliases, retired=tuple(told.retired))


def _field(told, known):
    default = NOTHING if told.default is None else plain(told.default.make())
    on_none = NOTHING if told.options.on_none is NO_VALUE else plain(told.options.on_none)
    return Field(told.name, shape_of(told.hint, known), told.options.aliases, default, on_none)
