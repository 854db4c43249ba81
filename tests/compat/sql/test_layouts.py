"""Stored rows that another layout keeps: what becomes of all that a key has."""

import attrs
import pytest

from stateshift.compat.description import StateKind
from stateshift.compat.sql.layouts import RowsAnew, keeps_otherwise, why_not
from stateshift.compat.sql.query import Column, SqlState, ValueForm
from stateshift.serializers.containers.ttl import TtlValue
from stateshift.serializers.errors import ValuesCollide
from stateshift.serializers.sql.logical_types import LogicalType
from stateshift.serializers.sql.values import RowData

ID, NAME = Column("id", LogicalType("BIGINT"), "t.id"), Column("name", LogicalType("VARCHAR"), "t.name")
SIDE = SqlState(name="left-records", columns=(ID, NAME), is_side=True)
COUNTED = attrs.evolve(SIDE, kind=StateKind.MAP, form=ValueForm.COUNT, user_key=(ID, NAME))
BY_ID = attrs.evolve(SIDE, kind=StateKind.MAP, user_key=(ID,))
BY_NAME = attrs.evolve(BY_ID, user_key=(NAME,))
ANT, BEE, SECOND_ANT = RowData(1, "ant"), RowData(2, "bee"), RowData(3, "ant")
TOP = SqlState(
    name="data-state-with-append", kind=StateKind.MAP, form=ValueForm.ROWS, columns=(ID, NAME), user_key=(NAME,),
    most=5, order=((1, False, True),),
)  # fmt: skip


def numbered(state):
    return attrs.evolve(state, has_number=True)


@pytest.mark.parametrize(
    ("was", "becomes", "stored", "expected"),
    [
        (COUNTED, SIDE, {ANT: 1}, ANT),
        (COUNTED, BY_ID, {ANT: 1, BEE: 1}, {RowData(1): ANT, RowData(2): BEE}),
        (BY_ID, COUNTED, {RowData(1): ANT, RowData(2): BEE}, {ANT: 1, BEE: 1}),
        (SIDE, COUNTED, ANT, {ANT: 1}),
        (SIDE, BY_ID, ANT, {RowData(1): ANT}),
        (BY_ID, SIDE, {RowData(1): ANT}, ANT),
        (BY_ID, BY_NAME, {RowData(1): ANT, RowData(2): BEE}, {RowData("ant"): ANT, RowData("bee"): BEE}),
        (numbered(COUNTED), numbered(BY_ID), {ANT: (1, 7)}, {RowData(1): (ANT, 7)}),
        (numbered(SIDE), numbered(COUNTED), (ANT, 7), {ANT: (1, 7)}),
        (COUNTED, SIDE, {ANT: TtlValue(9, 1)}, TtlValue(9, ANT)),
        (BY_ID, COUNTED, {RowData(1): TtlValue(9, ANT)}, {ANT: TtlValue(9, 1)}),
    ],
)
def test_the_rows_of_a_key_are_kept_by_their_unique_key_and_without_one(was, becomes, stored, expected):
    assert keeps_otherwise(was, becomes)
    assert expected == RowsAnew(was, becomes)(stored)


@pytest.mark.parametrize(
    ("was", "becomes", "stored"),
    [
        (COUNTED, SIDE, {ANT: 2}),
        (COUNTED, BY_ID, {ANT: 2}),
        (COUNTED, SIDE, {ANT: 1, BEE: 1}),
        (COUNTED, BY_NAME, {ANT: 1, SECOND_ANT: 1}),
        (BY_ID, SIDE, {RowData(1): ANT, RowData(2): BEE}),
    ],
)
def test_two_rows_with_one_unique_key_are_refused(was, becomes, stored):
    with pytest.raises(ValuesCollide, match="unique key"):
        RowsAnew(was, becomes)(stored)


def test_rows_that_become_equal_are_counted_together_and_the_newest_stamp_stays():
    lost = RowsAnew(BY_ID, COUNTED, rows=lambda row: RowData(row[1]))
    stored = {RowData(1): TtlValue(3, ANT), RowData(3): TtlValue(8, SECOND_ANT), RowData(2): TtlValue(5, BEE)}

    assert {RowData("ant"): TtlValue(8, 2), RowData("bee"): TtlValue(5, 1)} == lost(stored)


def test_rows_that_become_equal_have_as_many_matches():
    lost = RowsAnew(numbered(BY_ID), numbered(COUNTED), rows=lambda row: RowData(row[1]))

    assert {RowData("ant"): (2, 4)} == lost({RowData(1): (ANT, 4), RowData(3): (SECOND_ANT, 4)})
    with pytest.raises(ValuesCollide, match="matches"):
        lost({RowData(1): (ANT, 4), RowData(3): (SECOND_ANT, 5)})


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((1, False, True), {RowData("bee"): [RowData(1, "bee")], RowData("ant"): [RowData(3, "ant")]}),
        ((1, True, True), {RowData("Größe"): [RowData(4, "Größe")], RowData("ant"): [RowData(3, "ant")]}),
        ((1, True, False), {RowData(None): [RowData(5, None)], RowData("Größe"): [RowData(4, "Größe")]}),
    ],
)
def test_a_lower_number_keeps_the_best_rows_and_of_equal_ones_the_first(order, expected):
    stored = {
        RowData("bee"): [RowData(1, "bee")],
        RowData("ant"): [RowData(3, "ant"), RowData(2, "ant")],
        RowData(None): [RowData(5, None)],
        RowData("Größe"): [RowData(4, "Größe")],  # strings are ordered by their bytes
    }
    was = attrs.evolve(TOP, order=(order,))

    assert expected == RowsAnew(was, attrs.evolve(was, most=2))(stored)


def test_rows_of_one_rank_keep_the_order_of_their_numbers():
    was = attrs.evolve(TOP, form=ValueForm.ROW, user_key=(ID,), has_number=True)
    stored = {RowData(1): (ANT, 2), RowData(3): (SECOND_ANT, 1), RowData(2): (BEE, 1)}

    assert {RowData(2): (BEE, 1), RowData(3): (SECOND_ANT, 1)} == RowsAnew(was, attrs.evolve(was, most=2))(stored)


def test_what_cannot_be_kept_otherwise_says_why():
    wide = Column("d", LogicalType("DECIMAL", parameters=(("precision", 30), ("scale", 2))), "t.d")
    of_floats = attrs.evolve(TOP, columns=(ID, Column("f", LogicalType("DOUBLE"), "t.f")))

    assert "DOUBLE" in why_not(of_floats, attrs.evolve(of_floats, most=2))
    assert "two forms" in why_not(SIDE, attrs.evolve(BY_ID, user_key=(wide,)))
    assert "beside" in why_not(COUNTED, numbered(SIDE))
    assert not why_not(COUNTED, BY_ID)
