"""Record batches as an Avro file: fastavro reads what was written, and what Avro cannot express is refused by name."""

import datetime as dt
import decimal
import io

import fastavro
import pyarrow as pa
import pytest

from stateshift import UnsupportedFormat
from stateshift.state.columnar.avro_file import write_avro

NOON = dt.datetime(2024, 5, 17, 12, 0, 0, 123456)  # noqa: DTZ001 - a local time
INNER = pa.struct([("text", pa.large_string()), ("numbers", pa.list_(pa.int16()))])


def written(column, kind):
    """The schema and the values that fastavro reads."""
    batch, stream = pa.record_batch([pa.array(column, kind)], names=["value"]), io.BytesIO()
    assert len(column) == write_avro(stream, batch.schema, [batch], {"a": "b"})
    stream.seek(0)
    reader = fastavro.reader(stream)
    rows = [row["value"] for row in reader]
    assert "b" == reader.metadata["a"]
    return reader.writer_schema["fields"][0]["type"], rows


@pytest.mark.parametrize(
    ("kind", "value", "schema"),
    [
        (pa.bool_(), True, "boolean"),
        (pa.int8(), -128, "int"),
        (pa.int32(), 2**31 - 1, "int"),
        (pa.int64(), -(2**63), "long"),
        (pa.float32(), 0.5, "float"),
        (pa.float64(), 0.1, "double"),
        (pa.large_string(), "é", "string"),
        (pa.large_binary(), b"\xff", "bytes"),
        (pa.date32(), dt.date(1969, 12, 31), {"type": "int", "logicalType": "date"}),
        (pa.timestamp("us"), NOON, {"type": "long", "logicalType": "local-timestamp-micros"}),
        (pa.timestamp("us", "UTC"), NOON.replace(tzinfo=dt.UTC), {"type": "long", "logicalType": "timestamp-micros"}),
        (
            pa.decimal128(5, 2),
            decimal.Decimal("-12.30"),
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        ),
    ],
)
def test_a_value_and_a_null_are_read_as_they_were(kind, value, schema):
    assert (["null", schema], [value, None]) == written([value, None], kind)


def test_lists_maps_and_records_are_within_one_another():
    kind = pa.map_(pa.string(), pa.list_(INNER))
    value = [("-type", [{"text": "a", "numbers": [1, None]}, None]), ("none", None)]

    schema, rows = written([value, []], kind)

    assert [dict(value), {}] == rows
    assert "entry.value.value.element" == schema[1]["values"][1]["items"][1]["name"]


def test_a_map_with_other_keys_than_texts_is_a_list_of_records():
    _, rows = written([[(2, "b"), (1, None)]], pa.map_(pa.int64(), pa.large_string()))

    assert [[{"key": 2, "value": "b"}, {"key": 1, "value": None}]] == rows


@pytest.mark.parametrize(
    ("kind", "words", "path"),
    [
        (pa.duration("us"), "no type in Avro", "$.value"),
        (pa.struct([("a", pa.list_(pa.uint64()))]), "uint64 have no type in Avro", "$.value.a.element"),
        (pa.struct([("a b", pa.int8())]), "'a b' has no name in Avro: it is not of letters", "$.value"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "'a' has no name in Avro: it is there twice", "$.value"),
    ],
)
def test_what_avro_does_not_have_is_refused_before_anything_is_written(kind, words, path):
    stream = io.BytesIO()

    with pytest.raises(UnsupportedFormat, match=words) as failure:
        write_avro(stream, pa.schema([("value", kind)]), [], {})

    assert (path, b"") == (failure.value.where["path"], stream.getvalue())


def test_a_batch_is_in_the_file_before_the_next_one_is_read():
    batch, stream, sizes = pa.record_batch([pa.array(range(100_000))], names=["value"]), io.BytesIO(), []

    def batches():
        for _ in range(3):
            sizes.append(stream.tell())
            yield batch

    assert 300_000 == write_avro(stream, batch.schema, batches(), {})
    assert 1000 < sizes[0] * 10 < sizes[1] < sizes[2]
