"""Real Flink runs a plan whose times to live `stateshift ttl` has set: each side of a join expires when it should."""

from __future__ import annotations

import time

import pytest
from sql_jobs import SqlJobs

from stateshift.cli import main
from stateshift.state.plans.compiled_plan import read_plan

SECONDS = 20


def order(number, customer):
    return (number, customer, "1.00", "1.0000", "ant", "2024-01-01 12:00:00.000", "2024-02-29", "true", "1.5", "")


def customer(number):
    return (number, "bee", "city", "1.0000000000", "1999-12-31 23:59:59.000000")


def results(folder):
    lines = [line for file in folder.rglob("part-*") for line in file.read_text().splitlines()]
    return sorted(tuple(map(int, line.split(","))) for line in lines)


def test_each_side_of_a_join_expires_when_it_should(flink, tmp_path):
    jobs = SqlJobs(flink("2.3"), tmp_path)
    query = "others/each-side"
    plan, changed = jobs.of(query) / "plan.json", jobs.of(query) / "changed.json"
    for table in ("orders", "customers"):
        jobs.append(table, "nothing.csv")
    jobs.run(("compile", jobs.script(query), plan))
    (node,) = (one.id for one in read_plan(plan.read_bytes(), "").nodes.values() if one.kind == "join")
    with pytest.raises(SystemExit) as set_:
        main(["ttl", "set", str(plan), f"{node}:0=3000ms", f"{node}:1=9000ms", "-o", str(changed)])

    with jobs.started(("live", changed, SECONDS)) as job:
        while job.stdout.readline() not in {"running\n", ""}:
            pass
        begun = time.monotonic()

        def at(second):
            time.sleep(max(0.0, begun + second - time.monotonic()))

        at(1)
        jobs.append("orders", "1.csv", order(1, 1))
        jobs.append("customers", "1.csv", customer(2))
        at(7)
        jobs.append("customers", "2.csv", customer(1))  # the order of 1 is gone
        jobs.append("orders", "2.csv", order(2, 2), order(4, 4))  # the customer 2 is still there
        at(8)
        jobs.append("customers", "3.csv", customer(4))  # so is the order of 4
        at(15)
        jobs.append("orders", "3.csv", order(3, 2))  # the customer 2 is gone
        job.communicate(timeout=120)

    assert (0, 0) == (set_.value.code, job.returncode)
    assert [(2, 2), (4, 4)] == results(jobs.of(query) / "results")
