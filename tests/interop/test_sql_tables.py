"""Real Flink goes on from every sample of Flink SQL that we have written anew from its values: to the same table.

Each query reads half of its input. Every key, value and timer of its savepoint is read and written again, and Flink
goes on with the rest of the input. What it has sent in all, applied to a table, is what a run over all of it sends.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from sql_jobs import SqlJobs, contents
from sql_samples import SAMPLES, inputs
from written_anew import anew, as_read, bare, options_for

from stateshift import Savepoint
from stateshift.state.testing import migrate_in_process

QUICK = {"join-full-unique-key", "rank-retract", "window-aggregate-session"}
OF_GENERATED_CODE = {"aggregate-wide-keys"}
"""Their keys have nulls as generated code writes them, which a value alone does not say."""
UPSERTED = {"upsert-materialize"}
"""A sink of files takes rows back, and so gets none materialised: here, what is kept in the end is compared."""
SINK = (
    "'connector'='filesystem','path'='{}','format'='debezium-json','sink.rolling-policy.rollover-interval'='1 d',"
    "'sink.rolling-policy.check-interval'='1 d'"
)


@pytest.fixture(scope="module")
def ran(request, flink, tmp_path_factory):
    """The jobs of the samples that are asked for: over half of the input, from ours over the rest, and over all."""
    names = sorted({item.callspec.params["name"] for item in request.session.items if item.module is request.module})
    jobs = SqlJobs(flink("2.3"), tmp_path_factory.mktemp("tables"))
    begun, rest = [], []
    for name in names:
        place = jobs.of(name)
        text = SAMPLES[name].script()
        if name not in UPSERTED:
            text = text.replace("'connector'='blackhole'", SINK.format(place / "table"))
        (place / "script.sql").write_text(text.replace("@INPUT@", str(jobs.place / "input")), encoding="utf-8")
        plan = place / "plan.json"
        begun += [("compile", place / "script.sql", plan), ("run", plan, "-", place / "half")]
    for table, lines in inputs().items():
        jobs.append(table, "1", *([line] for line in lines[: len(lines) // 2]))
        jobs.append(f"all/{table}", "1", *([line] for line in lines))
    jobs.run(*begun)
    for name in names:
        place, half = jobs.of(name), Savepoint.open(jobs.of(name) / "half")
        stored = half.describe()
        described = anew(stored, as_read if name in OF_GENERATED_CODE else bare)
        migrate_in_process(half, place / "ours", described, options_for(stored))
        plan = (place / "plan.json").read_text(encoding="utf-8")
        plan = plan.replace(str(jobs.place / "input"), str(jobs.place / "input" / "all"))
        plan = plan.replace(str(place / "table"), str(place / "whole-table"))
        (place / "whole.json").write_text(plan, encoding="utf-8")
        rest += [
            ("run", place / "plan.json", place / "ours", place / "after"),
            ("run", place / "whole.json", "-", place / "whole"),
        ]
    for table, lines in inputs().items():
        jobs.append(table, "2", *([line] for line in lines[len(lines) // 2 :]))
    jobs.run(*rest)
    yield jobs
    shutil.rmtree(jobs.place / "input", ignore_errors=True)


def table_of(folder):
    """Give the rows of a table, each with how often it is there: what was sent, with what was taken back."""
    rows = Counter()
    for file in folder.rglob("*"):
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            change = json.loads(line)
            row = json.dumps(change["after"] or change["before"])
            rows[row] += 1 if change["op"] == "c" else -1
    return {row: count for row, count in rows.items() if count}


@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in SAMPLES])
def test_the_table_is_that_of_a_run_over_all_of_the_input(ran, name):
    place = ran.of(name)

    assert contents(place / "half") == contents(place / "ours")
    if name in UPSERTED:
        assert contents(place / "whole") == contents(place / "after")
        return
    assert table_of(place / "whole-table") == table_of(place / "table")
    assert table_of(place / "table")
