"""What is left when something dies or does not fit: the right result, or nothing and a clear error."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter

import pytest

from stateshift import (
    CorruptSavepoint,
    MigrationFailed,
    MigrationOptions,
    Savepoint,
    SavepointNotFound,
    StateShiftError,
    StorageFailed,
    ValueNotConvertible,
    migrate,
)
from stateshift.state.migration.migration import NOTHING_PUBLISHED
from stateshift.state.publication.runs import names_of
from stateshift.state.savepoint.verify import verify

PRELUDE = """
import os, pathlib, shutil, signal, time
from stateshift import Job, Operator, ValueStateDescriptor

FOLDER = pathlib.Path({folder!r})
calls = 0
"""
JOB = """
job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""


@pytest.fixture
def job_that(load, tmp_path):
    """`job_that("name", body)`: a job whose converter turns a count into text, after `body` has run.

    In the body `x` is the count, `calls` the number of calls in this worker so far, and FOLDER a folder for markers.
    """

    def make(name, *body):
        markers = tmp_path / "markers"
        markers.mkdir(exist_ok=True)
        lines = ["def convert(x):", "    global calls", "    calls += 1", *(f"    {line}" for line in body)]
        source = PRELUDE.format(folder=str(markers)) + "\n".join([*lines, "    return str(x)"]) + JOB
        return load(name, **{name: source}).job

    return make


def texts(number):
    return {key: str(key) for key in range(number)}


def still_works(spark):
    return spark.sparkContext.parallelize([1, 2], 2).map(lambda x: x + 1).collect() == [2, 3]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_leaves_nothing_behind(
    spark, counts, job_that, tmp_path, values_of, content_of
):
    """It dies with its file half written: more than 4 MiB have passed, which are written at once."""
    source = counts(20_000)
    job = job_that(
        "killed_once",
        "if calls == 15_000 and not (FOLDER / 'killed').exists():",
        f"    files = [file.name for file in pathlib.Path({str(tmp_path / 'new')!r}).iterdir()]",
        "    (FOLDER / 'killed').write_text(' '.join(files))",
        "    os.kill(os.getpid(), signal.SIGKILL)",
        "return str(x).zfill(500)",
    )

    report = migrate(source, tmp_path / "new", job, session=spark)
    migrate(source, tmp_path / "undisturbed", job, session=spark)

    assert ".attempt-" in (tmp_path / "markers" / "killed").read_text()
    assert values_of(tmp_path / "new", "counter", "count") == {key: str(key).zfill(500) for key in range(20_000)}
    assert [(count.read, count.written) for count in report.states] == [(20_000, 20_000)]
    assert content_of(tmp_path / "new") == content_of(tmp_path / "undisturbed")
    assert verify(Savepoint.open(tmp_path / "new")).ok


def test_what_a_killed_worker_has_finished_is_not_done_again(spark, counts, job_that, tmp_path, values_of, content_of):
    """A bundle has two streams of about fifty entries; the worker dies in the second."""
    source, eight = counts(400), MigrationOptions(parallelism=8)
    job = job_that(
        "killed_late",
        "with (FOLDER / 'converted').open('a') as log: log.write(f'{x}\\n')",
        "if calls == 66 and not (FOLDER / 'killed').exists():",
        "    (FOLDER / 'killed').touch()",
        "    os.kill(os.getpid(), signal.SIGKILL)",
        "return str(x)",
    )

    migrate(source, tmp_path / "new", job, eight, session=spark)

    converted = Counter(map(int, (tmp_path / "markers" / "converted").read_text().split()))
    again = [key for key, times in converted.items() if times > 1]
    assert (tmp_path / "markers" / "killed").exists()
    assert converted.keys() == set(range(400))
    assert 0 < len(again) < 50
    assert values_of(tmp_path / "new", "counter", "count") == texts(400)
    migrate(source, tmp_path / "undisturbed", job, eight, session=spark)
    assert content_of(tmp_path / "new") == content_of(tmp_path / "undisturbed")


@pytest.mark.slow
def test_a_worker_that_is_killed_every_time_ends_the_run(spark, counts, job_that, tmp_path, facts_of):
    source = counts(100)
    before = facts_of(source)
    job = job_that("killed_always", "os.kill(os.getpid(), signal.SIGKILL)")
    started = time.monotonic()

    with pytest.raises(MigrationFailed, match="a worker process died 4 times") as caught:
        migrate(source, tmp_path / "new", job, session=spark)

    assert time.monotonic() - started < 60
    assert "operator counter" in str(caught.value)
    assert caught.value.written == NOTHING_PUBLISHED
    assert not (tmp_path / "new").exists()
    assert facts_of(source) == before
    assert still_works(spark)


def test_what_python_raised_before_a_task_began_is_reported(spark, counts, load, tmp_path):
    job = load(
        "unreadable",
        unreadable="""
from stateshift import Job, Operator, ValueStateDescriptor

def read():
    raise LookupError("no licence here")

class Converter:
    def __call__(self, value):
        return str(value)

    def __reduce__(self):
        return read, ()

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=Converter())])])
""",
    ).job

    with pytest.raises(MigrationFailed) as caught:
        migrate(counts(10), tmp_path / "new", job, session=spark)

    assert "Spark gave up: a worker failed with LookupError: 'no licence here'" == caught.value.what
    assert caught.value.written == NOTHING_PUBLISHED
    assert not (tmp_path / "new").exists()


def test_a_value_that_does_not_fit_arrives_with_all_its_facts(spark, counts, job_that, tmp_path, facts_of):
    source = counts(3000, parallelism=2)
    before = facts_of(source)
    job = job_that("unfit", "if x == 2345: return 7")

    with pytest.raises(ValueNotConvertible) as caught:
        migrate(source, tmp_path / "new", job, session=spark)

    error = caught.value
    assert error.what == "7 is not a string"
    assert "counter" in error.where["operator"]
    assert {name: error.where[name] for name in ("savepoint", "state", "path")} == {
        "savepoint": str(source), "state": "count", "path": "$",
    }  # fmt: skip
    assert "2345" in str(error.where["key"])
    assert error.where["rule"] == "PRIM-4"
    assert error.advice
    assert error.written == NOTHING_PUBLISHED
    assert not (tmp_path / "new").exists()
    assert facts_of(source) == before
    assert still_works(spark)


def test_a_failure_ends_the_run_at_once(spark, counts, job_that, tmp_path):
    """The other subtask would sleep for minutes, and would write for as long."""
    job = job_that(
        "unfit_soon",
        "while x % 2 and not (FOLDER / 'begun').exists(): time.sleep(0.05)",
        "if calls == 1 and not (FOLDER / 'begun').exists():",
        "    (FOLDER / 'begun').touch()",
        "    time.sleep(600)",
        "return 7",
    )
    started = time.monotonic()

    with pytest.raises(ValueNotConvertible):
        migrate(counts(100, parallelism=8), tmp_path / "new", job, session=spark)

    assert time.monotonic() - started < 60
    assert not (tmp_path / "new").exists()


def test_an_empty_target_that_was_there_stays_empty(spark, counts, job_that, tmp_path):
    (tmp_path / "new").mkdir()

    with pytest.raises(ValueNotConvertible):
        migrate(counts(3), tmp_path / "new", job_that("unfit_3", "return 7"), session=spark)

    assert list((tmp_path / "new").iterdir()) == []


def test_what_a_dead_run_left_behind_is_cleared(spark, counts, job_that, tmp_path, content_of):
    job = job_that("plain")
    source = counts(3000)
    migrate(source, tmp_path / "fresh", job, session=spark)
    shutil.copytree(tmp_path / "fresh", tmp_path / "new")
    (tmp_path / "new" / "_metadata").unlink()
    (file,) = (tmp_path / "new").glob("*-keyed-0-*")
    file.rename(file.with_name(file.name + ".attempt-0123456789ab"))
    file.with_name("f" * 32 + "-keyed-9").write_bytes(b"of another plan")
    ids = [file.name[:32], "f" * 32]
    file.with_name("_run-0123456789ab").write_text(json.dumps({"names": names_of(ids, file.name.split("-")[3])}))

    migrate(source, tmp_path / "new", job, session=spark)

    assert content_of(tmp_path / "new") == content_of(tmp_path / "fresh")


@pytest.mark.parametrize("damage", ["cut", "blotted", "missing"])
def test_a_damaged_state_file_is_reported_by_the_worker(spark, counts, job_that, tmp_path, damage, facts_of):
    source = counts(3000)
    (file,) = source.glob("*-keyed-0")
    data = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "blotted":
        file.write_bytes(data[: len(data) // 2] + b"\xff" * 64 + data[len(data) // 2 + 64 :])
    else:
        file.unlink()
    before = facts_of(source)

    with pytest.raises(StateShiftError) as caught:
        migrate(source, tmp_path / "new", job_that(f"damage_{damage}"), session=spark)

    assert type(caught.value) is (SavepointNotFound if damage == "missing" else CorruptSavepoint)
    assert (caught.value.where["savepoint"], caught.value.where["file"]) == (str(source), file.name)
    assert not (tmp_path / "new").exists()
    assert facts_of(source) == before


def test_a_copied_file_that_is_not_what_the_lineage_says_is_refused(counts, tmp_path):
    """Nothing has to change, so nothing is parsed: the digest is all there is."""
    source = counts(3000)
    (file,) = source.glob("*-keyed-0")
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    job = Savepoint.open(source).describe()

    with pytest.raises(CorruptSavepoint, match="the digest differs") as caught:
        migrate(source, tmp_path / "new", job)

    assert caught.value.where["file"] == file.name
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_store_that_fails_for_a_while_is_asked_again(spark, counts, job_that, tmp_path, values_of):
    """A file lies where the target's folder was, until the second attempt."""
    target = tmp_path / "new"
    job = job_that(
        "store_fails_once",
        f"target = pathlib.Path({str(target)!r})",
        "if not (FOLDER / 'failed').exists():",
        "    (FOLDER / 'failed').touch()",
        "    target.rename(FOLDER / 'aside')",
        "    target.touch()",
        "elif target.is_file() and calls == 1 and not (FOLDER / 'mended').exists():",
        "    (FOLDER / 'mended').touch()",
        "    target.unlink()",
        "    (FOLDER / 'aside').rename(target)",
    )
    source = counts(3000)

    migrate(source, target, job, session=spark)

    assert (tmp_path / "markers" / "mended").exists()
    assert values_of(target, "counter", "count") == texts(3000)


@pytest.mark.slow
def test_a_store_that_always_fails_ends_the_run_with_its_facts(spark, counts, job_that, tmp_path):
    target = tmp_path / "new"
    job = job_that(
        "store_fails",
        f"target = pathlib.Path({str(target)!r})",
        "(FOLDER / f'tried-{os.getpid()}-{time.monotonic_ns()}').touch() if x == 0 else None",
        "if target.is_dir():",
        "    shutil.rmtree(target)",
        "    target.touch()",
    )

    with pytest.raises(StorageFailed, match="the folder to write to does not exist, or is a file") as caught:
        migrate(counts(3000), target, job, session=spark)

    assert caught.value.where["savepoint"] == str(target)
    assert caught.value.written == NOTHING_PUBLISHED
