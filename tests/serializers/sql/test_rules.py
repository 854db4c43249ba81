"""What Flink SQL stores of its rows: types and order of their columns, and nothing else."""

import pytest

from stateshift import Flag, Verdict
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.sql.logical_types import LogicalType
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot

INT, STRING = LogicalType("INTEGER"), LogicalType("VARCHAR", parameters=(("length", 2**31 - 1),))
NOT_NULL = LogicalType("INTEGER", is_nullable=False)
SHORTER = LogicalType("VARCHAR", parameters=(("length", 20),))


def row(*types):
    return RowDataSerializer(RowDataSerializerSnapshot.of(types))


def judged(old, new):
    return new.ensure_compatibility(old.snapshot_configuration())


def test_sql_1_equal_columns_are_compatible_but_two_of_one_type_may_have_changed_places():
    result = judged(row(INT, INT), row(INT, INT))
    (finding,) = result.findings

    assert (Verdict.COMPATIBLE, "SQL-1", True) == (result.verdict, finding.rule, finding.has(Flag.UNVERIFIED))


def test_a_single_column_cannot_change_its_place():
    assert () == judged(row(INT), row(INT)).findings


@pytest.mark.parametrize("new", [row(INT), row(INT, INT, INT), row(INT, STRING), row(INT, NOT_NULL)])
def test_sql_2_other_columns_are_refused_as_flink_refuses_them(new):
    (finding,) = judged(row(INT, INT), new).findings

    assert (Verdict.INCOMPATIBLE, "SQL-2") == (finding.verdict, finding.rule)


def test_sql_2_another_length_is_another_type():
    assert judged(row(STRING), row(SHORTER)).is_incompatible()


def test_what_is_no_row_is_refused():
    assert judged(LongSerializer(), row(INT)).is_incompatible()
