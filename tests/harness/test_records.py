"""Harness cases D: records that lose, gain, rename and retype fields. `test_record_upgrades.py` has the rest."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import attrs
import pytest

from stateshift import Field, Int32, Record, Verdict, record
from stateshift.compat.testing import V1, V2, NeedsReconfig, Refuses
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.hints import record_serializer
from stateshift.serializers.records.serializers import RecordSerializer

C, R, M, MF, I = Verdict  # noqa: E741 - as the harness cases call them
NAME = "shop.Account"


def named(cls, name=NAME, **changes):
    """The serializer of a class under a name that all its versions share."""
    return attrs.evolve(record_serializer(cls), name=name, **changes)


def fields_of(**serializers):
    """A record without a class, by its fields."""
    return RecordSerializer(NAME, tuple(RecordField(name, part) for name, part in serializers.items()))


@attrs.frozen
class Three:
    id: int
    name: str
    visits: Int32


@attrs.frozen
class OnlyId:
    id: int


@attrs.frozen
class WithDefaults:
    id: int
    name: str = "none"
    visits: Int32 = 0


STORED = Three(7, "Ada", 3)


def test_restore_same_fields(stored):
    """D01: COMP-5; the same fields with the same parts, in their order."""
    old = named(Three)

    restored = stored(old).restore_serializer()

    assert [("id", "long"), ("name", "string"), ("visits", "int")] == [
        (field.name, field.serializer.describe()) for field in restored.fields
    ]
    assert [field.serializer for field in old.fields] == [field.serializer for field in restored.fields]


def test_restore_with_removed_fields(ask, stored, write, read, migrate):
    """D02: REC-4; the old reader gives all three, and the conversion is what drops two."""
    old, new = named(Three), named(OnlyId)

    found = read(stored(old).restore_serializer(), write(old, STORED))

    assert Record(NAME, {"id": 7, "name": "Ada", "visits": 3}) == found
    assert Record(NAME, {"id": 7}) == ask(new, old).conversion(found)
    assert OnlyId(7) == migrate(new, old, STORED)


def test_restore_with_new_fields(stored, write, read):
    """D03: the old reader knows nothing of what the class gained."""
    old = named(OnlyId)

    assert Record(NAME, {"id": 7}) == read(stored(old).restore_serializer(), write(old, OnlyId(7)))


def test_same_fields(ask):
    """D04: REC-1."""
    assert C is ask(named(Three), named(Three)).verdict


def test_removed_fields(ask):
    """D05: REC-4; each dropped path is a flag."""
    result = ask(named(OnlyId), named(Three))

    assert M is result.verdict
    assert {("$.name", "drops:$.name"), ("$.visits", "drops:$.visits")} == set(result.flags)


def test_new_fields(ask, rules):
    """D06: REC-2 with defaults, REC-3 without."""
    with_defaults, without = ask(named(WithDefaults), named(OnlyId)), ask(named(Three), named(OnlyId))

    assert (M, {("$.name", "REC-2"), ("$.visits", "REC-2")}) == (with_defaults.verdict, set(rules(with_defaults)))
    assert (I, {("$.name", "REC-3"), ("$.visits", "REC-3")}) == (without.verdict, set(rules(without)))


def test_new_and_removed_fields(ask):
    """D07: REC-7; of a new text for a lost one it is asked whether it was renamed, of a new flag it is not."""

    @attrs.frozen
    class Changed:
        id: int
        visits: Int32
        title: str = ""
        active: bool = True

    result = ask(named(Changed), named(Three))

    assert M is result.verdict
    assert {("$.name", "drops:$.name"), ("$.name", "possible_rename:name->title")} == set(result.flags)


def test_child_incompatible(ask, rules):
    """D08: with the path of the child."""
    result = ask(fields_of(a=V1(), b=Refuses()), fields_of(a=V1(), b=V1()))

    assert (I, [("$.b", "HARNESS")]) == (result.verdict, rules(result))


def test_child_migrates(ask, migrate):
    """D09."""
    old, new = fields_of(a=V1(), b=V1()), fields_of(a=V1(), b=V2())

    assert M is ask(new, old).verdict
    assert Record(NAME, {"a": 1, "b": 2}) == migrate(new, old, Record(NAME, {"a": 1, "b": 2}))


def test_child_reconfigures(ask):
    """D10: COMP-4; exactly that child is another one in the copy, and the one that was asked stays as it was."""
    new = fields_of(a=V1(), b=NeedsReconfig(), c=V1())

    result = ask(new, fields_of(a=V1(), b=V1(), c=V1()))

    assert R is result.verdict
    assert fields_of(a=V1(), b=NeedsReconfig(reconfigured=True), c=V1()) == result.reconfigured_serializer
    assert fields_of(a=V1(), b=NeedsReconfig(), c=V1()) == new


@attrs.frozen
class Renamed:
    id: int
    zone: Annotated[str, Field(aliases=("name",))]
    visits: Int32


@record(java_class="com.shop.Account")
@attrs.frozen
class JavaThree:
    id: int
    name: str | None
    visits: Int32


@record(java_class="com.shop.Account")
@attrs.frozen
class JavaRenamed:
    id: int
    zone: Annotated[str | None, Field(aliases=("name",))]
    visits: Int32


def test_rename_with_alias(ask, rules, write, read, migrate, stored):
    """D23: REC-6; with a Java class the fields must lie in alphabetical order again, so that values move."""
    result = ask(named(Renamed), named(Three))
    java, was = record_serializer(JavaRenamed), record_serializer(JavaThree)

    assert (R, [("$.zone", "REC-6")]) == (result.verdict, rules(result))
    assert Renamed(7, "Ada", 3) == read(result.reconfigured_serializer, write(named(Three), STORED))
    assert (M, [("$.zone", "REC-6")]) == (ask(java, was).verdict, rules(ask(java, was))[:1])
    assert JavaRenamed(7, "Ada", 3) == migrate(java, was, JavaThree(7, "Ada", 3))
    assert ["id", "visits", "zone"] == [field.name for field in stored(java).stored_fields()]


@pytest.mark.parametrize(("default", "verdict"), [({}, I), ({"default": ""}, M)])
def test_rename_without_alias_hint(ask, default, verdict):
    """D24: REC-7; with a default the values would be lost in silence, but for the flag."""
    cls = attrs.make_class(
        "Renamed", {name: attrs.field(type=hint) for name, hint in (("id", int), ("visits", Int32))}
        | {"title": attrs.field(type=str, **default)},
    )  # fmt: skip

    result = ask(named(cls), named(Three))

    assert verdict is result.verdict
    assert ("$.name", "possible_rename:name->title") in result.flags
    assert any("aliases=['name']" in way for finding in result.findings for way in map(str, finding.ways_out))


def test_reorder_fields(ask, write):
    """D26: REC-5; bytes lie in alphabetical order, but for a copy that keeps another one since a rename."""
    other = named(
        attrs.make_class(
            "Three", {"visits": attrs.field(type=Int32), "name": attrs.field(type=str), "id": attrs.field(type=int)}
        )
    )
    copy = ask(named(Renamed), named(Three)).reconfigured_serializer
    again = ask(named(Renamed), copy)

    assert C is ask(other, named(Three)).verdict
    assert R is again.verdict
    assert write(named(Three), STORED) == write(again.reconfigured_serializer, Renamed(7, "Ada", 3))


@attrs.frozen
class Note:
    text: str | None = None


def test_optional_to_required_needs_on_none(ask, rules, migrate):
    """D27: OPT-2; REC-10."""
    required = named(attrs.make_class("Note", {"text": attrs.field(type=str)}))
    cls = attrs.make_class("Note", {"text": attrs.field(type=Annotated[str, Field(on_none="-")])})
    told = ask(named(cls), named(Note))

    assert (I, [("$.text", "OPT-2")]) == (ask(required, named(Note)).verdict, rules(ask(required, named(Note))))
    assert (M, (("$.text", "lossy"),)) == (told.verdict, told.flags)
    assert [cls("-"), cls("kept")] == [migrate(named(cls), named(Note), Note(text)) for text in (None, "kept")]


def test_dataclass_attrs_swap(ask):
    """D28: REC-12."""

    @dataclasses.dataclass
    class AsDataclass:
        id: int
        name: str
        visits: Int32

    assert [C, C] == [
        ask(new, old).verdict for new, old in [(named(AsDataclass), named(Three)), (named(Three), named(AsDataclass))]
    ]


def test_default_change_is_invisible(ask, write, read):
    """D29: REC-9; given, changed and taken away, and what is stored is read as it was."""
    other = named(
        attrs.make_class(
            "Three",
            {
                "id": attrs.field(type=int),
                "name": attrs.field(type=str, default="x"),
                "visits": attrs.field(type=Int32, default=9),
            },
        )
    )

    for new, old in [(named(WithDefaults), named(Three)), (other, named(WithDefaults)), (named(Three), other)]:
        assert C is ask(new, old).verdict
        assert ("Ada", 3) == (read(new, write(old, STORED)).name, read(new, write(old, STORED)).visits)


def test_retired_name_blocks_reuse(ask, rules):
    """D30: REC-16; also where the latest snapshot lacks the name."""

    @record(retired={"name": str})
    @attrs.frozen
    class Reused:
        id: int
        name: int = 0

    result = ask(named(Reused), named(OnlyId))

    assert I is result.verdict
    assert ("$.name", "REC-16") in rules(result)
