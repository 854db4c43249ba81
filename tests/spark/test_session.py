"""A session: quiet, on the caller's Python, and with nothing on the workers' path by accident."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from stateshift import StateShiftError
from stateshift.spark.sessions import own_driver, own_session, session, with_sql


def on_a_worker(spark, function):
    """Give what a function returns on a worker; it must be defined inside a test, so that it travels by value."""
    return spark.sparkContext.parallelize([0], 1).map(lambda _: function()).collect()[0]


def test_a_worker_has_no_top_level_module_of_ours(spark, root, monkeypatch):
    """Started from the checkout, `import state` would load a second copy of `stateshift.state`."""
    monkeypatch.chdir(root)

    def known():
        from importlib.util import find_spec

        names = ("serializers", "compat", "state", "spark", "stateshift")
        return [name for name in names if find_spec(name) is not None]

    assert on_a_worker(spark, known) == ["stateshift"]


def test_workers_run_the_python_of_the_caller(spark):
    def python():
        import sys

        return sys.executable

    assert on_a_worker(spark, python) == sys.executable


def test_a_running_session_is_given_again(spark):
    assert session("local[1]") is spark


@pytest.mark.usefixtures("spark")
def test_the_environment_of_the_caller_stays_as_it_was():
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_failed_task_is_tried_again(spark):
    """The default of Spark's local masters is one attempt."""

    def attempts(_):
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()
        if attempt < 2:
            raise ValueError(attempt)
        return attempt

    assert spark.sparkContext.parallelize([0], 1).map(attempts).collect() == [2]


def test_the_tests_that_share_the_session_run_in_one_process(spark, request):
    """`pytest-xdist` writes the group of a test behind its name, and distributes the tests by that."""
    is_distributed = getattr(request.config.option, "loadgroup", False)

    assert session() is spark
    assert is_distributed == request.node.nodeid.endswith("@spark")


def test_an_invalid_master_is_refused_before_java_is_looked_for(monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)

    with pytest.raises(StateShiftError, match=r"'nonsense' is not a master that Spark supports\n.*local\[\*,4\]"):
        session("nonsense")


def test_a_connect_server_as_a_master_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)

    with pytest.raises(StateShiftError, match=r"sc://host is a Spark Connect server") as caught:
        session("sc://host")

    assert "session=SparkSession.builder.remote('sc://host').getOrCreate()" in caught.value.advice


ONE_AFTER_THE_OTHER = """
import threading, time
from stateshift.serializers.errors import MigrationFailed
from stateshift.spark.sessions import own_driver, own_session, session, with_sql

try:
    session("local[0]")
except MigrationFailed as error:
    print("not started:", error.what)

for _ in range(2):
    with own_driver("local[1]") as driver:
        context = driver.sparkContext
        began, seen = threading.active_count(), context.accumulator(0)
        context.parallelize([1, 2], 1).foreach(seen.add)
        print("driver:", type(driver).__name__, seen.value, with_sql(driver).range(4).count())
    print("driver:", context._jsc is None)
    until = time.monotonic() + 10
    while threading.active_count() >= began and time.monotonic() < until:
        time.sleep(0.01)
    print("driver:", threading.active_count() < began)

for _ in range(2):
    with own_session("local[1]") as spark:
        print("session:", spark.sparkContext.parallelize([1], 1).sum(), spark.sparkContext._jsc is None)
    print("session:", spark.sparkContext._jsc is None)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What a process prints that starts Spark again and again, by what it tells of; the JVM is one."""
    ran = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER],
        cwd=tmp_path_factory.mktemp("anew"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    lines = [line.split(": ", 1) for line in ran.stdout.splitlines()]
    return {what: [told for about, told in lines if about == what] for what, _ in lines}


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_session_that_does_not_start_says_why_in_one_error(printed):
    assert printed["not started"] == ["Spark did not start: Asked to run locally with 0 threads"]


@pytest.mark.slow
def test_a_session_of_ones_own_ends_and_one_that_ran_goes_on(spark, printed):
    with own_session("local[1]") as given:
        assert given is spark
    assert spark.sparkContext.parallelize([1], 1).sum() == 1

    assert printed["session"] == ["1 False", "True"] * 2


@pytest.mark.slow
def test_a_driver_of_ones_own_has_sql_once_it_is_asked_for_and_leaves_no_thread(spark, printed):
    with own_driver("local[1]") as given:
        assert given is with_sql(given) is spark

    assert printed["driver"] == ["WithoutSql 3 4", "True", "True"] * 2


@pytest.mark.slow
def test_a_session_started_in_the_checkout_prints_and_leaves_nothing(root, tmp_path):
    """From the start of the JVM over a worker that is killed to the end of the process."""
    names = {file.name for file in root.iterdir()}
    program = (
        "import os, signal\n"
        "from pyspark import TaskContext\n"
        "from stateshift.spark.sessions import session\n"
        "def task(x):\n"
        "    if TaskContext.get().attemptNumber() == 0:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    import importlib.util\n"
        "    return [bool(importlib.util.find_spec(name)) for name in ('state', 'spark', 'stateshift')]\n"
        "assert session('local[1,4]').sparkContext.parallelize([0], 1).map(task).collect() == [[False, False, True]]\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)

    answer = subprocess.run([sys.executable, script], cwd=root, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert {file.name for file in root.iterdir()} - {"__pycache__"} == names - {"__pycache__"}
