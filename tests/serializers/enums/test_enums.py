"""Enums: ordinals in the bytes, names in the snapshot, and the rules ENUM-1 to ENUM-8 (harness cases E01 to E08)."""

import enum
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DeclarationError,
    Symbol,
    ValueNotConvertible,
    Verdict,
    enum_options,
    serializer_for,
)
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.enums.serializers import (
    EnumSerializer,
    EnumSerializerSnapshot,
    JavaEnumSerializer,
    JavaEnumSerializerSnapshot,
)
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes


class Level(enum.Enum):
    LOW = 1
    MIDDLE = 5
    HIGH = 10


def letters(symbols: str, **options: Any) -> EnumSerializer:
    """An enum of one-letter symbols without a class, of one name that all versions share."""
    return EnumSerializer(tuple(symbols), "shop.Letter", **options)


def letter(name: str) -> Symbol:
    return Symbol(name)


class TestBytes:
    def test_a_member_is_written_as_its_ordinal_and_read_as_itself(self, write, read):
        serializer = EnumSerializer.of(Level)

        assert bytes.fromhex("00000002") == write(serializer, Level.HIGH)
        assert Level.HIGH is read(serializer, bytes.fromhex("00000002"))
        assert 4 == serializer.length

    def test_a_generic_symbol_is_written_by_its_name(self, write, stored):
        serializer = EnumSerializer.of(Level)

        assert write(serializer, Level.HIGH) == write(serializer, Symbol("HIGH"))
        assert write(serializer, Level.HIGH) == write(stored(serializer).restore_serializer(), Level.HIGH)

    @pytest.mark.parametrize("value", [None, 2, "HIGH", Symbol("NONE"), enum.Enum("Other", ["LOW"]).LOW])
    def test_anything_else_is_refused_with_the_symbols_that_there_are(self, write, value):
        with pytest.raises(ValueNotConvertible, match="is not one of enum Level: LOW, MIDDLE, HIGH"):
            write(EnumSerializer.of(Level), value)

    @pytest.mark.parametrize("data", ["00000003", "ffffffff", "000000"])
    def test_an_ordinal_out_of_range_or_cut_off_is_corrupt(self, read, data):
        with pytest.raises(CorruptSavepoint) as caught:
            read(EnumSerializer.of(Level), bytes.fromhex(data))

        assert 0 == caught.value.where["offset"]

    def test_symbols_are_equal_by_name_and_readable(self):
        assert Symbol("A", "shop.Letter") == Symbol("A", "com.acme.Letter")
        assert "Letter.A" == repr(Symbol("A", "com.acme.Outer$Letter"))
        assert "A" == repr(Symbol("A"))
        assert Symbol("A") == pickle.loads(pickle.dumps(Symbol("A")))
        assert {Symbol("A")} == {Symbol("A"), Symbol("A", "shop.Letter")}

    def test_a_serializer_of_a_class_pickles(self, write, read):
        serializer = EnumSerializer.of(Level)
        shipped = pickle.loads(pickle.dumps(serializer))

        assert serializer == shipped
        assert Level.LOW is read(shipped, write(serializer, Level.LOW))


class TestSnapshots:
    def test_enum_snapshot_without_class(self):
        """E06."""
        data = snapshot_to_bytes(EnumSerializerSnapshot("gone.Module.Level", ("LOW", "HIGH")))

        snapshot = snapshot_from_bytes(data)

        assert ("LOW", "HIGH") == snapshot.symbols
        assert "enum Level" == snapshot.describe()
        assert not snapshot.is_flink

    def test_enum_restore_without_class(self, read, stored):
        """E07."""
        restored = stored(EnumSerializer.of(Level)).restore_serializer()

        assert Symbol("MIDDLE") == read(restored, bytes.fromhex("00000001"))
        assert Level.MIDDLE is read(attrs.evolve(restored, enum_class=Level), bytes.fromhex("00000001"))
        with pytest.raises(DeclarationError, match="has no member 'MIDDLE', which may be stored"):
            attrs.evolve(restored, enum_class=enum.Enum("Level", ["LOW", "HIGH"]))

    def test_with_a_java_class_the_snapshot_is_flinks(self, stored):
        @enum_options(java_class="fx.Scenarios$Level")
        class Known(enum.Enum):
            LOW, MIDDLE, HIGH = range(3)

        serializer = serializer_for(Known)
        snapshot = stored(serializer)

        assert JavaEnumSerializerSnapshot("fx.Scenarios$Level", ("LOW", "MIDDLE", "HIGH")) == snapshot
        assert snapshot.is_flink
        assert "enum Level" == snapshot.describe()
        assert JavaEnumSerializer(("LOW", "MIDDLE", "HIGH"), "fx.Scenarios$Level") == snapshot.restore_serializer()

    def test_a_snapshot_that_real_flink_wrote_is_taken_over(self, savepoint_of):
        @enum_options(java_class="fx.Scenarios$Level")
        class Known(enum.Enum):
            LOW, MIDDLE, HIGH = range(3)

        name = JavaEnumSerializerSnapshot.snapshot_id.encode()
        metadata = (savepoint_of("hashmap-zoo-p1-m128") / "_metadata").read_bytes()
        fresh = snapshot_to_bytes(EnumSerializer.of(Known).snapshot_configuration())

        assert name in fresh
        assert fresh in metadata

    def test_a_symbol_listed_twice_is_corrupt(self):
        with pytest.raises(CorruptSavepoint, match="listed twice"):
            snapshot_from_bytes(snapshot_to_bytes(JavaEnumSerializerSnapshot("a.B", ("A", "A"))))


class TestDeclaration:
    def test_what_one_name_does_not_identify_is_not_an_enum(self):
        with pytest.raises(DeclarationError, match="is a Flag"):
            EnumSerializer.of(enum.Flag("Bits", ["A", "B"]))
        with pytest.raises(DeclarationError, match="not an enum class with members"):
            EnumSerializer.of(enum.Enum("Empty", []))
        with pytest.raises(DeclarationError, match="not an enum class"):
            EnumSerializer.of(int)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"default": "Z"}, "default 'Z' is not a symbol"),
            ({"symbol_aliases": {"Z": ("X",)}}, "'Z' has aliases but is not a symbol"),
            ({"symbol_aliases": {"A": ("B",)}}, "'B' is declared a former name of 'A', but is still a symbol"),
            ({"symbol_aliases": {"A": ("X",), "B": ("X",)}}, "'X' is declared a former name of both 'A' and 'B'"),
            ({"symbol_aliases": {"A": "X"}}, "not a string"),
            ({"aliases": "shop.Old"}, "not a string"),
        ],
    )
    def test_options_that_do_not_fit_are_refused_where_they_stand(self, options, message):
        with pytest.raises(DeclarationError, match=message):

            @enum_options(**options)
            class Letter(enum.Enum):
                A, B = 1, 2


class TestRules:
    @pytest.mark.parametrize(
        ("case", "old", "new", "verdict", "found"),
        [
            ("E01 ENUM-1 identical", "ABC", "ABC", Verdict.COMPATIBLE, []),
            ("E02 appended", "ABC", "ABCD", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, ["ENUM-2"]),
            ("ENUM-2 inserted", "ABC", "ADBC", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, ["ENUM-2"]),
            ("E03 removed", "ABC", "AC", Verdict.INCOMPATIBLE, ["ENUM-4"]),
            ("E04 reordered", "ABC", "ACB", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, ["ENUM-3"]),
            ("E05 moved", "ABCDEF", "ABFCDE", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, ["ENUM-3"]),
            ("both", "ABC", "DCBA", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, ["ENUM-2", "ENUM-3"]),
            ("all removals", "ABC", "A", Verdict.INCOMPATIBLE, ["ENUM-4", "ENUM-4"]),
        ],
    )
    def test_changes_of_the_symbols(self, write, read, ask, rules, case, old, new, verdict, found):
        result = ask(letters(new), letters(old))

        assert verdict is result.verdict, case
        assert [("$", rule) for rule in found] == rules(result), case
        if verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
            copy = result.reconfigured_serializer
            assert tuple(old) == copy.symbols[: len(old)]
            assert set(new) == set(copy.symbols)
            for name in old:
                assert letter(name) == read(copy, write(letters(old), letter(name)))

    def test_the_copy_reads_members_and_the_original_stays_as_it_was(self, read, ask):
        """E04, V-2."""
        reordered = attrs.evolve(EnumSerializer.of(Level), symbols=("HIGH", "LOW", "MIDDLE"))
        new = EnumSerializer.of(Level)

        copy = ask(new, reordered).reconfigured_serializer

        assert Level.HIGH is read(copy, bytes(4))
        assert Level.LOW is read(new, bytes(4))
        assert ("LOW", "MIDDLE", "HIGH") == new.symbols

    def test_enum_second_generation(self, write, read, ask):
        """E08: ordinals of both generations stay pinned."""
        first = letters("BA")
        second = ask(letters("ABC"), first).reconfigured_serializer
        third = ask(letters("ADCB"), second).reconfigured_serializer

        assert ("B", "A", "C", "D") == third.symbols
        assert letter("B") == read(third, write(first, letter("B")))
        assert letter("C") == read(third, write(second, letter("C")))
        assert CompatibilityResult.compatible() == ask(third, third)

    def test_a_removed_symbol_becomes_the_default(self, ask, migrate, rules):
        """ENUM-5."""
        old, new = letters("ABC"), letters("CA", default="A")

        result = ask(new, old)

        assert Verdict.REQUIRES_MIGRATION is result.verdict
        assert [("$", "ENUM-5"), ("$", "ENUM-3")] == rules(result)
        assert (("$", "lossy"),) == result.flags
        assert [letter(to) for to in "AAC"] == [migrate(new, old, letter(name)) for name in "ABC"]

    def test_a_default_does_not_stand_for_a_damaged_ordinal(self, read):
        """ENUM-5: it applies to unknown symbols only."""
        with pytest.raises(CorruptSavepoint):
            read(letters("A", default="A"), bytes.fromhex("00000001"))

    def test_a_symbol_renamed_with_an_alias_keeps_its_ordinal(self, write, read, ask, rules):
        """ENUM-6."""
        old, new = letters("ABC"), letters("AXC", symbol_aliases=(("X", ("W", "B")),))

        result = ask(new, old)

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION is result.verdict
        assert [("$", "ENUM-6")] == rules(result)
        assert ("A", "X", "C") == result.reconfigured_serializer.symbols
        assert letter("X") == read(result.reconfigured_serializer, write(old, letter("B")))

    def test_a_rename_is_converted_where_something_around_it_migrates(self, ask, migrate, rules):
        """ENUM-6."""
        new_letter = letters("XA", symbol_aliases=(("X", ("B",)),))
        old = TupleSerializer((letters("AB"), IntSerializer()))
        new = TupleSerializer((new_letter, LongSerializer()))

        assert [("$(0)", "ENUM-6"), ("$(0)", "ENUM-3"), ("$(1)", "PRIM-2")] == rules(ask(new, old))
        assert (letter("X"), 1) == migrate(new, old, (letter("B"), 1))
        assert (letter("A"), 1) == migrate(new, old, (letter("A"), 1))

    @pytest.mark.parametrize(("new", "twin"), [("AXC", "X"), ("ACX", "X"), ("AXYC", "X")])
    def test_a_rename_without_an_alias_is_refused_with_a_hint(self, ask, new, twin):
        """ENUM-6 without alias: ENUM-4, plus the hint."""
        result = ask(letters(new), letters("ABC"))

        assert result.is_incompatible()
        assert (("$", f"possible_rename:B->{twin}"),) == result.flags
        assert f"symbol_aliases={{'{twin}': ('B',)}}" in str(result.findings[0].ways_out[0])

    def test_stored_symbols_that_become_one_are_merged_by_a_migration(self, ask, migrate, rules):
        """ENUM-6: one ordinal cannot stand for two."""
        old, new = letters("ABC"), letters("CX", symbol_aliases=(("X", ("A", "B")),))

        result = ask(new, old)

        assert Verdict.REQUIRES_MIGRATION is result.verdict
        assert ("$", "ENUM-6") == rules(result)[0]
        assert (("$", "lossy"),) == result.flags
        assert [letter(to) for to in "XXC"] == [migrate(new, old, letter(name)) for name in "ABC"]

    def test_a_present_name_beats_an_alias_that_is_stored_as_well(self, migrate):
        """ENUM-6: B was renamed to A long ago, and both are in the stored enum."""
        old, new = letters("AB"), letters("A", symbol_aliases=(("A", ("B",)),))

        assert [letter("A")] * 2 == [migrate(new, old, letter(name)) for name in "AB"]

    @pytest.mark.parametrize("make", [EnumSerializer, JavaEnumSerializer])
    def test_a_class_renamed_with_an_alias_is_taken_over(self, ask, rules, make):
        """ENUM-7."""
        old, new = make(("A", "B"), "shop.Old"), make(("A", "B"), "shop.New", aliases=("shop.Old",))

        result = ask(new, old)

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION is result.verdict
        assert [("$", "ENUM-7")] == rules(result)
        assert "shop.New" == result.reconfigured_serializer.name

    def test_a_class_renamed_without_an_alias_is_refused_with_the_alias_to_write(self, ask, rules):
        """ENUM-7."""
        result = ask(EnumSerializer(("A",), "shop.New"), EnumSerializer(("A",), "shop.Old"))

        assert result.is_incompatible()
        assert [("$", "ENUM-7")] == rules(result)
        assert "aliases=('shop.Old',)" in str(result.findings[0].ways_out[0])

    def test_giving_an_enum_a_java_class_or_taking_it_away_is_a_reconfiguration(self, stored, ask):
        """ENUM-7, SNAP-7."""
        plain = EnumSerializer.of(Level)
        java = JavaEnumSerializer(plain.symbols, "fx.Level", Level)
        back = attrs.evolve(plain, aliases=("fx.Level",))

        given, taken = ask(java, plain), ask(back, java)

        assert java == given.reconfigured_serializer
        assert back == taken.reconfigured_serializer
        assert isinstance(stored(given.reconfigured_serializer), JavaEnumSerializerSnapshot)
        assert ask(plain, java).is_incompatible()

    @pytest.mark.parametrize("other", [StringSerializer(), IntSerializer(), LongSerializer()])
    def test_an_enum_and_a_plain_value_need_a_converter(self, ask, rules, other):
        """ENUM-8."""
        for new, old in ((letters("AB"), other), (other, letters("AB"))):
            result = ask(new, old)
            assert result.is_incompatible()
            assert [("$", "ENUM-8")] == rules(result)
            assert any("converter" in way for way in map(str, result.findings[0].ways_out))

    def test_values_of_members_do_not_matter(self, ask):
        """ENUM-8: only names are stored."""
        changed = EnumSerializer.of(enum.Enum("Level", {"LOW": "l", "MIDDLE": "m", "HIGH": "h"}, module=__name__))

        assert changed.name == EnumSerializer.of(Level).name
        assert CompatibilityResult.compatible() == ask(changed, EnumSerializer.of(Level))


SYMBOLS = st.lists(st.sampled_from("ABCDEFGH"), min_size=1, unique=True).map("".join)


@given(st.lists(SYMBOLS, min_size=1, max_size=4))
def test_ordinals_stay_pinned_over_any_number_of_generations(write, read, ask, generations):
    serializer, written = letters(generations[0]), dict[str, bytes]()
    for symbols in generations:
        result = ask(letters(symbols), serializer)
        if result.is_incompatible():
            assert set(serializer.symbols) - set(symbols)
            break
        serializer = letters(symbols) if result.is_compatible_as_is() else result.reconfigured_serializer
        assert set(symbols) == set(serializer.symbols)
        for name, data in written.items():
            assert letter(name) == read(serializer, data)
        written = {name: write(serializer, letter(name)) for name in symbols}


@given(SYMBOLS, SYMBOLS, st.data())
def test_with_a_default_every_stored_symbol_has_a_place(ask, migrate, old_symbols, new_symbols, data):
    name = data.draw(st.sampled_from(old_symbols))
    default = data.draw(st.sampled_from(new_symbols))
    old, new = ListSerializer(letters(old_symbols)), ListSerializer(letters(new_symbols, default=default))
    result = ask(new, old)

    assert not result.is_incompatible()
    if result.is_migration_required():
        expected = name if name in new_symbols else default
        assert [letter(expected)] == migrate(new, old, [letter(name)])


class Counted(str):
    """A symbol that counts how often it is looked up."""

    __slots__ = ()
    lookups = 0

    def __hash__(self):
        Counted.lookups += 1
        return super().__hash__()


def test_the_work_of_a_check_grows_with_the_number_of_symbols():
    symbols = tuple(Counted(f"s{number}") for number in range(500))
    old, new = EnumSerializer(symbols, "Level"), EnumSerializer(symbols[::-1], "Level")
    Counted.lookups = 0

    result = new.ensure_compatibility(old.snapshot_configuration())

    assert ["ENUM-3"] == [finding.rule for finding in result.findings]
    assert Counted.lookups < 50 * len(symbols)
