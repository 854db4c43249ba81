"""From one family to another that describes the same type (FAM-4): records and all else, Avro, rows with names."""

import datetime as dt
import enum
import itertools
import pickle
import uuid
from decimal import Decimal
from typing import Annotated

import attrs
import pytest
from avro_schemas import array, field, fixed, map_of
from avro_schemas import enum as symbols
from avro_schemas import record as schema
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    AvroSerializer,
    DataOutputView,
    Flag,
    Float32,
    Instant,
    Int8,
    Int32,
    JavaDate,
    LocalDateTime,
    LocalTime,
    NaiveDatetime,
    Record,
    Row,
    TypeSerializer,
    ValueNotConvertible,
    Verdict,
    record,
    row_of,
    serializer_for,
)
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

MIGRATE, REFUSE = Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE
MOMENT = dt.datetime(2024, 5, 17, 12, 30, 15, 123000, tzinfo=dt.UTC)
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
UUID = {"type": "string", "logicalType": "uuid"}


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Line:
    article: str
    count: Int32
    level: Level = Level.LOW


@attrs.frozen
class Order:
    id: int
    lines: list[Line]
    marks: dict[str, float | None]
    blob: bytes
    weight: Float32
    paid: bool
    at: dt.datetime
    local: NaiveDatetime
    day: dt.date
    time: dt.time
    first: Line
    note: str | None = None
    other: Line | None = None


ORDER = Order(
    7, [Line("pen", 2, Level.HIGH)], {"a": None, "b": 0.5}, b"\0\1", 0.25, True, MOMENT, MOMENT.replace(tzinfo=None),
    MOMENT.date(), MOMENT.time(), Line("ink", -1), None, Line("cap", 3),
)  # fmt: skip


def account(*fields, name=f"{__name__}.Account", **more):
    return AvroSerializer(schema(name, *fields, **more))


def stored_account(**hints):
    """The serializer of a record `Account` with these fields."""
    return serializer_for(attrs.make_class("Account", {n: attrs.field(type=hint) for n, hint in hints.items()}))


class TestVerdicts:
    def test_the_same_type_is_migrated_both_ways_and_every_part_is_rewritten_fam_4(self, ask, rules):
        avro, plain = AvroSerializer.of(Line), serializer_for(Line)

        for new, old in ((avro, plain), (plain, avro)):
            result = ask(new, old)
            assert (MIGRATE, [("$", "FAM-4")]) == (result.verdict, rules(result))
            (finding,) = result.findings
            assert {finding.old, finding.new} == {f"{__name__}.Line", f"avro<{__name__}.Line>"}
            assert ("migrate the state: each value is rewritten", "keep the old type") == tuple(
                map(str, finding.ways_out)
            )

    def test_what_changes_besides_is_judged_by_the_rules_of_the_described_type(self, ask, rules):
        old = stored_account(gone=str, name=str, number=Int8, size=int)
        new = account(
            field("title", "string", aliases=["name"]), field("number", "long"), field("size", "int"),
            field("added", "string", default="-"), field("lacking", "string"),
        )  # fmt: skip

        result = ask(new, old)

        assert REFUSE is result.verdict
        assert [
            ("$", "FAM-4"), ("$.added", "REC-2"), ("$.gone", "REC-4"), ("$.lacking", "REC-3"),
            ("$.number", "PRIM-2"), ("$.size", "PRIM-3"), ("$.title", "REC-6"),
        ] == sorted(rules(result))  # fmt: skip
        lacking = next(finding for finding in result.findings if finding.rule == "REC-3")
        assert 'give lacking a "default"' in map(str, lacking.ways_out)

    def test_a_name_counts_without_its_namespace_in_avro_and_whole_in_python(self, ask, rules):
        """AV-2 for the one, REC-11 for the other; both have aliases."""
        plain, moved = stored_account(a=int), account(field("a", "long"), name="com.acme.Account")
        other = account(field("a", "long"), name="Person")
        was = serializer_for(
            record(aliases=["com.acme.Account"])(attrs.make_class("Account", {"a": attrs.field(type=int)}))
        )

        assert [("$", "FAM-4")] == rules(ask(moved, plain))
        assert [("$", "FAM-4"), ("$", "REC-11")] == rules(ask(plain, moved))
        assert REFUSE is ask(plain, moved).verdict
        assert MIGRATE is ask(was, moved).verdict
        refused = ask(other, plain).findings[-1]
        assert f'if it is the same record: "aliases": ["{plain.name}"] in the new schema' in map(str, refused.ways_out)
        assert MIGRATE is ask(account(field("a", "long"), name="Person", aliases=[plain.name]), plain).verdict

    def test_nulls_are_judged_as_between_records_opt_2(self, ask, rules):
        optional, required = stored_account(a=str | None), stored_account(a=str)
        nullable, plain = account(field("a", ["null", "string"])), account(field("a", "string"))

        assert MIGRATE is ask(nullable, required).verdict is ask(nullable, optional).verdict
        assert MIGRATE is ask(optional, nullable).verdict is ask(optional, plain).verdict
        assert [("$", "FAM-4"), ("$.a", "OPT-2")] == rules(ask(plain, optional)) == rules(ask(required, nullable))
        assert 'let it be null: "type": ["null", …] of a' in map(str, ask(plain, optional).findings[-1].ways_out)

    def test_a_symbol_that_is_gone_takes_the_default_of_the_enum_enum_5(self, ask, migrate):
        old = serializer_for(attrs.make_class("Account", {"level": attrs.field(type=Level)}))
        bare = account(field("level", symbols("LOW", name="Level")))
        forgiving = account(field("level", symbols("LOW", name="Level", default="LOW")))
        value = Record(old.name, {"level": Level.HIGH})

        assert REFUSE is ask(bare, old).verdict
        assert 'give the enum (not the field) a "default"' in map(str, ask(bare, old).findings[-1].ways_out)
        assert ("$.level", Flag.LOSSY) in ask(forgiving, old).flags
        assert {"level": "LOW"} == migrate(forgiving, old, value)

    def test_decimals_without_bound_fit_none_dec_3_and_bounded_ones_fit(self, ask, rules, migrate):
        money = AvroSerializer({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})

        assert [("$", "FAM-4"), ("$", "DEC-3")] == rules(ask(money, serializer_for(Decimal)))
        assert Decimal("1.50") == migrate(serializer_for(Decimal), money, Decimal("1.5"))

    def test_times_keep_their_unit_or_a_finer_one_time_2_and_3(self, ask, rules):
        millis, micros, nanos = (
            AvroSerializer({**MILLIS, "logicalType": f"timestamp-{u}"}) for u in ("millis", "micros", "nanos")
        )

        assert REFUSE is ask(millis, serializer_for(Instant)).verdict
        assert "long(timestamp-millis)" == ask(millis, serializer_for(Instant)).findings[-1].new
        assert [("$", Flag.MAY_FAIL_PER_VALUE)] == list(ask(micros, serializer_for(Instant)).flags)
        assert () == ask(nanos, serializer_for(Instant)).flags
        assert [("$", "FAM-4"), ("$", "TIME-2")] == rules(ask(serializer_for(Instant), millis))
        assert [("$", "FAM-4")] == rules(ask(serializer_for(JavaDate), millis))
        assert [("$", "FAM-2")] == rules(ask(AvroSerializer(UUID), serializer_for(Instant)))

    @pytest.mark.parametrize(
        ("new", "old", "rule"),
        [
            (AvroSerializer(["int", "string"]), int, "FAM-2"),
            (int, AvroSerializer(["int", "string"]), "FAM-2"),
            (AvroSerializer(array("long")), set[int], "LIST-3"),
            (AvroSerializer(map_of("long")), dict[int, int], "PRIM-4"),
            (AvroSerializer(fixed(4)), bytes, "AV-3"),
            (AvroSerializer("string"), int, "PRIM-4"),
            (int, AvroSerializer(["null", "long"]), "OPT-2"),
            (Line, AvroSerializer("long"), "FAM-2"),
            (Line, row_of(Line), "FAM-2"),
        ],
    )
    def test_what_is_not_the_same_type_is_refused_with_the_reason(self, ask, new, old, rule):
        result = ask(serializer_for(new), serializer_for(old))

        assert (REFUSE, rule) == (result.verdict, result.findings[-1].rule)
        assert result.findings[-1].ways_out

    def test_a_family_of_ones_own_has_no_counterpart_unless_it_gives_one(self):
        assert TypeSerializer.counterpart(serializer_for(int)) is None


class TestValues:
    def test_a_record_becomes_avro_and_avro_a_record(self, migrate):
        avro, plain = AvroSerializer.of(Order), serializer_for(Order)

        assert ORDER == migrate(avro, plain, ORDER)
        assert ORDER == migrate(plain, avro, ORDER)
        assert ORDER.other == migrate(AvroSerializer.of(Line), serializer_for(Line), ORDER.other)

    def test_dicts_of_a_schema_become_objects(self, migrate):
        old = AvroSerializer(schema(f"{__name__}.Line", field("article", "string"), field("count", "int")))

        assert Line("pen", 3) == migrate(serializer_for(Line), old, {"article": "pen", "count": 3})

    def test_fields_are_found_by_name_and_alias_and_filled_by_default(self, migrate):
        old = stored_account(gone=str, name=str, number=Int8)
        new = account(
            field("title", "string", aliases=["name"]), field("number", "double"),
            field("tag", ["null", "string"], default=None),
            field("parts", array("int"), default=[1, 2]), field("level", symbols("A", "B"), default="B"),
        )  # fmt: skip

        expected = {"title": "x", "number": -4.0, "tag": None, "parts": [1, 2], "level": "B"}
        assert expected == migrate(new, old, Record(old.name, {"gone": "?", "name": "x", "number": -4}))

    def test_a_field_alone_moves_to_another_family(self, migrate):
        dicts = Annotated[dict[str, int], AvroSerializer(map_of("long"))]
        old, new = stored_account(a=dict[str, int]), stored_account(a=dicts)

        assert {"k": 1} == migrate(new, old, Record(old.name, {"a": {"k": 1}})).a
        assert {"k": 1} == migrate(old, new, Record(old.name, {"a": {"k": 1}})).a

    def test_a_null_of_avros_goes_by_the_flag_of_the_field_the_map_or_the_type(self, migrate, ask):
        text = AvroSerializer(["null", "string"])
        assert None is migrate(serializer_for(str | None), text, None)
        old, new = stored_account(a=Annotated[object, text]), stored_account(a=str | None)
        data = DataOutputView()
        stored = attrs.evolve(old.fields[0], optional=False)
        attrs.evolve(old, fields=(stored,)).serialize(Record(old.name, {"a": "x"}), data)

        assert MIGRATE is ask(new, old).verdict
        assert "x" == migrate(new, old, Record(old.name, {"a": "x"})).a
        assert [None, "x"] == migrate(
            serializer_for(list[str | None]), AvroSerializer(array(["null", "string"])), [None, "x"]
        )
        nullable = serializer_for(dict[str, str | None])
        assert {"k": None} == migrate(nullable, AvroSerializer(map_of(["null", "string"])), {"k": None})
        assert {"k": None} == migrate(AvroSerializer(map_of(["null", "string"])), nullable, {"k": None})

    def test_logical_types_become_the_classes_of_the_serializers(self, migrate):
        moment = Instant(1_700_000_000, 123_456_789)
        local = LocalDateTime(1969, 12, 31, 23, 59, 59, 1)
        known = uuid.UUID(int=5)

        assert 1_700_000_000_123_456_789 == migrate(AvroSerializer(NANOS), serializer_for(Instant), moment)
        assert moment == migrate(serializer_for(Instant), AvroSerializer(NANOS), 1_700_000_000_123_456_789)
        assert local == migrate(serializer_for(LocalDateTime), AvroSerializer(LOCAL_NANOS), -999_999_999)
        assert -999_999_999 == migrate(AvroSerializer(LOCAL_NANOS), serializer_for(LocalDateTime), local)
        assert MOMENT == migrate(serializer_for(dt.datetime), AvroSerializer(MILLIS), MOMENT)
        assert known == migrate(AvroSerializer(UUID), serializer_for(str), str(known))
        assert str(known) == migrate(serializer_for(str), AvroSerializer(UUID), known)
        whole = AvroSerializer({**fixed(16), "logicalType": "uuid"})
        assert known.bytes == migrate(serializer_for(bytes), whole, known)

    @pytest.mark.parametrize(
        ("new", "old", "value", "reason"),
        [
            (AvroSerializer(UUID), str, "pen", "'pen' is not a UUID"),
            (
                AvroSerializer({"type": "long", "logicalType": "time-micros"}), LocalTime, LocalTime(1, 2, 3, 4),
                "'01:02:03.000000004' does not fit long(time-micros)",
            ),
            (AvroSerializer(LOCAL_NANOS), LocalDateTime, LocalDateTime(10_000, 1, 1), "does not fit nanoseconds"),
        ],
    )  # fmt: skip
    def test_a_value_that_does_not_fit_is_an_error_and_never_another_value(self, migrate, new, old, value, reason):
        with pytest.raises(ValueNotConvertible) as caught:
            migrate(new, serializer_for(old), value)

        assert reason in str(caught.value)

    def test_an_error_shows_the_path(self, migrate):
        old, new = stored_account(ids=list[str]), account(field("ids", array(UUID)))

        with pytest.raises(ValueNotConvertible) as caught:
            migrate(new, old, Record(old.name, {"ids": ["pen"]}))

        assert "$.ids[]" == caught.value.where["path"]

    def test_a_row_with_names_takes_a_record_and_avro_by_name(self, ask, rules, migrate):
        row = row_of({"count": int, "article": str})
        line = {"article": "pen", "count": 2}
        avro = account(field("article", "string"), field("count", "int"))

        assert [("$", "FAM-4"), ("$.level", "REC-4"), ("$.count", "PRIM-2")] == rules(ask(row, serializer_for(Line)))
        assert Row(2, "pen") == migrate(row, stored_account(article=str, count=Int32), Record("Account", line))
        assert Row(2, "pen") == migrate(row, avro, line)

    def test_a_conversion_pickles_for_the_workers(self, ask, read, write):
        old, new = serializer_for(Order), AvroSerializer.of(Order)
        convert = pickle.loads(pickle.dumps(ask(new, old).conversion))
        generic = snapshot_from_bytes(snapshot_to_bytes(old.snapshot_configuration())).restore_serializer()

        assert ORDER == read(new, write(new, convert(read(generic, write(old, ORDER)))))


SINGLE = [
    (hint, values_of(hint))
    for hint in (int, Int32, float, Float32, str, bytes, bool, Level, dt.datetime, NaiveDatetime, dt.date, dt.time)
]
"""Hints that both families know, and their values."""


@st.composite
def typed(draw, depth=2):
    """A hint and a strategy for its values; classes are made again, each with a name of its own."""
    shape = draw(st.sampled_from(["single", "list", "dict", "class"] if depth else ["single"]))
    if shape == "single":
        return draw(st.sampled_from(SINGLE))
    if shape == "class":
        return draw(classes(depth - 1))
    hint, values = draw(typed(depth - 1))
    if draw(st.booleans()):
        hint, values = hint | None, st.none() | values
    if shape == "list":
        return list[hint], st.lists(values, max_size=3)
    return dict[str, hint], st.dictionaries(st.text(max_size=2), values, max_size=3)


@st.composite
def classes(draw, depth=2):
    fields, values = {}, {}
    for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True)):
        hint, of_hint = draw(typed(depth))
        if draw(st.booleans()):
            hint, of_hint = hint | None, st.none() | of_hint
        fields[name], values[name] = attrs.field(type=hint), of_hint
    cls = attrs.make_class(f"Drawn{next(NUMBERS)}", fields)
    return cls, st.builds(cls, **values)


NUMBERS = itertools.count()


@given(classes(), st.data())
def test_from_a_record_to_avro_and_back_every_value_is_as_it_was_fam_4(migrate, drawn, data):
    cls, values = drawn
    value = data.draw(values)
    avro, plain = AvroSerializer.of(cls), serializer_for(cls)

    assert value == migrate(plain, avro, migrate(avro, plain, value))
