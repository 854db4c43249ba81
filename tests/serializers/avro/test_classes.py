"""Python classes as Avro records, and the schemas and snapshots of both."""

import datetime as dt
import decimal
import enum
import json
from typing import Annotated

import attrs
import fastavro
import pytest

from stateshift import (
    AvroSerializer,
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    DeclarationError,
    Field,
    Float32,
    Int32,
    NaiveDatetime,
    Record,
    ValueNotConvertible,
)
from stateshift.serializers.avro.serializers import AvroSnapshot
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes


def record(name, *fields, **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def logical(base, kind, **more):
    return {"type": base, "logicalType": kind, **more}


POINT = record("geo.Point", field("x", "double"), field("y", "double"))
MOMENT = dt.datetime(2024, 5, 17, 12, 30, 15, 123000, tzinfo=dt.UTC)


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Line:
    article: Annotated[str, Field(name="articleId", aliases=("sku",))]
    price: Annotated[decimal.Decimal, AvroSerializer(logical("bytes", "decimal", precision=9, scale=2))]
    count: Int32 = 1


@attrs.frozen
class Order:
    id: int
    lines: list[Line]
    level: Level
    when: dt.datetime
    local: NaiveDatetime
    weight: Float32 | None = None
    tags: dict[str, str | None] = attrs.field(factory=dict)
    parent: "Order | None" = None
    raw: bytes = b"\xff"


ORDER = Order(
    1, [Line("a", decimal.Decimal("1.50"), 3)], Level.HIGH, MOMENT, MOMENT.replace(tzinfo=None), 0.5, {"a": None}
)


class TestClasses:
    def test_objects_come_back(self, write, read):
        serializer, order = AvroSerializer.of(Order), attrs.evolve(ORDER, parent=ORDER)

        assert order == read(serializer, write(serializer, order))

    def test_the_schema_is_one_that_fastavro_takes(self):
        schema = json.loads(AvroSerializer.of(Order).schema)

        fastavro.parse_schema(schema)
        line = schema["fields"][1]["type"]["items"]
        assert {"name": "articleId", "type": "string", "aliases": ["sku"]} == line["fields"][0]
        assert {"name": "count", "type": "int", "default": 1} == line["fields"][2]
        assert {"name": "raw", "type": "bytes", "default": "ÿ"} == schema["fields"][-1]

    def test_dicts_of_a_restored_reader_are_written_too(self, write, read):
        serializer = AvroSerializer.of(Order)
        generic = snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration())).restore_serializer()
        data = write(serializer, ORDER)

        assert "a" == read(generic, data)["lines"][0]["articleId"]
        assert data == write(serializer, read(generic, data))

    def test_a_schema_may_be_given(self, write, read):
        schema = record("other.Line", field("price", logical("bytes", "decimal", precision=9, scale=2)),
                        field("articleId", "string"))  # fmt: skip
        serializer = AvroSerializer(schema, Line)

        assert Line("a", decimal.Decimal(2)) == read(serializer, write(serializer, Line("a", decimal.Decimal(2))))

    def test_a_field_that_the_schema_lacks_is_not_lost_in_silence(self, write):
        schema = record("other.Line", field("price", logical("bytes", "decimal", precision=9, scale=2)),
                        field("articleId", "string"))  # fmt: skip

        with pytest.raises(ValueNotConvertible, match=r"7 in 'count' of .*Line, for which the schema") as caught:
            write(AvroSerializer(schema, Line), Line("a", decimal.Decimal(2), 7))

        assert "$.count" == caught.value.where["path"]

    @pytest.mark.parametrize("wrap", [lambda hint: hint, lambda hint: list[hint], lambda hint: hint | None])
    def test_a_subclass_is_not_written_as_its_base(self, write, wrap):
        @attrs.frozen
        class Priced(Line):
            discount: int = 0

        holder = attrs.make_class("Holder", {"held": attrs.field(type=wrap(Line))})
        holder.__module__, holder.__qualname__ = "shop", "Holder"
        value = Priced("a", decimal.Decimal(2), 7, 50)

        with pytest.raises(ValueNotConvertible, match="Priced is a subclass of"):
            write(AvroSerializer.of(holder), holder([value] if wrap(int) == list[int] else value))

    def test_an_object_without_a_bound_class_loses_nothing_either(self, write, read):
        @attrs.frozen
        class Point:
            x: float
            y: float

        @attrs.frozen
        class Point3(Point):
            z: float

        serializer = AvroSerializer(POINT)

        assert {"x": 1.0, "y": 2.0} == read(serializer, write(serializer, Point(1.0, 2.0)))
        for value in (Point3(1.0, 2.0, 3.0), Record("geo.Point", {"x": 1.0, "y": 2.0, "z": 3.0})):
            with pytest.raises(ValueNotConvertible, match=r"'z' is not a field of geo\.Point"):
                write(serializer, value)

    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            (record("L", field("articleId", "string")), "lacks 'price'"),
            (record("L", field("articleId", "string"), field("price", "bytes"), field("z", "int")), "no field for z"),
            ("long", "which is not a record"),
        ],
    )
    def test_a_class_that_does_not_fit_its_schema_is_refused(self, schema, words):
        with pytest.raises(DeclarationError, match=words):
            AvroSerializer(schema, Line)

    def test_a_type_without_counterpart_is_refused_with_a_way_out(self):
        @attrs.frozen
        class Bare:
            price: decimal.Decimal

        Bare.__qualname__ = "Bare"
        with pytest.raises(DeclarationError, match=r"Bare\.price(?s:.)*Annotated\[…, AvroSerializer\(schema\)\]"):
            AvroSerializer.of(Bare)


class TestSchemas:
    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ("{", "not JSON"),
            ({"type": "nope"}, "the type 'nope' is not defined"),
            (["int", "int"], "two branches int"),
            ([["int"]], "directly in a union"),
            ({"type": "array"}, "'items' is missing"),
            ({"type": "fixed", "name": "F", "size": -1}, "size of the fixed"),
            ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a symbol twice"),
            ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "not a symbol of the enum"),
            (record("R", field("a", "int"), field("a", "int")), "two fields 'a'"),
            (record("R", field("a", "int", default="x")), "default of the Avro field 'a'"),
            (record("R", field("a", ["null", "int"], default="x")), "default of the Avro field 'a'"),
            (record("a-b"), "not a valid name in Avro"),
        ],
    )
    def test_what_is_no_schema_is_refused_when_it_is_declared(self, schema, words):
        with pytest.raises(DeclarationError, match=words):
            AvroSerializer(schema)


class TestSnapshot:
    @pytest.mark.parametrize("kind", ["float", "double", ["null", "double"]])
    def test_a_whole_number_that_is_not_exact_is_refused(self, write, read, kind):
        serializer = AvroSerializer(kind)

        assert 2.0**24 == read(serializer, write(serializer, 2**24))
        with pytest.raises(ValueNotConvertible, match="not exact"):
            write(serializer, 2**53 + 1)

    @pytest.mark.parametrize(
        "schema", [{"type": "enum", "name": "E", "symbols": ["a-b"]}, '{"type": "int", "doc": "\ud800"}']
    )
    def test_what_cannot_be_kept_is_refused_when_it_is_declared(self, schema):
        with pytest.raises(DeclarationError, match="an Avro schema"):
            AvroSerializer(schema)

    def test_av_12_it_keeps_the_schema_and_the_fingerprint_of_its_canonical_form(self):
        plain = AvroSerializer(POINT).snapshot_configuration()
        documented = AvroSerializer({**POINT, "doc": "a place"}).snapshot_configuration()

        assert plain == snapshot_from_bytes(snapshot_to_bytes(plain))
        assert json.loads(plain.schema) == POINT
        assert plain.fingerprint == documented.fingerprint
        assert 16 == len(plain.fingerprint)
        assert ("avro<geo.Point>", "stateshift/avro") == (plain.describe(), plain.snapshot_id)

    @pytest.mark.parametrize("schema", ["int", POINT], ids=["int", "point"])
    def test_av_12_the_fingerprint_is_that_of_fastavro(self, schema):
        serializer = AvroSerializer(schema)

        canonical = fastavro.schema.to_parsing_canonical_form(json.loads(serializer.schema))

        expected = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
        assert expected == serializer.snapshot_configuration().fingerprint

    def test_huge_schema(self):
        """F07: a schema past 64 KiB goes round, and is taken over (AV-11)."""
        serializer = AvroSerializer(record("Wide", *(field(f"f{n}", "long", doc="x" * 60) for n in range(1000))))
        snapshot = serializer.snapshot_configuration()

        data = snapshot_to_bytes(snapshot)

        assert len(data) > 65_536
        assert snapshot == snapshot_from_bytes(data)
        assert serializer.ensure_compatibility(snapshot_from_bytes(data)).is_compatible_as_is()

    def test_its_class_is_found_by_its_id(self):
        assert AvroSnapshot is registry.snapshot_class("stateshift/avro")

    @pytest.mark.parametrize("schema", ["{", '"nope"', "\udcff"])
    def test_a_stored_text_that_is_no_schema_is_corrupt(self, schema):
        target = DataOutputView()
        data = schema.encode("utf-8", "surrogateescape")
        target.write_int(len(data))
        target.write(data)
        target.write_utf("")

        with pytest.raises(CorruptSavepoint):
            AvroSnapshot().read(DataInputView(target.getvalue()))
