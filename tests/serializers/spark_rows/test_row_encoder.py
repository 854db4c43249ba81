"""Rows that are written from columns are read as the same columns, whatever their types; Spark's own rows come back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_checkpoints import names, place
from spark_rows import columns

from stateshift.serializers.errors import UnsupportedFormat
from stateshift.serializers.spark_rows.row_encoder import encode_rows, rows_of
from stateshift.serializers.spark_rows.rows import decode_rows
from stateshift.serializers.spark_rows.spark_types import SparkField, SparkType
from stateshift.state.formats.spark.reader import SparkCheckpoint

QUIRKS = {"pandas-v1"}  # Spark fills the word of a negative int there, and reads only the int
READ = [name for name in names() if not name.startswith(("rocksdb", "join-v", "transform")) and name not in QUIRKS]


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
