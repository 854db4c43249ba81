"""Keys and values of RocksDB, encoded: to the byte what Spark wrote, and what the reader takes apart."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_checkpoints import FIXTURES, place
from spark_rows import columns, integers

from stateshift.serializers.errors import IncompatibleState
from stateshift.serializers.spark_rows.rows import arrow_type
from stateshift.serializers.spark_rows.spark_types import SparkField, SparkType
from stateshift.state.formats.spark.layout_encoder import LayoutEncoder
from stateshift.state.formats.spark.layouts import RowEncoding
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.schema_files import KeyLayout

WITH_FAMILIES = sorted(
    folder.name for folder in FIXTURES.iterdir() if list(Path(folder).glob("checkpoint/state/*/_stateSchema"))
)


@pytest.mark.parametrize("name", WITH_FAMILIES)
def test_what_spark_wrote_is_written_again_to_the_byte(name):
    checkpoint = SparkCheckpoint.open(place(name))
    is_avro = checkpoint.log.last.encoding == "avro"
    encoder, compared = LayoutEncoder(is_avro), 0
    for store in checkpoint.operators[0].stores:
        family, latest = store.family, max(store.family.writers)
        encoding = RowEncoding(family.writers if is_avro else None)
        for partition in range(store.partitions):
            for keys, values in store.stored_blocks(partition):
                key = encoding.decode_keys(keys, store.schema.key, family.layout)
                value = encoding.decode_values(values, store.schema.value)

                assert encoder.encode_keys(key, store.schema.key, family.layout) == keys
                found = encoder.encode(value, store.schema.value)
                for one, stored in zip(found, values, strict=True):
                    if not is_avro or stored[1] == latest == 0:
                        assert one == stored
                        compared += 1
    assert compared


SORTED = {
    "tinyint": integers(8),
    "smallint": integers(16),
    "int": integers(32),
    "bigint": integers(64),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}
LAYOUTS = ["row", "prefix", "range", "time first", "time last"]


@pytest.mark.parametrize("is_avro", [False, True])
@given(made=columns())
@settings(max_examples=100, deadline=None)
def test_rows_of_any_type_are_read_as_they_were(is_avro, made):
    column, of = made
    try:
        stored = LayoutEncoder(is_avro).encode(column, of)
    except IncompatibleState as error:
        assert "is null" in str(error)  # noqa: PT017 - only some of what is drawn has a null in a list
        return
    found = RowEncoding({0: of} if is_avro else None).decode_values(stored, of)

    found.validate(full=True)
    assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_avro", [False, True])
@given(numbers=st.lists(integers(64), min_size=1), data=st.data())
@settings(max_examples=25, deadline=None)
def test_keys_of_each_layout_are_read_as_they_were(is_avro, layout, numbers, data):
    texts = data.draw(st.lists(st.text(max_size=9), min_size=len(numbers), max_size=len(numbers)))
    parts = [pa.array(texts), pa.array(numbers, pa.int64())]
    words = ["string", "bigint"] if layout != "range" else ["bigint", "string"]
    of = SparkType("struct", tuple(SparkField(word, SparkType(word)) for word in words))
    key = pa.StructArray.from_arrays(parts if layout != "range" else parts[::-1], names=words)
    how = KeyLayout(layout, (0,) if layout in {"prefix", "range"} else ())

    stored = LayoutEncoder(is_avro).encode_keys(key, of, how)

    assert RowEncoding({0: of} if is_avro else None).decode_keys(stored, of, how).to_pylist() == key.to_pylist()


@pytest.mark.parametrize("word", sorted(SORTED))
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_numbers_sort_as_their_bytes_do(word, data):
    numbers = data.draw(st.lists(SORTED[word], min_size=1))
    of = SparkType("struct", (SparkField("a", SparkType(word)),))
    key = pa.StructArray.from_arrays([pa.array(numbers, arrow_type(of.fields[0].type))], names=["a"])

    stored = LayoutEncoder(is_avro=False).encode_keys(key, of, KeyLayout("range", (0,)))

    found = RowEncoding().decode_keys(sorted(stored), of, KeyLayout("range", (0,)))
    assert found.field(0).to_pylist() == sorted(key.field(0).to_pylist())


@pytest.mark.parametrize("is_avro", [False, True])
def test_decimals_of_all_their_digits_are_read_as_they_were(is_avro):
    """Python's decimals are rounded to 28 digits wherever one calculates with them."""
    field = SparkField("c", SparkType("decimal", precision=38, scale=10), is_nullable=True, is_event_time=False)
    of = SparkType("struct", fields=(field,))
    texts = ["1000000000000000000.0000000001", "9999999999999999999999999999.9999999999", "-1.5", "0", "-" + "9" * 28]
    column = pa.array([{"c": Decimal(text)} for text in texts], pa.struct({"c": pa.decimal128(38, 10)}))
    stored = LayoutEncoder(is_avro).encode(column, of)
    assert column.to_pylist() == RowEncoding({0: of} if is_avro else None).decode_values(stored, of).to_pylist()
