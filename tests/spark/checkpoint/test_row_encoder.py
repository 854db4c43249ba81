"""Rows that are written from columns are read as the same columns, whatever their types; Spark's own rows come back."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_checkpoints import names, place

from stateshift.serializers.errors import UnsupportedFormat
from stateshift.spark.checkpoint.migrating.conversion import arrow_type
from stateshift.spark.checkpoint.migrating.row_encoder import encode_rows, rows_of
from stateshift.spark.checkpoint.reader import SparkCheckpoint
from stateshift.spark.checkpoint.rows import decode_rows
from stateshift.spark.checkpoint.spark_types import SparkField, SparkType

EXACT = Context(prec=50)
QUIRKS = {"pandas-v1"}  # Spark fills the word of a negative int there, and reads only the int
READ = [name for name in names() if not name.startswith(("rocksdb", "join-v", "transform")) and name not in QUIRKS]


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
    SparkType("timestamp"): integers(60),
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


@given(columns())
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_again(made):
    column, of = made

    decoded = decode_rows(rows_of(encode_rows(column, of)), of)

    decoded.validate(full=True)
    assert decoded.to_pylist() == column.to_pylist()


@given(columns(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_rows_may_lie_anywhere_and_leave_what_is_between_them(made, draw):
    column, of = made
    encoded = encode_rows(column, of)
    starts, at = [], 0
    for size in encoded.sizes.tolist():
        at += 4 * draw.randint(0, 3)
        starts.append(at)
        at += size
    buffer = np.zeros(at + 12, np.uint8)
    encoded.write(buffer, np.asarray(starts, np.int64))

    data = buffer.tobytes()
    ends = [start + size for start, size in zip(starts, encoded.sizes.tolist(), strict=True)]
    assert [data[start:end] for start, end in zip(starts, ends, strict=True)] == rows_of(encoded)
    assert not any(any(data[end:start]) for end, start in zip([0, *ends], [*starts, len(data)], strict=True))


@pytest.mark.parametrize("name", READ)
def test_rows_of_spark_come_back_byte_for_byte(name):
    for operator in SparkCheckpoint.open(place(name)).operators:
        for store in operator.stores:
            for partition in range(store.partitions):
                for keys, stored in store.stored_blocks(partition):
                    for rows, of in ((keys, store.schema.key), (stored, store.schema.value)):
                        assert rows_of(encode_rows(decode_rows(rows, of), of)) == rows


def test_a_large_value_is_copied_whole():
    of = SparkType("struct", (SparkField("x", SparkType("binary")),))
    column = pa.StructArray.from_arrays([pa.array([b"a" * 3_000_001, None, b"b" * 9])], names=["x"])

    assert decode_rows(rows_of(encode_rows(column, of)), of).to_pylist() == column.to_pylist()


def test_a_type_that_is_not_known_is_refused():
    of = SparkType("struct", (SparkField("x", SparkType("variant")),))

    with pytest.raises(UnsupportedFormat, match="variant"):
        encode_rows(pa.StructArray.from_arrays([pa.array([b""])], names=["x"]), of)
