"""A source that changes while it is read: the run ends, says so, and publishes nothing.

Flink subsumes a checkpoint that is still being read, or another savepoint is written into the same folder. The
change is made by the run itself, in a function of a user that it calls, so its moment is known. The savepoint has
an operator that is converted and one that is copied as a file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import attrs
import pytest
import source_safety
from pyarrow import fs

from stateshift import (
    IfTargetExists,
    Job,
    MigrationOptions,
    Operator,
    Repartition,
    SavepointWriter,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata

COUNT, NOTE = ValueStateDescriptor("count", int), ValueStateDescriptor("note", str)
OLD = Job([Operator("counter", key=int, states=[COUNT]), Operator("copied", key=int, states=[NOTE])])


def write_source(place, *, factor=1):
    """Write a savepoint; another factor gives one of other values, and of files of the same names and sizes."""
    with SavepointWriter(place, OLD, parallelism=2) as writer:
        for key in range(source_safety.KEYS):
            writer.put("counter", "count", key, key * factor)
            writer.put("copied", "note", key, f"{key * factor:012}")


@attrs.frozen
class Local:
    """A source in a local folder, which can be changed as another process would change it."""

    folder: Path
    other: Path

    @property
    def place(self):
        return str(self.folder)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def put(self, name, data):
        (self.folder / "put").write_bytes(data)
        (self.folder / "put").replace(self.folder / name)

    def remove(self, name):
        (self.folder / name).unlink()


@attrs.frozen
class OnStore:
    """The same on a store."""

    place: str
    path: str
    files: object
    other: Path

    def read(self, name):
        with self.files.open_input_stream(f"{self.path}/{name}") as stream:
            return stream.read()

    def put(self, name, data):
        time.sleep(1.1)  # the clock of this store counts seconds
        with self.files.open_output_stream(f"{self.path}/{name}") as stream:
            stream.write(data)

    def remove(self, name):
        self.files.delete_file(f"{self.path}/{name}")


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.faults)])
def source(request, tmp_path):
    """A source that can be changed, and in `other` a savepoint of other values with files of the same names."""
    write_source(tmp_path / "old")
    write_source(tmp_path / "other", factor=3)
    if request.param == "disk":
        return Local(tmp_path / "old", tmp_path / "other")
    s3, name = request.getfixturevalue("s3"), f"changing-{tmp_path.name}"
    fs.copy_files(str(tmp_path / "old"), f"savepoints/{name}", destination_filesystem=s3.files)
    return OnStore(s3.place(name), f"savepoints/{name}", s3.files, tmp_path / "other")


def files_of(source, operator):
    """Names of the state files of an operator."""
    (found,) = [one for one in read_metadata(source.read("_metadata")).operators if one.uid == operator]
    return [subtask.managed_keyed.stream.path for subtask in found.subtasks]


def other_bytes(name):
    """Replace a file by one of the same size, whole and readable, with other values."""

    def change(source):
        data = (source.other / name(source)).read_bytes()
        assert len(data) == len(source.read(name(source)))
        assert data != source.read(name(source))
        source.put(name(source), data)

    return change


def other_metadata(source):
    """Replace `_metadata` by one of the same size for another checkpoint."""
    found = read_metadata(source.read("_metadata"))
    source.put("_metadata", write_metadata(attrs.evolve(found, checkpoint_id=found.checkpoint_id + 1)))


def removed(name):
    return lambda source: source.remove(name(source))


def subsumed(source):
    """Remove all, as Flink does it with a checkpoint that it needs no longer."""
    for name in ("_metadata", *files_of(source, "counter"), *files_of(source, "copied")):
        source.remove(name)


CHANGES = {
    "_metadata replaced": other_metadata,
    "a file that is converted, replaced": other_bytes(lambda source: files_of(source, "counter")[0]),
    "another file that is converted, replaced": other_bytes(lambda source: files_of(source, "counter")[-1]),
    "a file that is copied, replaced": other_bytes(lambda source: files_of(source, "copied")[0]),
    "_metadata removed": removed(lambda _: "_metadata"),
    "a file that is converted, removed": removed(lambda source: files_of(source, "counter")[-1]),
    "a file that is copied, removed": removed(lambda source: files_of(source, "copied")[0]),
    "all removed": subsumed,
}


class Changing:
    """Gives a number as text; changes the source once, when the run has begun and so many values have gone by."""

    def __init__(self, source, change, target, *, after):
        self._act, self._target, self._after = lambda: change(source), Path(target), after
        self.calls, self.has_changed = 0, False

    def __call__(self, value):
        if not self.has_changed and (self.calls or (self._target.exists() and os.listdir(self._target))):  # noqa: PTH208
            self.calls += 1
            if self.calls > self._after:
                self.has_changed = True
                self._act()
        return str(value)


def check_refused(outcome, target):
    """It ended as a run that failed, and nothing was published."""
    assert outcome.status == 6, outcome.text
    assert "the source changed while it was being read" in outcome.text
    assert "Nothing was published" in outcome.text
    assert "the source is untouched" not in outcome.text
    assert "Corrupt" not in outcome.text
    assert not (target / "_metadata").exists()


LATE = ("_metadata replaced", "a file that is converted, replaced", "all removed")
MOMENTS = [(change, 0) for change in CHANGES] + [(change, source_safety.KEYS - 1) for change in LATE]


@pytest.mark.parametrize(
    ("change", "after"),
    MOMENTS,
    ids=[f"{change} at the {'last' if after else 'first'} value" for change, after in MOMENTS],
)
def test_a_source_that_changes_while_it_is_read_is_reported_and_nothing_is_published(source, change, after, tmp_path):
    """Flink's savepoints and checkpoints have no digests, so no digest may be what notices."""
    source.remove("_stateshift.json")
    convert = Changing(source, CHANGES[change], tmp_path / "new", after=after)
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])

    outcome = source_safety.called(migrate, source.place, tmp_path / "new", job)

    assert convert.has_changed, "the test has not come to its point"
    check_refused(outcome, tmp_path / "new")


@pytest.mark.parametrize("how", IfTargetExists)
def test_a_source_with_digests_that_changes_is_reported_the_same_in_every_mode(source, how, tmp_path):
    """Of a savepoint that is to be replaced, nothing is lost."""
    if how is IfTargetExists.REPLACE:
        source_safety.write_source(tmp_path / "new")
    before = source_safety.tree(tmp_path / "new")
    change = CHANGES["another file that is converted, replaced"]
    convert = Changing(source, change, tmp_path / "new", after=0 if how is not IfTargetExists.REPLACE else 600)
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])

    outcome = source_safety.called(migrate, source.place, tmp_path / "new", job, target_exists=how)

    assert convert.has_changed, "the test has not come to its point"
    assert outcome.status == 6, outcome.text
    assert "the source changed while it was being read" in outcome.text
    if how is IfTargetExists.REPLACE:
        assert source_safety.differences(before, source_safety.tree(tmp_path / "new")) == {}
    else:
        assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.parametrize("change", ["_metadata replaced", "another file that is converted, replaced", "all removed"])
def test_a_source_that_changes_while_keys_are_rewritten_is_reported(source, change, tmp_path):
    convert = Changing(source, CHANGES[change], tmp_path / "new", after=source_safety.KEYS // 2)
    operator = Operator("counter", key=str, key_converter=convert, states=[COUNT])
    options = MigrationOptions(repartition=Repartition())

    outcome = source_safety.called(migrate, source.place, tmp_path / "new", Job([operator]), options)

    assert convert.has_changed, "the test has not come to its point"
    check_refused(outcome, tmp_path / "new")


@pytest.mark.parametrize("change", CHANGES)
def test_a_base_that_changes_between_the_plan_of_a_write_and_its_commit_is_reported(source, change, tmp_path):
    """All that the base has besides the state is taken over at the end: it is to be what was there at the beginning."""

    def write():
        with source_safety.planned_write(tmp_path / "new", source.place) as writer:
            message = writer.write(iter([source_safety.batch(0, 50)]))
            CHANGES[change](source)
            writer.commit([message])

    outcome = source_safety.called(write)

    assert outcome.status == 6, outcome.text
    assert "the source changed while it was being read" in outcome.text or "base changed" in outcome.text
    assert not (tmp_path / "new" / "_metadata").exists()


def test_a_source_on_a_store_that_changes_is_reported(s3, tmp_path):
    """One of the many that run with the faults: each waits for the clock of the store."""
    write_source(tmp_path / "old")
    write_source(tmp_path / "other", factor=3)
    fs.copy_files(str(tmp_path / "old"), "savepoints/changing-once", destination_filesystem=s3.files)
    source = OnStore(s3.place("changing-once"), "savepoints/changing-once", s3.files, tmp_path / "other")
    convert = Changing(source, CHANGES["a file that is copied, replaced"], tmp_path / "new", after=0)
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])

    check_refused(source_safety.called(migrate, source.place, tmp_path / "new", job), tmp_path / "new")


@pytest.mark.slow
def test_a_source_that_changes_while_spark_reads_it_is_reported(spark, load, tmp_path):
    """The change is made by a worker; the driver publishes."""
    write_source(tmp_path / "old")
    write_source(tmp_path / "other", factor=3)
    source = Local(tmp_path / "old", tmp_path / "other")
    name = files_of(source, "counter")[0]
    module = load("changing_job", changing_job=CHANGING_JOB.format(folder=str(tmp_path), name=name))

    outcome = source_safety.called(migrate, source.place, tmp_path / "new", module.job, session=spark)

    assert source.read(name) == (tmp_path / "other" / name).read_bytes()
    check_refused(outcome, tmp_path / "new")


CHANGING_JOB = """
import os, pathlib, shutil
from contextlib import suppress
from stateshift import Job, Operator, ValueStateDescriptor

FOLDER = pathlib.Path({folder!r})

def convert(value):
    target = FOLDER / "new"
    if not (FOLDER / "changed").exists() and target.exists() and any(target.iterdir()):
        with suppress(FileExistsError), (FOLDER / "changed").open("x"):  # one worker is enough
            shutil.copy(FOLDER / "other" / "{name}", FOLDER / "old" / "put")
            os.replace(FOLDER / "old" / "put", FOLDER / "old" / "{name}")
    return str(value)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""


def test_a_source_that_stays_as_it_is_may_be_read_by_many(source, tmp_path):
    """To be read changes nothing that is compared: two runs of one source, one within the other."""

    def read_by_another(_):
        inner = source_safety.called(migrate, source.place, tmp_path / "inner", None, MigrationOptions(parallelism=3))
        assert inner.status == 0, inner.text

    convert = Changing(source, read_by_another, tmp_path / "new", after=0)
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])

    outcome = source_safety.called(migrate, source.place, tmp_path / "new", job)

    assert outcome.status == 0, outcome.text
    assert convert.has_changed
