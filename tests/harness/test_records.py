"""Harness cases D: records that lose, gain, rename and retype fields, classes and subclasses."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import attrs
import pytest

from stateshift.compat.old_reader import find_old_reader
from stateshift.compat.testing import V1, V2, NeedsReconfig, Refuses
from stateshift.serializers.compatibility import Verdict
from stateshift.serializers.errors import OldReaderUnavailable
from stateshift.serializers.hints import Int32, record_serializer
from stateshift.serializers.pickled import PickleSerializer
from stateshift.serializers.record_classes import Field, record
from stateshift.serializers.record_fields import RecordField
from stateshift.serializers.record_values import Record
from stateshift.serializers.records import RecordSerializer
from stateshift.serializers.symbols import Symbol

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


SHOP = """
import enum
from dataclasses import dataclass
from stateshift import Int32
from stateshift.serializers.record_classes import record

class Level(enum.Enum):
    LOW = 1
    HIGH = 2

class Channel(enum.Enum):
    SHOP = 1
    WEB = 2

@record()
@dataclass
class Account:
    name: str
    age: Int32
    level: Level
    active: bool
"""
ADA = {"name": "Ada", "age": 36, "active": True}


def account(shop):
    return shop.Account(**ADA, level=shop.Level.HIGH)


def test_upgrade_identical(module, ask, write, read):
    """D11: REC-1; text, number, enum and flag, of a class that was loaded anew."""
    was = module(SHOP)
    old = record_serializer(was.Account)
    shop = module(SHOP)
    new = record_serializer(shop.Account)

    assert C is ask(new, old).verdict
    assert account(shop) == read(new, write(old, account(was)))


def test_upgrade_modified(module, ask, migrate):
    """D12: REC-2, REC-4; what is kept keeps its values, and what is new has its defaults."""
    was = module(SHOP)
    old = record_serializer(was.Account)
    shop = module(
        SHOP.replace("    age: Int32\n    level: Level\n", "")
        + "    channel: Channel | None = None\n    blocked: bool = False\n"
    )
    new = record_serializer(shop.Account)

    assert M is ask(new, old).verdict
    assert shop.Account("Ada", active=True, channel=None, blocked=False) == migrate(new, old, account(was))


def test_upgrade_field_type_changed(module, ask, rules):
    """D13: REC-8, PRIM-4."""
    old = record_serializer(module(SHOP).Account)
    new = record_serializer(module(SHOP.replace("age: Int32", "age: str")).Account)

    assert (I, [("$.age", "PRIM-4")]) == (ask(new, old).verdict, rules(ask(new, old)))


SILVER = """
@record()
@dataclass
class Silver(Account):
    discount: Int32 = 0
    agent: str = ""
"""
GOLD = """
@record()
@dataclass
class Gold(Account):
    bonus: Int32 = 0
"""


def silver(shop, **others):
    return shop.Silver(**ADA, level=shop.Level.HIGH, **others)


def test_upgrade_subclass_modified(module, ask, migrate):
    """D14: REC-14 with REC-2 and REC-4 within; the instance is one of the subclass still."""
    was = module(SHOP + SILVER)
    old = record_serializer(was.Account)
    shop = module(SHOP + SILVER.replace('agent: str = ""', 'since: Int32 = 1\n    note: str = "new"'))
    new = record_serializer(shop.Account)

    assert M is ask(new, old).verdict
    assert silver(shop, discount=5, since=1, note="new") == migrate(new, old, silver(was, discount=5, agent="Eve"))


def test_upgrade_subclass_type_changed(module, ask):
    """D15: REC-8 within a subclass; the path says in which."""
    old = record_serializer(module(SHOP + SILVER).Account)
    result = ask(
        record_serializer(module(SHOP + SILVER.replace("discount: Int32 = 0", 'discount: str = ""')).Account), old
    )

    assert I is result.verdict
    assert ["PRIM-4"] == [finding.rule for finding in result.findings]
    assert result.findings[0].path.endswith(".discount")


@pytest.fixture
def reconfigured(module, ask, write, read):
    """`reconfigured(before, after)`: subclasses as declared; the names of the copy, once it has read a silver one."""

    def upgrade(before, after, stored_order=("Gold", "Silver")):
        was = module(SHOP + before)
        old = record_serializer(was.Account)
        old = attrs.evolve(
            old, registered=tuple(sorted(old.registered, key=lambda one: stored_order.index(one[0][5:])))
        )
        data = write(old, silver(was, discount=5, agent="Eve"))
        shop = module(SHOP + after)
        result = ask(record_serializer(shop.Account), old)
        assert R is result.verdict
        assert {"REC-14"} == {finding.rule for finding in result.findings}
        copy = result.reconfigured_serializer
        assert silver(shop, discount=5, agent="Eve") == read(copy, data)
        assert data == write(copy, silver(shop, discount=5, agent="Eve"))
        return [name.removeprefix("shop.") for name, _ in copy.registered]

    return upgrade


UNREGISTERED_GOLD = GOLD.replace("@record()\n", "")
PLATINUM = GOLD.replace("Gold", "Platinum")


def test_upgrade_registration_order(reconfigured, module, ask):
    """D17: REC-14; stored tags stay with those who have them. In which order classes are declared gives them no tag."""
    old = record_serializer(module(SHOP + SILVER + GOLD).Account)
    new = record_serializer(module(SHOP + GOLD + SILVER).Account)

    assert C is ask(new, old).verdict
    assert ["Silver", "Gold"] == reconfigured(SILVER + GOLD, GOLD + SILVER, stored_order=("Silver", "Gold"))


def test_upgrade_registration_missing(reconfigured):
    """D18: REC-14; the class is still there to be imported, and its tag is kept."""
    assert ["Gold", "Silver"] == reconfigured(GOLD + SILVER, UNREGISTERED_GOLD + SILVER)


def test_upgrade_registration_added(reconfigured):
    """D19: REC-14; the new one comes last, wherever it is declared."""
    assert ["Silver", "Gold"] == reconfigured(SILVER, GOLD + SILVER)


def test_upgrade_registration_added_and_missing(reconfigured):
    """D20: REC-14."""
    assert ["Gold", "Silver", "Platinum"] == reconfigured(GOLD + SILVER, UNREGISTERED_GOLD + PLATINUM + SILVER)


def test_snapshot_readable_without_class(module, stored, monkeypatch):
    """D21: SNAP-9; name, fields and what is nested are told, and nobody looks for the class."""
    serializer = record_serializer(module(SHOP).Account)
    monkeypatch.delitem(sys.modules, "shop")

    snapshot = stored(serializer)

    assert "shop.Account" == snapshot.record_name()
    assert [("active", "boolean"), ("age", "int"), ("level", "enum Level"), ("name", "string")] == [
        (field.name, field.describe()) for field in snapshot.stored_fields()
    ]
    assert ("LOW", "HIGH") == snapshot.stored_fields()[2].snapshot.symbols
    assert "shop" not in sys.modules


def test_restore_without_class(module, stored, write, read, monkeypatch):
    """D22: a described record is read without it (SNAP-9), a pickled one by nobody (READ-4)."""
    shop = module(SHOP)
    described, pickled = record_serializer(shop.Account), PickleSerializer(shop.Account)
    data, snapshot = write(described, account(shop)), stored(pickled)
    other = module("class Other: pass", "others")
    monkeypatch.delitem(sys.modules, "shop")

    value = read(stored(described).restore_serializer(), data)
    result = PickleSerializer(other.Other).ensure_compatibility(snapshot)

    assert ("Ada", 36, Symbol("HIGH"), True) == (value.name, value.age, value.level, value.active)
    with pytest.raises(OldReaderUnavailable, match=r"shop\.Account"):
        find_old_reader(snapshot, obstacles=result.obstacles)


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
    assert any("aliases=['name']" in way for finding in result.findings for way in finding.ways_out)


PERSON = """
from dataclasses import dataclass
from stateshift.serializers.record_classes import record

@record()
@dataclass
class Person:
    name: str
"""


def test_class_moved_with_alias(module, ask, rules, write, read):
    """D25: REC-11."""
    was = module(PERSON)
    old = record_serializer(was.Person)
    told = module(PERSON.replace("record()", 'record(aliases=("shop.Person",))'), "staff")
    result = ask(record_serializer(told.Person), old)
    without = ask(record_serializer(module(PERSON, "staff").Person), old)

    assert (R, [("$", "REC-11")]) == (result.verdict, rules(result))
    assert told.Person("Ada") == read(result.reconfigured_serializer, write(old, was.Person("Ada")))
    assert (I, [("$", "REC-11")]) == (without.verdict, rules(without))


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
