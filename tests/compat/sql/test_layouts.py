"""Stored rows that another layout keeps: what becomes of all that a key has."""

import attrs
import pytest

from stateshift.compat.description import StateKind
from stateshift.compat.sql.layouts import Newest, RowsAnew, keeps_otherwise, why_not
from stateshift.compat.sql.query import Column, Removal, SqlOperator, SqlState, ValueForm
from stateshift.serializers.containers.ttl import TtlValue
from stateshift.serializers.errors import ValuesCollide
from stateshift.serializers.sql.logical_types import LogicalType
from stateshift.serializers.sql.values import RowData
from stateshift.serializers.ways_out import Option

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


STAYS = Newest(is_asked=True)


@pytest.mark.parametrize(
    ("was", "becomes", "stored", "expected"),
    [
        (COUNTED, SIDE, {ANT: TtlValue(9, 1), BEE: TtlValue(4, 1)}, TtlValue(9, ANT)),
        (COUNTED, SIDE, {ANT: TtlValue(4, 2)}, TtlValue(4, ANT)),
        (
            COUNTED,
            BY_NAME,
            {ANT: TtlValue(3, 2), BEE: TtlValue(5, 1), SECOND_ANT: TtlValue(8, 1)},
            {RowData("ant"): TtlValue(8, SECOND_ANT), RowData("bee"): TtlValue(5, BEE)},
        ),
        (BY_ID, SIDE, {RowData(1): TtlValue(3, ANT), RowData(2): TtlValue(8, BEE)}, TtlValue(8, BEE)),
    ],
)
def test_the_newest_of_the_rows_with_one_unique_key_stays(was, becomes, stored, expected):
    assert expected == RowsAnew(was, becomes, newest=STAYS)(stored)


def test_of_two_rows_of_one_time_neither_is_the_newest():
    anew = RowsAnew(COUNTED, SIDE, newest=STAYS)

    with pytest.raises(ValuesCollide, match="neither is the newest"):
        anew({ANT: TtlValue(9, 1), BEE: TtlValue(9, 1)})
    assert TtlValue(11, ANT) == anew({ANT: TtlValue(11, 1), BEE: TtlValue(9, 1), SECOND_ANT: TtlValue(9, 1)})
    same = RowsAnew(COUNTED, SIDE, rows=lambda row: RowData(row[1]), newest=STAYS)
    assert TtlValue(9, RowData("ant")) == same({ANT: TtlValue(9, 1), SECOND_ANT: TtlValue(9, 1)})


@pytest.mark.parametrize(
    ("newest", "is_offered"),
    [(Newest(), True), (Newest(lacks="why"), False), (Newest(is_asked=True, lacks="why"), False)],
)
def test_rows_that_collide_say_that_the_newest_may_stay_where_it_is_known(newest, is_offered):
    with pytest.raises(ValuesCollide, match="unique key") as collided:
        RowsAnew(COUNTED, SIDE, newest=newest)({ANT: TtlValue(9, 1), BEE: TtlValue(4, 1)})

    assert is_offered is any(way.mentions(Option.KEEP_NEWEST) for way in collided.value.ways_out)


def test_the_newest_is_known_where_rows_only_come_and_nothing_counts_them():
    stamped = attrs.evolve(COUNTED, ttl_ms=9, removal=Removal.NEVER)
    join = SqlOperator(node=1, kind="join", line=1, states=(stamped, stamped))

    def lacks(state, was=join, becomes=join):
        return Newest.of(state, was, becomes, is_asked=True).lacks

    assert not lacks(stamped)
    assert "time to live" in lacks(attrs.evolve(stamped, ttl_ms=0))
    assert "takes rows back" in lacks(attrs.evolve(stamped, removal=Removal.BY_ROW))
    assert "matches" in lacks(stamped, attrs.evolve(join, states=(stamped, numbered(stamped))))
    assert "behind the join" in lacks(stamped, becomes=attrs.evolve(join, is_followed=True))


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
