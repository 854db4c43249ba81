"""The tables of numbers, text and times: whatever is registered for a type follows from its row."""

from __future__ import annotations

import importlib.util
import struct

import built_in
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import Ability
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers import rewrite
from stateshift.serializers.containers.arrays import ARRAYS, BytesSerializer
from stateshift.serializers.families import families
from stateshift.serializers.flink.namespaces import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    SqlGlobalWindowSerializer,
    SqlTimeWindowSerializer,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
    VoidSerializer,
)
from stateshift.serializers.primitives import table as primitives
from stateshift.serializers.primitives.numeric import NumberSerializer, NumberSnapshot
from stateshift.serializers.primitives.table import NUMBERS, PRIMITIVES
from stateshift.serializers.pyflink.byte_keys import ByteArrayWrapperSerializer
from stateshift.serializers.pyflink.coders import CODERS, CoderDecimalSerializer
from stateshift.serializers.registry import registry
from stateshift.serializers.scalars import Scalar, ScalarSerializer, flink_id, snapshot_of
from stateshift.serializers.temporal.serializers import TIMES, SqlTimestampSerializer
from stateshift.state.columnar.column_values import all_codecs

NAMESPACES = (
    VoidNamespaceSerializer, TimeWindowSerializer, SqlTimeWindowSerializer, CountWindowSerializer,
    GlobalWindowSerializer, SqlGlobalWindowSerializer,
)  # fmt: skip
ROWS = pytest.mark.parametrize("scalar", [*PRIMITIVES, *TIMES, *CODERS])
READ_SINGLY = (SqlTimestampSerializer, CoderDecimalSerializer)
FROM_ROWS = (Ability.COLUMNS, Ability.JSON_FORMS, Ability.REWRITES, Ability.SOURCES, Ability.STRATEGIES)


def test_the_tables_have_every_scalar_of_their_families():
    found = {cls for cls in built_in.serializers() if issubclass(cls, ScalarSerializer)}

    others = {BytesSerializer, ByteArrayWrapperSerializer, VoidSerializer}
    assert {*PRIMITIVES, *TIMES, *NAMESPACES, *CODERS, *others} == found


@ROWS
def test_a_row_is_all_that_its_family_needs(scalar):
    keys = {Ability.JSON_FORMS: scalar.snapshot, Ability.SOURCES: scalar.snapshot}
    lacking = [ability for ability in FROM_ROWS if families.find(ability, keys.get(ability, scalar)) is None]

    assert ([Ability.REWRITES] if scalar in READ_SINGLY else []) == lacking
    assert families.find(Ability.SOURCES, scalar.snapshot) == scalar.row.hint


@ROWS
@given(data=st.data())
def test_values_have_the_length_and_the_arrow_type_of_the_row(scalar, write, data):
    serializer, row = scalar(), scalar.row
    written = write(serializer, data.draw(values_of(serializer)))

    assert serializer.length == (struct.calcsize(row.form) if row.form else -1)
    assert serializer.length in {len(written), -1}
    assert not row.arrow or pa.type_for_alias(row.arrow) == all_codecs().of(serializer).kind


@ROWS
def test_a_primitive_of_java_has_an_array_of_that_name(scalar):
    letter = scalar.row.array
    arrays = {cls.element.row.name: cls.java_class for cls in ARRAYS.values()} | {"byte": "[B"}

    assert (f"[{letter}" if letter else None) == arrays.get(scalar.row.name)


class LittleSerializer(NumberSerializer[int]):
    """A long with its lowest byte first: a number that Flink does not have."""

    row = Scalar("little", "Little", "acme.Little", "<q", "Little", arrow="int64")


def fresh(module):
    """A module of the family, made again from the tables as they are now."""
    spec = importlib.util.find_spec(f"stateshift.serializers.primitives.{module}")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_new_number_is_one_row(monkeypatch, write, read):
    with registry.restored():
        snapshot = snapshot_of(LittleSerializer, NumberSnapshot, snapshot_id=flink_id("Little", "acme."))
        monkeypatch.setattr(primitives, "NUMBERS", (*NUMBERS, LittleSerializer))
        monkeypatch.setattr(primitives, "PRIMITIVES", (*PRIMITIVES, LittleSerializer))
        little = LittleSerializer()

        assert b"\2\1" + bytes(6) == write(little, 258)
        assert -2 == read(little, write(little, -2))
        assert ("little", 8, "number") == (little.describe(), little.length, snapshot.kind)
        assert snapshot is registry.snapshot_class("acme.LittleSerializer$LittleSerializerSnapshot")
        assert snapshot() == little.snapshot_configuration()
        assert "Little" == fresh("abilities").SOURCES[snapshot]
        assert 7 == fresh("abilities").JSON_FORMS[snapshot](snapshot())(7)
        assert rewrite.Fixed(8) == fresh("abilities").REWRITES[LittleSerializer](little, little, None)
        assert "int64" == str(fresh("columns").COLUMNS[LittleSerializer](all_codecs(), little).kind)
        assert "-9223372036854775808" in repr(fresh("strategies").STRATEGIES[LittleSerializer](None, little))
