"""Savepoints of real Flink migrated on Spark: contents, counts, and bytes that do not depend on the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain

import half_lazy
import pytest

from stateshift import (
    IncompatibleState,
    MigrationOptions,
    Repartition,
    Savepoint,
    SavepointFormatType,
    Target,
    TargetExists,
    migrate,
)
from stateshift.serializers.errors import located
from stateshift.state.savepoint.json_encoding import tagged_operator
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import migrate_in_process

NAME = "rocksdb-account-v1"


def exported(place):
    """The content of a savepoint with the tags of the fixtures, by operator and state."""
    content = {}
    for operator in Savepoint.open(place).operators:
        tagged = tagged_operator(operator, [state for state in operator.states if state.kind != "timers"])
        for name, state in tagged.get("keyed", {}).items():
            content[f"{operator.uid}/{name}"] = state["entries"]
        for name, state in tagged.get("operator", {}).items():
            content[f"{operator.uid}/{name}"] = state["subtasks"]
    return content


def told(data):
    """The same of a file next to a fixture, which shows what Flink read."""
    content = {}
    for operator in data["operators"]:
        for name, state in operator["keyed"].items():
            content[f"{operator['uid']}/{name}"] = state["entries"]
        for name, state in operator["operator"].items():
            content[f"{operator['uid']}/{name}"] = state["subtasks"]
    return content


def type_of_visits(place):
    """The type of the field in all records of a savepoint."""
    states = [state for operator in Savepoint.open(place).operators for state in operator.states]
    found, pending = set(), [state.description.value.snapshot for state in states]
    while pending:
        snapshot = pending.pop()
        pending += snapshot.children()
        if snapshot.kind == "record":
            found |= {field.snapshot.describe() for field in snapshot.stored_fields() if field.name == "visits"}
    return found


@pytest.mark.parametrize(("version", "visits"), [(2, "int"), (3, "long")])
def test_the_contents_are_what_flink_itself_migrates_to(
    spark, savepoint_of, expected_of, account_jobs, tmp_path, version, visits
):
    """To version 3 Flink does not go; it differs from version 2 in the width of `visits` alone."""
    migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[version], session=spark)

    assert exported(tmp_path / "new") == told(expected_of(NAME, file="flink-migrated-to-v2.json"))
    assert type_of_visits(tmp_path / "new") == {visits}
    assert verify(Savepoint.open(tmp_path / "new")).ok


def test_a_renamed_field_keeps_its_values(spark, savepoint_of, account_jobs, tmp_path):
    """The alphabetical order of the fields changes with the name, and with it the order of the bytes."""
    migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[4], session=spark)

    old = json.dumps(exported(savepoint_of(NAME)), sort_keys=True)
    new = json.dumps(exported(tmp_path / "new"), sort_keys=True)
    assert json.loads(new.replace('"title":', '"name":')) == json.loads(old)
    assert old.count('"name": "acc') == new.count('"title": "acc') > 0


@pytest.mark.parametrize("parallelism", [None, 1, 3, 16])
def test_the_files_are_those_of_a_run_without_spark(
    spark, savepoint_of, account_jobs, tmp_path, in_process, content_of, parallelism
):
    migrate(
        savepoint_of(NAME),
        tmp_path / "spark",
        account_jobs[3],
        MigrationOptions(parallelism=parallelism),
        session=spark,
    )
    in_process(savepoint_of(NAME), tmp_path / "here", account_jobs[3], parallelism=parallelism)

    assert content_of(tmp_path / "spark") == content_of(tmp_path / "here")
    assert len(Savepoint.open(tmp_path / "spark").operator("account-state").stored.subtasks) == (parallelism or 2)


@pytest.mark.parametrize("repartition", [None, Repartition(max_parallelism=64)], ids=["same keys", "rekeyed"])
def test_tables_of_a_half_lazy_state_become_one_as_without_spark(spark, tmp_path, content_of, repartition):
    half = str(half_lazy.half_lazy(tmp_path, 60).savepoint.place)
    # Databases have ids that no other one has.
    options = MigrationOptions(parallelism=3, repartition=repartition, format=SavepointFormatType.CANONICAL)
    migrate(half, tmp_path / "spark", half_lazy.second, options, session=spark)
    migrate_in_process(Savepoint.open(half), tmp_path / "here", half_lazy.second, options)

    entries = {one.name: one.measure().entries for one in Savepoint.open(tmp_path / "spark").operator("f").states}
    assert content_of(tmp_path / "spark") == content_of(tmp_path / "here")
    assert {"v": 61, "by name": 122} == {name: entries[name] for name in entries if "_timer_state" not in name}
    assert verify(Savepoint.open(tmp_path / "spark")).ok


def test_parallelism_free(spark, savepoint_of, account_jobs, tmp_path):
    """K08."""
    contents, sizes = [], []
    for parallelism in (1, 3, 16):
        target = tmp_path / str(parallelism)
        report = migrate(
            savepoint_of(NAME), target, account_jobs[3], MigrationOptions(parallelism=parallelism), session=spark
        )
        contents.append(exported(target))
        sizes.append(report.bytes_read)

    subtasks = [found.pop("account-state-lists/pending") for found in contents]
    assert [1, 3, 16] == list(map(len, subtasks))
    lists = [list(chain(*elements)) for elements in subtasks]
    assert lists[0] == lists[1] == lists[2]
    assert contents[0] == contents[1] == contents[2]
    assert sizes == pytest.approx([sizes[0]] * 3, abs=4 * 16)


def test_migrating_twice_gives_the_same_files(spark, counts, load, tmp_path, content_of):
    """Files, not only streams inside `_metadata`: there are enough entries."""
    job = load("texts", texts=TEXTS).job
    source = counts(3000, parallelism=3)
    for name in ("once", "twice"):
        migrate(source, tmp_path / name, job, session=spark)

    assert content_of(tmp_path / "once") == content_of(tmp_path / "twice")
    assert len(content_of(tmp_path / "once")) == 5


def test_the_report_counts_every_state(spark, savepoint_of, account_jobs, tmp_path):
    report = migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[3], session=spark)

    counted = {(count.operator, count.state): (count.action, count.read, count.written) for count in report.states}
    assert counted == {
        ("account-state", "account"): ("convert", 10, 10),
        ("account-state", "account-by-name"): ("convert", 20, 20),
        ("account-state", "accounts"): ("convert", 10, 10),
        ("account-state", "version-free"): ("copy", 10, 10),
        ("account-state", "_timer_state/event_user-timers"): ("copy", 0, 0),
        ("account-state", "_timer_state/processing_user-timers"): ("copy", 0, 0),
        ("account-state-lists", "pending"): ("convert", 10, 10),
    }
    assert (report.dry_run, report.copied_only, report.tasks, report.copies) == (False, False, 4, 0)
    assert {count.dropped for count in report.states} == {0}
    assert report.bytes_read > 0 < report.bytes_written
    assert report.rollback == f"start the old job on {savepoint_of(NAME)}: it is untouched"
    assert json.loads(json.dumps(report.to_data()))["states"][0]["read"] == 10


def test_progress_is_reported_from_start_to_end(spark, savepoint_of, account_jobs, tmp_path):
    told = []

    migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[3], session=spark, progress=told.append)

    phases = list(dict.fromkeys(progress.phase for progress in told))
    migrating = [(progress.done, progress.total) for progress in told if progress.phase == "migrating"]
    assert phases == ["planning", "starting Spark", "migrating", "publishing"]
    assert migrating == sorted(migrating)
    assert (migrating[0], migrating[-1]) == ((0, 4), (4, 4))
    first, last = [progress for progress in told if progress.phase == "migrating"][:: len(migrating) - 1]
    assert (first.entries, first.bytes_done, first.seconds_left) == (0, 0, None)
    assert (last.entries, last.bytes_done, last.seconds_left) == (60, last.bytes_total, 0.0)
    assert last.bytes_per_s > 0 < last.bytes_total


def test_the_pages_of_spark_say_what_a_job_does(spark, savepoint_of, account_jobs, tmp_path):
    """Of jobs in the store that Spark's pages and its REST interface are made of."""
    source, target = savepoint_of(NAME), tmp_path / "new"

    migrate(source, target, account_jobs[3], session=spark)

    job = spark.sparkContext._jsc.sc().statusStore().jobsList(None).head()
    described = job.description().get()
    assert described.startswith(f"stateshift: {source} to {target}, 4 streams, ")
    assert described.endswith(" bytes to read")
    assert job.jobGroup().get().startswith("stateshift-")
    assert str(job.status()) == "SUCCEEDED"


def test_a_migrated_savepoint_needs_nothing_more(spark, savepoint_of, account_jobs, tmp_path):
    migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[3], session=spark)

    again = migrate(tmp_path / "new", tmp_path / "again", account_jobs[3], session=None)

    assert again.copied_only
    assert exported(tmp_path / "again") == exported(tmp_path / "new")


COPY_ONLY = """
import builtins, json, sys
sys.modules["pyspark"] = None
from stateshift import Job, Operator, Target, ValueStateDescriptor
from stateshift.spark.migrate import migrate
job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])
report = migrate(sys.argv[1], sys.argv[2], job)
print(json.dumps([report.copied_only, report.tasks, report.copies, sys.modules["pyspark"]]))
"""


def test_what_needs_nothing_is_copied_without_spark(counts, tmp_path):
    source = counts(3000, parallelism=2)

    ran = subprocess.run(
        [sys.executable, "-c", COPY_ONLY, source, tmp_path / "new"], capture_output=True, text=True, check=False
    )

    assert (ran.stderr, json.loads(ran.stdout)) == ("", [True, 0, 2, None])
    files = {file.name: file.read_bytes() for file in source.iterdir() if not file.name.startswith("_")}
    assert len(files) == 2
    assert {name: next((tmp_path / "new").glob(f"{name}-*")).read_bytes() for name in files} == files
    assert verify(Savepoint.open(tmp_path / "new")).ok


def test_a_dry_run_writes_nothing_and_starts_no_spark(savepoint_of, account_jobs, tmp_path):
    report = migrate(savepoint_of(NAME), tmp_path / "new", account_jobs[3], dry_run=True, master="no such master")

    assert report.dry_run
    assert {state for (_, state), found in report.tried.items() if found} == {
        "account", "accounts", "account-by-name", "pending",
    }  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_source_untouched(spark, savepoint_copy, account_jobs, tmp_path, facts_of):
    """K01: after a run; that of a killed one is looked at where drivers are killed."""
    source = savepoint_copy(NAME)
    before = facts_of(source)

    migrate(source, tmp_path / "new", account_jobs[3], session=spark)

    assert facts_of(source) == before


def test_a_refused_change_writes_nothing(savepoint_of, load, tmp_path):
    job = load("narrow", narrow=NARROW).job

    with pytest.raises(IncompatibleState) as caught:
        migrate(savepoint_of(NAME), tmp_path / "new", job)

    assert "version-free" in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_result_that_flink_could_not_restore_is_refused_where_flink_is_the_target(counts, load, tmp_path):
    job = load("plain_records", plain_records=PLAIN_RECORDS).job

    with pytest.raises(IncompatibleState, match="Flink"):
        migrate(counts(3), tmp_path / "new", job, MigrationOptions(restore_target=Target.FLINK))


@pytest.mark.parametrize("inside", ["_metadata", "notes.txt", "0" * 32 + "-keyed-0.txt"])
def test_a_taken_target_is_refused_and_stays(savepoint_of, account_jobs, tmp_path, facts_of, inside):
    target = tmp_path / "new"
    target.mkdir()
    (target / inside).write_text("somebody's")
    (target / ("0" * 32 + "-keyed-0.attempt-0123")).write_text("left by a dead run")
    before = facts_of(target)

    with pytest.raises(TargetExists) as caught:
        migrate(savepoint_of(NAME), target, account_jobs[3])

    assert caught.value.written == "Nothing was written."
    assert facts_of(target) == before


def test_a_target_inside_the_source_is_refused(savepoint_copy, account_jobs, facts_of):
    """Writing there would change the source."""
    source = savepoint_copy(NAME)
    before = facts_of(source)

    with pytest.raises(TargetExists, match="lies inside the source"), located():
        migrate(source, source / "new", account_jobs[3])

    assert facts_of(source) == before


TEXTS = """
from stateshift import Job, Operator, ValueStateDescriptor

def to_text(count):
    return f"{count} times"

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=to_text)])])
"""
NARROW = """
from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor

job = Job([Operator("account-state", key=int, states=[ValueStateDescriptor("version-free", bool)])])
"""
PLAIN_RECORDS = """
import attrs
from stateshift import Job, Operator, ValueStateDescriptor

@attrs.frozen
class Count:
    times: int

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", Count, converter=Count)])])
"""
