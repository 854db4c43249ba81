"""What becomes of stored rows of SQL, column by column, where plans have paired the columns."""

from decimal import Decimal

import pytest

from stateshift.serializers.compatibility import Flag, Verdict
from stateshift.serializers.errors import ValueNotConvertible
from stateshift.serializers.rows.values import RowKind
from stateshift.serializers.sql.binary_rows import encode_row
from stateshift.serializers.sql.row_changes import Filled, RowColumn
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot
from stateshift.serializers.sql.values import RowData, TimestampData
from stateshift.serializers.views import DataInputView, DataOutputView
from stateshift.state.plans.column_types import type_of

ROWTIME = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}


def snapshot(*types):
    return RowDataSerializerSnapshot.of(type_of(one, "") for one in types)


def judged(old, new, column=None):
    """The answer about a row with one column."""
    serializer = RowDataSerializer(snapshot(new), (column or RowColumn("x", 0),), ("x",))
    return serializer.ensure_compatibility(snapshot(old))


@pytest.mark.parametrize(
    ("old", "new", "value", "becomes"),
    [
        ("INT", "BIGINT", 7, 7),
        ("INT NOT NULL", "INT", 7, 7),
        ("SMALLINT", "DECIMAL(7, 2)", 7, Decimal("7.00")),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", Decimal("12345678.25"), Decimal("12345678.2500")),
        ("DECIMAL(38, 2) NOT NULL", "DECIMAL(38, 2)", Decimal("-1.50"), Decimal("-1.50")),
        ("VARCHAR(3)", "STRING", "abc", "abc"),
        (ROWTIME, "TIMESTAMP(3)", TimestampData(5), TimestampData(5)),
    ],
)  # fmt: skip
def test_values_are_written_in_a_wider_type_sql_5(old, new, value, becomes):
    found = judged(old, new)

    assert ["SQL-5"] == [one.rule for one in found.findings]
    assert Verdict.REQUIRES_MIGRATION is found.verdict
    assert (becomes,) == tuple(found.conversion(RowData(value)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"), ("STRING", "VARCHAR(20)"), ("CHAR(3)", "CHAR(5)"), ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
        ("DOUBLE", "FLOAT"), ("INT", "DECIMAL(11, 2)"), ("TIMESTAMP(6)", "TIMESTAMP(3)"), ("INT", "STRING"),
        ("ARRAY<INT>", "ARRAY<BIGINT>"), ("DATE", "TIMESTAMP(3)"),
    ],
)  # fmt: skip
def test_other_types_are_refused_sql_6(old, new):
    found = judged(old, new)

    assert [("SQL-6", Verdict.INCOMPATIBLE)] == [(one.rule, one.verdict) for one in found.findings]


@pytest.mark.parametrize(("old", "new"), [("FLOAT", "DOUBLE"), ("TIMESTAMP(3)", "TIMESTAMP(6)")])
def test_what_the_query_sends_finer_now_is_only_taken_where_nothing_finds_rows_by_it_sql_6(old, new):
    assert judged(old, new).is_incompatible()
    assert judged(old, new, RowColumn("x", 0, is_exact=False)).is_migration_required()


@pytest.mark.parametrize(("old", "new"), [("DECIMAL(10, 2)", "DECIMAL(20, 2)"), ("TIMESTAMP(3)", "TIMESTAMP(6)")])
def test_a_null_that_gets_two_forms_is_refused_where_rows_are_found_by_their_bytes(old, new):
    assert judged(old, new).is_incompatible()
    assert judged(old, new, RowColumn("x", 0, is_exact=False)).is_migration_required()
    if "DECIMAL" in old:
        assert judged(f"{old} NOT NULL", f"{new} NOT NULL").is_migration_required()


def test_a_stored_null_fails_where_the_new_type_has_none():
    found = judged("INT", "INT NOT NULL")

    assert found.findings[0].has(Flag.MAY_FAIL_PER_VALUE)
    with pytest.raises(ValueNotConvertible, match="NOT NULL"):
        found.conversion(RowData(None))


def test_columns_move_go_and_come_and_the_kind_stays():
    columns = (RowColumn("c", 2), RowColumn("n", begins=0, why="it is new"), RowColumn("a", 0))
    new = RowDataSerializer(snapshot("STRING", "BIGINT", "INT"), columns, ("a", "b", "c"))
    found = new.ensure_compatibility(snapshot("INT", "DOUBLE", "STRING"))
    row = RowData(1, 2.5, "x")
    row._kind = RowKind.UPDATE_AFTER

    changed = found.conversion(row)

    assert {("$", "SQL-4"), ("$.b", "SQL-7"), ("$.n", "SQL-8")} == {(str(one.path), one.rule) for one in found.findings}
    assert (("x", 0, 1), RowKind.UPDATE_AFTER) == (tuple(changed), changed._kind)


def test_columns_that_only_move_are_named_sql_4():
    new = RowDataSerializer(snapshot("STRING", "INT"), (RowColumn("b", 1), RowColumn("a", 0)), ("a", "b"))

    assert ["SQL-4"] == [one.rule for one in new.ensure_compatibility(snapshot("INT", "STRING")).findings]


def test_rows_that_stay_are_compatible_without_a_word():
    new = RowDataSerializer(snapshot("INT", "INT"), (RowColumn("a", 0), RowColumn("b", 1)), ("a", "b"))
    found = new.ensure_compatibility(snapshot("INT", "INT"))

    assert (Verdict.COMPATIBLE, ()) == (found.verdict, found.findings)


def test_two_columns_of_one_type_that_change_places_are_told_apart():
    new = RowDataSerializer(snapshot("INT", "INT"), (RowColumn("b", 1), RowColumn("a", 0)), ("a", "b"))

    assert (2, 1) == tuple(new.ensure_compatibility(snapshot("INT", "INT")).conversion(RowData(1, 2)))


def test_the_form_of_a_null_that_generated_code_wrote_is_kept():
    types = tuple(type_of(one, "") for one in ("DECIMAL(20, 2)", "INT"))
    old = snapshot("DECIMAL(20, 2)", "INT").restore_serializer()
    target = DataOutputView()
    data = encode_row(RowData(None, 7), types, reserved=[0])
    target.write_int(len(data))
    target.write(data)
    stored = old.deserialize(DataInputView(target.getvalue()))
    new = RowDataSerializer(snapshot("INT", "DECIMAL(20, 2)"), (RowColumn("b", 1), RowColumn("a", 0)), ("a", "b"))

    changed = new.ensure_compatibility(snapshot("DECIMAL(20, 2)", "INT")).conversion(stored)
    written = DataOutputView()
    new.serialize(changed, written)

    assert len(data) + 4 == len(written.getvalue())  # with its sixteen bytes of room
    assert (7, None) == tuple(new.deserialize(DataInputView(written.getvalue())))
    assert changed == new.deserialize(DataInputView(written.getvalue()))


@pytest.mark.parametrize(
    ("stored", "new", "values", "expected"),
    [
        (("BIGINT", "BIGINT"), "BIGINT", (7, 2), 7),
        (("BIGINT", "BIGINT"), "BIGINT", (0, 0), None),
        (("BIGINT", "BIGINT"), "INT", (2**31 + 4, 2), 4 - 2**31),
        (("DECIMAL(38, 2)", "BIGINT"), "DECIMAL(38, 2)", (Decimal("1.25"), 1), Decimal("1.25")),
    ],
)
def test_a_sum_that_another_aggregate_has_kept_is_that_of_the_new_one(stored, new, values, expected):
    columns = (RowColumn("s", why="it is given", filled=Filled(0, 1)), RowColumn("n", 1))
    serializer = RowDataSerializer(snapshot(new, "BIGINT"), columns, ("s", "n"))
    result = serializer.ensure_compatibility(snapshot(*stored))

    assert {"SQL-21"} == {one.rule for one in result.findings}
    assert RowData(expected, values[1]) == result.conversion(RowData(*values))


def test_a_sum_that_did_not_fit_is_refused_when_it_is_met():
    columns = (RowColumn("s", begins=0, why="it is given", filled=Filled(0, 1)),)
    result = RowDataSerializer(snapshot("BIGINT"), columns, ("s", "n")).ensure_compatibility(
        snapshot("BIGINT", "BIGINT")
    )

    assert RowData(0) == result.conversion(RowData(None, 0))
    with pytest.raises(ValueNotConvertible, match="too large"):
        result.conversion(RowData(None, 3))
