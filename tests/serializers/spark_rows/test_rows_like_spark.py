"""Rows of random schemas: Spark's own bytes, decoded, equal what Spark says of the rows as JSON; encoded again, they
are the same bytes; and their hash is Spark's.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal

import pytest
from pyspark.sql import functions, types
from spark_checkpoints import as_exported

from stateshift.serializers.spark_rows.json_values import json_values
from stateshift.serializers.spark_rows.row_encoder import encode_rows, rows_of
from stateshift.serializers.spark_rows.rows import decode_rows
from stateshift.serializers.spark_rows.spark_types import parse_struct
from stateshift.state.formats.spark.partitioning import partitions_of

OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
TEXTS = ["", "a", "ü", "Straße", "日本語", "😀", "x" * 7, "x" * 8, "x" * 9, "x" * 300]
EDGES = {8: [-128, 127], 16: [-(2**15), 2**15 - 1], 32: [-(2**31), 2**31 - 1], 64: [-(2**63), 2**63 - 1]}


class Drawing:
    """Draws types and their values."""

    def __init__(self, seed):
        self.random = random.Random(seed)  # noqa: S311 - repeatable

    def type(self, depth=0):
        kinds = ["scalar"] * 4 + ([] if depth > 2 else ["array", "map", "struct"])
        match self.random.choice(kinds):
            case "array":
                return types.ArrayType(self.type(depth + 1))
            case "map":
                return types.MapType(types.StringType(), self.type(depth + 1))
            case "struct":
                return self.struct(depth + 1, self.random.randint(1, 4))
        digits = self.random.randint(1, 38)
        scalars = [
            types.BooleanType(),
            types.ByteType(),
            types.ShortType(),
            types.IntegerType(),
            types.LongType(),
            types.FloatType(),
            types.DoubleType(),
            types.StringType(),
            types.BinaryType(),
            types.DateType(),
            types.TimestampType(),
            types.TimestampNTZType(),
            types.DayTimeIntervalType(),
            types.DecimalType(digits, self.random.randint(0, digits)),
        ]
        return self.random.choice(scalars)

    def struct(self, depth, fields):
        return types.StructType([types.StructField(f"f{index}", self.type(depth)) for index in range(fields)])

    def value(self, of):  # noqa: C901, PLR0912 - a table
        draw = self.random
        if draw.random() < 0.15:
            return None
        match of:
            case types.ArrayType():
                return [self.value(of.elementType) for _ in range(draw.choice([0, 1, 2, 3, 70]))]
            case types.MapType():
                return {text: self.value(of.valueType) for text in draw.sample(TEXTS, draw.randint(0, 4))}
            case types.StructType():
                return tuple(self.value(field.dataType) for field in of.fields)
            case types.BooleanType():
                return draw.random() < 0.5
            case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
                bits = {types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64}[type(of)]
                return draw.choice([*EDGES[bits], 0, -1, draw.randrange(*EDGES[bits])])
            case types.FloatType():
                return draw.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -(2.0**100)])
            case types.DoubleType():
                return draw.choice([0.0, -0.0, 5e-324, float("nan"), float("-inf"), draw.gauss(0, 1e9)])
            case types.StringType():
                return draw.choice(TEXTS)
            case types.BinaryType():
                return draw.randbytes(draw.choice([0, 1, 7, 8, 9, 100]))
            case types.DateType():
                return dt.date.fromordinal(draw.randint(600_000, 3_000_000))
            case types.TimestampType():
                return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
                    microseconds=draw.randint(-(10**15), 10**16)
                )
            case types.TimestampNTZType():
                return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=draw.randint(-(10**15), 10**16))  # noqa: DTZ001
            case types.DayTimeIntervalType():
                return dt.timedelta(microseconds=draw.randint(-(10**14), 10**14))
            case types.DecimalType():
                most = 10**of.precision - 1
                return Decimal(f"{draw.choice([0, most, -most, draw.randint(-most, most)])}e-{of.scale}")
        raise AssertionError(of)


@pytest.fixture(scope="module")
def in_utc(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def compare(spark, seed):
    drawing = Drawing(seed)
    schema = drawing.struct(0, drawing.random.choice([1, 3, 5, 70]))
    given = [tuple(drawing.value(field.dataType) for field in schema.fields) for _ in range(12)]
    frame = spark.createDataFrame(given, schema).coalesce(1)
    rows = [bytes(row.getBytes()) for row in frame._jdf.queryExecution().executedPlan().executeCollect()]
    told = [line[0] for line in frame.select(functions.to_json(functions.struct("*"), OPTIONS)).collect()]
    of = parse_struct(schema.json())

    decoded = decode_rows(rows, of)

    decoded.validate(full=True)
    assert rows_of(encode_rows(decoded, of)) == rows
    if all(one.word != "map" for one in of.within()):
        hashes = frame.select(functions.expr(f"pmod(hash({', '.join(frame.columns)}), 7)")).collect()
        assert partitions_of(decoded, of, 7).tolist() == [one[0] for one in hashes]
    wanted = [as_exported(json.loads(line, object_pairs_hook=list, parse_float=Decimal), of) for line in told]
    assert [json.dumps(value) for value in json_values(decoded, of)] == [json.dumps(value) for value in wanted]


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_random_schema_are_decoded_as_spark_reads_them(in_utc, seed):
    compare(in_utc, seed)


@pytest.mark.faults
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_rows_of_many_random_schemas(in_utc, first):
    for seed in range(first, first + 50):
        compare(in_utc, seed)
