"""Objects as plain data, and fields of plain data taken one by one."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from stateshift import CorruptFile, Flag, Target, Verdict
from stateshift.compat.plain_data import Fields, fields_of, plain


@attrs.frozen
class Inner:
    verdict: Verdict
    note: str = ""


@attrs.frozen
class Outer:
    name: str
    inner: Inner | None
    parts: tuple[Inner, ...] = ()

    @property
    def title(self) -> str:
        return self.name.upper()


KEPT = Inner(Verdict.COMPATIBLE)
SAID = Inner(Verdict.REQUIRES_MIGRATION, "read it")


class TestFieldsOf:
    def test_attributes_are_listed_in_the_order_of_the_names_and_properties_count(self):
        found = fields_of(Outer("a", None), "title name")

        assert [("title", "A"), ("name", "a")] == list(found.items())

    def test_a_name_may_stand_for_another_attribute_or_for_one_of_an_attribute(self):
        found = fields_of(Outer("a", SAID), "uid=name verdict=inner.verdict")

        assert {"uid": "a", "verdict": "requires_migration"} == found

    def test_an_attribute_of_nothing_is_null(self):
        assert {"verdict": None} == fields_of(Outer("a", None), "verdict=inner.verdict")

    def test_empty_is_null_only_where_a_question_mark_says_so(self):
        assert {"note": "", "remark": None} == fields_of(KEPT, "note remark=note?")
        assert {"note": "read it"} == fields_of(SAID, "note?")

    def test_an_attribute_that_does_not_exist_is_an_error(self):
        with pytest.raises(AttributeError, match="verdikt"):
            fields_of(KEPT, "verdikt")


class TestPlain:
    def test_objects_become_their_fields_and_tuples_lists(self):
        assert {
            "name": "a",
            "inner": None,
            "parts": [{"verdict": "compatible", "note": ""}, {"verdict": "requires_migration", "note": "read it"}],
        } == plain(Outer("a", None, (KEPT, SAID)))

    def test_names_apply_to_every_object_of_a_list_and_nothing_stays_null(self):
        assert [{"note": None}, {"note": "read it"}] == plain((KEPT, SAID), "note?")
        assert plain(None, "note?") is None

    @pytest.mark.parametrize(
        ("value", "data"),
        [
            (Target.FLINK, "flink"),
            (frozenset({Flag.UNVERIFIED, Flag.DROPS}), ["drops", "unverified"]),
            (dt.date(2026, 1, 31), "2026-01-31"),
            (dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), "2026-01-31T12:00:00.000Z"),
            (dt.timedelta(minutes=1), 60.0),
            (b"\x00\xff", "00ff"),
            ({Verdict.COMPATIBLE.decision: 1}, {"start": 1}),
            (True, True),
        ],
    )
    def test_values_have_one_form_each(self, value, data):
        found = plain(value)

        assert (data, type(data)) == (found, type(found))


class TestFields:
    def test_a_date_is_taken(self):
        assert dt.date(2026, 1, 31) == Fields({"on": "2026-01-31"}, "a stamp").date("on")

    @pytest.mark.parametrize(
        ("value", "message"),
        [("31.1.2026", "'31.1.2026' is not a date"), (7, "'on' of a stamp is 7, but should be a string")],
    )
    def test_what_is_no_date_is_refused(self, value, message):
        with pytest.raises(CorruptFile, match=message):
            Fields({"on": value}, "a stamp").date("on")
