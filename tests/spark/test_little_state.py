"""Little state is migrated in the process that was started: to the bytes of a run on Spark, and with its promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import ClassVar

import attrs
import pytest

from stateshift import (
    CompatibilityResult,
    Int32,
    Job,
    MigrationFailed,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    ValueStateDescriptor,
    migrate,
    redact_values,
    register_snapshot,
)
from stateshift.serializers.registry import registry
from stateshift.state.migration.engine import Engine
from stateshift.state.migration.migration import NOTHING_PUBLISHED
from stateshift.state.savepoint.verify import verify

NAME = "rocksdb-account-v1"
KEYS = 400
ENOUGH_FOR_A_FILE = 3000


def job_with(converter):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=converter)])])


def texts(number):
    return {key: str(key) for key in range(number)}


@pytest.mark.parametrize("max_parallelism", [None, 200], ids=["types", "key groups"])
def test_it_gives_the_bytes_of_a_run_on_spark(spark, savepoint_of, account_jobs, tmp_path, content_of, max_parallelism):
    """New types of keyed state and of an operator's lists; or every key rewritten."""
    repartition = Repartition(max_parallelism={"account-state": max_parallelism}) if max_parallelism else None
    options, told = MigrationOptions(repartition=repartition, parallelism=3), []
    source, job = savepoint_of(NAME), account_jobs[3]

    here = migrate(source, tmp_path / "here", job, options, progress=told.append)
    there = migrate(source, tmp_path / "there", job, options, session=spark)

    assert (Engine.PROCESS, Engine.SPARK) == (here.estimate.engine, there.estimate.engine)
    assert here.states == there.states
    assert content_of(tmp_path / "here") == content_of(tmp_path / "there")
    assert ["planning", "migrating", "publishing"] == list(dict.fromkeys(step.phase for step in told))
    assert here.tasks == [step.done for step in told][-2]


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate
job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=str)])])
print(migrate(sys.argv[1], sys.argv[2], job).states[0].written)
"""


def test_it_needs_no_spark(counts, tmp_path, values_of):
    command = [sys.executable, "-c", WITHOUT_SPARK, counts(KEYS), tmp_path / "new"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ("", f"{KEYS}\n") == (ran.stderr, ran.stdout)
    assert texts(KEYS) == values_of(tmp_path / "new", "counter", "count")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("named", ["master", "py_files"])
def test_a_master_or_files_for_workers_select_spark(counts, tmp_path, named):
    told = []
    (tmp_path / "helper.py").touch()
    names = {"master": {"master": "local[1]"}, "py_files": {"py_files": [tmp_path / "helper.py"]}}

    report = migrate(counts(3), tmp_path / "new", job_with(str), progress=told.append, **names[named])

    assert ("starting Spark", Engine.SPARK) == (told[1].phase, report.estimate.engine)


@attrs.frozen
class WordSerializer(TypeSerializer[str]):
    def serialize(self, value, target):
        target.write_utf(value)

    def deserialize(self, source):
        return source.read_utf()

    def snapshot_configuration(self):
        return WordSnapshot()


@attrs.define
class WordSnapshot(TypeSerializerConfigSnapshot[str]):
    """Fails to be written as often as there are failures."""

    snapshot_id = "stateshift/test.word"
    failures: ClassVar[list[str]] = []

    def write(self, target):
        if self.failures:
            raise ArithmeticError(self.failures.pop())

    def read(self, source):
        pass

    def restore_serializer(self):
        return WordSerializer()

    def resolve(self, serializer):
        return CompatibilityResult.compatible()


@pytest.fixture
def words(tmp_path):
    """A savepoint with a state that is to be widened, and one of words, which is kept."""
    with registry.restored():
        register_snapshot(WordSnapshot)
        with SavepointWriter(tmp_path / "words", job_of_words(Int32)) as writer:
            writer.put("counter", "count", 1, 1)
            writer.put("counter", "word", 1, "one")
        yield tmp_path / "words"
    WordSnapshot.failures.clear()


def job_of_words(count):
    states = [ValueStateDescriptor("count", count), ValueStateDescriptor("word", WordSerializer())]
    return Job([Operator("counter", key=int, states=states)])


def test_code_that_fails_for_a_while_is_tried_again(words, tmp_path, values_of):
    migrate(words, tmp_path / "new", job_of_words(int), announce=lambda _: WordSnapshot.failures.extend(["no"] * 3))

    assert [] == WordSnapshot.failures
    assert {1: "one"} == values_of(tmp_path / "new", "counter", "word")
    assert {1: 1} == values_of(tmp_path / "new", "counter", "count")


@pytest.mark.parametrize("redacted", [False, True])
def test_code_that_fails_four_times_ends_the_run_with_its_place(words, tmp_path, redacted):
    redact_values(redacted)
    try:
        with pytest.raises(MigrationFailed, match="the run failed with ArithmeticError: ") as caught:
            migrate(
                words, tmp_path / "new", job_of_words(int), announce=lambda _: WordSnapshot.failures.extend(["no"] * 5)
            )
    finally:
        redact_values(False)

    assert ["no"] == WordSnapshot.failures
    assert "in write" in caught.value.what
    assert redacted is (caught.value.__cause__ is None)
    assert (str(caught.value.where["operator"]), caught.value.written) == ("counter", NOTHING_PUBLISHED)
    assert not (tmp_path / "new").exists()


def test_a_store_that_fails_for_a_while_is_asked_again(counts, tmp_path, values_of):
    """A file lies where the target's folder was, until the second attempt."""
    target, aside = tmp_path / "new", tmp_path / "aside"
    calls = []

    def to_text(value):
        calls.append(value)
        if len(calls) == 1:
            target.rename(aside)
            target.touch()
        elif len(calls) == ENOUGH_FOR_A_FILE + 1:
            target.unlink()
            aside.rename(target)
        return str(value)

    migrate(counts(ENOUGH_FOR_A_FILE), target, job_with(to_text))

    assert len(calls) == 2 * ENOUGH_FOR_A_FILE
    assert texts(ENOUGH_FOR_A_FILE) == values_of(target, "counter", "count")


DYING = """
import os, signal, sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.publication.publish import IfTargetExists

source, target = sys.argv[1:]
calls = 0

def to_text(value):
    global calls
    calls += 1
    if calls == 300 and "DIES" in os.environ:  # nothing that the function names is another in the second run
        os.kill(os.getpid(), signal.SIGKILL)
    return str(value)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=to_text)])])
report = migrate(source, target, job, MigrationOptions(parallelism=8), target_exists=IfTargetExists.RESUME)
print(report.estimate.engine, report.resumed, calls, report.states[0].written)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_is_resumed_without_doing_finished_streams_again(counts, tmp_path, values_of):
    source, target = counts(KEYS), tmp_path / "new"
    (tmp_path / "dying.py").write_text(DYING, encoding="utf-8")
    command = [sys.executable, tmp_path / "dying.py", source, target]

    dies = {**os.environ, "DIES": "1"}
    killed = subprocess.run(command, capture_output=True, text=True, check=False, env=dies)
    left = {file.name for file in target.iterdir()}
    again = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (-signal.SIGKILL, "") == (killed.returncode, killed.stdout + killed.stderr)
    assert "_metadata" not in left
    finished = sum(name.endswith(".done") for name in left)
    engine, resumed, calls, written = again.stdout.split()
    assert ("process", finished, KEYS) == (engine, int(resumed), int(written)), again.stderr
    assert 4 <= finished < 8
    assert int(calls) < KEYS // 2
    assert texts(KEYS) == values_of(target, "counter", "count")
    assert verify(Savepoint.open(target)).ok
