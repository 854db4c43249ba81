"""State of PyFlink on the command line: the job that wrote it is named, and says what its bytes hold."""

import json
import shutil
from pathlib import Path

import pytest

from stateshift.state.publication.lineage import TYPES

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

        assert (0, 0, 1) == (ran.status, right.status, wrong.status)
        assert "[PYF-1] unverified may_fail_per_value" in ran.stdout
        assert "scan: 5 of 5 entries would fail\n      $[]: 5, keys Row(4), Row(0), " in wrong.stdout
        assert "PyFlink string" in wrong.stdout

    def test_states_have_the_names_that_the_function_gives_them(self, run, savepoint, jobs):
        (jobs / "renamed.py").write_text(JOB.format(count="LONG").replace('"count"', '"number"'), "utf-8")
        sides = ["--old-job", "counts_v1:job", "--job", "renamed:job"]
        migrated = run("migrate", savepoint, "target", *sides, "--rename-state", "count=number", "--drop", "n")
        state = ["--operator", "account-state", "--state", "number"]

        assert 0 == migrated.status
        assert dict.fromkeys(range(5), 8) == exported(run("export", "target", "--old-job", "renamed:job", *state))
        assert 1 == run("inspect", "target", *state).stdout.count("python-state-number")

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


@pytest.fixture
def copied(savepoint, tmp_path):
    """A savepoint that tests may write into."""
    return Path(shutil.copytree(savepoint, tmp_path / "of-pyflink"))


@pytest.mark.usefixtures("jobs")
class TestRecordedJobs:
    def test_the_next_check_compares_types_with_types(self, run, copied):
        recorded = run("record", "counts_v1:job", copied)
        same = run("check", copied, "--job", "counts_v1:job", "--allow-non-restored-state")
        changed = run("check", copied, "--job", "counts_v2:job")
        state = ["--operator", "account-state", "--state", "python-state-count"]

        assert (0, 0, 4) == (recorded.status, same.status, changed.status)
        assert "  operator account-state: python-state-count, python-state-counts_map, python-state-events" in (
            recorded.stdout
        )
        assert "unverified" not in same.stdout
        assert "string" in changed.stdout
        assert dict.fromkeys(range(5), 8) == exported(run("export", copied, *state))

    def test_a_migration_needs_no_old_job(self, run, copied):
        run("record", "counts_v1:job", copied)
        migrated = run("migrate", copied, "target", "--job", "counts_v2:job")
        state = ["--operator", "account-state", "--state", "python-state-count"]

        assert 0 == migrated.status
        assert dict.fromkeys(range(5), "8") == exported(run("export", "target", "--old-job", "counts_v2:job", *state))

    def test_what_is_recorded_of_another_savepoint_is_not_believed(self, run, copied, root):
        run("record", "counts_v1:job", copied)
        other = shutil.copytree(root / "tests/fixtures/pyflink-2.3/rocksdb/savepoint", copied.parent / "other")
        shutil.copy(copied / TYPES, other / TYPES)
        refused = [run(*command) for command in (("inspect", other), ("record", "counts_v1:job", other))]
        replaced = run("record", "counts_v1:job", other, "--force")

        assert [3, 3] == [ran.status for ran in refused]
        assert "are those of another one" in refused[0].stderr
        assert (0, 0) == (replaced.status, run("inspect", other).status)

    def test_other_types_are_replaced_only_if_that_is_asked(self, run, copied):
        first, again = run("record", "counts_v1:job", copied), run("record", "counts_v1:job", copied, "--json")
        (Path("fewer.py")).write_text(JOB.format(count="DOUBLE"), "utf-8")
        refused, forced = run("record", "fewer:job", copied), run("record", "fewer:job", copied, "--force")

        assert (0, 0, 2, 0) == (first.status, again.status, refused.status, forced.status)
        assert str(copied / TYPES) == again.data["file"]
        assert ["python-state-count", "python-state-counts_map", "python-state-events"] == sorted(
            again.data["states"]["account-state"]
        )
        assert "other types are recorded" in refused.stderr

    def test_a_job_whose_types_do_not_fit_is_refused(self, run, copied):
        ran = run("record", "wrong:job", copied)

        assert 2 == ran.status
        assert "bytes of PyFlink go on after PyFlink string, by 4 bytes" in ran.stderr
        assert "python-state-count, key Row(4)" in ran.stderr
        assert not (copied / TYPES).exists()

    def test_an_edited_file_is_refused(self, run, copied):
        run("record", "counts_v1:job", copied)
        text = (copied / TYPES).read_text("utf-8")
        (copied / TYPES).write_text(text.replace("account-state", "account-other"), "utf-8")
        ran = run("inspect", copied)

        assert 3 == ran.status
        assert TYPES in ran.stderr

    def test_a_revision_keeps_what_the_bytes_hold(self, run, copied, savepoint):
        written = run("snapshot", "--job", "counts_v1:job", "-o", "state.json")
        same, changed = (run("diff", "state.json", f"{name}:job") for name in ("counts_v1", "counts_v2"))

        assert 0 == written.status
        assert (0, 1) == (same.status, changed.status)
        assert "long -> " in changed.stdout

    def test_there_is_nothing_to_record_of_other_savepoints(self, run, savepoint_of, example_jobs):
        place = shutil.copytree(savepoint_of("rocksdb-account-v1"), example_jobs / "sp")
        ran = run("record", "accounts_v1:job", place)

        assert 2 == ran.status
        assert "says nothing of the savepoint that this does not say itself" in ran.stderr
        assert not (place / TYPES).exists()


PROGRAM = """
from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import ValueStateDescriptor


class Counts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        yield value


def build():
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1], Types.LONG())
    numbers.key_by(lambda number: number, Types.LONG()).process(Counts()).uid("account-state").print()
    return env
"""


def test_a_program_is_a_job(run, savepoint, job_folder):
    (job_folder / "program.py").write_text(PROGRAM, "utf-8")
    ran = run("check", savepoint, "--job", "program:build", "--scan", "--allow-non-restored-state")

    assert 0 == ran.status
    assert "python-state-count  list  list<bytes>: start (compatible)" in ran.stdout
    assert "scan: none of 5 entries would fail" in ran.stdout
