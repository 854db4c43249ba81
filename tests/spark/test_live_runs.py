"""A run in progress: others are refused its target, nothing is removed, and the run completes.

Each run is held in the middle, by a function of a user that waits for a file. Those that come are all that writes
or clears; some come from another PID namespace of the same host, where process ids do not show what is alive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import attrs
import pytest
import source_safety
from pyspark import TaskContext

from stateshift import Savepoint, StateSource, bootstrap
from stateshift.spark import register
from stateshift.state.savepoint.verify import verify

pytestmark = pytest.mark.slow
IN_SESSION = pytest.mark.xdist_group("spark")
"""Of runs on the session of the tests, which `held_rows` takes when it is asked for."""

HOLD_S = 120
"""As long as a run waits at most, where a test has failed."""

JOB = """
import pathlib, time
from stateshift import Job, Operator, ValueStateDescriptor

FOLDER, TARGET = pathlib.Path({folder!r}), pathlib.Path({target!r})
go = FOLDER / "go"

def held(value):
    if not go.exists() and TARGET.exists() and any(TARGET.iterdir()):
        (FOLDER / "waits").touch()
        end = time.monotonic() + {most}
        while not go.exists() and time.monotonic() < end:
            time.sleep(0.02)
    return str(value)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=held)])])
keys = Job([Operator("counter", key=str, key_converter=held, states=[ValueStateDescriptor("count", int)])])
"""
FEW = ("clean", "migrate, replace", "write")
ALL = (*FEW, *(name for name in source_safety.VERBS if name not in {*FEW, "write, no base"}))


@attrs.frozen
class Scene:
    """A folder with two savepoints, `old` and `other`, a target that is not there yet, and the module of a job."""

    folder: object

    @property
    def target(self):
        return self.folder / "new"

    def wait_until_held(self, is_running):
        deadline = time.monotonic() + HOLD_S
        while not (self.folder / "waits").exists():
            assert is_running(), "it has ended"
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def names(self):
        return {file.name for file in self.target.iterdir()} if self.target.exists() else set()

    def names_beside(self, before):
        """Names that are there but for what the live run has begun to write since."""
        runs = {name.partition("-")[2] for name in before if name.startswith("_claim-")}
        return {name for name in self.names() if name in before or not any(run in name for run in runs)}


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    (tmp_path / "held_job.py").write_text(JOB.format(folder=str(tmp_path), target=str(made.target), most=HOLD_S))
    source_safety.write_source(tmp_path / "old")
    source_safety.write_source(tmp_path / "other", factor=3)
    yield made
    (tmp_path / "go").touch()


def stateshift(*arguments):
    return [sys.executable, "-m", "stateshift", *map(str, arguments)]


@contextmanager
def live_process(scene, command):
    """Hold a run that is a process of its own; gives it, and lets it go where the block ends."""
    process = subprocess.Popen(
        command, cwd=scene.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        scene.wait_until_held(lambda: process.poll() is None)
        yield process
        (scene.folder / "go").touch()
        told, _ = process.communicate(timeout=HOLD_S)
        assert process.returncode == 0, told
    finally:
        (scene.folder / "go").touch()
        process.kill()
        process.communicate(timeout=60)


@contextmanager
def live_thread(scene, rows, run):
    """Hold a run on the session of some rows."""
    failures, spark = [], rows.sparkSession

    def guarded():
        try:
            spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # sources are found by that of a thread
            run()
        except Exception as error:  # noqa: BLE001 - it is reported below
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        scene.wait_until_held(lambda: thread.is_alive() or pytest.fail("".join(map(str, failures))))
        yield thread
    finally:
        (scene.folder / "go").touch()
        thread.join(HOLD_S)
    assert "".join(map(str, failures)) == ""
    assert not thread.is_alive()


@pytest.fixture
def held_rows(request, scene):
    """Rows in two tasks, of which the second waits; of a write, until the first has written its file, and longer.

    Key n has the value 7 n.
    """
    spark = request.getfixturevalue("spark")
    register(spark)
    folder, target, is_write = scene.folder, scene.target, "write" in request.node.callspec.params["kind"]

    def hold(batches):
        yield from batches
        end = time.monotonic() + HOLD_S
        while TaskContext.get().partitionId() and not (folder / "go").exists() and time.monotonic() < end:
            if not is_write or [name for name in os.listdir(target) if not name.startswith("_claim-")]:  # noqa: PTH208
                (folder / "waits").touch()
            time.sleep(0.2)

    rows = spark.range(source_safety.KEYS).selectExpr("id as key", "id * 7 as value").repartition(2)
    return rows.mapInArrow(hold, rows.schema)


def live(kind, scene, request):
    """Start a run of a kind."""
    if kind in {"migrate", "repartition"}:
        anew = () if kind == "migrate" else ("--repartition",)
        job = "held_job:job" if kind == "migrate" else "held_job:keys"
        return live_process(scene, stateshift("migrate", scene.folder / "old", scene.target, "--job", job, *anew))
    rows = request.getfixturevalue("held_rows")
    if kind == "bootstrap":
        source = StateSource("counter", "count", rows, key_by="key", value="value")
        return live_thread(scene, rows, lambda: bootstrap(scene.target, source_safety.OLD, source))
    options = {"operator": "counter", "state": "count"}
    options |= {"base": str(scene.folder / "old")} if kind == "write beside a base" else {}
    writer = rows.write.format("savepoint").mode("overwrite").options(**options)
    return live_thread(scene, rows, lambda: writer.save(str(scene.target)))


WRITTEN = {
    "migrate": lambda key: (key, str(key)),
    "repartition": lambda key: (str(key), key),
    "bootstrap": lambda key: (key, 7 * key),
    "write": lambda key: (key, 7 * key),
    "write beside a base": lambda key: (key, 7 * key),
}


def check_result(scene, kind):
    """It came to its end, and nothing of any run lies next to it."""
    opened = Savepoint.open(scene.target)
    found = {entry.key: entry.value for entry in opened.operator("counter").state("count").read_entries()}

    assert found == dict(map(WRITTEN[kind], range(source_safety.KEYS)))
    assert verify(opened).ok
    assert not [name for name in scene.names() if "_claim-" in name or ".attempt-" in name or name.endswith(".done")]


@pytest.mark.parametrize(
    ("kind", "comers"),
    [
        ("migrate", ALL),
        ("repartition", FEW),
        *(pytest.param(kind, FEW, marks=IN_SESSION) for kind in ("write beside a base", "write", "bootstrap")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} comers",
)
def test_other_runs_on_the_target_of_a_live_run_are_refused_and_the_run_completes(kind, comers, scene, request):
    with live(kind, scene, request):
        for comer in comers:
            before = scene.names()
            outcome = source_safety.VERBS[comer](str(scene.folder / "other"), str(scene.target))
            assert scene.names_beside(before) == before, (comer, outcome)
            assert outcome.status == 2, (comer, outcome)
            assert "another run is in progress" in outcome.text, (comer, outcome)

    check_result(scene, kind)


@pytest.mark.parametrize("kind", ["migrate", "repartition"])
def test_a_bootstrap_that_comes_to_the_target_of_a_live_run_is_refused(kind, scene, request, spark):
    rows = spark.range(10).selectExpr("id as key", "id as value")
    source = StateSource("counter", "count", rows, key_by="key", value="value")
    with live(kind, scene, request):
        before = scene.names()
        outcome = source_safety.called(bootstrap, scene.target, source_safety.OLD, source)
        assert scene.names_beside(before) == before

    assert (outcome.status, "another run is in progress" in outcome.text) == (2, True), outcome.text
    check_result(scene, kind)


@pytest.mark.parametrize("kind", ["write", "write beside a base"])
def test_a_write_that_was_cancelled_leaves_nothing_and_its_target_is_free(kind, scene, request, spark):
    """It held its claim while its tasks ran; where it ends without a commit, the claim ends with it."""
    with pytest.raises(AssertionError, match="cancel"), live(kind, scene, request):  # noqa: PT012 - it fails at its end
        spark.sparkContext.cancelAllJobs()
        deadline = time.monotonic() + 60
        while any("_claim-" in name for name in scene.names()) and time.monotonic() < deadline:
            time.sleep(0.1)

    assert scene.names() == set()
    outcome = source_safety.VERBS["migrate, fail"](str(scene.folder / "other"), str(scene.target))
    assert outcome.status == 0, outcome.text


# PID namespaces: in each, a number means another process, or none.


BURNT = 60
"""Processes that have come and gone before a run: its id is then unused in another namespace."""

BURN = f'i=0; while [ $i -lt {BURNT} ]; do /bin/true; i=$((i+1)); done; "$@"'


@pytest.fixture(scope="session")
def namespace():
    """The beginning of a command that sees no processes but its own."""
    for user in ([], ["--user", "--map-root-user"]):
        alone = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
        try:
            tried = subprocess.run([*alone, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            break
        if tried.returncode == 0:
            return alone
    pytest.skip("no PID namespace may be made here")


COMING = {
    "clean": ("clean", "{target}"),
    "migrate, fail": ("migrate", "{other}", "{target}", "--parallelism", "3"),
    "migrate, replace": ("migrate", "{other}", "{target}", "--parallelism", "3", "--target-exists", "replace"),
    "migrate, resume": ("migrate", "{other}", "{target}", "--parallelism", "3", "--target-exists", "resume"),
}


@pytest.mark.parametrize("who", ["both", "the first", "the second"])
def test_a_healthy_run_in_another_pid_namespace_is_not_taken_over(who, scene, namespace):
    """As in two containers with one host name: the number of the first says nothing to the second."""
    first = stateshift("migrate", scene.folder / "old", scene.target, "--job", "held_job:job")
    first = [*namespace, "sh", "-c", BURN, "sh", *first] if who != "the second" else first
    places = {"other": scene.folder / "other", "target": scene.target}
    with live_process(scene, first):
        for comer, words in COMING.items():
            before = scene.names()
            second = stateshift(*(word.format(**places) for word in words))
            second = [*namespace, "sh", "-c", '"$@"; exit $?', "sh", *second] if who != "the first" else second
            ran = subprocess.run(second, cwd=scene.folder, capture_output=True, text=True, check=False, timeout=60)
            told = ran.stdout + ran.stderr
            assert scene.names_beside(before) == before, (comer, told)
            assert ran.returncode == 2, (comer, told)
            assert "another run is in progress" in told, (comer, told)

    check_result(scene, "migrate")


def test_a_dead_run_in_another_pid_namespace_is_taken_over_when_it_was_silent_for_long(scene, namespace):
    """Whether it is dead cannot be seen from here; that it renews its claim no longer can."""
    first = stateshift("migrate", scene.folder / "old", scene.target, "--job", "held_job:job")
    first = [*namespace, "sh", "-c", BURN, "sh", *first]
    with pytest.raises(AssertionError), live_process(scene, first) as process:  # noqa: PT012 - it fails at its end
        process.kill()
        process.wait(60)
    assert any("_claim-" in name for name in scene.names())
    long_ago = time.time() - 3600
    for file in scene.target.iterdir():
        os.utime(file, (long_ago, long_ago))

    outcome = source_safety.VERBS["migrate, fail"](str(scene.folder / "old"), str(scene.target))

    assert outcome.status == 0, outcome.text
    assert verify(Savepoint.open(scene.target)).ok
    assert not [name for name in scene.names() if "_claim-" in name or ".attempt-" in name]
