"""Lists and sorted maps of Flink's table runtime: their bytes, their snapshots, and what may take over what."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DeclarationError, Savepoint, Verdict
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.snapshot import read_versioned_snapshot, write_versioned_snapshot
from stateshift.serializers.sql.containers import (
    LinkedListSerializer,
    LinkedListSerializerSnapshot,
    SortedMapSerializer,
    SortedMapSerializerSnapshot,
)
from stateshift.serializers.views import DataInputView, DataOutputView

INTS = LinkedListSerializer(IntSerializer())
COMPARATOR = bytes.fromhex("aced0005740001") + b"x"  # any object of Java: here a text
OTHER = COMPARATOR[:-1] + b"y"


def write(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def sorted_map(comparator):
    return SortedMapSerializer(IntSerializer(), LongSerializer(), nullable_values=True, comparator=comparator)


def again(snapshot):
    target = DataOutputView()
    write_versioned_snapshot(target, snapshot)
    read = read_versioned_snapshot(DataInputView(target.getvalue()))
    return read, target.getvalue()


def test_the_nulls_of_a_list_stand_before_its_elements():
    assert bytes.fromhex("00000003 40 00000007 00000009") == write(INTS, [7, None, 9])
    assert bytes.fromhex("00000001 00000007") == write(LinkedListSerializer(IntSerializer(), has_null_mask=False), [7])


@given(st.lists(st.none() | st.integers(-9, 9), max_size=20))
def test_a_list_comes_back(value):
    assert value == INTS.deserialize(DataInputView(write(INTS, value)))


@pytest.mark.parametrize("data", ["00000001 01", "00000009 00", "ffffffff", "00000001 40 00000007"])
def test_a_damaged_list_is_corrupt(data):
    with pytest.raises(CorruptSavepoint):
        INTS.deserialize(DataInputView(bytes.fromhex(data)))


def test_the_snapshot_of_a_list_says_whether_it_has_places_for_nulls():
    with_places, without = (LinkedListSerializer(IntSerializer(), has_null_mask=one) for one in (True, False))

    for one in (with_places, without):
        assert one == again(one.snapshot_configuration())[0].restore_serializer()
    result = with_places.ensure_compatibility(without.snapshot_configuration())
    assert Verdict.INCOMPATIBLE is result.verdict


def test_a_sorted_map_keeps_its_order_and_the_bytes_of_its_comparator():
    snapshot = SortedMapSerializerSnapshot(sorted_map(COMPARATOR).snapshot_configuration().nested, COMPARATOR)
    read, data = again(snapshot)
    restored = read.restore_serializer()

    assert COMPARATOR in data
    assert "SortedMap<int, long> in the order of kept Java code" == read.describe()
    assert [2, 1] == list(restored.deserialize(DataInputView(write(restored, {2: 5, 1: 7}))))


def test_a_sorted_map_in_another_order_is_another():
    old = sorted_map(COMPARATOR).snapshot_configuration()

    assert Verdict.COMPATIBLE is sorted_map(COMPARATOR).ensure_compatibility(old).verdict
    assert Verdict.INCOMPATIBLE is sorted_map(OTHER).ensure_compatibility(old).verdict
    assert Verdict.INCOMPATIBLE is sorted_map(COMPARATOR).ensure_compatibility(LinkedListSerializerSnapshot()).verdict


def test_a_sorted_map_takes_the_order_of_a_template():
    old = sorted_map(COMPARATOR).snapshot_configuration()
    result = attrs.evolve(sorted_map(OTHER), is_of_template=True).ensure_compatibility(old)

    assert (Verdict.REQUIRES_MIGRATION, ["SQL-22"]) == (result.verdict, [one.rule for one in result.findings])


def test_the_order_is_read_from_the_comparator_of_flink_alone(root):
    stored = Savepoint.open(root / "tests/fixtures/flink-sql-template/template").describe()
    (state,) = (one for operator in stored.operators for one in operator.states if one.name == "sorted-map")

    words = [(of.describe(), *way) for of, *way in state.value.snapshot.order]
    assert [("BIGINT", False, True), ("STRING", True, False)] == words
    assert () == SortedMapSerializerSnapshot((), COMPARATOR).order == SortedMapSerializerSnapshot().order


def test_a_comparator_is_not_made():
    with pytest.raises(DeclarationError, match="code of Java"):
        again(sorted_map(b"").snapshot_configuration())
