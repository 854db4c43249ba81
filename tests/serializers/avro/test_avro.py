"""Avro values: what is written is read, in Avro's own bytes; garbage is refused; nothing is rounded or guessed."""

import datetime as dt
import decimal
import io
import json
import math
import pickle
import tracemalloc
import uuid

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import AvroSerializer, CorruptSavepoint, DataInputView, DataOutputView, ValueNotConvertible
from stateshift.serializers.avro.abilities import to_json
from stateshift.serializers.avro.schema import parse


def record(name, *fields, **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def logical(base, kind, **more):
    return {"type": base, "logicalType": kind, **more}


POINT = record("geo.Point", field("x", "double"), field("y", "double"))
LINKED = record("Linked", field("value", "long"), field("next", ["null", "Linked"], default=None))
EVERYTHING = record(
    "shop.Everything",
    field("flag", "boolean"),
    field("small", "int"),
    field("large", "long"),
    field("single", "float"),
    field("double", "double"),
    field("raw", "bytes"),
    field("text", "string"),
    field("nothing", "null"),
    field("level", {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}),
    field("digest", {"type": "fixed", "name": "Digest", "size": 4}),
    field("points", {"type": "array", "items": POINT}),
    field("counts", {"type": "map", "values": ["null", "long"]}),
    field("either", ["string", "Level", "geo.Point", {"type": "map", "values": "int"}]),
    field("linked", LINKED),
)

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
points = st.fixed_dictionaries({"x": st.floats(allow_nan=False), "y": st.floats(allow_nan=False)})
linked = st.recursive(
    st.builds(lambda n: {"value": n, "next": None}, int64),
    lambda inner: st.builds(lambda n, rest: {"value": n, "next": rest}, int64, inner),
    max_leaves=4,
)
levels = st.sampled_from(["LOW", "HIGH"])
everything = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": int32,
        "large": int64,
        "single": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "raw": st.binary(max_size=6),
        "text": text,
        "nothing": st.none(),
        "level": levels,
        "digest": st.binary(min_size=4, max_size=4),
        "points": st.lists(points, max_size=3),
        "counts": st.dictionaries(text, st.none() | int64, max_size=3),
        "either": text
        | levels.map(lambda symbol: ("shop.Level", symbol))
        | points.map(lambda point: ("geo.Point", point))
        | st.dictionaries(text, int32, max_size=2),
        "linked": linked,
    }
)


class TestValues:
    @given(everything)
    def test_what_is_written_is_read(self, write, read, value):
        serializer = AvroSerializer(EVERYTHING)

        assert value == read(serializer, write(serializer, value))

    @given(everything)
    def test_the_bytes_are_those_of_fastavro_and_back(self, write, read, value):
        serializer, schema, stream = AvroSerializer(EVERYTHING), fastavro.parse_schema(EVERYTHING), io.BytesIO()

        fastavro.schemaless_writer(stream, schema, value)

        assert stream.getvalue() == write(serializer, value)
        assert value == read(serializer, stream.getvalue())

    @given(everything)
    def test_bytes_are_copied_as_they_are(self, write, copied, value):
        data = write(AvroSerializer(EVERYTHING), value)

        assert data == copied(AvroSerializer(EVERYTHING), data)

    @given(everything, everything)
    def test_values_follow_one_another_without_anything_between(self, write, first, second):
        serializer = AvroSerializer(EVERYTHING)
        source = DataInputView(write(serializer, first, second))

        assert [first, second] == [serializer.deserialize(source), serializer.deserialize(source)]
        assert 0 == source.remaining()

    @pytest.mark.parametrize(
        ("schema", "value", "data"),
        [
            ("long", 64, "80 01"),
            ("int", -1, "01"),
            ("string", "foo", "06 66 6f 6f"),
            ({"type": "array", "items": "long"}, [3, 27], "04 06 36 00"),
            (["null", "string"], "a", "02 02 61"),
            (["null", "string"], None, "00"),
            (record("test", field("a", "long"), field("b", "string")), {"a": 27, "b": "foo"}, "36 06 66 6f 6f"),
        ],
    )
    def test_the_examples_of_the_specification(self, write, read, schema, value, data):
        serializer = AvroSerializer(schema)

        assert bytes.fromhex(data) == write(serializer, value)
        assert value == read(serializer, bytes.fromhex(data))

    def test_an_array_may_come_in_blocks_with_their_size(self, read):
        assert [3, 27, 1] == read(AvroSerializer({"type": "array", "items": "long"}), b"\x03\x04\x06\x36\x02\x02\x00")

    def test_it_is_pickled_by_its_schema(self, write):
        serializer = pickle.loads(pickle.dumps(AvroSerializer(EVERYTHING)))

        assert AvroSerializer(EVERYTHING) == serializer

    def test_a_union_takes_the_branch_that_loses_nothing(self, write, read):
        serializer = AvroSerializer(["float", "double"])

        assert [0.5, 0.1] == [read(serializer, write(serializer, value)) for value in (0.5, 0.1)]
        assert [5, 9] == [len(write(serializer, value)) for value in (0.5, 0.1)]

    def test_a_plain_text_is_a_string_where_an_enum_would_take_it_too(self, write, read):
        serializer = AvroSerializer([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"])

        assert ["A", ("E", "A")] == [read(serializer, write(serializer, value)) for value in ("A", ("E", "A"))]

    def test_a_dict_that_two_records_would_take_must_be_named(self, write):
        serializer = AvroSerializer([record("A", field("x", "int")), record("B", field("x", "int"))])

        with pytest.raises(ValueNotConvertible, match=r"may be any of A, B(?s:.)*write it as \(name of the record"):
            write(serializer, {"x": 1})

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ("int", 2**31),
            ("int", True),
            ("long", 2**63),
            ("long", 1.0),
            ("float", 1e39),
            ("double", "1"),
            ("boolean", 1),
            ("string", b"a"),
            ("string", "\ud800"),
            ("bytes", "a"),
            ("null", 0),
            ({"type": "fixed", "name": "F", "size": 2}, b"a"),
            ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
            ({"type": "array", "items": "int"}, {1}),
            ({"type": "map", "values": "int"}, {1: 1}),
            (POINT, {"x": 1.0}),
            (POINT, {"x": 1.0, "y": 1.0, "z": 1.0}),
            (POINT, 5),
            (["null", "int"], "a"),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(self, write, schema, value):
        with pytest.raises(ValueNotConvertible):
            write(AvroSerializer(schema), value)

    def test_an_error_shows_the_path(self, write):
        schema = record("R", field("lines", {"type": "array", "items": ["null", record("L", field("n", "int"))]}))

        with pytest.raises(ValueNotConvertible) as failure:
            write(AvroSerializer(schema), {"lines": [None, ("L", {"n": "x"})]})

        assert "$.lines[]?.n" == failure.value.where["path"]


class TestBadBytes:
    @given(st.binary(max_size=60))
    def test_garbage_is_refused_or_read_as_what_is_written_again(self, garbage):
        serializer, source = AvroSerializer(EVERYTHING), DataInputView(garbage)
        try:
            value = serializer.deserialize(source)
        except CorruptSavepoint as error:
            offset = error.where["offset"]
        else:
            offset = source.position
            serializer.serialize(value, DataOutputView())

        assert 0 <= offset <= len(garbage)

    @given(everything, st.data())
    def test_every_cut_is_reported_with_its_offset(self, write, value, data):
        whole = write(AvroSerializer(EVERYTHING), value)
        cut = data.draw(st.integers(0, len(whole) - 1))

        with pytest.raises(CorruptSavepoint) as failure:
            AvroSerializer(EVERYTHING).deserialize(DataInputView(whole[:cut]))

        assert 0 <= failure.value.where["offset"] <= cut

    @pytest.mark.parametrize(
        ("schema", "data"),
        [
            ("boolean", "02"),
            ("int", "ff ff ff ff 1f"),
            ("long", "ff ff ff ff ff ff ff ff ff 02"),
            ("long", "80 80 80 80 80 80 80 80 80 80 80 00"),
            ("string", "01"),
            ("string", "02 ff"),
            ("bytes", "ff ff ff ff ff ff ff ff ff 01"),
            (["null", "int"], "04"),
            (["null", "int"], "01 02"),
            ({"type": "enum", "name": "E", "symbols": ["A"]}, "02"),
            ({"type": "enum", "name": "E", "symbols": ["A"]}, "01"),
            ({"type": "array", "items": "long"}, "01 04 02 00"),
            ({"type": "array", "items": "long"}, "fe ff ff ff ff ff ff ff ff 01"),
            ({"type": "array", "items": "null"}, "fe ff ff ff ff ff ff ff ff 01"),
            ({"type": "array", "items": {"type": "array", "items": "null"}}, "10 80 89 7a 00 80 89 7a 00 80 89 7a 00"),
        ],
    )
    def test_what_no_writer_wrote_is_refused_without_memory(self, schema, data):
        serializer = AvroSerializer(schema)
        tracemalloc.start()
        try:
            with pytest.raises(CorruptSavepoint) as failure:
                serializer.deserialize(DataInputView(bytes.fromhex(data)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert "offset" in failure.value.where
        assert peak < 20_000_000

    def test_a_value_nested_without_end_is_refused(self):
        with pytest.raises(CorruptSavepoint, match="nested too deeply"):
            AvroSerializer(LINKED).deserialize(DataInputView(b"\x00\x02" * 20_000))


MOMENT = dt.datetime(2024, 5, 17, 12, 30, 15, 123000, tzinfo=dt.UTC)


class TestLogicalTypes:
    @pytest.mark.parametrize(
        ("schema", "value", "raw"),
        [
            (logical("int", "date"), dt.date(1969, 12, 31), -1),
            (logical("int", "time-millis"), dt.time(0, 0, 1, 5000), 1005),
            (logical("long", "time-micros"), dt.time(23, 59, 59, 999999), 86399999999),
            (logical("long", "timestamp-millis"), MOMENT, 1715949015123),
            (logical("long", "timestamp-micros"), MOMENT, 1715949015123000),
            (logical("long", "local-timestamp-millis"), MOMENT.replace(tzinfo=None), 1715949015123),
            (logical("long", "timestamp-nanos"), 5, 5),
            (logical("bytes", "decimal", precision=6, scale=2), decimal.Decimal("-12.50"), b"\xfb\x1e"),
            (logical("string", "uuid"), uuid.UUID(int=5), str(uuid.UUID(int=5))),
        ],
    )
    def test_values_are_pythons(self, write, read, schema, value, raw):
        data = write(AvroSerializer(schema["type"]), raw)

        assert data == write(AvroSerializer(schema), value)
        assert value == read(AvroSerializer(schema), data)
        assert data == write(AvroSerializer(schema), raw)

    @given(st.integers(-(10**9) + 1, 10**9 - 1))
    def test_decimals_keep_every_digit(self, write, read, unscaled):
        value = decimal.Decimal(unscaled).scaleb(-3)
        for schema in (logical("bytes", "decimal", precision=9, scale=3),
                       logical("fixed", "decimal", precision=9, scale=3, name="D", size=4)):  # fmt: skip
            assert value == read(AvroSerializer(schema), write(AvroSerializer(schema), value))

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            (logical("long", "timestamp-millis"), MOMENT.replace(microsecond=1)),
            (logical("long", "timestamp-micros"), MOMENT.replace(tzinfo=None)),
            (logical("long", "local-timestamp-micros"), MOMENT),
            (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("1.234")),
            (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("123.4")),
            (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("1E+999999999")),
            (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("NaN")),
        ],
    )
    def test_digits_are_never_lost(self, write, schema, value):
        with pytest.raises(ValueNotConvertible):
            write(AvroSerializer(schema), value)

    def test_a_moment_that_python_does_not_hold_says_what_to_do(self, write, read):
        data = write(AvroSerializer("long"), 2**62)

        with pytest.raises(ValueNotConvertible, match="without the logical type"):
            read(AvroSerializer(logical("long", "timestamp-micros")), data)


def test_nan_and_infinity_are_kept(write, read):
    serializer = AvroSerializer(["float", "double"])

    assert math.isnan(read(serializer, write(serializer, math.nan)))
    assert -math.inf == read(serializer, write(serializer, -math.inf))


def test_the_json_of_a_value_is_what_fastavro_writes():
    kinds = (
        field("raw", "bytes"),
        field("counts", {"type": "map", "values": ["null", "long"]}),
        field("at", ["int", POINT]),
    )
    schema, stream = record("R", *kinds), io.StringIO()
    value = {"raw": b"\xff", "counts": {"a": 1, "b": None}, "at": {"x": 1.0, "y": 2.5}}
    fastavro.json_writer(stream, fastavro.parse_schema(schema), [value])

    found = to_json(parse(json.dumps(schema)), value)

    assert {"raw": "ÿ", "counts": {"a": {"long": 1}, "b": None}, "at": {"geo.Point": {"x": 1.0, "y": 2.5}}} == found
    assert json.loads(stream.getvalue()) == found


def test_logical_values_and_nan_have_a_json_form():
    day, money = logical("int", "date"), logical("bytes", "decimal", precision=4, scale=2)
    schema = record("R", field("day", day), field("money", money), field("rest", {"type": "array", "items": "double"}))
    value = {"day": dt.date(1970, 1, 2), "money": decimal.Decimal("-0.01"), "rest": [math.nan, math.inf, -math.inf]}

    found = to_json(parse(json.dumps(schema)), value)

    assert {"day": 1, "money": "ÿ", "rest": ["NaN", "Infinity", "-Infinity"]} == found
