"""Out of pickle and into it: FAM-1 and FAM-3."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import signal
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Annotated

import attrs
import cloudpickle
import pytest

from stateshift import (
    Array,
    AvroSerializer,
    BigInt,
    CorruptSavepoint,
    DeclarationError,
    Field,
    Float32,
    NaiveDatetime,
    PickledValue,
    PickleSerializer,
    Record,
    UntrustedCode,
    ValueNotConvertible,
    from_pickled,
    serializer_for,
)
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.pickled.serializers import PickleSnapshot
from stateshift.serializers.pickled.trust import trusting
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

HEAD = (
    "import attrs, dataclasses, enum\nfrom typing import Annotated, NamedTuple\nfrom stateshift import Field, record\n"
)
ALL = ("shop.Account", "shop.Line", "shop.Tier", "shop.Point")

FORMS = {
    "dataclass": "@dataclasses.dataclass\nclass Account:",
    "frozen dataclass": "@dataclasses.dataclass(frozen=True)\nclass Account:",
    "dataclass with slots": "@dataclasses.dataclass(slots=True)\nclass Account:",
    "frozen dataclass with slots": "@dataclasses.dataclass(frozen=True, slots=True)\nclass Account:",
    "attrs": "@attrs.define\nclass Account:",
    "attrs without slots": "@attrs.frozen(slots=False)\nclass Account:",
    "named tuple": "class Account(NamedTuple):",
}
"""A dataclass with slots that is frozen, and a named tuple, are pickled by the position of their fields."""


def account(form, *fields):
    return HEAD + FORMS[form] + "".join(f"\n    {field}" for field in fields)


def described(hint):
    """The class `shop.Account` with one field."""
    made = attrs.make_class("Account", {"held": attrs.field(type=hint)})
    made.__module__ = "shop"
    return made


NESTED = (
    HEAD
    + """
class Tier(enum.Enum):
    GOLD = "g"
    BASE = "b"

@dataclasses.dataclass(frozen=True)
class Point:
    x: int

@attrs.frozen
class Line:
    article: str
    tier: Tier | None = None

@dataclasses.dataclass
class Account:
    lines: list[Line | None]
    by_point: dict[Point, Line]
    pair: tuple[int, Line]
    points: set[Point]
"""
)


@pytest.fixture
def moved(write, read):
    """`moved(old, new, value)`: the value by way of FAM-1, under trust of all classes of these tests."""

    def move(old, new, value, trust=ALL):
        snapshot = snapshot_from_bytes(snapshot_to_bytes(old.snapshot_configuration()))
        found = read(snapshot.restore_serializer(), write(old, value))
        result = new.ensure_compatibility(snapshot)
        assert result.is_migration_required()
        with trusting(trust):
            return write(new, result.conversion(found))

    return move


class TestOutOfPickle:
    @pytest.mark.parametrize("after", FORMS)
    @pytest.mark.parametrize("before", FORMS)
    def test_fam_1_any_class_becomes_a_record_of_any(self, before, after, module, write, read):
        shop = module(account(before, "owner: str", "limit: int"))
        old = PickleSerializer(shop.Account)
        data, snapshot = write(old, shop.Account("ada", 7)), old.snapshot_configuration()
        shop = module(account(after, "limit: int", "owner: str"))
        new = serializer_for(shop.Account)
        result = new.ensure_compatibility(snapshot)

        assert [("$", "FAM-1")] == [(finding.path, finding.rule) for finding in result.findings]
        assert [("$", "may_fail_per_value")] == list(result.flags)
        with trusting(["shop.Account"]):
            converted = result.conversion(PickledValue("shop.Account", data[4:]))
        assert shop.Account(limit=7, owner="ada") == read(new, write(new, converted))

    def test_what_is_inside_goes_along(self, module, moved, read):
        shop = module(NESTED)
        line, point = shop.Line("pen", shop.Tier.GOLD), shop.Point(3)
        value = shop.Account([line, None], {point: line}, (1, line), {point})
        new = serializer_for(shop.Account)

        assert value == read(new, moved(PickleSerializer(shop.Account), new, value))

    def test_each_name_within_must_be_trusted(self, module, moved):
        shop = module(NESTED)
        value = shop.Account([shop.Line("pen", shop.Tier.GOLD)], {}, (1, shop.Line("ink")), set())
        old, new = PickleSerializer(shop.Account), serializer_for(shop.Account)
        needs = [need.lifted_by for need in new.ensure_compatibility(old.snapshot_configuration()).obstacles]

        assert sorted(ALL) == sorted(needs)
        for missing in ("shop.Account", "shop.Line", "shop.Tier"):
            with pytest.raises(UntrustedCode, match=f"--trust {missing}"):
                moved(old, new, value, trust=set(ALL) - {missing})

    def test_a_member_of_an_enum_that_has_another_value_now_is_refused_enum_4(self, module, rules):
        old = PickleSerializer(module(NESTED).Account).snapshot_configuration()
        swapped = NESTED.replace('GOLD = "g"', 'GOLD = "b"', 1).replace('BASE = "b"', 'BASE = "g"', 1)
        result = serializer_for(module(swapped).Account).ensure_compatibility(old)

        assert result.is_incompatible()
        assert "ENUM-4" in [rule for _, rule in rules(result)]

    def test_code_of_a_class_that_keeps_plain_fields_is_not_run(self, module, write, moved, read):
        shop = module(account("dataclass", "owner: str"))
        old, value = PickleSerializer(shop.Account), shop.Account("ada")
        data, snapshot = write(old, value), old.snapshot_configuration()
        alarmed = account("dataclass", "owner: str") + "\n    def __new__(cls, *_): raise SystemExit"
        result = serializer_for(module(alarmed).Account).ensure_compatibility(snapshot)
        with trusting(["shop.Account"]):
            found = result.conversion(PickledValue("shop.Account", data[4:]))

        assert Record("shop.Account", {"owner": "ada"}) == found

    def test_fields_pair_by_name_alias_and_default_as_for_records(self, module, write, read, rules):
        shop = module(account("attrs", "owner: str", "limit: int", "note: str"))
        old = PickleSerializer(shop.Account)
        data, snapshot = write(old, shop.Account("ada", 7, "x")), old.snapshot_configuration()
        fields = 'name: Annotated[str, Field(aliases=["owner"])]', "limit: int", 'email: str = "none"'
        shop = module(account("attrs", *fields))
        new = serializer_for(shop.Account)
        result = new.ensure_compatibility(snapshot)

        assert [("$", "FAM-1"), ("$.email", "REC-2"), ("$.note", "REC-4"), ("$.name", "REC-6")] == rules(result)
        assert {"drops:$.note", "possible_rename:note->email"} < {flag for _, flag in result.flags}
        with trusting(["shop.Account"]):
            found = result.conversion(PickledValue("shop.Account", data[4:]))
        assert shop.Account("ada", 7, "none") == read(new, write(new, found))

    def test_a_new_field_without_a_default_is_refused_rec_3(self, module, rules):
        old = PickleSerializer(module(account("attrs", "owner: str")).Account).snapshot_configuration()
        new = serializer_for(module(account("attrs", "owner: str", "limit: int")).Account)
        result = new.ensure_compatibility(old)

        assert result.is_incompatible()
        assert ("$.limit", "REC-3") in rules(result)

    def test_attributes_that_the_check_did_not_see_are_not_lost(self, module, moved):
        shop = module(account("dataclass", "owner: str"))
        value = shop.Account("ada")
        value.cached = 7
        with pytest.raises(ValueNotConvertible, match=r"attribute 'cached'.*\n(.*\n)*.*retired=\['cached'\]"):
            moved(PickleSerializer(shop.Account), serializer_for(shop.Account), value)
        retired = attrs.evolve(serializer_for(shop.Account), retired=("cached",))

        assert moved(PickleSerializer(shop.Account), retired, value)

    def test_an_attribute_that_is_not_there_takes_the_default_or_fails_with_its_path(self, module, moved, read):
        shop = module(account("dataclass", "owner: str", "limit: int = 5"))
        value = shop.Account("ada", 7)
        del value.limit
        new = serializer_for(shop.Account)
        assert 5 == read(new, moved(PickleSerializer(shop.Account), new, value)).limit
        del value.owner
        with pytest.raises(ValueNotConvertible, match="no 'owner'") as raised:
            moved(PickleSerializer(shop.Account), new, value)
        assert "$.owner" == raised.value.where["path"]

    def test_a_class_with_setstate_is_made_by_its_own_code(self, module, moved, read):
        hook = "\n    def __setstate__(self, state): self.owner = state['owner'].upper()"
        shop = module(account("dataclass", "owner: str") + hook)
        new = serializer_for(shop.Account)

        assert shop.Account("ADA") == read(new, moved(PickleSerializer(shop.Account), new, shop.Account("ada")))

    def test_a_pickle_by_reduce_of_a_class_that_has_it_no_more_is_an_error(self, module, write):
        hook = "\n    def __reduce__(self): return Account, (self.owner,)"
        shop = module(account("dataclass", "owner: str") + hook)
        old = PickleSerializer(shop.Account)
        data, snapshot = write(old, shop.Account("ada")), old.snapshot_configuration()
        result = serializer_for(module(account("dataclass", "owner: str")).Account).ensure_compatibility(snapshot)
        with trusting(["shop.Account"]), pytest.raises(ValueNotConvertible, match="a __reduce__ of its own"):
            result.conversion(PickledValue("shop.Account", data[4:]))

    def test_a_class_that_moved_has_an_alias_on_the_record_and_need_not_be_there(
        self, module, write, read, monkeypatch
    ):
        shop = module(account("attrs", "owner: str"))
        old = PickleSerializer(shop.Account)
        data, snapshot = write(old, shop.Account("ada")), old.snapshot_configuration()
        monkeypatch.delitem(sys.modules, "shop")
        fields = HEAD + '@record(aliases=["shop.Account"])\n@attrs.frozen\nclass Customer:\n    owner: str'
        customer = module(fields, "people").Customer
        result = serializer_for(customer).ensure_compatibility(snapshot)
        with trusting(["shop.Account"]):
            found = write(serializer_for(customer), result.conversion(PickledValue("shop.Account", data[4:])))

        assert customer("ada") == read(serializer_for(customer), found)
        assert "shop" not in sys.modules

    def test_another_class_takes_a_fallback_pkl_6(self, module, rules):
        old = PickleSerializer(module(account("attrs", "owner: str")).Account)
        other = module(account("attrs", "owner: str"), "others").Account
        result = serializer_for(other).ensure_compatibility(old.snapshot_configuration())

        assert [("$", "FAM-1"), ("$", "PKL-6")] == rules(result)
        assert "" in [obstacle.lifted_by for obstacle in result.obstacles]

    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (int, 7),
            (str, "é"),
            (bytes, b"\0"),
            (bool, True),
            (list[int], [1, 2]),
            (set[str], {"a"}),
            (dict[str, int | None], {"a": 1, "b": None}),
            (tuple[int, str], (1, "a")),
        ],
    )
    def test_plain_values_become_what_their_type_says(self, hint, value, moved, read):
        new = serializer_for(hint)
        name = f"builtins.{type(value).__name__}"

        assert value == read(new, moved(PickleSerializer(type(value)), new, value, trust=[name]))

    @pytest.mark.parametrize(
        ("held", "hint", "becomes"),
        [
            (3, float, 3.0),
            (2**70, BigInt, 2**70),
            (None, int | None, None),
            (Decimal("1.50"), Decimal, Decimal("1.50")),
            (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime, dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
            (dt.datetime.fromisoformat("2026-01-02"), NaiveDatetime, dt.datetime.fromisoformat("2026-01-02")),
            (dt.date(2026, 1, 2), dt.date, dt.date(2026, 1, 2)),
            (dt.time(3, 4), dt.time, dt.time(3, 4)),
            ((1, 2), list[int], [1, 2]),
            (frozenset({1}), frozenset[int], frozenset({1})),
            (Counter("aab"), dict[str, int], {"a": 2, "b": 1}),
            (OrderedDict(b=1, a=2), dict[str, int], {"b": 1, "a": 2}),
            (defaultdict(list, a=[1]), dict[str, list[int]], {"a": [1]}),
        ],
        ids=str,
    )
    def test_attributes_become_what_the_hints_of_their_fields_say(self, held, hint, becomes, module, moved, read):
        shop = module(account("dataclass", "held: object = None"))
        new = serializer_for(described(hint))

        assert becomes == read(new, moved(PickleSerializer(shop.Account), new, shop.Account(held))).held

    @pytest.mark.parametrize(
        ("held", "hint"), [(1.5, int), (deque([1]), list[int]), (bytearray(b"a"), bytes), (1, Decimal)]
    )
    def test_a_value_that_the_hint_does_not_take_is_an_error_with_its_path(self, held, hint, module, moved):
        shop = module(account("dataclass", "held: object = None"))

        with pytest.raises(ValueNotConvertible) as caught:
            moved(PickleSerializer(shop.Account), serializer_for(described(hint)), shop.Account(held))
        assert "$.held" == caught.value.where["path"]

    def test_fam_1_leads_into_avro_as_well(self, module, moved, read):
        shop = module(NESTED.split("@dataclasses.dataclass\nclass Account")[0])
        new = AvroSerializer.of(shop.Line)
        value = shop.Line("pen", shop.Tier.GOLD)

        assert value == read(new, moved(PickleSerializer(shop.Line), new, value))

    def test_a_dict_becomes_a_record_that_names_it(self, module, moved, read):
        shop = module(HEAD + '@record(aliases=["builtins.dict"])\n@attrs.frozen\nclass Account:\n    owner: str')
        new = serializer_for(shop.Account)

        found = moved(PickleSerializer(dict), new, {"owner": "ada"}, trust=["builtins.dict"])
        assert shop.Account("ada") == read(new, found)

    @pytest.mark.parametrize("new", [str, dict[str, int], AvroSerializer("string")])
    def test_an_unlike_type_is_refused_fam_2(self, new, module, rules):
        old = PickleSerializer(module(account("attrs", "owner: str")).Account)
        result = serializer_for(new).ensure_compatibility(old.snapshot_configuration())

        assert result.is_incompatible()
        assert [("$", "FAM-2")] == rules(result)

    @pytest.mark.parametrize(
        ("hint", "value", "rule"),
        [
            (Float32, 0.1, "PRIM-3"),
            (Float32 | None, 0.1, "PRIM-3"),
            (list[Float32], [0.5, 0.1], "PRIM-3"),
            (Array[Float32], [0.5, 0.1], "PRIM-3"),
            (int, True, "PRIM-4"),
            (float, True, "PRIM-4"),
            (BigInt, False, "PRIM-4"),
            (dict[str, int], {"a": True}, "PRIM-4"),
            (int, signal.SIGINT, "ENUM-8"),
        ],
    )
    def test_no_value_becomes_another_one_in_silence(self, hint, value, rule, module, moved):
        shop = module("class Account:\n    def __init__(self, held):\n        self.held = held\n")
        old = PickleSerializer(shop.Account, references=[signal.Signals])

        with pytest.raises(ValueNotConvertible, match="which would be a different value as") as caught:
            moved(old, serializer_for(described(hint)), shop.Account(value), trust={*ALL, "signal.Signals"})

        assert rule == caught.value.where["rule"]

    @pytest.mark.parametrize(("hint", "value"), [(Float32, 0.5), (Float32, math.inf), (Float32, 3), (float, 0.1)])
    def test_numbers_that_fit_are_as_they_were(self, hint, value, module, moved, read):
        shop = module("class Account:\n    def __init__(self, held):\n        self.held = held\n")
        new = serializer_for(described(hint))

        assert value == read(new, moved(PickleSerializer(shop.Account), new, shop.Account(value))).held

    def test_an_attribute_of_the_name_goes_before_an_alias(self, module, moved):
        shop = module("class Account:\n    def __init__(self, name):\n        self.name = name\n")
        made = attrs.make_class(
            "Account",
            {
                "first": attrs.field(type=Annotated[str, Field(aliases=["name"])], default=""),
                "name": attrs.field(type=str),
            },
            kw_only=True,
        )
        made.__module__ = "shop"

        with pytest.raises(DeclarationError, match="'name' is claimed by 'name' and, as an alias, by 'first'"):
            moved(PickleSerializer(shop.Account), serializer_for(made), shop.Account("ada"))

    def test_a_listed_subclass_is_no_damage(self, module, write, read):
        shop = module(
            HEAD + "@attrs.define\nclass Account:\n    a: int\n@attrs.define\nclass Gold(Account):\n    b: int\n"
        )
        old = PickleSerializer(shop.Account, references=[shop.Gold])
        data = write(old, shop.Gold(1, 2))
        new = serializer_for(shop.Account)
        result = new.ensure_compatibility(old.snapshot_configuration())

        with (
            trusting({"shop.Account", "shop.Gold"}),
            pytest.raises(ValueNotConvertible, match=r"a pickle contains a shop\.Gold"),
        ):
            result.conversion(read(old.snapshot_configuration().restore_serializer(), data))

    def test_a_direct_name_goes_before_the_alias_of_another_subclass_rec_14(self, module, write, read):
        source = HEAD + "@record()\n@attrs.define\nclass Ad:\n    a: int\n"
        shop = module(
            source + "@attrs.define\nclass Sale(Ad):\n    b: int\n@attrs.define\nclass Tail(Ad):\n    b: int\n"
        )
        old = PickleSerializer(shop.Ad, references=[shop.Sale, shop.Tail])
        data = [write(old, value) for value in (shop.Sale(1, 2), shop.Tail(3, 4))]
        shop = module(
            source
            + "@record()\n@attrs.define\nclass Sale(Ad):\n    b: int\n"
            + "@record(aliases=['shop.Sale', 'shop.Tail'])\n@attrs.define\nclass ZSale(Ad):\n    b: int\n"
        )
        new = serializer_for(shop.Ad)
        stored = old.snapshot_configuration()
        convert = new.ensure_compatibility(stored).conversion

        with trusting({"shop.Ad", "shop.Sale", "shop.Tail"}):
            found = [convert(read(stored.restore_serializer(), one)) for one in data]

        assert ["shop.Sale", "shop.ZSale"] == [record._type_name for record in found]

    def test_a_snapshot_that_lies_about_the_class_is_harmless(self, module, write):
        shop = module(NESTED)
        result = serializer_for(shop.Account).ensure_compatibility(
            PickleSerializer(shop.Account).snapshot_configuration()
        )
        with trusting(ALL):
            with pytest.raises(CorruptSavepoint, match=r"one holds a shop\.Line"):
                result.conversion(PickledValue("shop.Account", pickle.dumps(shop.Line("pen"))))
            with pytest.raises(UntrustedCode, match=r"--trust builtins\.print"):
                result.conversion(PickledValue("shop.Account", pickle.dumps(print)))

    def test_a_bomb_nested_in_a_trusted_object_is_refused(self, module, tmp_path):
        class Bomb:
            def __reduce__(self):
                return (tmp_path / "planted").touch, ()

        shop = module(NESTED)
        value = shop.Account([Bomb()], {}, (1, Bomb()), set())
        result = serializer_for(shop.Account).ensure_compatibility(
            PickleSerializer(shop.Account).snapshot_configuration()
        )
        with trusting(ALL), pytest.raises(UntrustedCode):
            result.conversion(PickledValue("shop.Account", pickle.dumps(value)))

        assert not (tmp_path / "planted").exists()

    def test_a_class_that_contains_itself_is_one_record(self, module, moved, read):
        source = HEAD + "@attrs.define\nclass Account:\n    owner: str\n    children: 'list[Account]'"
        shop = module(source)
        value = shop.Account("ada", [shop.Account("bob", [])])
        new = serializer_for(shop.Account)
        old = PickleSerializer(shop.Account)

        assert value == read(new, moved(old, new, value))
        value.children.append(value)
        with pytest.raises(ValueNotConvertible, match="contains itself"):
            moved(old, new, value)
        later = serializer_for(module(source + "\n    note: str = ''").Account)
        findings = later.ensure_compatibility(old.snapshot_configuration()).findings
        assert [("$", "FAM-1"), ("$.note", "REC-2")] == [(finding.path, finding.rule) for finding in findings]

    def test_elements_and_keys_that_become_one_are_reported(self, module, write):
        source = """
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int
@attrs.frozen
class Account:
    points: set[Point]
    by_point: dict[Point, int]
"""
        shop = module(HEAD + source)
        two = shop.Point(1, 2), shop.Point(1, 3)
        old = PickleSerializer(shop.Account)
        data = [write(old, shop.Account(*value)) for value in ((set(two), {}), (set(), dict.fromkeys(two, 1)))]
        snapshot = old.snapshot_configuration()
        new = serializer_for(module(HEAD + source.replace("    y: int\n", "")).Account)
        convert = new.ensure_compatibility(snapshot).conversion
        with trusting(ALL):
            for stored, rule in zip(data, ("LIST-2", "MAP-3"), strict=True):
                with pytest.raises(ValueNotConvertible, match="the same") as raised:
                    convert(PickledValue("shop.Account", stored[4:]))
                assert rule == raised.value.where["rule"]

    def test_a_fallback_may_give_objects_or_records(self, module, write, read):
        shop = module(account("attrs", "owner: str"))
        new = serializer_for(shop.Account)
        result = new.ensure_compatibility(PickleSerializer(shop.Account).snapshot_configuration())
        for value in (shop.Account("ada"), Record("shop.Account", {"owner": "ada"})):
            assert shop.Account("ada") == read(new, write(new, result.conversion(value)))


class TestOnWorkers:
    def test_classes_go_along_though_their_module_does_not(self, module, write, read, monkeypatch):
        shop = module(NESTED)
        cloudpickle.register_pickle_by_value(shop)
        value = shop.Account([shop.Line("pen", shop.Tier.GOLD)], {}, (1, shop.Line("ink")), set())
        old, new = PickleSerializer(shop.Account), serializer_for(shop.Account)
        data = write(old, value)
        shipped = cloudpickle.dumps((new, new.ensure_compatibility(old.snapshot_configuration()).conversion))
        cloudpickle.unregister_pickle_by_value(shop)
        monkeypatch.delitem(sys.modules, "shop")
        new, convert = cloudpickle.loads(shipped)
        with trusting(ALL):
            found = read(new, write(new, convert(PickledValue("shop.Account", data[4:]))))

        assert "GOLD" == found.lines[0].tier.name
        assert "shop" not in sys.modules

    def test_classes_with_a_serializer_of_the_users_are_made(self, module, write, read, monkeypatch):
        shop = module(
            HEAD
            + """
from stateshift import TypeSerializer
@attrs.frozen
class Money:
    cents: int
class MoneySerializer(TypeSerializer):
    def serialize(self, value, target): target.write_long(value.cents)
    def deserialize(self, source): return Money(source.read_long())
    def snapshot_configuration(self): return None
@attrs.frozen
class Account:
    balance: Money
"""
        )
        monkeypatch.setattr(registry, "_serializers", {shop.Money: shop.MoneySerializer()})
        old, new = PickleSerializer(shop.Account), serializer_for(shop.Account)
        data = write(old, shop.Account(shop.Money(7)))
        convert = new.ensure_compatibility(old.snapshot_configuration()).conversion
        monkeypatch.delitem(sys.modules, "shop")
        with trusting(["shop.Account", "shop.Money"]):
            assert 7 == read(new, write(new, convert(PickledValue("shop.Account", data[4:])))).balance.cents


class TestBytesOfPyFlink:
    def test_a_converter_opens_them(self, module, write, read):
        shop = module(NESTED)
        value = shop.Account([shop.Line("pen")], {}, (1, shop.Line("ink")), set())
        convert = pickle.loads(pickle.dumps(from_pickled(shop.Account)))
        new = serializer_for(shop.Account)
        with pytest.raises(UntrustedCode, match=r"--trust shop\.Account"):
            convert(pickle.dumps(value))
        with trusting(ALL):
            assert value == read(new, write(new, convert(pickle.dumps(value))))

    def test_an_alias_names_a_class_that_is_gone(self, module, write, read, monkeypatch):
        data = pickle.dumps(module(account("attrs", "owner: str"), "old").Account("ada"))
        monkeypatch.delitem(sys.modules, "old")
        shop = module(HEAD + '@record(aliases=["old.Account"])\n@attrs.frozen\nclass Account:\n    owner: str')
        new = serializer_for(shop.Account)
        with trusting(["shop.Account", "old.Account"]):
            assert shop.Account("ada") == read(new, write(new, from_pickled(shop.Account)(data)))

    def test_a_class_without_description_is_refused_at_once(self, module):
        with pytest.raises(DeclarationError):
            from_pickled(module("class Account: pass").Account)


class TestIntoPickle:
    def test_fam_3_a_record_becomes_an_object_that_is_pickled(self, module, migrate, ask):
        shop = module(account("attrs", "owner: str", "limit: int"))
        old, new = serializer_for(shop.Account), PickleSerializer(shop.Account)
        result = ask(new, old)

        assert [("$", "unverified_after")] == list(result.flags)
        assert shop.Account("ada", 7) == migrate(new, old, shop.Account("ada", 7))

    def test_fam_3_goes_by_the_rules_of_the_described_type(self, module, migrate, ask, rules, stored):
        shop = module(account("attrs", "owner: str"))
        old = serializer_for(shop.Account)
        data = shop.Account("ada")
        snapshot = stored(old)
        shop = module(account("attrs", "owner: str", "limit: int = 5"))
        result = PickleSerializer(shop.Account).ensure_compatibility(snapshot)
        refused = PickleSerializer(module(account("attrs", "owner: int")).Account).ensure_compatibility(snapshot)

        assert [("$", "FAM-3"), ("$.limit", "REC-2")] == rules(result)
        assert shop.Account("ada", 5) == result.conversion(Record("shop.Account", {"owner": data.owner}))
        assert refused.is_incompatible()
        assert [("$.owner", "PRIM-4")] == rules(refused)

    def test_what_the_class_does_not_describe_is_refused_fam_2(self, module, ask, rules):
        new = PickleSerializer(module("class Account: pass").Account)
        for old in (LongSerializer(), BytesSerializer()):
            result = ask(new, old)
            assert result.is_incompatible()
            assert [("$", "FAM-2")] == rules(result)

    def test_plain_values_too(self, migrate):
        assert 7 == migrate(PickleSerializer(int), LongSerializer(), 7)


def test_an_empty_snapshot_restores_what_reads_nothing_of_a_class():
    assert "pickle<>" == PickleSnapshot().restore_serializer().describe()
