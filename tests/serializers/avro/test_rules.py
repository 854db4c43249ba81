"""What a present Avro schema answers to a stored one: AV-1 to AV-12, each verdict proven on values."""

import datetime as dt
import decimal
import io
import itertools
import json
import math
import pickle
import sys
import uuid

import attrs
import fastavro
import pytest
from avro_schemas import array, enum, field, fixed, map_of, record

import stateshift
from stateshift import (
    AvroSerializer,
    CorruptSavepoint,
    DataInputView,
    DeclarationError,
    ValueNotConvertible,
    Verdict,
    row_of,
    serializer_for,
)
from stateshift.serializers.avro.codec import round_float
from stateshift.serializers.flink.opaque import AvroSerializerSnapshot

OK, MIGRATE, REFUSE = Verdict.COMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE
FIXED = {"type": "fixed", "name": "F", "size": 16}
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTIONS = {
    ("int", "long"): OK,
    ("int", "float"): MIGRATE,
    ("int", "double"): MIGRATE,
    ("long", "float"): MIGRATE,
    ("long", "double"): MIGRATE,
    ("float", "double"): MIGRATE,
    ("string", "bytes"): OK,
    ("bytes", "string"): MIGRATE,
}


def logical(base, kind, **more):
    return {"type": base, "logicalType": kind, **more}


def decimals(precision, scale, base="bytes", **more):
    return logical(base, "decimal", precision=precision, scale=scale, **more)


def judged(ask, old, new):
    result = ask(AvroSerializer(new), AvroSerializer(old))
    return result.verdict, [(finding.path, finding.rule) for finding in result.findings]


def flags(ask, old, new):
    return ask(AvroSerializer(new), AvroSerializer(old)).flags


class TestResolution:
    @pytest.mark.parametrize(("old", "new"), list(itertools.product(PRIMITIVES, PRIMITIVES)))
    def test_promotion_matrix(self, ask, old, new):
        """F13: all 64 pairs of primitives, and the same in containers (AV-1)."""
        expected = OK if old == new else PROMOTIONS.get((old, new), REFUSE)

        assert expected is judged(ask, old, new)[0]
        assert expected is judged(ask, array(map_of(old)), array(map_of(new)))[0]

    @pytest.mark.parametrize(
        ("old", "new", "value", "expected"),
        [
            ("int", "float", 2**24 + 1, float(2**24)),
            ("long", "double", 2**53 + 1, float(2**53)),
            ("long", "float", 5, 5.0),
            ("float", "double", 0.5, 0.5),
            ("bytes", "string", b"a", "a"),
            ("int", ["null", "long"], 5, 5),
            (["null", "int"], ["int", "null"], 5, 5),
            (["int", "long"], "double", 2**40, float(2**40)),
            (array("int"), array("double"), [1], [1.0]),
            (map_of("int"), map_of(["null", "int"]), {"a": 1}, {"a": 1}),
            ("int", ["string", "double"], 1, 1.0),
            (record("R", field("a", "int")), ["null", record("R", field("a", "double"))], {"a": 1}, {"a": 1.0}),
            (enum("A", "B"), enum("B", "A"), "A", "A"),
            (enum("A", "B"), enum("A", default="A"), "B", "A"),
        ],
    )
    def test_av_1_values_are_resolved_as_fastavro_does(self, migrate, old, new, value, expected):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(old), value)
        stream.seek(0)

        assert expected == migrate(AvroSerializer(new), AvroSerializer(old), value)
        if expected != float(2**24):  # fastavro does not round to single precision: a known gap (AV-9)
            assert expected == fastavro.schemaless_reader(stream, old, new)


class TestNames:
    @pytest.mark.parametrize("make", [lambda n, **m: record(n, field("a", "int"), **m), lambda n, **m: enum("A", name=n, **m), lambda n, **m: fixed(2, n, **m)])  # fmt: skip  # noqa: E501
    @pytest.mark.parametrize(
        ("old", "new", "aliases", "expected"),
        [
            ("a.Thing", "b.Thing", [], OK),
            ("a.Thing", "a.Other", [], REFUSE),
            ("a.Thing", "a.Other", ["Thing"], OK),
            ("a.Thing", "b.Other", ["Thing"], REFUSE),
            ("a.Thing", "b.Other", ["a.Thing"], OK),
            ("a.Thing", "a.Other", ["Thong"], REFUSE),
        ],
    )
    def test_av_2_unqualified_names_or_qualified_aliases(self, ask, make, old, new, aliases, expected):
        for wrap in (lambda s: s, lambda s: ["null", s], lambda s: record("Outer", field("f", s))):
            assert expected is judged(ask, wrap(make(old)), wrap(make(new, aliases=aliases)))[0]

    def test_av_2_a_field_is_found_by_its_alias_and_keeps_its_bytes(self, ask):
        old, new = record("R", field("a", "int")), record("R", field("b", "long", aliases=["z", "a"]))
        result = ask(AvroSerializer(new), AvroSerializer(old))

        assert OK is result.verdict
        assert {"b": 5} == result.conversion({"a": 5})

    def test_av_2_a_field_of_the_name_goes_before_an_alias(self, migrate):
        old = record("R", field("a", "int"), field("b", "int"))
        new = record("R", field("b", "double", aliases=["a"]), field("a", "int"))

        assert {"b": 2.0, "a": 1} == migrate(AvroSerializer(new), AvroSerializer(old), {"a": 1, "b": 2})

    @pytest.mark.parametrize(
        "fields",
        [
            [field("a", "int"), field("b", "int", default=0, aliases=["a"])],
            [field("b", "int", aliases=["a"]), field("c", "int", default=0, aliases=["a"])],
        ],
    )
    def test_av_2_a_stored_field_that_is_claimed_twice_is_an_error(self, ask, fields):
        with pytest.raises(DeclarationError, match="the stored field 'a' is claimed by"):
            ask(AvroSerializer(record("R", *fields)), AvroSerializer(record("R", field("a", "int"))))

    def test_av_2_fields_that_would_swap_by_their_aliases_are_an_error(self, ask):
        old = record("R", field("a", "int"), field("b", "int"))
        new = record("R", field("a", "int", aliases=["b"]), field("b", "int", aliases=["a"]))

        with pytest.raises(DeclarationError, match="the aliases of 'a', 'b' swap them"):
            ask(AvroSerializer(new), AvroSerializer(old))

    def test_av_2_two_branches_must_not_claim_one_stored_type(self, ask):
        new = [record("s.Sale", aliases=["s.Ad"]), record("s.Visit", aliases=["s.Ad"])]

        with pytest.raises(DeclarationError, match="is claimed by the aliases of"):
            ask(AvroSerializer(new), AvroSerializer([record("s.Ad"), "null"]))

    def test_av_2_branches_that_become_one_are_lossy(self, ask):
        old = [record("s.Ad", field("a", "int")), record("s.Visit", field("a", "int"))]
        new = ["null", record("s.Sale", field("a", "int"), aliases=["s.Ad", "s.Visit"])]

        assert ("$|1", "lossy") in flags(ask, old, new)

    @pytest.mark.parametrize("make", [AvroSerializer.of, lambda cls: row_of(cls, stored=["id"])])
    def test_rec_16_a_retired_name_must_not_come_back(self, ask, make):
        @stateshift.record(retired=["level"])
        @attrs.frozen
        class Before:
            id: int

        @stateshift.record(retired=["level"])
        @attrs.frozen
        class Changed:
            id: int
            level: int = 0

        @stateshift.record(retired={"level": int})
        @attrs.frozen
        class AsItWas(Changed):
            pass

        for made in (Before, Changed, AsItWas):
            made.__module__, made.__qualname__ = "shop", "Account"
        found = {
            made: [(one.path, one.verdict) for one in ask(make(made), make(Before)).findings if one.rule == "REC-16"]
            for made in (Before, Changed, AsItWas)
        }

        assert {Before: [], Changed: [("$.level", REFUSE)], AsItWas: []} == found

    def test_structural_match_refused(self, ask):
        """F20: a renamed record of equal shape; the alias to write is named (AV-10)."""
        old, new = record("a.Old", field("x", "int")), record("a.New", field("x", "int"))
        result = ask(AvroSerializer(new), AvroSerializer(old))

        assert [("$", "AV-10")] == [(finding.path, finding.rule) for finding in result.findings]
        assert 'if it was renamed: "aliases": ["a.Old"] in the new schema' == str(result.findings[0].ways_out[0])

    def test_av_2_a_renamed_record_of_another_shape(self, ask):
        assert (REFUSE, [("$", "AV-2")]) == judged(ask, record("A", field("x", "int")), record("B"))


class TestProblems:
    @pytest.mark.parametrize(
        ("old", "new", "kind", "rule"),
        [
            ("int", "string", "type_mismatch", "AV-3"),
            (record("A"), record("B"), "name_mismatch", "AV-10"),
            (enum("A", "B"), enum("A"), "missing_enum_symbols", "AV-3"),
            (["int", "string"], ["int"], "missing_union_branch", "AV-6"),
            ("int", ["null", "string"], "missing_union_branch", "AV-3"),
            (fixed(2), fixed(3), "fixed_size_mismatch", "AV-3"),
        ],
    )
    def test_av_3_each_kind_is_reported_where_it_is(self, ask, old, new, kind, rule):
        found = ask(
            AvroSerializer(record("R", field("f", array(new)))), AvroSerializer(record("R", field("f", array(old))))
        )

        refused = [f for f in found.findings if f.verdict is REFUSE]
        assert [rule] == [f.rule for f in refused]
        assert [kind] == [f.reason.partition(":")[0] for f in refused]
        assert refused[0].path.startswith("$.f[]")
        assert all(f.ways_out for f in refused)


SAME_LAYOUT = {
    "documentation": (record("R", field("a", "int")), record("R", field("a", "int", doc="x"), doc="y"), {"a": 1}),
    "a default": (record("R", field("a", "int")), record("R", field("a", "int", default=7)), {"a": 1}),
    "int to long, deep inside": (
        record("R", field("a", array(["null", "int"]))),
        record("R", field("a", array(["null", "long"]))),
        {"a": [1, None, -(2**31)]},
    ),
    "string to bytes": ("string", "bytes", "é"),
    "symbols appended": (enum("A", "B"), enum("A", "B", "C"), "B"),
    "branches appended": (["null", "int"], ["null", "int", "string"], 5),
    "a namespace": (record("a.R", field("a", "int")), record("b.R", field("a", "int")), {"a": 1}),
    "a field's alias": (record("R", field("a", "int")), record("R", field("b", "int", aliases=["a"])), {"a": 1}),
    "where a type is defined": (
        record("R", field("a", fixed(1)), field("b", "F")),
        record("R", field("a", fixed(1)), field("b", fixed(1, "other.F"))),
        {"a": b"a", "b": b"b"},
    ),
}
OTHER_LAYOUT = {
    "a field added": (record("R"), record("R", field("a", "int", default=7)), {}, {"a": 7}),
    "a field removed": (
        record("R", field("a", "int"), field("b", "int")),
        record("R", field("b", "int")),
        {"a": 1, "b": 2},
        {"b": 2},
    ),
    "fields reordered": (
        record("R", field("a", "int"), field("b", "string")),
        record("R", field("b", "string"), field("a", "int")),
        {"a": 1, "b": "x"},
        {"a": 1, "b": "x"},
    ),
    "a branch inserted": (["null", "int"], ["null", "string", "int"], 5, 5),
    "branches reordered": (["null", "int"], ["int", "null"], None, None),
    "a type to a union": ("int", ["null", "int"], 5, 5),
    "a union to a type": (["int", "long"], "long", 5, 5),
    "a symbol inserted": (enum("A", "B"), enum("A", "C", "B"), "B", "B"),
    "long to double": ("long", "double", 5, 5.0),
}  # fmt: skip


class TestLayout:
    @pytest.mark.parametrize("change", SAME_LAYOUT)
    def test_av_4_the_same_layout_is_compatible_and_the_new_schema_alone_reads_it(self, ask, write, read, change):
        old, new, value = SAME_LAYOUT[change]
        result = ask(AvroSerializer(new), AvroSerializer(old))

        assert OK is result.verdict
        assert {"AV-4"} >= {finding.rule for finding in result.findings}
        assert result.conversion(value) == read(AvroSerializer(new), write(AvroSerializer(old), value))

    @pytest.mark.parametrize("change", OTHER_LAYOUT)
    def test_av_5_another_layout_takes_a_migration(self, ask, migrate, change):
        old, new, value, expected = OTHER_LAYOUT[change]

        verdict, rules = judged(ask, old, new)

        assert MIGRATE is verdict
        assert "AV-5" in {rule for _, rule in rules}
        assert expected == migrate(AvroSerializer(new), AvroSerializer(old), value)

    def test_av_5_what_a_migration_loses_is_flagged(self, ask):
        old = record("R", field("a", "int"), field("b", "long"), field("c", enum("A", "B")), field("d", "bytes"))
        new = record("R", field("b", "double"), field("c", enum("A", default="A")), field("d", "string"), field("z", "int", default=0))  # fmt: skip  # noqa: E501

        assert (
            ("$.a", "drops:$.a"),
            ("$.a", "possible_rename:a->z"),
            ("$.b", "lossy"),
            ("$.c", "lossy"),
            ("$.d", "may_fail_per_value"),
        ) == flags(ask, old, new)


class TestAllData:
    def test_union_needs_every_branch(self, ask):
        """F15: a branch that was never used must still be read, whichever it is (AV-6)."""
        branches = ["null", "int", "string"]

        for at in range(3):
            verdict, found = judged(ask, branches, [*branches[:at], *branches[at + 1 :]])
            assert (REFUSE, (f"$|{at}", "AV-6")) == (verdict, found[0])

    def test_plain_reader_of_union(self, ask):
        """F16: a plain reader that takes every branch is enough (AV-6)."""
        assert MIGRATE is judged(ask, ["int", "long", "float"], "double")[0]
        assert REFUSE is judged(ask, ["int", "long", "string"], "double")[0]


class TestDefaults:
    @pytest.mark.parametrize(
        ("old", "new", "value", "expected"),
        [
            (field("e", enum("A", "B")), field("e", enum("A"), default="A"), "B", None),
            (field("e", enum("A", "B")), field("e", enum("A", default="A")), "B", "A"),
            (field("e", enum("A", "B")), field("e", enum("A", "C", default="C"), default="A"), "B", "C"),
            (field("x", "int"), field("e", enum("A", default="A")), 1, None),
            (field("x", "int"), field("e", enum("A", "B", default="A"), default="B"), 1, "B"),
        ],
    )
    def test_enum_default_versus_field_default(self, ask, migrate, old, new, value, expected):
        """F17: the enum's default and the field's never stand in for each other (AV-7)."""
        stored, present = record("R", old), record("R", new)

        if expected is None:
            assert REFUSE is judged(ask, stored, present)[0]
        else:
            assert {"e": expected} == migrate(AvroSerializer(present), AvroSerializer(stored), {old["name"]: value})

    def test_av_7_a_default_replaces_no_stored_null(self, ask):
        found = ask(
            AvroSerializer(record("R", field("a", "int", default=5))),
            AvroSerializer(record("R", field("a", ["null", "int"], default=None))),
        )

        assert REFUSE is found.verdict
        assert "never replaces a stored value (AV-7)" in found.findings[-1].reason


UNITS = (
    *("timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    "time-micros",
)


class TestLogicalTypes:
    @pytest.mark.parametrize(("old", "new"), list(itertools.permutations(UNITS, 2)))
    def test_logical_units(self, ask, old, new):
        """F22: another unit, zone or meaning is never compatible (AV-8)."""
        kind, unit = old.rsplit("-", 1)
        new_kind, new_unit = new.rsplit("-", 1)
        units = ["millis", "micros", "nanos"]
        finer = kind == new_kind and units.index(unit) < units.index(new_unit)

        expected = (MIGRATE if finer else REFUSE, [("$", "AV-8")])

        assert expected == judged(ask, logical("long", old), logical("long", new))

    def test_av_8_a_finer_unit_is_a_multiplication(self, migrate):
        moment = dt.datetime(2024, 5, 17, 12, 30, 15, 123000, tzinfo=dt.UTC)
        millis, micros, nanos = (
            AvroSerializer(logical("long", f"timestamp-{u}")) for u in ("millis", "micros", "nanos")
        )

        assert moment == migrate(micros, millis, moment)
        assert 1715949015123000000 == migrate(nanos, millis, moment)
        assert 1715949015123000000 == migrate(nanos, micros, moment)

    def test_av_8_a_time_of_milliseconds_becomes_one_of_microseconds(self, migrate):
        old, new = AvroSerializer(logical("int", "time-millis")), AvroSerializer(logical("long", "time-micros"))

        assert dt.time(1, 2, 3) == migrate(new, old, dt.time(1, 2, 3))

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ((6, 2), (9, 2), OK),
            ((6, 2), (4, 2), REFUSE),
            ((6, 2), (8, 4), MIGRATE),
            ((6, 2), (6, 4), REFUSE),
            ((6, 2), (6, 1), REFUSE),
        ],
    )
    def test_av_8_decimals_go_by_their_own_rules_dec_2_3_4_5(self, ask, migrate, old, new, expected):
        for more in ({}, {"base": "fixed", "name": "D", "size": 8}):
            stored, present = decimals(*old, **more), decimals(*new, **more)

            assert (expected, [("$", "AV-8")]) == judged(ask, stored, present)
            if expected is MIGRATE:
                value = decimal.Decimal("-1234.56")
                assert value == migrate(AvroSerializer(present), AvroSerializer(stored), value)

    @pytest.mark.parametrize(
        ("base", "annotated", "value", "raw"),
        [
            ("long", logical("long", "timestamp-micros"), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), 0),
            ("int", logical("int", "date"), dt.date(1970, 1, 2), 1),
            ("string", logical("string", "uuid"), uuid.UUID(int=1), str(uuid.UUID(int=1))),
            ("bytes", decimals(4, 2), decimal.Decimal("0.01"), b"\x01"),
        ],
    )
    def test_av_8_an_annotation_comes_and_goes_and_the_readers_decides(self, ask, base, annotated, value, raw):
        assert (OK, [("$", "AV-8")]) == judged(ask, base, annotated)
        assert value == ask(AvroSerializer(annotated), AvroSerializer(base)).conversion(raw)
        assert (OK, [("$", "AV-8")]) == judged(ask, annotated, base)
        assert raw == ask(AvroSerializer(base), AvroSerializer(annotated)).conversion(value)

    @pytest.mark.parametrize(
        ("base", "annotated", "may_fail"),
        [
            ("string", logical("string", "uuid"), True),
            ("int", logical("int", "date"), True),
            ("long", logical("long", "timestamp-micros"), True),
            ("bytes", decimals(4, 2), True),
            ("long", logical("long", "timestamp-nanos"), False),
            (FIXED, {**FIXED, "logicalType": "uuid"}, False),
        ],
    )
    def test_av_8_an_annotation_that_does_not_hold_all_values_says_so(self, ask, base, annotated, may_fail):
        old, new = (record("R", field("x", ["null", kind])) for kind in (base, annotated))

        assert may_fail == (("$.x?", "may_fail_per_value") in flags(ask, old, new))
        assert not flags(ask, new, old)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (logical("int", "date"), logical("long", "timestamp-micros")),
            (logical("int", "date"), "long"),
            ("string", decimals(4, 2)),
            (decimals(4, 2), "string"),
        ],
    )
    def test_av_8_the_type_and_its_meaning_do_not_change_at_once(self, ask, old, new):
        assert (REFUSE, [("$", "AV-8")]) == judged(ask, old, new)


class TestWhatFastavroLacks:
    """The gaps (AV-9): what fastavro gives, and what the serializer gives.

    fastavro really reads: where a new release closes a gap, its test fails, and the code that fills it can go.
    """

    def test_av_9_gap_1_numbers_are_rounded_to_single_precision(self, migrate, by_fastavro):
        def ours(old, new, value):
            return migrate(AvroSerializer(new), AvroSerializer(old), value)

        case = "int", "float", 2**24 + 1

        assert (16777217.0, 16777216.0) == (by_fastavro(*case), ours(*case))

    @pytest.mark.parametrize(("default", "theirs", "ours"), [("ÿ\u0000", "ÿ\x00", b"\xff\x00"), ("", "", b"")])
    def test_av_9_gap_2_a_default_of_bytes_is_bytes(self, both_fill, default, theirs, ours):
        assert [(theirs, str), (ours, bytes)] == both_fill("bytes", default)

    def test_av_9_gap_3_a_default_of_a_fixed_is_bytes(self, both_fill):
        assert [("ÿa", str), (b"\xffa", bytes)] == both_fill(fixed(2), "ÿa")

    @pytest.mark.parametrize(
        ("kind", "default", "theirs", "ours"),
        [("double", 1, (1, int), (1.0, float)), ("float", 0.1, (0.1, float), (0.10000000149011612, float))],
    )
    def test_av_9_gap_4_a_default_number_has_the_type_of_its_field(self, both_fill, kind, default, theirs, ours):
        assert [theirs, ours] == both_fill(kind, default)

    @pytest.mark.parametrize(
        ("kind", "default", "theirs", "ours"),
        [
            (logical("int", "date"), 1, (1, int), (dt.date(1970, 1, 2), dt.date)),
            (decimals(4, 2), "\u0001", ("\x01", str), (decimal.Decimal("0.01"), decimal.Decimal)),
        ],
    )
    def test_av_9_gap_5_a_logical_default_is_converted(self, both_fill, kind, default, theirs, ours):
        assert [theirs, ours] == both_fill(kind, default)

    @pytest.mark.parametrize(
        ("kind", "default", "theirs", "ours"),
        [
            (map_of("bytes"), {"a": "ÿ"}, ({"a": "ÿ"}, dict), ({"a": b"\xff"}, dict)),
            (["bytes", "null"], "ÿ", ("ÿ", str), (b"\xff", bytes)),
            (
                record("In", field("a", "bytes", default="þ"), field("b", "double")),
                {"b": 1},
                ({"b": 1}, dict),
                ({"a": b"\xfe", "b": 1.0}, dict),
            ),
        ],
    )
    def test_av_9_gap_6_what_is_inside_a_default_is_converted_and_filled(self, both_fill, kind, default, theirs, ours):
        assert [theirs, ours] == both_fill(kind, default)

    def test_av_9_gap_7_the_readers_annotation_is_applied_and_not_the_writers(self, migrate, by_fastavro):
        """The field that has gone makes it a migration."""
        old = record("R", field("a", logical("int", "date")), field("b", "int"), field("gone", "int"))
        new = record("R", field("a", "int"), field("b", logical("int", "date")))
        value = {"a": dt.date(1970, 1, 3), "b": 1, "gone": 0}

        assert {"a": dt.date(1970, 1, 3), "b": 1} == by_fastavro(old, new, value)
        assert {"a": 2, "b": dt.date(1970, 1, 2)} == migrate(AvroSerializer(new), AvroSerializer(old), value)

    def test_av_9_gap_8_bytes_that_are_not_utf_8_fail_with_their_path(self, migrate, by_fastavro):
        """fastavro fails too, and says neither where nor that a value is at fault."""
        old, new = (record("R", field("a", array(kind))) for kind in ("bytes", "string"))

        with pytest.raises(UnicodeDecodeError) as theirs:
            by_fastavro(old, new, {"a": [b"\xff"]})
        with pytest.raises(ValueNotConvertible, match="not UTF-8") as ours:
            migrate(AvroSerializer(new), AvroSerializer(old), {"a": [b"\xff"]})

        assert "a" not in str(theirs.value).split(" ")
        assert "$.a[]" == ours.value.where["path"]

    @pytest.mark.parametrize(
        ("schema", "data", "theirs", "ours"),
        [
            (["null", "int"], b"\x01\x02", 1, "the branch -1 of a union of 2"),
            (enum("A", "B"), b"\x01", "B", "the symbol -1 of enum E, which has 2"),
            ("int", b"\xff\xff\xff\xff\x1f", -(2**32), "a number does not fit 32 bits"),
            ("long", b"\x80" * 11 + b"\0", 0, "a number does not fit 64 bits"),
            ("boolean", b"\x02", True, "byte 0x02 where a boolean was expected"),
            (array("int"), b"\x01\x04\x02\0", [1], "a block does not end where it says"),
            (
                array("null"),
                b"\x84\x89\x7a\0",
                [None] * 1_000_002,
                "1000002 items are declared, but only 1 bytes are left",
            ),
        ],
    )
    def test_av_9_gap_9_damaged_bytes_are_refused(self, read, schema, data, theirs, ours):
        assert theirs == fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)
        with pytest.raises(CorruptSavepoint, match=f"^{ours}"):
            read(AvroSerializer(schema), data)

    def test_av_9_gap_10_a_decimal_keeps_the_digits_that_its_precision_does_not_allow(self, read):
        schema, data = decimals(2, 0), b"\x08\0\xff\xff\xff"

        assert decimal.Decimal("1.7E+7") == fastavro.schemaless_reader(io.BytesIO(data), schema, None)
        assert decimal.Decimal(16777215) == read(AvroSerializer(schema), data)

    @pytest.mark.parametrize(
        ("schema", "value", "theirs"),
        [("int", 2**31, b"\x80\x80\x80\x80\x10"), ("long", True, b"\x02"), ("boolean", 5, b"\x01")],
    )
    def test_av_9_gap_11_a_value_that_does_not_fit_is_refused(self, write, schema, value, theirs):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, value)

        assert theirs == stream.getvalue()
        with pytest.raises(ValueNotConvertible):
            write(AvroSerializer(schema), value)

    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            (["int", "int"], "the union has two branches int"),
            (["int", ["null"]], "a union is nested directly in a union"),
            (record("R", field("a b", "int")), "is not a field"),
            (record("R", field("a", "int"), field("a", "long")), "the record has two fields 'a'"),
            ({"type": "fixed", "name": "F", "size": -1}, "the size of the fixed F is -1"),
            ({"type": "record", "name": "R"}, "the record has no list of fields"),
            ({"type": "record", "name": "int", "fields": []}, "the name 'int' is taken"),
        ],
    )
    def test_av_9_gap_12_a_schema_that_is_none_is_refused(self, schema, words):
        fastavro.parse_schema(schema)
        with pytest.raises(DeclarationError, match=words):
            AvroSerializer(schema)

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"type": ["null", "long"]}, 5),
            ({"type": {"type": {"type": "long"}}}, 5),
            (logical("bytes", "decimal", precision=2, scale=5), b"\x05"),
            (record("N", field("m", record("q.M", field("n", ["null", "N"])))), {"m": {"n": None}}),
        ],
    )
    def test_av_9_gap_13_a_schema_of_the_specification_is_taken(self, write, read, schema, value):
        with pytest.raises((TypeError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType)):
            fastavro.parse_schema(schema)
        assert value == read(AvroSerializer(schema), write(AvroSerializer(schema), value))

    def test_av_9_gap_14_a_value_that_is_nested_deeply_does_not_end_the_process(self, write):
        """Python's own limit is out of the way here, as a job may have it."""
        serializer, value = AvroSerializer(record("L", field("next", ["null", "L"]))), None
        for _ in range(20_000):
            value = {"next": value}
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(1_000_000)
        try:
            with pytest.raises(CorruptSavepoint, match="nested too deeply"):
                serializer.deserialize(DataInputView(b"\x02" * 20_000))
            with pytest.raises(ValueNotConvertible, match="nested too deeply"):
                write(serializer, value)
        finally:
            sys.setrecursionlimit(limit)


@pytest.fixture
def both_fill(migrate, by_fastavro):
    """`both_fill(kind, default)`: what fastavro and what the serializer puts in a new field, each with its type."""

    def fill(kind, default):
        old, new = record("R"), record("R", field("f", kind, default=default))
        found = [by_fastavro(old, new, {}), migrate(AvroSerializer(new), AvroSerializer(old), {})]
        return [(value["f"], type(value["f"])) for value in found]

    return fill


class TestRecursion:
    LIST = record("List", field("value", "int"), field("next", ["null", "List"]))

    def test_av_11_comp_3_a_recursive_schema_is_judged_once_and_converted_at_every_depth(self, ask, migrate):
        new = record("List", field("value", "double"), field("next", ["null", "List"]))

        assert (MIGRATE, [("$.value", "AV-5")]) == judged(ask, self.LIST, new)
        assert {"value": 1.0, "next": {"value": 2.0, "next": None}} == migrate(
            AvroSerializer(new), AvroSerializer(self.LIST), {"value": 1, "next": {"value": 2, "next": None}}
        )

    def test_av_11_two_lists_of_each_other(self, ask):
        tree = record("Tree", field("children", array("Tree")), field("tag", "string"))

        assert OK is judged(ask, tree, json.loads(json.dumps(tree).replace('"string"', '"bytes"')))[0]


@attrs.frozen
class Place:
    x: int


class TestBindings:
    def test_generic_to_bound(self, ask):
        """F11: dicts and classes with equal schemas are compatible, both ways (AV-12)."""
        bound = AvroSerializer.of(Place)
        generic = AvroSerializer(json.loads(bound.schema))

        for old, new in itertools.product((bound, generic), repeat=2):
            assert (OK, ()) == (ask(new, old).verdict, ask(new, old).findings)

    def test_a_conversion_is_pickled(self, ask):
        result = ask(AvroSerializer("double"), AvroSerializer("int"))

        assert 5.0 == pickle.loads(pickle.dumps(result.conversion))(5)

    def test_fam_2_other_families_are_distinguished(self, ask):
        assert ["FAM-2"] == [f.rule for f in ask(AvroSerializer.of(Place), serializer_for(int)).findings]
        flink = AvroSerializerSnapshot(schema='"long"', runtime_class="a.B")
        found = AvroSerializer("long").ensure_compatibility(flink).findings
        assert ["Flink's Avro serializer does not write Avro's binary encoding"] == [f.reason for f in found]


def test_infinity_is_what_a_number_past_single_precision_becomes():
    assert [math.inf, -math.inf] == [round_float(1e300), round_float(-1e300)]
