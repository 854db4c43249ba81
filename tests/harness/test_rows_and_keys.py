"""Schemas of keys and values, flat and nested, as stores of rows judge them (harness cases, section H).

A grid of four: the changed record is the key or the value of a state, itself or within another record. The old side is
a recorded revision, as it is read back from its file.
"""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest

from stateshift import (
    AvroSerializer,
    Decision,
    Field,
    Int32,
    Job,
    Operator,
    ValueNotConvertible,
    ValueStateDescriptor,
    Verdict,
    check,
    record,
)
from stateshift.compat import explain
from stateshift.compat.description import JobDescription, SerializerDescription
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.compat.report_data import to_data

OK, RECONFIGURE = Verdict.COMPATIBLE, Verdict.COMPATIBLE_AFTER_RECONFIGURATION
MIGRATE, REFUSE = Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE
REJECTED = "rejected as a key"


def grid(test):
    """The test in all four fields: for key and value, flat and nested."""
    sides = pytest.mark.parametrize("side", ["key", "value"])
    return sides(pytest.mark.parametrize("depth", ["flat", "nested"])(test))


def made(name, **fields):
    """A class with fields by name; one with a default is a pair."""
    pairs = {field: hint if isinstance(hint, tuple) else (hint, attrs.NOTHING) for field, hint in fields.items()}
    attributes = {field: attrs.field(type=hint, default=value, kw_only=True) for field, (hint, value) in pairs.items()}
    new = attrs.make_class(name, attributes, frozen=True)
    new.__module__ = "shop"
    return new


def order(depth, **fields):
    """A class `Order`, or one that has it within."""
    inner = made("Order", **fields)
    return inner if depth == "flat" else made("Cart", lines=inner, size=int)


def job(key, value):
    return Job([Operator("shop", key=key, states=[ValueStateDescriptor("s", value)])]).describe()


def recorded(description):
    return from_json(to_json(description))


def report_on(side, old, new):
    """What is said of a key, or of a value, whose type was `old` and is `new`."""
    was, becomes = (job(kind, str) if side == "key" else job(str, kind) for kind in (old, new))
    (operator,) = check(recorded(was), becomes).operators
    return operator.key if side == "key" else operator.states[0]


def judged(side, old, new):
    """The verdict; of a key that may not change in place, `REJECTED`."""
    report = report_on(side, old, new)
    first = next(((finding.path, finding.rule) for finding in report.result.findings), None)
    if side == "key" and first == ("$<key>", "ROLE-2"):
        assert (REFUSE, Decision.REFUSE) == (report.result.verdict, report.decision)
        return REJECTED
    return report.result.verdict


def changed(side, depth, old, new):
    return judged(side, order(depth, **old), order(depth, **new))


@grid
def test_add_field(side, depth):
    """H01: a key gets no field; a value gets one that has a default."""
    with_default = changed(side, depth, {"id": int}, {"id": int, "note": (str, "")})
    without = changed(side, depth, {"id": int}, {"id": int, "note": str})

    assert {"key": (REJECTED, REJECTED), "value": (MIGRATE, REFUSE)}[side] == (with_default, without)


@grid
def test_remove_field(side, depth):
    """H02: a key loses no field, a value may."""
    assert {"key": REJECTED, "value": MIGRATE}[side] == changed(side, depth, {"id": int, "note": str}, {"id": int})


@grid
def test_change_type(side, depth):
    """H03: a field of a value may become wider, and nothing else; one of a key keeps its type."""
    found = [changed(side, depth, {"id": old}, {"id": new}) for old, new in ((Int32, int), (int, Int32), (int, str))]

    assert {"key": [REJECTED] * 3, "value": [MIGRATE, REFUSE, REFUSE]}[side] == found


@grid
def test_tighten_writer(side, depth):
    """H04: what is stored may be None."""
    assert {"key": REJECTED, "value": REFUSE}[side] == changed(side, depth, {"id": int | None}, {"id": int})


@pytest.mark.parametrize("depth", ["flat", "nested"])
def test_a_key_whose_stored_type_does_not_say_what_may_be_none_keeps_its_bytes(depth):
    """H04: the snapshot of a POJO does not; that a stored None fails later is a flag (REC-17)."""

    def of_java(**fields):
        java = record(java_class="shop.Order")(made("Order", **fields))
        return java if depth == "flat" else record(java_class="shop.Cart")(made("Cart", lines=java, size=int | None))

    (operator,) = job(of_java(id=int | None), str).operators
    by_flink = attrs.evolve(operator, key=SerializerDescription(operator.key.snapshot))
    (report,) = check(JobDescription("savepoint", (by_flink,)), job(of_java(id=int), str)).operators

    assert (OK, Decision.START) == (report.key.result.verdict, report.key.decision)
    assert "may_fail_per_value" in {flag for _, flag in report.key.result.flags}


@grid
def test_loosen(side, depth):
    """H05: the bytes change where the layout has no null flag yet (OPT-1); a record has one for each field (REC-10)."""
    bare = (int, int | None) if depth == "flat" else (list[int], list[int | None])

    assert {"key": REJECTED, "value": MIGRATE}[side] == judged(side, *bare)
    assert OK is changed(side, depth, {"id": int}, {"id": int | None})


@grid
def test_rename(side, depth):
    """H06: without an alias one field has gone and another has come; with one the bytes stay."""
    names = int, (int, 0), Annotated[int, Field(aliases=("id",))]
    found = [changed(side, depth, {"id": int}, {"number": number}) for number in names]

    assert {"key": [REJECTED, REJECTED, RECONFIGURE], "value": [REFUSE, MIGRATE, RECONFIGURE]}[side] == found


@pytest.mark.parametrize("depth", ["flat", "nested"])
def test_rename_that_loses_the_values_is_flagged(depth):
    """H06: it migrates, as the new field has a default; the flag says that it may have been a rename (REC-7)."""
    report = report_on("value", order(depth, id=int), order(depth, number=(int, 0)))

    assert "possible_rename:id->number" in {flag for _, flag in report.result.flags}


@pytest.mark.parametrize("depth", ["flat", "nested"])
def test_rename_with_a_java_class(depth):
    """H06: Flink finds the fields of a POJO in alphabetical order; a rename that changes it is a migration."""

    def of_java(**fields):
        java = record(java_class="shop.Order")(made("Order", **fields))
        return java if depth == "flat" else record(java_class="shop.Cart")(made("Cart", lines=java, size=int))

    moved = Annotated[int, Field(aliases=("id",))]

    assert MIGRATE is judged("value", of_java(id=int, note=str), of_java(number=moved, note=str))
    assert RECONFIGURE is judged("value", of_java(id=int, note=str), of_java(key=moved, note=str))


NAMES = [f"{number:04}".join(("field", "x" * 60)) for number in range(1100)]


def test_very_long_schema():
    """H07: names of a record that take more than 64 KiB together, and one name of Avro that does alone."""
    wide = dict.fromkeys(NAMES, int)
    old, same, more = (made("Wide", **fields) for fields in (wide, wide, wide | {"note": (str, "")}))

    assert len("".join(NAMES)) > 65_536
    assert OK is judged("value", old, same)
    assert ["$.note"] == [finding.path for finding in report_on("value", old, more).result.findings]

    def avro(kind):
        return AvroSerializer({"type": "record", "name": "R", "fields": [{"name": "n" * 65_537, "type": kind}]})

    assert OK is judged("value", avro("int"), avro("int"))
    assert MIGRATE is judged("value", avro("int"), avro("double"))


def test_one_name_past_64_kib_is_refused_by_its_length():
    """H07: Flink writes names with two bytes for their length, and so do the snapshots of records."""
    with pytest.raises(ValueNotConvertible, match=r"a name takes 65,536 bytes, but the format allows 65,535"):
        recorded(job(str, made("Wide", **{"n" * 65_536: int})))


def test_schema_file_version_1_readable(root):
    """H08: a file that `stateshift snapshot` wrote at version 1 of its format; it is never rewritten."""
    text = (root / "tests" / "harness" / "recorded_version_1.json").read_text(encoding="utf-8")
    new = job(made("Order", id=int), made("Order", id=int, note=(str, "")))

    (operator,) = check(from_json(text), new).operators

    assert '"version": 1,' in text
    assert (OK, MIGRATE) == (operator.key.result.verdict, operator.states[0].result.verdict)
    assert ["$.note"] == [finding.path for finding in operator.states[0].result.findings]


IS_ANOTHER = "  it has none of the stored states; if it is another operator, give it a new uid"


@pytest.mark.parametrize(("key", "told"), [(int, "refuse"), (str, "start")])
def test_operator_changed(key, told):
    """H09: it is reported for the operator; the schemas are not compared with each other."""
    windows = Operator("op", key=key, states=[ValueStateDescriptor("windows", list[int])])
    report = check(recorded(job_of("op", seen=bool, last=str)), Job([windows]).describe())
    lines = explain.text_lines(report)
    (operator,) = to_data(report)["operators"]

    assert lines[0].startswith(told)
    assert IS_ANOTHER in lines
    assert operator["is_another"]
    assert [] == [finding for state in operator["states"] for finding in state["findings"]]


@pytest.mark.parametrize("states", [{"seen": bool, "windows": str}, {"seen": bool}, {}, {"sean": bool}])
def test_an_operator_with_one_of_its_states_or_one_that_may_be_is_the_same(states):
    report = check(recorded(job_of("op", seen=bool, last=str)), job_of("op", **states))

    assert IS_ANOTHER not in explain.text_lines(report)


def job_of(uid, **states):
    return Job([Operator(uid, key=str, states=[ValueStateDescriptor(*pair) for pair in states.items()])]).describe()
