"""Real Flink keeps of each query of `sql_samples` what is computed from its inputs; so the fixtures are made."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest
from sql_jobs import SqlJobs
from sql_samples import SAMPLES, expected, inputs, kept

from stateshift import Savepoint
from stateshift.state.savepoint.json_encoding import tagged_operator

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUICK = {("2.3", "join-full-unique-key"), ("2.3", "rank-retract"), ("2.3", "window-aggregate-session")}
NOT_OF_1_20 = {
    "over-row", "upsert-materialize", "deduplicate-first-row-time", "over-row-time-unbounded-range",
    "over-row-time-unbounded-rows",
}  # fmt: skip
"""The first two are queries that Flink 1.20 does not take; of the others it keeps less, in other states."""
KEPT_OF_1_20 = {
    "aggregate-array", "aggregate-retract", "deduplicate-last-row-time", "join-full-unique-key", "rank-append",
    "window-aggregate-tumble",
}  # fmt: skip
"""Those of which there are fixtures of 1.20, too."""
ASKED = [("2.3", name) for name in SAMPLES] + [("1.20", name) for name in SAMPLES if name not in NOT_OF_1_20]


@pytest.fixture(scope="module")
def ran(request, flink, tmp_path_factory):
    """`ran(release)`: the jobs of all queries that are asked for, run in one process of that release."""
    items = [item for item in request.session.items if item.module is request.module]

    @cache
    def jobs_of(release):
        params = (item.callspec.params for item in items)
        names = sorted({one["name"] for one in params if one["release"] == release})
        jobs = SqlJobs(flink(release), tmp_path_factory.mktemp("samples"))
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

    return jobs_of


@pytest.mark.parametrize(
    ("release", "name"), [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.slow) for one in ASKED]
)
def test_flink_keeps_what_the_inputs_say(ran, release, name):
    jobs = ran(release)
    place = jobs.of(name)
    plan = (place / "plan.json").read_text(encoding="utf-8").replace(str(jobs.place / "input"), "@INPUT@")
    computed = expected(name, json.loads(plan))
    operators = Savepoint.open(place / "savepoint").operators

    assert kept(computed["operators"]) == kept([tagged_operator(one, one.states) for one in operators])
    if os.environ.get("STATESHIFT_RECORD") and (release == "2.3" or name in KEPT_OF_1_20):
        target = FIXTURES / f"flink-sql-{release}" / name
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
