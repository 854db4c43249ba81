"""Bad values on Spark: set aside once, whatever happens to a worker, and not printed with --redact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift import BadValues, IfTargetExists, MigrationFailed, MigrationOptions, Savepoint, SavepointWriter, migrate
from stateshift.state.savepoint.verify import verify

QUARANTINE = MigrationOptions(bad_values=BadValues.QUARANTINE)
CHILD = {
    name: value
    for name, value in os.environ.items()
    if name in {"SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"} or not name.startswith(("PYTHON", "SPARK"))
}


@pytest.fixture
def odd_job(load, tmp_path):
    """`odd_job("name", …)`: odd counts do not fit; the lines are run first, for each value `x`, call by call."""

    def make(name, *lines):
        (tmp_path / "markers").mkdir(exist_ok=True)
        source = f"""
import os, pathlib, signal
from stateshift import Job, Operator, ValueStateDescriptor

FOLDER = pathlib.Path({str(tmp_path / "markers")!r})
calls = 0

def convert(x):
    global calls
    calls += 1
    {chr(10).join("    " + line for line in lines).strip() or "pass"}
    if x % 2:
        raise ValueError(f"{{x}} is odd")
    return str(x)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
        return load(name, **{name: source}).job

    return make


@pytest.mark.slow
def test_a_worker_that_is_killed_puts_nothing_aside_twice(spark, counts, odd_job, tmp_path, values_of, content_of):
    source = counts(600, parallelism=3)
    job = odd_job(
        "killed_with_quarantine",
        "if calls == 150 and not (FOLDER / 'killed').exists():",
        f"    files = [file.name for file in pathlib.Path({str(tmp_path / 'new')!r}).iterdir()]",
        "    (FOLDER / 'killed').write_text(' '.join(files))",
        "    os.kill(os.getpid(), signal.SIGKILL)",
    )

    report = migrate(source, tmp_path / "new", job, QUARANTINE, session=spark)
    migrate(source, tmp_path / "undisturbed", job, QUARANTINE, session=spark)

    assert "-quarantine-keyed-" in (tmp_path / "markers" / "killed").read_text()
    found = Savepoint.open(tmp_path / "new")
    assert sorted(map(str, range(1, 600, 2))) == sorted(bad.key for bad in found.quarantine())
    assert {key: str(key) for key in range(0, 600, 2)} == values_of(tmp_path / "new", "counter", "count")
    assert [(600, 300, 300)] == [(count.read, count.written, count.quarantined) for count in report.states]
    assert content_of(tmp_path / "new") == content_of(tmp_path / "undisturbed")
    assert verify(found).ok


def test_a_run_that_passes_the_limit_publishes_nothing_and_can_be_resumed_with_another(
    spark, counts, odd_job, tmp_path, content_of
):
    source, job = counts(60, parallelism=2), odd_job("limited")
    few, enough = (MigrationOptions(bad_values=BadValues.QUARANTINE, max_bad_values=most) for most in (29, 30))
    resume = IfTargetExists.RESUME

    with pytest.raises(MigrationFailed, match="30 values do not fit"):
        migrate(source, tmp_path / "new", job, few, session=spark, target_exists=resume)
    assert not (tmp_path / "new" / "_metadata").exists()
    report = migrate(source, tmp_path / "new", job, enough, session=spark, target_exists=resume)
    migrate(source, tmp_path / "at-once", job, enough, session=spark)

    assert (2, 30) == (report.resumed, report.quarantined)
    assert content_of(tmp_path / "new") == content_of(tmp_path / "at-once")


def test_a_savepoint_with_quarantine_is_replaced_with_it(spark, counts, odd_job, tmp_path):
    source, job = counts(20), odd_job("replaced")
    migrate(source, tmp_path / "new", job, QUARANTINE, session=spark)
    assert list((tmp_path / "new").glob("*quarantine*"))

    migrate(source, tmp_path / "new", None, MigrationOptions(parallelism=2), session=spark,
            target_exists=IfTargetExists.REPLACE)  # fmt: skip

    assert [] == list((tmp_path / "new").glob("*quarantine*"))


REDACTED = """
from pyspark import TaskContext
from stateshift import Job, Operator, ValueStateDescriptor, register_snapshot
from stateshift import TypeSerializer, TypeSerializerConfigSnapshot
import attrs

HIDDEN = "plantedkey4711, plantedvalue0815"

@attrs.frozen
class WordSerializer(TypeSerializer):
    def serialize(self, value, target):
        raise ValueError(f"cannot write {value}")
    def deserialize(self, source):
        return source.read_utf()
    def snapshot_configuration(self):
        return WordSnapshot()

@register_snapshot
@attrs.define
class WordSnapshot(TypeSerializerConfigSnapshot):
    snapshot_id = "stateshift/test-word-on-spark"
    def describe(self):
        if TaskContext.get() is not None:  # an unexpected error, and only in a worker
            raise RuntimeError(HIDDEN)
        return "word"
    def write(self, target): ...
    def read(self, source): ...
    def restore_serializer(self):
        return WordSerializer()

def refuse(text):
    raise ValueError(f"bad {text}")

def job(serializer, **options):
    return Job([Operator("op", key=str, states=[ValueStateDescriptor("text", serializer, **options)])])

before = job(str)
refusing = job(int, converter=refuse)
failing = job(WordSerializer(), converter=lambda text: text)
"""


ON_ONE_SPARK = """
import json, sys
from stateshift.cli import main
from stateshift.spark.sessions import own_driver

statuses = []
with own_driver("local[1,2]"):
    for words in json.loads(sys.argv[1]):
        try:
            main(words)
        except SystemExit as ended:
            statuses.append(int(ended.code))
print("ended with", statuses)
"""


@pytest.mark.slow
def test_neither_spark_nor_its_workers_print_what_is_redacted(tmp_path, load):
    """Processes of their own, for what the JVM writes to stderr; a failed task is tried twice."""
    load("planted_words", planted_words=REDACTED)
    before = sys.modules["planted_words"].before
    with SavepointWriter(tmp_path / "sp", before) as writer:
        writer.put("op", "text", "plantedkey4711", "plantedvalue0815")
    folder = Path(sys.modules["planted_words"].__file__).parent

    def run(*commands):
        common = ("--master", "local[1,2]")
        words = [
            ["migrate", str(tmp_path / "sp"), str(tmp_path / job), "--job", f"planted_words:{job}", *common, *options]
            for job, *options in commands
        ]
        return subprocess.run(
            [sys.executable, "-c", ON_ONE_SPARK, json.dumps(words)],
            cwd=folder, env=CHILD, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    told = run(["failing"])
    redacted = run(["failing", "--redact"], ["refusing", "--redact", "--bad-values", "quarantine"])

    assert told.stdout.endswith("ended with [6]\n")
    assert redacted.stdout.endswith("ended with [6, 0]\n")
    assert "plantedvalue0815" in told.stderr
    assert "RuntimeError" in redacted.stderr
    assert "planted" not in (redacted.stdout + redacted.stderr).replace("planted_words", "")
    (value,) = Savepoint.open(tmp_path / "refusing").quarantine()
    assert ("<redacted>", "ValueError") == (value.key, value.cause)
    assert "planted" not in value.reason.replace("planted_words", "")
