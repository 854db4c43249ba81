"""A run killed at any moment, on disk and on a store: the source is what it was, the target is whole or none.

What runs in one process dies where it begins its nth step of writing, on a store where its nth request to write comes;
what runs on Spark dies a moment after its nth file is seen. Each moment is a share of what a whole run does. Afterwards
`stateshift clean`, or the same command, has to do with what is there, and what they report has to be true.

STATESHIFT_FAULT_SEEDS=7 makes the choices of seed 7 again.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import attrs
import pytest
import source_safety
from pyarrow import fs

from stateshift import Savepoint
from stateshift.state.formats.flink.handles import RelativeFileHandle
from stateshift.state.formats.flink.metadata import read_metadata
from stateshift.state.savepoint.verify import verify

pytestmark = pytest.mark.slow

SEEDS = {
    "test_a_run_that_is_killed_leaves_the_source_and_a_whole_savepoint_or_none": "1",
    "test_a_run_that_is_killed_at_any_of_many_moments_leaves_the_source_and_a_whole_savepoint_or_none": "0-59",
}
RUNS = ("migrate, fail", "migrate, replace", "migrate, resume", "repartition, replace", "bootstrap", "write")
ON_SPARK = {"bootstrap", "write"}
WRITES = re.compile(r"(PUT|POST|DELETE) ")
BESIDE = {"_metadata", "_stateshift.json", "_serializers.json"}

IN_ONE_PROCESS = """
import sys
import source_safety

run, source, target, step = sys.argv[1:]
steps = source_safety.die_at(int(step))
outcome = source_safety.VERBS[run](source, target)
sys.setprofile(None)
print(steps())
sys.exit(outcome.status)
"""
SPARK = """
import json, sys
import source_safety
from stateshift.spark import register
from stateshift.spark.bootstrap import StateSource, bootstrap
from stateshift.spark.sessions import session

run, source, target = sys.argv[1:]
spark = session("local[2,4]")
register(spark)
rows = spark.range(source_safety.KEYS).selectExpr("id as key", "id * 7 as value").repartition(3)
facts = {}
try:
    if run == "bootstrap":
        source = StateSource("counter", "count", rows, key_by="key", value="value")
        bootstrap(target, source_safety.OLD, source, parallelism=3)
    else:
        options = {"operator": "counter", "state": "count", "base": source}
        rows.write.format("savepoint").mode("overwrite").options(**options).save(target)
    facts["done"] = True
except Exception as error:
    facts["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(facts))
"""


@attrs.frozen
class Ground:
    """Where a source and a target lie, and how it is looked at without stateshift.

    Attributes:
        source: As it is given to a run.
        target: As well; the run reaches both in the same way.
        source_tree: What lies in the source.
        target_tree: What lies in the target: content by name.
        proxy: Through which a run reaches a store; None on disk.
    """

    source: str
    target: str
    source_tree: object
    target_tree: object
    proxy: source_safety.Proxy | None = None


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """The source of all runs, and the savepoint that lies where one is to be replaced."""
    folder = tmp_path_factory.mktemp("killed")
    source_safety.write_source(folder / "source")
    source_safety.write_source(folder / "earlier", factor=1_000)
    return folder


@pytest.fixture
def grounds(originals, tmp_path, request):
    """`grounds("disk", run)`: a source and, where it is to be replaced, an earlier savepoint in the target."""
    made = []

    def prepare(place, run, number=0):
        if place == "disk":
            folder = tmp_path / f"ground-{number}"
            shutil.copytree(originals / "source", folder / "source")
            if run.endswith("replace"):
                shutil.copytree(originals / "earlier", folder / "target")

            def contents():
                found = source_safety.tree(folder / "target")
                return {name: facts[2] for name, facts in found.items() if facts != "folder"}

            places = str(folder / "source"), str(folder / "target")
            return Ground(*places, lambda: source_safety.tree(folder / "source"), contents)
        s3 = request.getfixturevalue("s3")
        name = f"killed-{tmp_path.name}-{number}"
        made.append((s3, name))
        fs.copy_files(str(originals / "source"), f"savepoints/{name}/source", destination_filesystem=s3.files)
        if run.endswith("replace"):
            fs.copy_files(str(originals / "earlier"), f"savepoints/{name}/target", destination_filesystem=s3.files)
        proxy = proxies.enter_context(source_safety.Proxy(s3.port))
        options = f"?endpoint_override=127.0.0.1:{proxy.port}&scheme=http"

        def contents():
            found = source_safety.store_tree(s3.files, f"savepoints/{name}/target")
            return {file: data for file, (_, data) in found.items()}

        return Ground(
            f"s3://savepoints/{name}/source{options}",
            f"s3://savepoints/{name}/target{options}",
            lambda: source_safety.store_tree(s3.files, f"savepoints/{name}/source"),
            contents,
            proxy,
        )

    with ExitStack() as proxies:
        yield prepare
    for s3, name in made:
        s3.files.delete_dir(f"savepoints/{name}")


def environment():
    return os.environ | {"PYTHONPATH": str(Path(source_safety.__file__).parent)}


def one_process(run, ground, step=0):
    """Start a run that dies at a step; at none where it is 0."""
    return subprocess.Popen(
        [sys.executable, "-c", IN_ONE_PROCESS, run, ground.source, ground.target, str(step)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
    )  # fmt: skip


@pytest.fixture(scope="session")
def lengths():
    """How much a whole run writes, by place and run; found out where it is first asked for."""
    return {}


@pytest.fixture
def length_of(lengths, grounds, start, monkeypatch):
    """`length_of(place, run)`: steps, requests or files of an undisturbed run."""

    def measure(place, run):
        if (place, run) not in lengths:
            ground = grounds(place, run, number="whole")
            seen = Counted()
            if place == "s3":
                ground.proxy.meets = seen
            if run in ON_SPARK:
                monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
                driver = start(SPARK, run, ground.source, ground.target)
                files = set()
                while driver.is_running:
                    files |= names_in(ground) if place == "disk" else set()
                    driver.processes()
                    time.sleep(0.005)
                assert driver.finish().get("done"), driver.told()
                lengths[place, run] = seen.number or len(files)
            else:
                process = one_process(run, ground)
                told, _ = process.communicate(timeout=120)
                assert process.returncode == 0, told
                lengths[place, run] = seen.number or int(told.split()[-1])
        return lengths[place, run]

    return measure


def names_in(ground):
    """Names in a local target, while a run is at work there."""
    try:
        return set(os.listdir(ground.target))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return set()


class Counted:
    """Counts requests that write, and calls `then` at one of them: before it goes on, or a moment after."""

    def __init__(self, at=0, then=None, *, before=True):
        self.number, self._at, self._then, self._before = 0, at, then, before
        self._lock = threading.Lock()

    def __call__(self, line):
        if WRITES.match(line):
            with self._lock:
                self.number += 1
                is_it = self.number == self._at
            if is_it and self._before:
                self._then()
            elif is_it:
                threading.Timer(0.02, self._then).start()


def killed_in_one_process(place, run, ground, at, choice):
    """Give whether it was killed."""
    if place == "disk":
        process = one_process(run, ground, at)
    else:
        process = one_process(run, ground)
        ground.proxy.meets = Counted(at, process.kill, before=choice.random() < 0.5)
    told, _ = process.communicate(timeout=120)
    if ground.proxy is not None:
        ground.proxy.meets = None
    assert process.returncode in {0, -signal.SIGKILL}, told
    return process.returncode != 0


def killed_on_spark(place, run, ground, at, choice, start):
    """Give whether it was killed: the driver alone, or with all that it has started, as with the machine."""
    driver = start(SPARK, run, ground.source, ground.target)
    all_at_once, delay, came = choice.random() < 0.5, choice.uniform(0, 0.03), threading.Event()
    if place == "s3":
        ground.proxy.meets = Counted(at, came.set, before=choice.random() < 0.5)
    seen = set()

    def is_time():
        if place == "disk":
            seen.update(names_in(ground))
        return came.is_set() or len(seen) >= at

    if driver.wait_until(is_time, pause=0.002):
        time.sleep(delay)
        for pid in driver.processes() if all_at_once else [driver.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if ground.proxy is not None:
        ground.proxy.meets = None
    driver.finish()
    return driver.process.returncode != 0


@attrs.frozen
class Said:
    """The output of a later command, and the files in the target before and after it."""

    outcome: source_safety.Outcome
    before: dict
    after: dict


def is_so(said):
    """Compare the output of a command with the files."""
    told, before, after = said.outcome.text, said.before, said.after

    assert "Traceback" not in told.partition("Failed to initialize Python data source writer:")[0], told  # Spark's own
    assert "another run is in progress" not in told, "it is dead"
    assert "is not empty" not in told, "what is in it is of the dead run"
    if "has no _metadata" in told or "Nothing was published" in told:
        assert "_metadata" not in after, told
    if "Nothing was written" in told or "Nothing was removed" in told:
        assert before == after, told
    if "nothing to remove" in told:
        assert before == after, told
    if "there is a savepoint in" in told:
        assert "_metadata" in before, told
    if found := re.search(r"removed (\d[\d,]*) files?\b", told):
        gone = {name for name in before.keys() - after.keys() if before[name] not in after.values()}  # or renamed
        assert len(gone) == int(found[1].replace(",", "")), told
        assert all(name in told for name in gone), told


def whole(ground, values):
    """Give the values in the target, which is a whole savepoint that is one of those that may be there."""
    opened = Savepoint.open(ground.target)
    report = verify(opened)

    assert report.ok, report
    found = {entry.key: entry.value for entry in opened.operator("counter").state("count").read_entries()}
    assert found in values
    return found


def nothing_else(tree):
    """There is a savepoint and nothing next to it, or nothing at all."""
    needed = set()
    if "_metadata" in tree:
        for operator in read_metadata(tree["_metadata"]).operators:
            for subtask in operator.subtasks:
                if isinstance(subtask.managed_keyed.stream, RelativeFileHandle):
                    needed.add(subtask.managed_keyed.stream.path)
        needed |= BESIDE
    assert sorted(tree.keys() - needed) == []


@pytest.fixture
def check_a_kill(grounds, length_of, start, monkeypatch):
    """`check_a_kill(seed)`: kill a run, and look at what is left, and at what later commands make of it."""

    def check(seed):
        choice = random.Random(f"any moment {seed}")  # noqa: S311 - no secret
        run, place = RUNS[seed % len(RUNS)], ("disk", "s3")[seed // len(RUNS) % 2]
        at = 1 + int(choice.random() * length_of(place, run))
        is_cleaned_first = choice.random() < 0.5
        print(f"seed {seed}: {run} on {place}, killed at {at} of {length_of(place, run)}")
        monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        ground = grounds(place, run)
        before = ground.source_tree()
        new = {key: key * (7 if run in ON_SPARK else 1) for key in range(source_safety.KEYS)}
        old = {key: key * 1_000 for key in range(source_safety.KEYS)}

        if run in ON_SPARK:
            was_killed = killed_on_spark(place, run, ground, at, choice, start)
        else:
            was_killed = killed_in_one_process(place, run, ground, at, choice)
        left = ground.target_tree()

        assert ground.source_tree() == before
        if run.endswith("replace"):
            assert "_metadata" in left, sorted(left)
        if "_metadata" in left:
            whole(ground, [new, old] if run.endswith("replace") else [new])
        elif not was_killed:
            raise AssertionError(f"it ended well, and there is no savepoint: {sorted(left)}")

        def again():
            was = ground.target_tree()
            if run in ON_SPARK:
                driver = start(SPARK, run, ground.source, ground.target)
                facts = driver.finish()
                outcome = source_safety.Outcome(0 if "done" in facts else 2, facts.get("error", ""))
                assert facts, driver.told()
            else:
                outcome = source_safety.VERBS[run](ground.source, ground.target)
            is_so(Said(outcome, was, ground.target_tree()))
            if outcome.status:  # only where it had been published
                assert "_metadata" in was, outcome.text
                assert "there is a savepoint in" in outcome.text
                assert not run.endswith("replace"), outcome.text
            whole(ground, [new])

        def clean():
            was = ground.target_tree()
            outcome = source_safety.command("clean", ground.target)
            now = ground.target_tree()
            is_so(Said(outcome, was, now))
            assert outcome.status == 0 or "_metadata" in was, outcome.text
            nothing_else(now)
            if "_metadata" in was:
                assert "_metadata" in now
                whole(ground, [new, old] if run.endswith("replace") else [new])

        for step in (clean, again, clean) if is_cleaned_first else (again, clean):
            step()
        assert ground.source_tree() == before

    return check


def test_a_run_that_is_killed_leaves_the_source_and_a_whole_savepoint_or_none(seed, check_a_kill):
    check_a_kill(seed)


@pytest.mark.faults
def test_a_run_that_is_killed_at_any_of_many_moments_leaves_the_source_and_a_whole_savepoint_or_none(
    seed, check_a_kill
):
    check_a_kill(seed)
