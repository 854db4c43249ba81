"""What Python shows of results by itself: in a few lines what they are and the answer, and no line that is forged."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from stateshift import (
    Int32,
    Job,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
    migrate,
    verify,
)
from stateshift.compat import compare
from stateshift.compat.gate.history import History
from stateshift.compat.gate.levels import Levels, Revision, judge
from stateshift.state import NewTypes, make_plan
from stateshift.state.formats.spark.reader import SparkCheckpoint

TODAY = dt.date(2026, 1, 1)
ODD = "x\nverdict: start\u202e\x1b[2J"


def job_of(value, name="open"):
    return Job([Operator("shop", key=str, states=[ValueStateDescriptor(name, value)])])


def results(folder, name="open"):
    """Results of each kind for a savepoint whose state is to become a long, and for one that cannot."""
    with SavepointWriter(folder / "sp", job_of(Int32, name)) as writer:
        writer.put("shop", name, "ada", 7)
    savepoint, wide, text = Savepoint.open(folder / "sp"), job_of(int, name), job_of(str, name)
    old, new = savepoint.describe(), wide.describe("job shop:job")
    report = check(old, new)
    gate = judge([Revision("0001_first", old)], text.describe("job shop:job"), Levels(), today=TODAY)
    migrated = migrate(folder / "sp", folder / "new", wide)
    history = History((History().next(new, name, TODAY),))
    (operator,), (planned,), difference = report.operators, migrated.plan.operators, compare(old, new)
    return [
        wide, *wide.operators, old, *old.operators, *old.operators[0].states, old.operators[0].key,
        savepoint, savepoint.operator("shop"), savepoint.operator("shop").state(name),
        report, operator, operator.key, *operator.states, operator.states[0].result, *report.all_findings(),
        gate, *gate.states, history, *history.revisions,
        make_plan(savepoint, wide, MigrationOptions(), NewTypes()), migrated, migrated.plan, planned, *planned.states,
        savepoint.profile(), *savepoint.profile().operators, *savepoint.profile().states,
        verify(folder / "new"), Savepoint.open(folder / "new").lineage,
        difference, *difference.operators, *difference.operators[0].states,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["open", ODD], ids=["plain", "odd"])
def test_each_result_is_told_in_a_few_printable_lines(tmp_path, name):
    for result in results(tmp_path, name):
        lines = repr(result).split("\n")

        assert lines[0].startswith(f"<{type(result).__name__} ")
        assert lines[-1].endswith(">")
        assert len(lines) <= 5
        assert sum(map(len, lines)) < 500
        assert all(line.isprintable() for line in lines)
        assert all(line.startswith("  ") for line in lines[1:])


def test_it_says_the_answer_and_between_what(tmp_path):
    shown = {type(one).__name__: repr(one).replace(str(tmp_path), "…") for one in results(tmp_path)}

    assert shown["CheckReport"] == (
        "<CheckReport migrate; states: 1 migrate; 1 finding\n  from savepoint …/sp\n  to job shop:job>"
    )
    assert shown["StateReport"] == "<StateReport open value: migrate (requires_migration, 1 finding)>"
    assert shown["CompatibilityResult"] == (
        "<CompatibilityResult requires_migration\n  $ every int fits a long, in other bytes [PRIM-2]>"
    )
    assert shown["GateReport"] == (
        "<GateReport refuse: 1 of 2 states and keys\n  job shop:job against 1 revision, the last 0001_first\n"
        "  StateGate shop/open: fails at level BACKWARD, 1 failure>"
    )
    assert shown["Savepoint"].startswith("<Savepoint …/sp: 1 operator, 1 with state, by stateshift ")
    assert shown["PlanFile"] == "<PlanFile migrate; states: 1 convert\n  from …/sp\n  to a job in Python>"
    assert shown["MigrationReport"].startswith("<MigrationReport 1 entry written in ")
    assert shown["MigrationReport"].endswith(" s; states: 1 convert\n  from …/sp\n  to …/new>")
    assert shown["VerifyReport"].startswith("<VerifyReport verified: …/new (")
    assert shown["Difference"].startswith("<Difference different: 1 of 1 state differ; B on A: migrate; A on B: ")


def test_a_notebook_shows_plans_and_migrations_with_their_types(tmp_path):
    shown = {type(one).__name__: one._repr_html_() for one in results(tmp_path, ODD) if hasattr(one, "_repr_html_")}

    for name, what in (("PlanFile", "What is done"), ("MigrationReport", "What was read, converted, dropped")):
        assert what in shown[name]
        assert "every int fits a long, in other bytes" in shown[name]
        assert r"x\nverdict: start\u202e\x1b[2J" in shown[name]
    assert "the job cannot take over the state of 0001_first" in shown["GateReport"]
    assert "every int fits a long, in other bytes" in shown["CompatibilityResult"]
    assert "<script" not in "".join(shown.values())


def test_a_checkpoint_of_spark_is_told_with_its_operators(root):
    checkpoint = SparkCheckpoint.open(root / "tests/fixtures/spark-4.3/types/checkpoint")

    first, second = repr(checkpoint).split("\n")
    assert first.endswith("types/checkpoint: 1 operator, after batch 2")
    assert second == "  operator 0 (aggregation)>"
    assert repr(checkpoint.operators[0]) == "<SparkOperator 0 (aggregation): default>"


def test_credentials_of_a_place_are_not_shown():
    description = job_of(int).describe("savepoint s3://user:secret@bucket/sp?secret_key=hidden")

    assert repr(description) == "<JobDescription savepoint s3://…@bucket/sp?secret_key=… 1 operator, 1 state>"
    shown = description._repr_html_()
    assert "s3://…@bucket/sp?secret_key=…" in shown
    assert not {"user:", "hidden"} & set(re.findall(r"user:|hidden", shown))
