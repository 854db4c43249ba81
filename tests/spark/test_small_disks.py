"""A target without enough space: refused before the work if known, else a clear error, and no partial savepoint.

Each test has a file system of a few megabytes, mounted in a namespace of its own, which needs no root on most machines.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import attrs
import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor

ENTRIES = 20_000
JOB = """
from stateshift import BigInt, Job, Operator, ValueStateDescriptor

def widen(x):
    return str(x).zfill(500)

def job_of(*state, **more):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", *state, **more)])])

bigger = job_of(BigInt)
much_bigger = job_of(str, converter=widen)
"""
MUCH_BIGGER = ["--job", "small_disk_job:much_bigger"]
INSIDE = """
import json, os, subprocess, sys
disk, size, *steps = json.loads(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
for step in steps:
    ran = subprocess.run(step, capture_output=True, text=True)
    left = {folder: sorted(files) for folder, _, files in os.walk(disk)}
    print(json.dumps({"status": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr, "left": left}))
"""


@attrs.frozen
class Ran:
    """How a command ended, and what was left on the small disk: by folder, the names of its files."""

    status: int
    stdout: str
    stderr: str
    left: dict[str, list[str]]


@pytest.fixture
def disk(tmp_path):
    """Where the small disk is mounted; it is seen by the commands of `on_small_disk` only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounts = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", folder]
    if shutil.which("unshare") is None:
        pytest.skip("no small disk can be mounted here: there is no `unshare`")
    if (tried := subprocess.run(mounts, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no small disk can be mounted here: {tried.stderr.strip()}")
    return folder


@pytest.fixture
def on_small_disk(disk, tmp_path):
    """`on_small_disk("3m", [command, …], …)`: run commands one after the other, with a new disk of that size."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "small_disk_job.py").write_text(JOB, encoding="utf-8")

    def run(size, *steps, **environment):
        told = json.dumps([disk, size, *steps], default=str)
        ran = subprocess.run(
            ["unshare", "-rm", sys.executable, "-c", INSIDE, told],
            capture_output=True, text=True, check=True, cwd=folder, env=os.environ | environment,
        )  # fmt: skip
        return [Ran(**json.loads(line)) for line in ran.stdout.splitlines()]

    return run


def stateshift(*arguments):
    return [sys.executable, "-m", "stateshift", *map(str, arguments)]


def words(text):
    """A text without the ends of its lines: where they are depends on the paths in it."""
    return " ".join(text.split())


def assert_told(ran, what, *places):
    said = words(ran.stderr)
    assert (ran.status, ran.stdout) == (6, "")
    told, _, rest = said[said.index("NoSpaceLeft: ") :].partition(" where: ")
    where, _, advice = rest.partition(" what to do: ")
    assert (told, [place for place in places if place not in where]) == (f"NoSpaceLeft: {what}", [])
    assert advice.startswith("free space there, or ")
    assert "Traceback" not in ran.stderr
    assert "java" not in ran.stderr


def test_a_target_known_to_be_too_small_is_refused_before_the_work(counts, disk, on_small_disk, facts_of):
    source, target = counts(ENTRIES), disk / "new"
    before = facts_of(source)

    (ran,) = on_small_disk("400k", stateshift("migrate", source, target, "--job", "small_disk_job:bigger"))

    needed = ran.stderr.splitlines()[0].rpartition(" ")[2]
    assert int(needed.replace(",", "")) > 400 << 10
    assert_told(ran, f"the target has 409,600 bytes free, but the new savepoint needs about {needed}", str(target))
    assert ran.stderr.startswith("NoSpaceLeft: ")  # not even what there would be to do
    assert ran.stderr.endswith("\n  Nothing was written.\n")
    assert ran.left == {str(disk): []}
    assert facts_of(source) == before


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_ends_the_run_and_is_given_back(counts, disk, on_small_disk, facts_of):
    """A converter makes the values larger than any estimate says, since it is not called before the run."""
    source, target = counts(ENTRIES), disk / "new"
    before = facts_of(source)

    (ran,) = on_small_disk("3m", stateshift("migrate", source, target, *MUCH_BIGGER))

    assert ran.stderr.startswith("to do: 1 stream to rewrite")
    assert_told(ran, "no space left on the device", f"savepoint {target}, file ", "-keyed-0.attempt-", "counter")
    assert ran.stderr.endswith(
        "\n  Nothing was published: the target has no _metadata. Nothing was written to the source.\n"
    )
    assert ran.left == {str(disk): []}
    assert facts_of(source) == before


@pytest.mark.slow
def test_what_was_finished_before_the_disk_was_full_is_kept_to_be_resumed(counts, disk, on_small_disk, tmp_path):
    """Two of four streams fit, and what they take does not count against the space of the next run."""
    source, target, copy = counts(ENTRIES), disk / "new", tmp_path / "copy"
    command = stateshift(
        "migrate", source, target, *MUCH_BIGGER, "--parallelism", 4, "--master", "local[1,4]", "--target-exists=resume"
    )

    full, _, cleaned, _, resumed, verified = on_small_disk(
        "6m",
        command,
        ["cp", "-a", target, copy],
        stateshift("clean", copy),
        ["mount", "-o", "remount,size=11m", disk],
        command,
        stateshift("verify", target),
    )

    assert_told(full, "no space left on the device", f"savepoint {target}, file ", "operator counter")
    assert words(full.stderr).endswith("Nothing was written to the source. Finished work is kept, to be resumed.")
    assert [name[32:].split(".")[0] for name in full.left[str(target)]] == ["-keyed-0"] * 2 + ["-keyed-2"] * 2 + [""]
    assert (cleaned.status, list(copy.iterdir())) == (0, [])
    assert (resumed.status, verified.status) == (0, 0)
    assert "2 streams finished before" in resumed.stdout
    assert [name[32:40] for name in resumed.left[str(target)]] == [*(f"-keyed-{i}" for i in range(4)), "", ""]


def test_a_disk_that_is_full_at_the_end_gets_no_metadata(disk, on_small_disk, tmp_path):
    """The state lies inside `_metadata`, and is all that is to be written."""
    states = [ValueStateDescriptor("text", str)]
    job = Job([Operator(f"operator-{number}", key=int, states=states) for number in range(40)])
    with SavepointWriter(tmp_path / "old", job) as writer:
        for operator in job.operators:
            writer.put(operator.uid, "text", 7, "x" * 15_000)

    (ran,) = on_small_disk("400k", stateshift("migrate", tmp_path / "old", disk / "new", "--like", tmp_path / "old"))

    assert_told(ran, "no space left on the device", f"savepoint {disk / 'new'}, file _metadata.attempt-")
    assert ran.left == {str(disk): []}


BOOTSTRAP = """
import sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.serializers.errors import NoSpaceLeft
from stateshift.spark.bootstrap import StateSource, bootstrap
from stateshift.spark.sessions import session

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str)])])
spark = session("local[2,4]")
noise = ", ".join(f"sha2(string({n} * id), 512)" for n in (1, 2, 3))
for value, target in (("repeat('x', 384)", sys.argv[1]), (f"concat({noise})", sys.argv[2])):
    rows = spark.range(20_000).selectExpr("id", f"{value} as value")
    try:
        bootstrap(target, job, [StateSource("counter", "count", rows, key_by="id", value="value")])
    except NoSpaceLeft as error:
        print(error)
"""


@pytest.mark.slow
def test_a_bootstrap_distinguishes_a_small_target_from_a_small_scratch_folder(disk, on_small_disk, tmp_path):
    """What compresses well fits where Spark sorts it, and not where it is to go; the other is the other way round."""
    elsewhere = tmp_path / "elsewhere"

    (ran,) = on_small_disk(
        "2500k", [sys.executable, "-c", BOOTSTRAP, disk / "new", elsewhere], SPARK_LOCAL_DIRS=str(disk / "spark")
    )

    assert (ran.status, ran.stderr) == (0, "")
    target, scratch = ran.stdout.split("no space left", 1)
    assert target.startswith("the target has 2,")
    assert f"bytes free, but the new savepoint needs about 8,080,000\n  where: savepoint {disk / 'new'}\n" in target
    assert target.endswith("\n  Nothing was published: the target has no _metadata.\n")
    assert scratch.startswith(
        f" in the folder where Spark sorts data: {disk / 'spark'}\n  what to do: free space there, or "
    )
    assert scratch.endswith("\n  Nothing was published: the target has no _metadata.\n")
    assert str(disk / "new") not in ran.left
    assert not elsewhere.exists()
