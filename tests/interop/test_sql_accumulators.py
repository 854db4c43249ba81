"""The table of what Flink keeps for aggregates, `accumulators.json`, is what real Flink says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sql_accumulators import ARGUMENTS, json_of, patterns_of, queries, row_of, table_of, types_of
from sql_jobs import SqlJobs

from stateshift import state

TABLE = Path(state.__file__).parent / "plans" / "accumulators.json"
SAMPLE = ("INT", "DECIMAL(10,2)", "DECIMAL(38,10)", "STRING", "TIMESTAMP_LTZ(6)")
LEAST = 0.6
"""Of the queries so many are valid; the others aggregate what the function does not take."""


def told(flink, place, arguments):
    """Give what real Flink says of all aggregates of these arguments."""
    asked, answers = place / "queries", place / "answers"
    lines = queries(arguments)
    asked.write_text("\n".join(lines), encoding="utf-8")
    SqlJobs(flink("2.3"), place).tell("Accumulators", asked, answers)
    found = [line.split("\t") for line in answers.read_text(encoding="utf-8").splitlines()]
    known = [line for line in found if line[1] != "error"]
    assert LEAST < len(known) / len(lines), sorted({line[2] for line in found if line[1] == "error"})[:9]
    return known


@pytest.fixture(scope="module")
def sampled(flink, tmp_path_factory):
    return told(flink, tmp_path_factory.mktemp("accumulators"), SAMPLE)


@pytest.mark.slow
def test_the_table_is_what_flink_says(flink, tmp_path):
    made = json_of(*table_of(told(flink, tmp_path, ARGUMENTS)))

    if os.environ.get("STATESHIFT_RECORD"):
        TABLE.write_text(made, encoding="utf-8")
    assert json.loads(made) == json.loads(TABLE.read_text(encoding="utf-8"))


def test_what_flink_says_of_a_sample_is_in_the_table(sampled):
    table = json.loads(TABLE.read_text(encoding="utf-8"))["functions"]

    for (function, retracts), of_arguments in patterns_of(sampled).items():
        for arguments, patterns in of_arguments.items():
            fitting = [row_of(retracts, [arguments], *pattern) for pattern in patterns]
            (given,) = fitting[0]["arguments"]
            rows = [one for one in table[function] if retracts in one["retraction"] and given in one["arguments"]]
            assert [one | {"retraction": retracts, "arguments": [given]} for one in rows] in [[one] for one in fitting]


def test_types_of_accumulators_are_described_as_flink_does(sampled):
    described = [[of.describe() for of in types_of(line[5])] for line in sampled]

    assert [line[2].split("; ") for line in sampled] == described
