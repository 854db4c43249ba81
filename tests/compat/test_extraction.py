"""What Flink makes of the fields of a Java class by itself; tests/interop/test_started.py asks it."""

from __future__ import annotations

import pytest

from stateshift import Target, Verdict, check, serializer_for
from stateshift.compat.description import StateKind
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer

FLINKS = {"list": list[str | None] | None, "map": dict[str | None, int] | None, "set": set[str] | None}
ODD = {
    "list": (list[str], list[str] | None, list[str | None]),
    "map": (dict[str, int], dict[str, int] | None, dict[str | None, int]),
    "set": (set[str],),
}


def record(**fields):
    made = [RecordField(name, serializer_for(hint), default=None) for name, hint in sorted(fields.items())]
    return PojoSerializer("shop.Account", tuple(made))


@pytest.fixture
def told(make):
    """Check a state with a record's fields before and after, and give the paths of which it warns."""

    def paths(before, after, wrap=lambda one: one, **options):
        old, new = (make.job(make.state("s", StateKind.VALUE, wrap(record(**one)))) for one in (before, after))
        report = check(old, new, **options)
        return [finding.path for _, _, finding in report.findings() if finding.rule == "TARGET-FLINK"]

    return paths


@pytest.mark.parametrize("kind", FLINKS)
def test_a_new_field_of_a_form_that_flink_does_not_make_itself_is_reported(told, kind):
    assert [] == told({"id": int, "a": FLINKS[kind]}, {"id": int, "a": FLINKS[kind]})
    for hint in ODD[kind]:
        assert ["$.a"] == told({"id": int}, {"id": int, "a": hint}), hint
        assert ["$.a"] == told({"id": int, "a": FLINKS[kind]}, {"id": int, "a": hint}), hint
        assert [] == told({"id": int, "a": hint}, {"id": int, "a": hint}), "what is stored so, the class names"
        assert [] == told({"id": int}, {"id": int, "a": hint}, target=Target.ANY)


def test_flink_1_leaves_all_of_them_to_kryo(told):
    for hint in FLINKS.values():
        assert [] == told({"id": int}, {"id": int, "a": hint}, target=Target.FLINK_2_3)
        assert ["$.a"] == told({"id": int}, {"id": int, "a": hint}, target=Target.FLINK_1_20)


def test_it_says_what_to_declare_and_refuses_nothing(make):
    old, new = (make.job(make.state("s", StateKind.VALUE, record(**one))) for one in ({}, {"tags": list[str]}))

    (finding,) = (one for _, _, one in check(old, new).findings() if one.rule == "TARGET-FLINK")

    assert ("list<string>", ("declare the field as list[T | None] | None",)) == (
        finding.new,
        tuple(map(str, finding.ways_out)),
    )
    assert Verdict.COMPATIBLE is finding.verdict
