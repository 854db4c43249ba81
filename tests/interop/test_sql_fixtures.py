"""Real Flink goes on from the savepoints that came with the notes on their format, which we have written anew.

Their inputs lie again where they were, and more comes. What Flink sends, applied to a table by its upsert key, and what
it keeps are those of a run of the same plan that has read everything.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from sql_jobs import SqlJobs, contents, customers, orders
from written_anew import anew, bare, options_for

from stateshift import Savepoint
from stateshift.state.testing import migrate_in_process

FIXTURES = Path(__file__).parents[1] / "fixtures" / "flink-sql-2.3"
INPUT = Path("/tmp/fx-input")  # noqa: S108 - the savepoints name it
NAMES = ("changelog-normalize", "deduplicate", "group-aggregate", "join")


def further():
    """Give further lines of each table."""
    draw = random.Random(7)  # noqa: S311 - it draws inputs
    bought = [line.rpartition(",")[0] for line in orders(draw, 1000, 40)]  # without the last column, which is newer
    changes = [
        {"before": {"id": 5, "name": "bee", "qty": 1}, "after": {"id": 5, "name": "ant", "qty": 2}, "op": "u"},
        {"before": {"id": 3, "name": "", "qty": 3}, "after": None, "op": "d"},
        {"before": None, "after": {"id": 900, "name": "new", "qty": 9}, "op": "c"},
    ]
    return {"orders": bought, "customers": [*customers(draw, 1000, 5)], "changes": map(json.dumps, changes)}


def plan_of(name, sink):
    """Give the plan of a sample with the inputs where they were, and with a sink of files."""
    plan = json.loads((FIXTURES / name / "plan.json").read_text("utf-8").replace("@INPUT@", str(INPUT)))
    for node in plan["nodes"]:
        table = (node.get("scanTableSource") or node.get("dynamicTableSink") or {}).get("table")
        if table is not None and "dynamicTableSink" in node:
            rolling = {f"sink.rolling-policy.{one}-interval": "1 d" for one in ("rollover", "check")}
            of_files = {"connector": "filesystem", "path": str(sink), "format": "debezium-json"}
            table["resolvedTable"]["options"] = of_files | rolling
            key = node.get("inputUpsertKey")
        elif table is not None:
            table["resolvedTable"]["options"]["source.monitor-interval"] = "1 s"
    return plan, key


def table_of(key, *folders):
    """Apply what was sent to a table: by its upsert key, or each row as often as it is there."""
    files = (file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file())
    rows, counts = {}, Counter()
    for change in (json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()):
        row = change["after"] or change["before"]
        place = json.dumps([list(row.values())[at] for at in key or ()])
        counts[json.dumps(row)] += 1 if change["op"] == "c" else -1
        if change["op"] == "c":
            rows[place] = row
        else:
            rows.pop(place, None)
    return rows if key else {row: count for row, count in counts.items() if count}


@pytest.mark.slow
def test_flink_goes_on_from_the_savepoints_that_came_with_the_format(flink, tmp_path):
    jobs = SqlJobs(flink("2.3"), tmp_path)
    assert not INPUT.exists(), f"{INPUT} is not ours"
    try:
        for name in NAMES:
            place = jobs.of(name)
            shutil.rmtree(INPUT, ignore_errors=True)
            shutil.copytree(FIXTURES / name / "input", INPUT)
            keys = set()
            for half in ("first", "ours", "its-own"):
                plan, key = plan_of(name, place / f"table-{half}")
                (place / f"{half}.json").write_text(json.dumps(plan), encoding="utf-8")
                keys.add(json.dumps(key))
            jobs.run(
                ("run", place / "first.json", "-", place / "first"),
                ("run", place / "its-own.json", "-", place / "half"),
            )
            stored = Savepoint.open(FIXTURES / name / "savepoint")
            migrate_in_process(stored, place / "ours", anew(stored.describe(), bare), options_for(stored.describe()))
            for table in (one.name for one in (FIXTURES / name / "input").iterdir()):
                (INPUT / table / "more.txt").write_text("".join(f"{line}\n" for line in further()[table]), "utf-8")
            jobs.run(
                ("run", place / "ours.json", place / "ours", place / "after-ours"),
                ("run", place / "its-own.json", place / "half", place / "after-its-own"),
            )

            (told,) = map(json.loads, keys)
            assert contents(FIXTURES / name / "savepoint") == contents(place / "ours")
            assert contents(place / "after-its-own") == contents(place / "after-ours")
            found = table_of(told, place / "table-first", place / "table-ours")
            assert table_of(told, place / "table-its-own") == found
            assert found != table_of(told, place / "table-first")
    finally:
        shutil.rmtree(INPUT, ignore_errors=True)
