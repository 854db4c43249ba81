"""Where nulls are met: in fields, in maps, in sets; and how far is looked."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    TtlValue,
    ValueStateDescriptor,
    record,
)
from stateshift.state.savepoint.stored_nulls import look_for_nulls


@record(java_class="com.acme.Item")
@attrs.frozen
class Item:
    size: int | None = None
    weight: int | None = None


@record(java_class="com.acme.Box")
@attrs.frozen
class Box:
    items: list[Item]
    shelf: Item | None = None


JOB = Job(
    [
        Operator(
            "op",
            key=int,
            states=[
                ValueStateDescriptor("boxes", Box),
                MapStateDescriptor("labels", str, str, nullable_values=True),
                ListStateDescriptor("sets", set[str | None]),
                MapStateDescriptor("stamped", str, tuple[int, int], nullable_values=True, time_to_live=True),
            ],
        )
    ]
)
BOXES = ("com.acme.Box", "shelf")
SIZE = ("com.acme.Item", "size")


@pytest.fixture
def holding(tmp_path):
    def write(**values):
        with SavepointWriter(tmp_path / "savepoint", JOB) as writer:
            for state, entries in values.items():
                for key, value in enumerate(entries):
                    writer.put("op", state, key, value)
        return Savepoint.open(tmp_path / "savepoint")

    return write


def containers(savepoint, nulls):
    return {s.name for s in savepoint.operator("op").states if nulls.has_item(s.description.value.snapshot)}


def test_null_fields_are_found_at_any_depth(holding):
    nulls = look_for_nulls(holding(boxes=[Box([Item(1, 2), Item(None, 2)], Item(1, 1)), Box([])]))

    assert {BOXES, SIZE} == nulls.fields


def test_nothing_is_found_where_nothing_is_null(holding):
    savepoint = holding(boxes=[Box([Item(1, 2)], Item(1, 1))], labels=[{"a": "b"}], sets=[[{"a"}]])

    nulls = look_for_nulls(savepoint)

    assert set() == nulls.fields
    assert set() == nulls.containers


def test_null_items_of_maps_and_sets_are_found(holding):
    savepoint = holding(labels=[{"a": "b", "c": None}], sets=[[{"a"}, {None}]])

    nulls = look_for_nulls(savepoint)

    assert {"labels"} == containers(savepoint, nulls)
    element = savepoint.operator("op").state("sets").description.value.snapshot.nested[0]
    assert nulls.has_item(element)


def test_a_stamped_value_is_looked_into(holding):
    savepoint = holding(stamped=[{"a": TtlValue(1, (1, 2)), "b": None}])

    assert {"stamped"} == containers(savepoint, look_for_nulls(savepoint))


def test_no_further_is_looked_than_asked_for(holding):
    savepoint = holding(boxes=[Box([], Item(1, 1))] * 50 + [Box([])] * 50)

    assert {BOXES} == look_for_nulls(savepoint).fields
    assert set() == look_for_nulls(savepoint, size_bytes=10).fields
    assert set() == look_for_nulls(savepoint, entries=0).fields
