"""Real Flink keeps of each query of `sql_samples` what is computed from its inputs; so the fixtures are made."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from sql_jobs import SqlJobs
from sql_samples import SAMPLES, expected, inputs, kept

from stateshift import Savepoint
from stateshift.state.savepoint.json_encoding import tagged_operator

FIXTURES = Path(__file__).parents[1] / "fixtures" / "flink-sql-2.3"
QUICK = {"join-full-unique-key", "rank-retract", "window-aggregate-session"}


@pytest.fixture(scope="module")
def ran(request, flink, tmp_path_factory):
    """The jobs of all queries that are asked for, run in one process."""
    names = sorted({item.callspec.params["name"] for item in request.session.items if item.module is request.module})
    jobs = SqlJobs(flink("2.3"), tmp_path_factory.mktemp("samples"))
    for table, lines in inputs().items():
        jobs.append(table, "1", *([line] for line in lines))
    steps = []
    for name in names:
        script, plan, savepoint = (jobs.of(name) / file for file in ("script.sql", "plan.json", "savepoint"))
        script.write_text(SAMPLES[name].script().replace("@INPUT@", str(jobs.place / "input")), encoding="utf-8")
        savepoint.mkdir()
        steps += ["compile", script, plan, "run", plan, "-", savepoint]
    jobs.tell("Sql", *steps)
    return jobs


@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in SAMPLES])
def test_flink_keeps_what_the_inputs_say(ran, name):
    place = ran.of(name)
    plan = (place / "plan.json").read_text(encoding="utf-8").replace(str(ran.place / "input"), "@INPUT@")
    computed = expected(name, json.loads(plan))
    operators = Savepoint.open(place / "savepoint").operators

    assert kept(computed["operators"]) == kept([tagged_operator(one, one.states) for one in operators])
    if os.environ.get("STATESHIFT_RECORD"):
        target = FIXTURES / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place / "savepoint", target / "savepoint")
        (target / "plan.json").write_text(plan_text(json.loads(plan)), encoding="utf-8")
        (target / "expected.json").write_text(json.dumps(computed, sort_keys=True) + "\n", encoding="utf-8")


def plan_text(plan):
    """A plan with a node in a line."""
    nodes = ",\n".join(json.dumps(node) for node in plan["nodes"])
    edges = ",\n".join(json.dumps(edge) for edge in plan["edges"])
    version = json.dumps(plan["flinkVersion"])
    return f'{{"flinkVersion": {version}, "nodes": [\n{nodes}\n], "edges": [\n{edges}\n]}}\n'
