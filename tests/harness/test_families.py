"""Harness cases E: enums, pickles, rows and stamped values that change; others of them stand next to their families."""

from __future__ import annotations

import enum

import pytest

from stateshift import PickleSerializer, Row, Savepoint, TtlValue, Verdict, row_of
from stateshift.compat.testing import V1, V2, Refuses
from stateshift.serializers.containers.ttl import AtTime, TtlSerializer
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

C, R, M, MF, I = Verdict  # noqa: E741 - as the harness cases call them


def letters(symbols):
    """Two versions of one enum: each call makes another class of the same name."""
    return EnumSerializer.of(enum.Enum("Letter", list(symbols), module="shop"))


def member(serializer, name):
    return serializer.enum_class[name]


@pytest.fixture
def pinned(ask, rules, write, read):
    """`pinned("ABC", "ACB")`: rules of the answer; its copy reads and writes each stored symbol as itself."""

    def upgrade(before, after):
        old, new = letters(before), letters(after)
        result = ask(new, old)
        assert R is result.verdict
        copy = result.reconfigured_serializer
        for name in before:
            data = write(old, member(old, name))
            assert member(new, name) is read(copy, data)
            assert data == write(copy, member(new, name))
        return [rule for _, rule in rules(result)]

    return upgrade


def test_enum_identical(ask):
    """E01: ENUM-1."""
    assert C is ask(letters("ABC"), letters("ABC")).verdict


def test_enum_appended(pinned):
    """E02: ENUM-2."""
    assert ["ENUM-2"] == pinned("ABC", "ABCD")


def test_enum_removed(ask, rules):
    """E03: ENUM-4; what is stored may be the one that is gone."""
    result = ask(letters("AC"), letters("ABC"))

    assert (I, [("$", "ENUM-4")]) == (result.verdict, rules(result))


def test_enum_reordered(pinned):
    """E04: ENUM-3; a stored B is a B still."""
    assert ["ENUM-3"] == pinned("ABC", "ACB")


def test_enum_moved_symbol_upgrade(pinned):
    """E05: ENUM-3; the last of six goes into the middle."""
    assert ["ENUM-3"] == pinned("ABCDEF", "ABFCDE")


CLASSES = """
class One:
    pass

class Two:
    pass

class New:
    pass

class Account:
    def __init__(self, *held):
        self.held = held
"""


def test_pickle_registration_order(module, ask, rules, write, read):
    """E11: PKL-1; classes that values may hold go by their names. A further one changes the label alone."""
    shop = module(CLASSES)
    old = PickleSerializer(shop.Account, references=(shop.One, shop.Two))
    data = write(old, shop.Account(shop.One(), shop.Two()))
    result = ask(PickleSerializer(shop.Account, references=(shop.Two, shop.New, shop.One)), old)

    assert C is ask(PickleSerializer(shop.Account, references=(shop.Two, shop.One)), old).verdict
    assert R is result.verdict
    assert {("$", "PKL-1")} == set(rules(result))
    assert [shop.One, shop.Two] == [type(held) for held in read(result.reconfigured_serializer, data).held]


REDUCED = """
import attrs

class OfNumber:
    def __new__(cls, amount):
        return Price(amount)

class OfText:
    def __new__(cls, text):
        return Price(int(text))

@attrs.define
class Price:
    amount: int

    def __reduce__(self):
        return {reduced}
"""


def test_pickle_custom_reducer_changed(module, ask, rules, write, read):
    """E12: PKL-1; each pickle names its reducer, so that the former one is listed for as long as there are such."""
    code = module(REDUCED.format(reduced="(OfNumber, (self.amount,))"))
    old = PickleSerializer(code.Price, references=(code.OfNumber,))
    data = write(old, code.Price(7))
    shop = module(REDUCED.format(reduced="(OfText, (str(self.amount),))"))
    result = ask(PickleSerializer(shop.Price, references=(shop.OfNumber, shop.OfText)), old)
    copy = result.reconfigured_serializer

    assert (R, {("$", "PKL-1")}) == (result.verdict, set(rules(result)))
    assert shop.Price(7) == read(copy, data) == read(copy, write(copy, shop.Price(7)))
    assert (b"OfNumber" in data, b"OfText" in write(copy, shop.Price(7))) == (True, True)
    assert I is ask(PickleSerializer(shop.Price, references=(shop.OfText,)), old).verdict


@pytest.mark.parametrize("version", ["2.3", "1.20"])
def test_row_null_fields(savepoint_of, version, write, read):
    """E16: nulls of the first and the last column, as each release of Flink has stored its rows."""
    operators = Savepoint.open(savepoint_of("hashmap-zoo-p1-m128", version=version)).operators
    (state,) = (state for operator in operators for state in operator.states if state.name == "widerow")
    serializer = state.description.value.snapshot.restore_serializer()
    rows = [entry.value for entry in state.read_entries()]

    assert any(row[0] is None for row in rows) or any(row[9] is None for row in rows)
    for row in [*rows, *(Row._of([None, *list(row)[1:-1], None], ()) for row in rows)]:
        assert row == read(serializer, write(serializer, row))


@pytest.mark.parametrize("outer_version", [1, 2, 3, 4])
def test_row_null_fields_of_each_snapshot(outer_version, write, read):
    """E16: the mask has kinds from outer version 3 on; nulls are distinguished in all of them."""
    plain = RowSerializer.of([StringSerializer()] * 3)
    data = bytearray(snapshot_to_bytes(plain.snapshot_configuration()))
    start = data.index((911108).to_bytes(4, "big")) + 4
    data[start : start + 5] = outer_version.to_bytes(4, "big") + (b"\1" if outer_version == 4 else b"")
    serializer = snapshot_from_bytes(bytes(data)).restore_serializer()

    assert (outer_version >= 3) is serializer.supports_row_kind
    for row in (Row(None, "b", None), Row(None, None, None), Row("a", None, "c")):
        assert row == read(serializer, write(serializer, row))


def test_row_swapped_same_type_columns(ask, rules, migrate):
    """E17: ROW-6; by position, first and last would change places in silence."""
    stored = {"first": str, "last": str}
    old, new = row_of(stored), row_of({"last": str, "first": str}, stored=tuple(stored))
    result = ask(new, old)

    assert (M, [("$", "ROW-2"), ("$", "ROW-8")]) == (result.verdict, rules(result))
    row = migrate(new, old, Row("Ada", "Lovelace"))
    assert ("Ada", "Lovelace") == (row.first, row.last)


NOW = 1_700_000_000_000


def test_ttl_on_wraps(ask, rules, write, read):
    """E18: STATE-4; the stamp is the reference time of the run, so that nothing expires by the migration."""
    new = TtlSerializer(V1())
    result = ask(new, V1())

    assert (M, [("$", "STATE-4")]) == (result.verdict, rules(result))
    assert TtlValue(NOW, 5) == read(new, write(new, AtTime(NOW, result.conversion)(5)))


def test_ttl_off_unwraps(ask, rules, migrate):
    """E19: STATE-5."""
    result = ask(V1(), TtlSerializer(V1()))

    assert (M, [("$", "STATE-5")]) == (result.verdict, rules(result))
    assert 5 == migrate(V1(), TtlSerializer(V1()), TtlValue(NOW, 5))


def test_ttl_migration_composes(ask, rules, stored, write, read):
    """E20: STATE-4; stamp and new layout come in one go, and what is refused without a stamp is refused with one."""
    new = TtlSerializer(V2())
    result = ask(new, V1())

    assert (M, [("$", "STATE-4"), ("$", "HARNESS")]) == (result.verdict, rules(result))
    value = read(stored(V1()).restore_serializer(), write(V1(), 5))
    assert TtlValue(NOW, 5) == read(new, write(new, AtTime(NOW, result.conversion)(value)))
    assert I is ask(TtlSerializer(Refuses()), V1()).verdict
