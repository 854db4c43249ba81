"""Rows of Spark are judged by names, where Spark itself compares types by position (SPK-1 to SPK-6)."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_checkpoints import names, place

from stateshift.compat.difference import compare
from stateshift.compat.queries.changes import Backfill, FieldChanges
from stateshift.serializers.compatibility import Verdict
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.spark_rows.pairing import Pairing
from stateshift.serializers.spark_rows.serializers import SparkRowSerializer
from stateshift.serializers.spark_rows.spark_types import parse_struct, schema_text
from stateshift.serializers.views import DataInputView, DataOutputView
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries.conversion import conversion

OK, MIGRATE, REFUSE = Verdict.COMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE


def struct(fields, *, nullable=True):
    parts = [{"name": name, "type": of, "nullable": nullable} for name, of in fields]
    return {"type": "struct", "fields": parts}


def rows(fields, **more):
    return SparkRowSerializer(parse_struct(json.dumps(struct(fields, **more))))


def judged(old, new):
    result = new.ensure_compatibility(old.snapshot_configuration())
    return result.verdict, [finding.rule for finding in result.findings], result.findings


A_B = [("a", "integer"), ("b", "string")]
SAME = [("first", "string"), ("last", "string")]
NESTED = [("list", {"type": "array", "elementType": struct(A_B), "containsNull": True})]
NESTED_MORE = [("list", {"type": "array", "elementType": struct([*A_B, ("c", "date")]), "containsNull": True})]
MAP = [("m", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True})]
MAP_LONG = [("m", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True})]


@pytest.mark.parametrize(
    ("old", "new", "verdict", "found"),
    [
        (A_B, A_B, OK, []),  # SPK-1
        (A_B, A_B[::-1], MIGRATE, ["SPK-2"]),
        (SAME, SAME[::-1], MIGRATE, ["SPK-2"]),
        ([("sum", "long"), ("sum", "double")], [("sum", "double"), ("sum", "long")], REFUSE, ["SPK-6", "SPK-6"]),
        (A_B, [*A_B, ("c", "date")], MIGRATE, ["SPK-3"]),
        ([*A_B, ("c", "date")], A_B, MIGRATE, ["SPK-4"]),
        ([("sum", "long")], [("max", "long")], MIGRATE, ["SPK-4", "SPK-3"]),
        (NESTED, NESTED_MORE, MIGRATE, ["SPK-3"]),
        (MAP, MAP_LONG, MIGRATE, ["SPK-5"]),
        (A_B, [("a", "long"), ("b", "string")], MIGRATE, ["SPK-5"]),
        (A_B, [("a", "double"), ("b", "string")], MIGRATE, ["SPK-5"]),
        ([("a", "decimal(9,2)")], [("a", "decimal(12,3)")], MIGRATE, ["SPK-5"]),
        ([("a", "decimal(9,2)")], [("a", "decimal(9,3)")], REFUSE, ["SPK-6"]),
        ([("a", "long")], [("a", "decimal(19,0)")], REFUSE, ["SPK-6"]),
        ([("a", "void")], [("a", "string")], MIGRATE, ["SPK-5"]),
        (A_B, [("a", "integer"), ("b", "integer")], REFUSE, ["SPK-6"]),
        ([("a", "long")], [("a", "integer")], REFUSE, ["SPK-6"]),
        ([("a", "long")], [("a", "double")], REFUSE, ["SPK-6"]),
        ([("a", "string")], [("a", struct(A_B))], REFUSE, ["SPK-6"]),
    ],
)
def test_a_change_is_judged_spk_2_to_6(old, new, verdict, found):
    assert judged(rows(old), rows(new))[:2] == (verdict, found)


def test_what_may_be_null_is_not_compared_spk_1():
    assert judged(rows(A_B), rows(A_B, nullable=False))[:2] == (OK, [])


def test_two_fields_of_one_type_that_changed_places_are_told_apart_spk_2():
    ((finding,), (other,)) = (judged(rows(of), rows(of[::-1]))[2] for of in (SAME, A_B))

    assert "would start, and read each as another" in finding.reason
    assert "refuses to start" in other.reason


def test_an_aggregate_that_became_another_is_a_possible_rename_spk_4():
    _, _, (gone, _) = judged(rows([("sum", "long")]), rows([("max", "long")]))

    assert tuple(map(str, gone.flags)) == ("drops:$.sum", "possible_rename:sum->max")


@pytest.mark.parametrize("name", names())
def test_a_checkpoint_can_use_its_own_state(name):
    description = SparkCheckpoint.open(place(name)).describe()
    for operator in description.operators:
        for state in operator.states:
            again = snapshot_from_bytes(snapshot_to_bytes(state.value.snapshot))

            assert again == state.value.snapshot
            assert again.restore_serializer().ensure_compatibility(again).verdict is OK
            struct = again.restore_serializer().struct
            assert parse_struct(schema_text(struct)) == struct
    assert compare(description, description).is_equal is not any(one.unreadable for one in description.operators)


def test_a_variable_of_another_kind_is_another_type():
    description = SparkCheckpoint.open(place("transform")).describe()
    types = {state.name: state.value.describe() for state in description.operators[0].states}

    assert types["names"] == "struct<key: struct<k: string>, value: array<struct<l: string, n: int>>>"
    assert (
        types["by_name"]
        == "struct<key: struct<k: string>, value: map<struct<l: string>, struct<n: int, part: string>>>"
    )


def test_a_row_is_kept_as_its_bytes():
    target = DataOutputView()
    rows(A_B).serialize(b"12345678", target)

    assert rows(A_B).deserialize(DataInputView(target.getvalue())) == b"12345678"


def test_a_dataframe_fills_no_row_of_a_join_and_a_converter_gets_the_row():
    old, new = (parse_struct(json.dumps(struct([("k", "string"), *more]))) for more in ([], [("method", "string")]))
    path, history = "right.value.method", pa.table({"k": ["a"], "m": ["card"]})

    filled, made = (
        conversion(Pairing(changes.answers).pair(old, new, "right.value"), changes)
        for changes in (
            FieldChanges(fills={path: Backfill(history, "m")}),
            FieldChanges(converters={path: lambda row: pc.utf8_upper(row.field("k"))}),
        )
    )

    (problem,) = filled.problems
    assert problem.reason.endswith("not for joins; a converter gets the stored struct, of which it can make the field")
    row = pa.array([{"k": "a"}], pa.struct([("k", pa.string())]))
    assert [{"k": "a", "method": "A"}] == made.convert(row).to_pylist()
