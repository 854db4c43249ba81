"""Types are spelled out in full, and shortened where there is no space."""

from __future__ import annotations

import enum

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from stateshift import Savepoint, serializer_for
from stateshift.compat.type_difference import state_type_text, type_text
from stateshift.serializers.containers.lists import ListSerializerSnapshot, MapSerializerSnapshot
from stateshift.serializers.containers.ttl import TtlSerializerSnapshot
from stateshift.serializers.containers.tuples import TupleSerializerSnapshot
from stateshift.serializers.containers.wrappers import TtlAwareSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot, PojoSubclass
from stateshift.serializers.snapshot import CompositeTypeSerializerSnapshot, SkippedSnapshot

LONG, STRING = LongSerializerSnapshot(), StringSerializerSnapshot()


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Item:
    sku: str
    level: Level


@attrs.frozen
class Basket:
    first: Item
    rest: list[Item]
    note: str | None = None


def pojo(name, /, **fields):
    return PojoSerializerSnapshot(name, tuple(PojoField(field, name, of) for field, of in sorted(fields.items())))


ORDER = pojo("fx.Order", id=LONG, name=STRING, zip=LONG)
ORDERS = MapSerializerSnapshot((STRING, TupleSerializerSnapshot(nested=(LONG, ORDER))))


def test_fields_of_nested_records_stand_in_the_expression():
    expected = "map<string, tuple<long, pojo fx.Order{id: long, name: string, zip: long}>>"

    assert expected == type_text(ORDERS)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, "map<string, tuple<long, pojo fx.Order{id: long, name: string, zip: long}>>"),
        (70, "map<string, tuple<long, pojo fx.Order{id: long, name: string, …}>>"),
        (60, "map<string, tuple<long, pojo fx.Order{id: long, …}>>"),
        (45, "map<string, tuple<long, pojo fx.Order{…}>>"),
        (40, "map<string, tuple<long, pojo Order{…}>>"),
        (20, "map<string, tuple<l…"),
    ],
)
def test_details_are_left_out_until_the_expression_fits(width, expected):
    assert expected == type_text(ORDERS, width)


def test_a_record_is_spelled_out_once_with_nulls_and_constants():
    snapshot = serializer_for(Basket).snapshot_configuration()
    text = type_text(snapshot).replace(f"{__name__}.", "")

    item = "record Item{level: enum Level{LOW, HIGH}, sku: string}"
    assert f"record Basket{{first: {item}, note: optional<string>, rest: list<record Item{{…}}>}}" == text


def test_subclasses_follow_their_base():
    animal = pojo("fx.Animal", id=LONG)
    dog = pojo("fx.Dog", id=LONG, bark=STRING)
    snapshot = attrs.evolve(animal, registered=(PojoSubclass("fx.Dog", dog), PojoSubclass("fx.Gone", None)))

    expected = "pojo fx.Animal{id: long} | pojo fx.Dog{bark: string, id: long} | the subclass fx.Gone (lost by Flink)"
    assert expected == type_text(snapshot)


def test_the_presence_of_ttl_time_stamps_is_shown_without_them():
    ttl = TtlSerializerSnapshot((LONG, ORDER))

    assert "ttl<pojo fx.Order{…}>" == type_text(ttl, 25)
    assert "ttl<pojo fx.Order{…}>" == type_text(TtlAwareSerializerSnapshot(has_ttl=True, inner=ttl), 25)


def test_a_type_without_a_class_here_is_named():
    skipped = SkippedSnapshot(stored_id="stateshift/money")

    assert "list<stateshift/money (not registered here)>" == type_text(ListSerializerSnapshot((skipped,)))


def test_a_composite_of_your_own_is_named_as_it_names_itself():
    class MoneySnapshot(CompositeTypeSerializerSnapshot):
        snapshot_id = "stateshift/test-money"
        nested = (LONG,)

        def describe(self):
            return "money in cents"

        def restore_serializer(self):
            raise NotImplementedError

    assert "list<money in cents>" == type_text(ListSerializerSnapshot((MoneySnapshot(),)))


def test_types_that_nest_for_ever_end():
    snapshot = LONG
    for _ in range(190):
        snapshot = ListSerializerSnapshot((snapshot,))

    assert "list<" * 40 + "…" + ">" * 40 == type_text(snapshot)


@given(st.integers(1, 120))
def test_a_width_is_kept(width):
    assert len(type_text(ORDERS, width)) <= width


def test_broadcast_state_is_a_map(savepoint_of):
    operator = Savepoint.open(str(savepoint_of("hashmap-long-p1-m128"))).operator("keyed-op")

    assert "map<string, long>" == state_type_text(operator.state("rules").description)
