"""Columns of any types that Spark has in its state, drawn by hypothesis."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import strategies as st

from stateshift.serializers.spark_rows.rows import arrow_type
from stateshift.serializers.spark_rows.spark_types import SparkField, SparkType

EXACT = Context(prec=50)


def integers(bits):
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def decimals(precision, scale):
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda one: EXACT.scaleb(Decimal(one), -scale))


SCALARS = {
    SparkType("boolean"): st.booleans(),
    SparkType("tinyint"): integers(8),
    SparkType("smallint"): integers(16),
    SparkType("int"): integers(32),
    SparkType("bigint"): integers(64),
    SparkType("double"): st.floats(allow_nan=False),
    SparkType("float"): st.floats(width=32, allow_nan=False),
    SparkType("string"): st.text(max_size=20),
    SparkType("binary"): st.binary(max_size=20),
    SparkType("date"): integers(20),
    SparkType("timestamp"): integers(56),
    SparkType("interval day to second"): integers(60),
    SparkType("decimal", precision=9, scale=2): decimals(9, 2),
    SparkType("decimal", precision=38, scale=10): decimals(38, 10),
    SparkType("decimal", precision=19, scale=0): decimals(19, 0),
}


@st.composite
def types(draw, depth=2):
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "map", "struct"])) if depth else "scalar"
    inner = types(depth - 1)
    if kind == "array":
        return SparkType("array", (SparkField("element", draw(inner)),))
    if kind == "map":
        return SparkType("map", (SparkField("key", SparkType("string")), SparkField("value", draw(inner))))
    if kind == "struct":
        parts = draw(st.lists(inner, min_size=1, max_size=3))
        return SparkType("struct", tuple(SparkField(f"f{index}", one) for index, one in enumerate(parts)))
    return draw(st.sampled_from(list(SCALARS)))


def values(of):
    if of.word == "array":
        some = st.lists(values(of.fields[0].type), max_size=3)
    elif of.word == "map":
        some = st.dictionaries(st.text(max_size=3), values(of.fields[1].type), max_size=3).map(
            lambda one: [*one.items()]
        )
    elif of.word == "struct":
        some = st.fixed_dictionaries({name: values(one.type) for name, one in zip(of.names, of.fields, strict=True)})
    else:
        some = SCALARS[of]
    return st.none() | some


@st.composite
def columns(draw):
    fields = tuple(SparkField(f"c{index}", one) for index, one in enumerate(draw(st.lists(types(), max_size=4))))
    struct, count = SparkType("struct", fields), draw(st.integers(0, 4))
    parts = [
        pa.array(draw(st.lists(values(one.type), min_size=count, max_size=count)), arrow_type(one.type))
        for one in fields
    ]
    kind = pa.struct([pa.field(one.name, part.type) for one, part in zip(fields, parts, strict=True)])
    return pa.Array.from_buffers(kind, count, [None], children=parts), struct
