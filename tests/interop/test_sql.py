"""Real Flink goes on with queries of SQL from savepoints that we wrote: as if one job had read all of the input."""

from __future__ import annotations

import pytest
from sql_jobs import QUERIES, SqlJobs, contents

from stateshift import MigrationOptions, Savepoint
from stateshift.state.testing import migrate_in_process

BY_ORDER = {"deduplicate", "rank"}
"""What they store depends on the order in which the files are read: kinds of rows, and rows beyond the first three."""


@pytest.fixture(scope="module")
def ran(flink, tmp_path_factory):
    """Jobs that read the first half of their input, went on from our savepoint of it, and read it all at once."""
    jobs = SqlJobs(flink("2.3"), tmp_path_factory.mktemp("sql"))
    jobs.write_inputs(0)
    plans = {query: jobs.of(query) / "plan.json" for query in QUERIES}
    begun = []
    for query, plan in plans.items():
        begun += [("compile", jobs.script(query), plan), ("native", plan, "-", jobs.of(query) / "native")]
    jobs.run(*begun)
    for query in QUERIES:
        native = Savepoint.open(jobs.of(query) / "native")
        migrate_in_process(native, jobs.of(query) / "ours", None, MigrationOptions(parallelism=1))
    jobs.write_inputs(1)
    gone_on = []
    for query, plan in plans.items():
        gone_on.append(("run", plan, jobs.of(query) / "ours", jobs.of(query) / "from-ours"))
        gone_on.append(("run", plan, jobs.of(query) / "native", jobs.of(query) / "from-its-own"))
        if query not in BY_ORDER:
            gone_on.append(("run", plan, "-", jobs.of(query) / "whole"))
    jobs.run(*gone_on)
    return jobs


@pytest.mark.parametrize("query", QUERIES)
def test_flink_goes_on_from_ours_as_from_its_own(ran, query):
    further = contents(ran.of(query) / "from-ours")

    assert any(state["entries"] for told in further.values() for state in told.get("keyed", {}).values())
    assert contents(ran.of(query) / "from-its-own") == further


@pytest.mark.parametrize("query", sorted(set(QUERIES) - BY_ORDER))
def test_flink_goes_on_from_ours_as_if_it_had_read_everything(ran, query):
    assert contents(ran.of(query) / "whole") == contents(ran.of(query) / "from-ours")


@pytest.mark.parametrize("query", QUERIES)
def test_what_we_wrote_holds_what_flink_had_written(ran, query):
    assert contents(ran.of(query) / "native") == contents(ran.of(query) / "ours")
