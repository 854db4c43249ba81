"""Snapshots that subtasks wrote differently, because each has met other subclasses, become one; others do not."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.serializers.containers.lists import ListSerializerSnapshot, MapSerializerSnapshot
from stateshift.serializers.containers.ttl import TtlSerializerSnapshot
from stateshift.serializers.containers.wrappers import NullableSerializerSnapshot
from stateshift.serializers.primitives.numeric import IntSerializerSnapshot, LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.serializers.records.merging import merge_snapshots
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot, PojoSubclass
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

INT, LONG, STRING = IntSerializerSnapshot(), LongSerializerSnapshot(), StringSerializerSnapshot()


def pojo(name, fields, unregistered=(), registered=()):
    return PojoSerializerSnapshot(
        name,
        tuple(PojoField(field, name, snapshot) for field, snapshot in fields.items()),
        registered,
        tuple(PojoSubclass(one, SUBCLASSES[one]) for one in unregistered),
    )


SUBCLASSES = {name: pojo(name, {"street": STRING, "x": INT}) for name in ("fx.A", "fx.B", "fx.C")}


def home(*unregistered, **more):
    return pojo("fx.Home", {"street": STRING}, unregistered, **more)


WRAPPERS = [
    lambda inner: inner,
    lambda inner: ListSerializerSnapshot((inner,)),
    lambda inner: MapSerializerSnapshot((STRING, inner)),
    lambda inner: TtlSerializerSnapshot((LONG, inner)),
    lambda inner: NullableSerializerSnapshot((inner,)),
    lambda inner: pojo("fx.Outer", {"home": inner}),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_the_union_of_the_subclasses_that_were_met_describes_both(wrap):
    one, other, both = wrap(home("fx.A", "fx.B")), wrap(home("fx.C", "fx.B")), wrap(home("fx.A", "fx.B", "fx.C"))

    merged = merge_snapshots(one, other)
    assert snapshot_to_bytes(both) == snapshot_to_bytes(merged)
    assert snapshot_to_bytes(merged) == snapshot_to_bytes(snapshot_from_bytes(snapshot_to_bytes(merged)))


def test_a_subclass_that_both_met_may_itself_differ_in_what_was_met():
    def outer(*unregistered):
        inner = pojo("fx.Fancy", {"home": home(*unregistered)})
        return attrs.evolve(home(), unregistered=(PojoSubclass("fx.Fancy", inner),))

    assert outer("fx.A", "fx.B") == merge_snapshots(outer("fx.A"), outer("fx.B"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (INT, LONG),
        (INT, ListSerializerSnapshot((INT,))),
        (ListSerializerSnapshot((INT,)), ListSerializerSnapshot((LONG,))),
        (MapSerializerSnapshot((INT, home("fx.A"))), MapSerializerSnapshot((LONG, home("fx.B")))),
        (NullableSerializerSnapshot((LONG,), padding=8), NullableSerializerSnapshot((LONG,))),
        (home("fx.A"), pojo("fx.Other", {"street": STRING})),
        (home("fx.A"), pojo("fx.Home", {"street": INT}, ("fx.B",))),
        (home("fx.A"), pojo("fx.Home", {"street": STRING, "x": INT}, ("fx.B",))),
        (home("fx.A"), home("fx.B", registered=(PojoSubclass("fx.C", SUBCLASSES["fx.C"]),))),
        (home("fx.A"), attrs.evolve(home(), unregistered=(PojoSubclass("fx.A", pojo("fx.A", {"x": LONG})),))),
        (home("fx.A"), attrs.evolve(home("fx.B"), fields=(PojoField("street", "fx.Home", None),))),
    ],
)
def test_what_differs_otherwise_is_not_joined(one, other):
    assert merge_snapshots(one, other) is None
    assert merge_snapshots(other, one) is None


met = st.lists(st.sampled_from(sorted(SUBCLASSES)), unique=True)


@given(met, met, st.sampled_from(WRAPPERS))
def test_merging_keeps_what_either_side_has(one, other, wrap):
    mine, theirs = wrap(home(*one)), wrap(home(*other))
    merged = merge_snapshots(mine, theirs)

    assert merge_snapshots(merged, theirs) == merged
    assert merge_snapshots(merged, mine) == merged
    if set(other) <= set(one):
        assert mine == merged
