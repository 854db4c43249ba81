"""State of PyFlink on the command line: the job that wrote it is named, and says what its bytes hold."""

import json

import pytest

JOB = """
from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor
from stateshift.pyflink.common import Types

states = [
    ValueStateDescriptor("count", Types.{count}()),
    ListStateDescriptor("events", Types.STRING()),
    MapStateDescriptor("counts_map", Types.STRING(), Types.LONG()),
]
job = Job([Operator.pyflink("account-state", states, key=Types.LONG())])
"""


@pytest.fixture
def savepoint(root):
    return root / "tests/fixtures/pyflink-2.3/hashmap/savepoint"


@pytest.fixture
def jobs(job_folder):
    (job_folder / "counts_v1.py").write_text(JOB.format(count="LONG"), "utf-8")
    texts = JOB.format(count="STRING").replace("Types.STRING())", "Types.STRING(), converter=str)", 1)
    (job_folder / "counts_v2.py").write_text(texts, "utf-8")
    (job_folder / "wrong.py").write_text(JOB.format(count="STRING"), "utf-8")
    return job_folder


def exported(ran):
    assert (0, "") == (ran.status, ran.stderr)
    rows = map(json.loads, ran.stdout.splitlines())
    return {row["key"]["$row"]["fields"][0]: row["value"] for row in rows if row["kind"] != "timers"}


@pytest.mark.usefixtures("jobs")
class TestPyFlinkJobs:
    def test_values_are_shown(self, run, savepoint):
        state = ["--operator", "account-state", "--state"]
        bare = exported(run("export", savepoint, *state, "python-state-count"))
        ran = run("export", savepoint, "--old-job", "counts_v1:job", *state, "python-state-count")

        assert {key: [{"$bytes": f"{8:016x}"}] for key in range(5)} == bare
        assert dict.fromkeys(range(5), 8) == exported(ran)

    def test_types_are_shown(self, run, savepoint):
        ran = run("inspect", savepoint, "--old-job", "counts_v1:job", "--state", "python-state-counts_map")

        assert 0 == ran.status
        assert "PyFlink string" in ran.stdout

    def test_without_the_old_job_the_values_can_be_read_to_know(self, run, savepoint):
        ran = run("check", savepoint, "--job", "counts_v1:job", "--allow-non-restored-state")
        right = run("check", savepoint, "--job", "counts_v1:job", "--scan", "--allow-non-restored-state")
        wrong = run("check", savepoint, "--job", "wrong:job", "--scan", "--allow-non-restored-state")

        assert (0, 0, 3) == (ran.status, right.status, wrong.status)
        assert "[PYF-1] unverified may_fail_per_value" in ran.stdout
        assert "state python-state-count, key Row(" in wrong.stderr

    def test_a_planned_migration_takes_the_old_job_from_the_plan(self, run, savepoint, jobs):
        sides = ["--old-job", "counts_v1:job", "--job", "counts_v2:job"]
        checked = run("check", savepoint, *sides)
        planned = run("plan", savepoint, *sides, "-o", "plan.json")
        migrated = run("migrate", savepoint, "target", "--plan", "plan.json")
        state = ["--operator", "account-state", "--state", "python-state-count"]
        ran = run("export", "target", "--old-job", "counts_v2:job", *state)

        assert (4, 0, 0) == (checked.status, planned.status, migrated.status)
        assert "--old-job counts_v1:job" in checked.stdout.splitlines()[-1]
        assert "counts_v1:job" == json.loads((jobs / "plan.json").read_text("utf-8"))["new_types"]["old_job"]
        assert dict.fromkeys(range(5), "8") == exported(ran)

    def test_another_old_job_than_the_plans_is_refused(self, run, savepoint):
        run("plan", savepoint, "--old-job", "counts_v1:job", "--job", "counts_v2:job", "-o", "plan.json")
        ran = run("migrate", savepoint, "target", "--plan", "plan.json", "--old-job", "wrong:job")

        assert 2 == ran.status
        assert "make the plan again" in ran.stderr

    def test_the_old_job_needs_a_new_one(self, run, savepoint):
        ran = run("check", savepoint, "--old-job", "counts_v1:job", "--like", savepoint)

        assert 2 == ran.status
        assert "--old-job says what stored bytes hold, and needs --job" in ran.stderr
