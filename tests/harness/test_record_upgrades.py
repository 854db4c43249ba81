"""Harness cases D11 to D22 and D25: classes of one name before and after an upgrade, as modules of a user."""

from __future__ import annotations

import sys

import attrs
import pytest

from stateshift import OldReaderUnavailable, PickleSerializer, Symbol, Verdict
from stateshift.compat.old_reader import find_old_reader
from stateshift.serializers.records.hints import record_serializer

C, R, M, MF, I = Verdict  # noqa: E741 - as the harness cases call them


SHOP = """
import enum
from dataclasses import dataclass
from stateshift import Int32
from stateshift.serializers.records.classes import record

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
    """D11: REC-1; text, number, enum and flag, of a class that was loaded again."""
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
    """D17: REC-14; stored tags stay with their classes. The order of declaration does not assign tags."""
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
    """D21: SNAP-9; name, fields and what is nested are reported, and the class is not looked for."""
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
    """D22: a described record is read without it (SNAP-9), a pickled one cannot be read (READ-4)."""
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


PERSON = """
from dataclasses import dataclass
from stateshift.serializers.records.classes import record

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
