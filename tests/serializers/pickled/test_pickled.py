"""Pickle and cloudpickle as serializers, their snapshots, and the rules PKL-1 to PKL-6."""

from __future__ import annotations

import pickle
import pickletools
import sys

import attrs
import cloudpickle
import pytest

from stateshift import (
    CloudPickleSerializer,
    CorruptSavepoint,
    DataInputView,
    DeclarationError,
    PickledValue,
    PickleSerializer,
    StateShiftError,
    UntrustedCode,
    ValueNotConvertible,
    Verdict,
)
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.pickled.serializers import CloudPickleSnapshot, PickleSnapshot
from stateshift.serializers.pickled.trust import trusting
from stateshift.serializers.pickled.values import Fingerprint, PickledBy, Shape
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

PLAIN = """
class Account:
    def __init__(self, owner, limit=0):
        self.owner = owner
        self.limit = limit
    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)
    __hash__ = None
"""
DATA = """
import dataclasses, enum
class Tier(enum.Enum):
    GOLD = "g"
    BASE = "b"
@dataclasses.dataclass
class Line:
    article: str
@dataclasses.dataclass
class Account:
    owner: str
    tier: Tier
    lines: list[Line | None]
"""
CHANGED = PLAIN.replace("limit=0):", "limit=0, email=None):\n        self.email = email")
HOOK = """
    def __setstate__(self, state):
        self.__dict__ = {"email": "none then", **state}
"""
HERE = sys.version_info[:2]


@pytest.fixture
def shop(module):
    return module(PLAIN)


@pytest.fixture
def serializer(shop):
    return PickleSerializer(shop.Account)


def verdict_of(result):
    return result.verdict.label


def fingerprint(snapshot, **changes):
    """A snapshot as another job or interpreter would have written it."""
    return attrs.evolve(snapshot, fingerprint=attrs.evolve(snapshot.fingerprint, **changes))


class TestValues:
    def test_a_value_is_a_length_and_a_pickle_like_bytes_in_flink(self, shop, serializer, write, read):
        value = shop.Account("ada", 7)
        data = write(serializer, value)

        assert write(BytesSerializer(), pickle.dumps(value, 5)) == data
        assert value == read(serializer, data)

    def test_classes_that_hints_name_may_be_within(self, module, write, read):
        shop = module(DATA)
        value = shop.Account("ada", shop.Tier.GOLD, [shop.Line("pen"), None])
        serializer = PickleSerializer(shop.Account)

        assert value == read(serializer, write(serializer, value))

    def test_an_unlisted_class_within_is_refused_when_it_is_written(self, shop, serializer, write, module):
        other = module("class Note: pass", "notes")
        value = shop.Account(other.Note())
        with pytest.raises(ValueNotConvertible, match=r"holds a notes.Note.*\n.*references=\(Note,\)"):
            write(serializer, value)

        assert write(PickleSerializer(shop.Account, references=(other.Note,)), value)

    @pytest.mark.parametrize("make", [PickleSerializer, CloudPickleSerializer])
    def test_functions_within_are_refused_too(self, shop, make, write):
        for function in (print, lambda: 1):
            with pytest.raises(ValueNotConvertible):
                write(make(shop.Account), shop.Account(function))

    def test_a_function_cannot_be_listed(self, shop, write):
        with pytest.raises(ValueNotConvertible, match="let __reduce__ return a class"):
            write(PickleSerializer(shop.Account), shop.Account(len))
        with pytest.raises(DeclarationError, match=r"references has .*len.*, which is not a class"):
            PickleSerializer(shop.Account, references=(len,))

    def test_another_class_and_null_are_refused(self, serializer, write):
        for value in ("text", None):
            with pytest.raises(ValueNotConvertible, match=r"is not of the class shop\.Account"):
                write(serializer, value)

    def test_stored_bytes_that_hold_something_else_are_refused(self, serializer, write):
        for held, error in ((pickle.dumps([1]), CorruptSavepoint), (pickle.dumps(Shape), UntrustedCode)):
            with pytest.raises(error):
                serializer.deserialize(DataInputView(write(BytesSerializer(), held)))

    def test_in_a_migration_values_stay_unopened(self, shop, serializer, write, read):
        data = write(serializer, shop.Account("ada"))
        with trusting(["shop.Account"]):
            value = read(serializer, data)

        assert PickledValue("shop.Account", data[4:]) == value
        assert data == write(serializer, value)

    @pytest.mark.parametrize("protocol", [1, 6])
    def test_protocols_that_are_not_written(self, shop, protocol):
        with pytest.raises(DeclarationError, match="choose 2 to 5"):
            PickleSerializer(shop.Account, protocol=protocol)

    def test_a_class_without_a_place_in_a_module_is_refused(self):
        class Local:
            pass

        with pytest.raises(DeclarationError, match="cannot be found by its name"):
            PickleSerializer(Local)

    def test_one_alias_is_not_a_list_of_letters(self, shop):
        with pytest.raises(DeclarationError, match=r"write \('shop.Was',\)"):
            PickleSerializer(shop.Account, aliases="shop.Was")

    def test_a_class_that_came_by_value_is_written_by_its_name(self, shop, serializer, write, monkeypatch):
        """As on a worker of Spark, where no module of that name is."""
        data = write(serializer, shop.Account("ada"))
        cloudpickle.register_pickle_by_value(shop)
        shipped = cloudpickle.dumps((serializer, shop.Account("ada")))
        cloudpickle.unregister_pickle_by_value(shop)
        monkeypatch.delitem(sys.modules, "shop")
        shipped = cloudpickle.loads(shipped)

        assert data == write(*shipped)
        assert "shop" not in sys.modules

    def test_a_serializer_is_shipped_and_frozen_snap_11(self, shop, serializer, write):
        before = serializer.snapshot_configuration()
        write(serializer, shop.Account("ada"))
        shipped = pickle.loads(pickle.dumps(serializer))

        assert before == serializer.snapshot_configuration() == shipped.snapshot_configuration()
        assert serializer == shipped
        assert hash(serializer) == hash(shipped)


class TestSnapshot:
    def test_it_describes_what_can_be_seen_from_outside(self, module, stored):
        snapshot = stored(PickleSerializer(module(DATA).Account, protocol=4))
        account, line = Shape("shop.Account", ("owner", "tier", "lines")), Shape("shop.Line", ("article",))
        tier = Shape("shop.Tier", ("GOLD='g'", "BASE='b'"), PickledBy.SYMBOL)

        assert Fingerprint((account, line, tier), 4, by_value=False, python=HERE) == snapshot.fingerprint
        assert "pickle<shop.Account>" == snapshot.describe()
        expected = "pickle shop.Account{owner, tier, lines} with shop.Line{article}, shop.Tier[GOLD='g', BASE='b']"
        assert f"{expected} (protocol 4)" == snapshot.spell(None)

    def test_fields_of_a_plain_class_are_what_its_constructor_sets(self, serializer):
        assert ("limit", "owner") == serializer.fingerprint.classes[0].fields

    def test_slots_hints_and_bases_count_too(self, module):
        shop = module(
            "class Base:\n __slots__ = ('a', '__weakref__')\n"
            "class Account(Base):\n b: int\n def __init__(this, x):\n  this.c = this.d = x\n  x.e = 1"
        )

        assert ("a", "b", "c", "d") == PickleSerializer(shop.Account).fingerprint.classes[0].fields

    def test_it_is_read_without_the_class_snap_9(self, serializer, shop, write, monkeypatch):
        data, value = snapshot_to_bytes(serializer.snapshot_configuration()), write(serializer, shop.Account("ada"))
        monkeypatch.delitem(sys.modules, "shop")
        snapshot = snapshot_from_bytes(data)
        found = snapshot.restore_serializer().deserialize(DataInputView(value))

        assert "shop.Account" == snapshot.fingerprint.name
        assert PickledValue("shop.Account", value[4:]) == found
        assert "shop" not in sys.modules

    def test_no_pickle_is_in_a_snapshot_snap_8(self, serializer):
        data = snapshot_to_bytes(serializer.snapshot_configuration())
        for start in (place for place, byte in enumerate(data) if byte == 0x80):
            with pytest.raises(ValueError, match=r"opcode|pickle|not enough|expected|exhausted"):
                list(pickletools.genops(data[start:]))

    def test_a_bomb_for_a_name_is_a_text(self, read, write):
        bomb = "os.system('true')\n."
        shapes = (Shape(bomb, (bomb,)),)
        snapshot = snapshot_from_bytes(snapshot_to_bytes(PickleSnapshot(Fingerprint(shapes))))
        value = read(snapshot.restore_serializer(), write(BytesSerializer(), b"cos\nsystem\n."))

        assert bomb == value.class_name
        with pytest.raises(UntrustedCode):
            value.load(trust=[bomb])

    @pytest.mark.parametrize("cut", [1, 4, 9, 20])
    def test_a_damaged_body_is_an_error_of_ours(self, serializer, cut):
        data = snapshot_to_bytes(serializer.snapshot_configuration())
        with pytest.raises(StateShiftError):
            snapshot_from_bytes(data[:-cut])

    def test_restored_values_are_copied_and_written_as_they_are(self, shop, serializer, write, read, copied, stored):
        data = write(serializer, shop.Account("ada"))
        restored = stored(serializer).restore_serializer()

        assert data == copied(restored, data) == write(restored, read(restored, data))
        with pytest.raises(ValueNotConvertible):
            write(restored, PickledValue("shop.Other", b""))


class TestRules:
    def test_pickle_no_registrations(self, serializer, ask):
        """E09, PKL-1: the same class of the same shape is compatible, and unverified."""
        result = ask(serializer, serializer)

        assert ("compatible", [("$", "unverified")]) == (verdict_of(result), list(result.flags))
        assert "PKL-1" == result.findings[0].rule

    def test_pickle_unrelated_registrations(self, shop, serializer, ask, module, write, read):
        """E10, PKL-1: further classes that values may hold change no stored byte; the label lists them."""
        other = module("class Note: pass", "notes")
        result = ask(PickleSerializer(shop.Account, references=(other.Note,)), serializer)
        copy = result.reconfigured_serializer

        assert [("$", "unverified")] == list(result.flags)
        assert "notes.Note" in copy.snapshot_configuration().fingerprint.names
        assert shop.Account("ada") == read(copy, write(serializer, shop.Account("ada")))

    def test_pkl_2_older_protocols_and_interpreters_are_read(self, shop, serializer, ask, rules):
        old = ask(serializer, PickleSerializer(shop.Account, protocol=2))
        ancient = serializer.ensure_compatibility(fingerprint(serializer.snapshot_configuration(), python=(3, 8)))

        for result in (old, ancient):
            assert ("compatible", [("$", "PKL-2")]) == (verdict_of(result), rules(result))

    def test_pkl_2_a_protocol_of_the_future_is_not(self, serializer, rules):
        snapshot = fingerprint(serializer.snapshot_configuration(), protocol=pickle.HIGHEST_PROTOCOL + 1)
        result = serializer.ensure_compatibility(snapshot)

        assert ("incompatible", [("$", "PKL-2")]) == (verdict_of(result), rules(result))

    def test_pickle_class_moved(self, shop, serializer, ask, module, write, read):
        """E13, PKL-3: with an alias it is read by its old name, and without one it is refused."""
        old, value = serializer.snapshot_configuration(), write(serializer, shop.Account("ada"))
        moved = module(PLAIN, "shop_2")
        new = PickleSerializer(moved.Account, aliases=("shop.Account",))
        result = new.ensure_compatibility(old)
        copy = result.reconfigured_serializer

        assert "compatible_after_reconfiguration" == verdict_of(result)
        assert moved.Account("ada") == read(copy, value)
        assert (("shop.Account", "shop_2.Account"),) == copy.snapshot_configuration().former
        assert "compatible" == verdict_of(ask(new, copy))
        assert "incompatible" == verdict_of(ask(PickleSerializer(moved.Account), serializer))

    def test_pkl_3_without_an_alias_it_is_refused_and_so_is_an_alias_dropped_too_early(
        self, serializer, ask, module, rules
    ):
        moved = module(PLAIN, "shop_2").Account
        with_alias = PickleSerializer(moved, aliases=("shop.Account",))

        for old in (serializer, with_alias):
            result = ask(PickleSerializer(moved), old)
            assert ("incompatible", ("$", "PKL-3")) == (verdict_of(result), rules(result)[0])

    def test_pkl_3_classes_within_move_too(self, module, ask, write, read):
        shop = module(DATA)
        old = PickleSerializer(shop.Account)
        data = write(old, shop.Account("ada", shop.Tier.GOLD, [shop.Line("pen")]))
        lines = module("import dataclasses\n@dataclasses.dataclass\nclass Line:\n  article: str", "lines")
        shop = module("from lines import Line\n" + DATA.replace("class Line:", "class _Line:"))
        new = PickleSerializer(shop.Account, aliases={"shop.Line": lines.Line})
        result = ask(new, old)

        assert "compatible_after_reconfiguration" == verdict_of(result)
        assert isinstance(read(result.reconfigured_serializer, data).lines[0], lines.Line)

    def test_pkl_4_a_changed_shape_without_a_hook_is_refused_with_what_changed(self, serializer, ask, module):
        old = serializer.snapshot_configuration()
        result = PickleSerializer(module(PLAIN.replace("limit", "email")).Account).ensure_compatibility(old)

        assert ("incompatible", "PKL-4") == (verdict_of(result), result.findings[0].rule)
        assert "shop.Account lost limit and shop.Account has the new email" in result.findings[0].reason

    def test_pkl_4_a_class_within_changes_its_shape_or_is_no_longer_there(self, module, ask):
        old = PickleSerializer(module(DATA).Account)
        other = PickleSerializer(module(DATA.replace("article:", "title:")).Account)
        none = PickleSerializer(module(DATA.replace("list[Line | None]", "list")).Account)

        for new, why in ((other, "shop.Line has the new title"), (none, "may hold a shop.Line")):
            assert why in ask(new, old).findings[0].reason

    @pytest.mark.parametrize(
        ("before", "after", "why"),
        [
            ("NamedTuple", "NamedTuple", "are in another order"),
            ("Frozen", "Frozen", "are in another order"),
            ("Plain", "Frozen", "pickled in another form"),
            ("Plain", "Plain", ""),
        ],
    )
    def test_pkl_4_classes_that_are_pickled_by_the_order_of_their_fields(self, module, ask, before, after, why):
        heads = {
            "NamedTuple": "import typing\nclass Account(typing.NamedTuple):",
            "Frozen": "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass Account:",
            "Plain": "import dataclasses\n@dataclasses.dataclass\nclass Account:",
        }
        old = PickleSerializer(module(heads[before] + "\n a: str\n b: str").Account)
        result = ask(PickleSerializer(module(heads[after] + "\n b: str\n a: str").Account), old)

        assert ("incompatible" if why else "compatible") == verdict_of(result)
        assert why in result.findings[0].reason

    def test_pkl_4_members_of_an_enum_keep_their_values(self, module, ask):
        old = PickleSerializer(module(DATA).Account)
        more = PickleSerializer(module(DATA.replace('BASE = "b"', 'BASE = "b"; TOP = "t"')).Account)
        other = PickleSerializer(module(DATA.replace('BASE = "b"', 'BASE = "g2"')).Account)

        assert "compatible" == verdict_of(ask(more, old))
        assert "shop.Tier lost BASE='b'" in ask(other, old).findings[0].reason

    def test_pkl_4_a_record_is_advised_for_a_described_class(self, module, ask):
        old = PickleSerializer(module(DATA).Account)
        result = ask(PickleSerializer(module(DATA.replace("owner:", "name:")).Account), old)

        assert "store it as a record" in str(result.findings[0].ways_out[0])

    @pytest.mark.parametrize("with_hook", [True, False], ids=["setstate", "upgrade"])
    def test_pickle_shape_changed(self, shop, serializer, module, write, read, with_hook, monkeypatch):
        """E14, PKL-4: with a hook the values are pickled again, and without one it is refused."""

        def upgraded(account):
            account.email = "none then"
            return account

        data, old = write(serializer, shop.Account("ada")), serializer.snapshot_configuration()
        changed = module(CHANGED + HOOK if with_hook else CHANGED)
        new = PickleSerializer(changed.Account, upgrade=None if with_hook else upgraded)
        result = new.ensure_compatibility(old)
        value = read(old.restore_serializer(), data)
        without = PickleSerializer(module(CHANGED).Account).ensure_compatibility(old)
        monkeypatch.setitem(sys.modules, "shop", changed)

        assert "incompatible" == verdict_of(without)
        assert "requires_migration" == verdict_of(result)
        assert [("$", "unverified_after")] == list(result.flags)
        with trusting([]), pytest.raises(UntrustedCode, match=r"--trust shop.Account"):
            result.conversion(value)
        with trusting(["shop.Account"]):
            found = write(new, result.conversion(value))
        assert changed.Account("ada", 0, "none then") == read(new, found)

    def test_pkl_6_another_class_takes_a_fallback(self, serializer, module, ask, rules):
        result = ask(PickleSerializer(module("class Other: pass", "others").Other), serializer)

        assert ("requires_migration", ("$", "PKL-6")) == (verdict_of(result), rules(result)[0])

    def test_pickle_and_cloudpickle_by_reference_read_each_other(self, shop, serializer, ask):
        cloud = CloudPickleSerializer(shop.Account)

        assert {"compatible"} == {verdict_of(ask(cloud, serializer)), verdict_of(ask(serializer, cloud))}

    def test_what_only_a_snapshot_describes_is_judged_by_it(self, serializer, shop, module, stored):
        restored = stored(serializer).restore_serializer()
        changed = PickleSerializer(module(PLAIN.replace("limit", "email")).Account).snapshot_configuration()

        assert "compatible" == verdict_of(restored.ensure_compatibility(serializer.snapshot_configuration()))
        assert "incompatible" == verdict_of(restored.ensure_compatibility(changed))
        assert "incompatible" == verdict_of(restored.ensure_compatibility(BytesSerializer().snapshot_configuration()))


class TestByValue:
    """Classes that no module holds: cloudpickle takes their code into each pickle."""

    @pytest.fixture
    def cloud(self, shop, monkeypatch):
        monkeypatch.delitem(sys.modules, "shop")
        return CloudPickleSerializer(shop.Account)

    def test_the_snapshot_says_so(self, cloud, stored):
        snapshot = stored(cloud)

        assert isinstance(snapshot, CloudPickleSnapshot)
        assert snapshot.fingerprint.by_value
        assert "by value" in snapshot.spell(None)

    def test_its_code_runs_only_where_that_is_said(self, shop, cloud, write, read):
        data = write(cloud, shop.Account("ada"))
        with pytest.raises(UntrustedCode, match=r"by-value:shop.Account"):
            read(cloud, data)

        assert "ada" == read(attrs.evolve(cloud, trust_code=True), data).owner

    def test_one_interpreter_is_compatible(self, cloud, ask):
        assert "compatible" == verdict_of(ask(cloud, cloud))

    def test_pkl_5_another_minor_version_takes_a_fallback(self, cloud, rules):
        snapshot = fingerprint(cloud.snapshot_configuration(), python=(3, 8))
        result = cloud.ensure_compatibility(snapshot)

        assert ("requires_migration", [("$", "PKL-5")]) == (verdict_of(result), rules(result))
        assert [""] == [obstacle.lifted_by for obstacle in result.obstacles]

    def test_pkl_4_a_class_that_got_a_module_is_another_shape(self, cloud, module, ask):
        result = ask(CloudPickleSerializer(module(PLAIN).Account), cloud)

        assert Verdict.INCOMPATIBLE is result.verdict
        assert "the class comes within stored pickles" in result.findings[0].reason


@pytest.mark.parametrize("aliases", [{"shop.Gold": "Account"}, [("shop.Old", "Account"), ("shop.Old", "Gold")]])
def test_a_former_name_of_two_classes_or_of_a_present_one_is_refused(module, aliases):
    shop = module("class Account: pass\nclass Gold(Account): pass\n")
    pairs = aliases.items() if isinstance(aliases, dict) else aliases

    with pytest.raises(DeclarationError, match="is declared a former name of"):
        PickleSerializer(
            shop.Account, references=[shop.Gold], aliases=[(was, getattr(shop, name)) for was, name in pairs]
        )
