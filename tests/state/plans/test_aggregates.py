"""What Flink keeps for aggregates is read from the table that real Flink made."""

import json
from pathlib import Path

import pytest

from stateshift.compat.sql.query import Column
from stateshift.serializers.sql.binary_rows import decode_row, encode_row
from stateshift.serializers.sql.logical_types import OPAQUE
from stateshift.serializers.sql.values import RowData
from stateshift.state.plans import aggregates
from stateshift.state.plans.aggregates import accumulators_of
from stateshift.state.plans.column_types import type_of

TABLE = json.loads((Path(aggregates.__file__).parent / "accumulators.json").read_text("utf-8"))["functions"]
TYPES = {
    "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT", "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL(20, 3)", "VARCHAR": "STRING", "CHAR": "CHAR(3)", "BOOLEAN": "BOOLEAN",
    "DATE": "DATE", "TIME_WITHOUT_TIME_ZONE": "TIME(0)", "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP(6)",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ(3)", "BINARY": "BINARY(2)", "VARBINARY": "BYTES",
}  # fmt: skip
CASES = [
    (function, roots, back)
    for function, rows in TABLE.items()
    for row in rows
    for back in row["retraction"]
    for roots in row["arguments"]
    if all(root in TYPES for root in filter(None, roots.split(", ")))
]


def kept(function, roots, *, retracts, distinct=False, extra=None):
    columns = [
        Column(f"c{at}", type_of(TYPES[root], ""), f"t.c{at}")
        for at, root in enumerate(filter(None, roots.split(", ")))
    ]
    call = {
        "internalName": f"${function}$1", "argList": list(range(len(columns))), "filterArg": -1, "distinct": distinct,
    }  # fmt: skip
    return accumulators_of({"aggCalls": [call], "aggCallNeedRetractions": [retracts], **(extra or {})}, columns)


@pytest.mark.parametrize(("function", "roots", "retracts"), CASES)
def test_what_may_begin_later_is_a_value_of_its_type(function, roots, retracts):
    found = kept(function, roots, retracts=retracts)

    assert not found.unknown
    for column in found.columns:
        if column.begins is not None:
            assert column.type.root != OPAQUE
            row = encode_row(RowData(*column.begins), (column.type,))
            assert column.begins == tuple(decode_row(row, (column.type,)))


def test_a_function_that_is_not_in_the_table_is_named():
    assert "what Flink keeps for MEDIAN(t.c0) is not known" == kept("MEDIAN", "INTEGER", retracts=False).unknown


def test_the_hidden_count_stands_behind_the_aggregates():
    names = [one.name for one in kept("SUM", "INTEGER", retracts=True, extra={"needRetraction": True}).columns]
    counted = [
        one.name
        for one in kept("SUM", "INTEGER", retracts=True, extra={"needRetraction": True, "indexOfCountStar": 0}).columns
    ]

    assert "COUNT(*) with retraction" == names[-1]
    assert names[:-1] == counted


def test_different_values_are_told_by_their_type():
    views = [
        [one.computed for one in kept("COUNT", root, retracts=False, distinct=True).views]
        for root in ("INTEGER", "BIGINT")
    ]

    assert ["different (t.c0) of all, INT", "different (t.c0) of all, INT, of null"] == views[0]
    assert not set(views[0]) & set(views[1])
