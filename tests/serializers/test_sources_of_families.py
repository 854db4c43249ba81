"""What `init` writes for any stored type: what is written takes over what is stored, as it is."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import sys
import types
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from stateshift import (
    Ability,
    Array,
    BigInt,
    Char,
    Float32,
    GlobalWindow,
    Int8,
    Int16,
    Int32,
    JavaDate,
    LocalDateTime,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    Verdict,
    serializer_for,
)
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.enums.serializers import EnumSerializer, JavaEnumSerializer
from stateshift.serializers.families import families
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.records.recursive import RecordReference, RecursiveRecordSerializer
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.source import BUILTINS, Names, NoSourceError, StoredNulls, TypeSource
from stateshift.state.savepoint.job_source import _FACE, _OTHER_NAMES

HEAD = """\
import enum
from decimal import Decimal
from typing import Annotated
import attrs
from stateshift import Array, BigInt, Char, Either, Field, Float32, GlobalWindow, Instant, Int8, Int16, Int32, JavaDate
from stateshift import LocalDate, LocalDateTime, LocalTime, Row, SqlDate, SqlTime, SqlTimestamp, enum_options
from stateshift import record, serializer_for
"""
NAMES = ["a", "b", "class", "list", "id", "_id", "self", "X y", "type", "int", "Field"]
SYMBOLS = ["A", "B", "None", "name", "x1", "_a", "__b", "enum", "A$B"]

numbers = [bool, int, Int8, Int16, Int32, BigInt, float, Float32, Decimal]
times = [dt.datetime, dt.date, dt.time, LocalDateTime, JavaDate, SqlDate, SqlTime, SqlTimestamp]
plain = st.sampled_from([*numbers, str, Char, bytes, *times]).map(serializer_for)
arrays = st.sampled_from(
    [
        Array[bool],
        Array[Int16],
        Array[Char],
        Array[dt.date | None],
        Array[int],
        Array[float],
        Array[int | None],
        Array[str],
    ]
).map(serializer_for)
single = st.sampled_from([None, GlobalWindow]).map(serializer_for)
class_names = st.sampled_from(["p.Rec", "q.Rec", "p.job", "p.Job", "p.Zed$In", "p.1st", "attrs"])


def enums():
    symbols = st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True).map(tuple)
    kinds = st.sampled_from([EnumSerializer, JavaEnumSerializer])
    return st.builds(lambda kind, symbols, name: kind(symbols, name), kinds, symbols, class_names)


def records(inner):
    def build(make, name, fields, optional):
        return make(name, tuple(RecordField(f, fields[f], optional=f in optional) for f in sorted(fields)))

    fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    return st.builds(
        build, st.sampled_from([PojoSerializer, RecordSerializer]), class_names, fields, st.sets(st.sampled_from(NAMES))
    )


def circles(inner):
    """Records that contain themselves: one, or two that contain each other."""

    def build(names, fields, wraps):
        def record(make, name, **more):
            ends = zip(wraps, itertools.cycle(names), strict=False)
            within = {f"to{place}": wrap(RecordReference(to)) for place, (wrap, to) in enumerate(ends)}
            known = {**fields, **within}
            return make(name, tuple(RecordField(f, known[f], optional=f in within) for f in sorted(known)), **more)

        others = tuple(record(RecordSerializer, name) for name in names[1:])
        return record(RecursiveRecordSerializer, names[0], others=others)

    wraps = st.sampled_from([lambda one: one, ListSerializer, lambda one: MapSerializer(serializer_for(str), one)])
    names = st.lists(class_names, min_size=1, max_size=2, unique=True)
    fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    return st.builds(build, names, fields, st.lists(wraps, min_size=2, max_size=3))


def composite(inner):
    return st.one_of(
        inner.map(ListSerializer),
        inner.map(OptionalSerializer),
        plain.map(SetSerializer),
        st.builds(MapSerializer, plain, inner),
        st.lists(inner, max_size=3).map(tuple).map(TupleSerializer),
        st.lists(inner, max_size=3).map(RowSerializer.of),
        st.builds(EitherSerializer, inner, inner),
        inner.map(GenericArraySerializer),
        records(inner),
        circles(inner),
    )


serializers = st.recursive(plain | arrays | single | enums(), composite, max_leaves=8)


def test_every_hint_is_made_of_names_that_the_file_imports():
    tables = [family.table(Ability.SOURCES) for family in families.built_in.values()]
    hints = [hint for table in tables for hint in table.values() if isinstance(hint, str)]
    known = {*_FACE, *_OTHER_NAMES, *BUILTINS, "None"}

    assert {name for hint in hints for name in re.findall(r"\w+", hint)} <= known


class Cents(type(serializer_for(int).snapshot_configuration())):
    """Writes other bytes than its base, perhaps."""


def test_a_subclass_has_no_hint_of_its_bases():
    source = TypeSource(Names(BUILTINS), [], StoredNulls())

    with pytest.raises(NoSourceError, match="no type hint says long"):
        source.try_hint(Cents())


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(serializers)
def test_what_is_written_takes_over_what_is_stored(serializer):
    snapshot = snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))
    source = TypeSource(Names([*HEAD.replace(",", " ").split(), *BUILTINS, "self"]), [snapshot], StoredNulls())
    try:
        (hint,) = source.try_hint(snapshot)
    except NoSourceError as error:
        expected = ("contains itself", "optional<optional<", "optional<void>", "no String[] for Flink")
        assume(not any(reason in str(error) for reason in expected))
        raise
    text = "\n".join([HEAD, *(line for block in source.blocks for line in block), f"hint = {hint}\n"])

    result = evaluated(text).ensure_compatibility(snapshot)

    assert result.verdict < Verdict.REQUIRES_MIGRATION, text


def evaluated(text):
    module = types.ModuleType("written_by_init")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, module.__name__, "exec", dont_inherit=True), vars(module))  # noqa: S102 - written above
        return serializer_for(module.hint)
    finally:
        del sys.modules[module.__name__]
