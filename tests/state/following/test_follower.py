"""A running job is followed: what is published at the end is what a migration of the last snapshot makes."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct

import pytest
from running_jobs import JOB, UID, RunningJob, contents

from stateshift import (
    BigInt,
    DeclarationError,
    Edits,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    StorageFailed,
    TargetExists,
    UnsupportedFormat,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.following import comparison, subtask
from stateshift.state.following.checkpoints import newest_checkpoint
from stateshift.state.following.database import ConvertedDatabase
from stateshift.state.following.follower import Follower
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.executor_choice import VARIABLE, ExecutorName

NEW = Job(
    [
        Operator(
            UID,
            key=int,
            states=[
                ValueStateDescriptor("number", BigInt),
                ListStateDescriptor("events", BigInt),
                MapStateDescriptor("counts", str, BigInt),
            ],
        )
    ]
)
OPTIONS = MigrationOptions(edits=Edits(rename_states=(("count", "number"),)))
CONVERTED = ("count", "events", "counts")
OTHER_JOB = JOB[::-1]


@pytest.fixture
def job(tmp_path):
    running = RunningJob(tmp_path / "job")
    yield running
    running.stop()


@pytest.fixture(params=["looked up", "compared", "compared by machine code"])
def way(request, monkeypatch):
    """Whether changes are found by the keys of files, or by comparing all entries."""
    monkeypatch.setattr(comparison, "_DENSE", 1e9 if request.param == "looked up" else -1)
    by_machine_code = request.param == "compared by machine code"
    if by_machine_code:
        pytest.importorskip("numba")
    monkeypatch.setenv(VARIABLE, ExecutorName.NUMBA if by_machine_code else ExecutorName.OBJECTS)


@pytest.fixture
def follower(job, tmp_path):
    """`follower()`: one as by a new process, which goes on with what there is."""
    return lambda place=None: Follower(place or job.checkpoints / JOB, tmp_path / "out", NEW, OPTIONS)


@pytest.fixture
def same(tmp_path):
    """`same(snapshot)`: finish with it; the result and its lineage are those of a migration of it as a whole."""

    def check(snapshot, follower):
        report = follower.finish(snapshot)
        migrate(snapshot, tmp_path / "full", NEW, OPTIONS)
        assert contents(tmp_path / "full") == contents(tmp_path / "out")
        counts = [sorted(map(repr, Savepoint.open(tmp_path / name).lineage.states)) for name in ("full", "out")]
        assert counts[0] == counts[1]
        assert verify(Savepoint.open(tmp_path / "out")).ok
        assert not follower.work.exists()
        return report

    return check


def number(value):
    return struct.pack(">q", value)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(2))
def test_every_value_is_that_of_a_full_migration(job, follower, same, tmp_path, seed):
    drawn = random.Random(seed)  # noqa: S311 - not for secrets
    pool = {name: job.entries(name) for name in CONVERTED}
    current = None
    for _ in range(6):
        for name in CONVERTED:
            keys, values = list(pool[name]), list(pool[name].values())
            for key in drawn.sample(keys, 30):
                if drawn.random() < 0.5:
                    job.delete(name, key)
                else:
                    job.put(name, key, drawn.choice(values))
            if drawn.random() < 0.3:
                job.delete_range(name, *sorted(drawn.sample(keys, 2)))
            if drawn.random() < 0.3:
                job.compact(name)
        before, checkpoint = current, job.checkpoint()
        if drawn.random() < 0.6:
            current = current if drawn.random() < 0.5 and current is not None else follower()
            assert current.step().is_up_to_date
        job.subsume(checkpoint.parent / f"chk-{job.number - 1}") if job.number > 1 else None
        del before
    snapshot = checkpoint if drawn.random() < 0.5 else job.savepoint(tmp_path / "last")
    report = same(snapshot, follower())
    assert {"note"} == {one.state for one in report.kept}


@pytest.mark.usefixtures("way")
def test_a_key_that_was_deleted_and_compacted_away_is_gone(job, follower, same):
    keys = sorted(job.entries("count"))
    job.put("count", keys[0], number(1))
    job.checkpoint()
    follower().step()

    job.delete("count", keys[0])
    job.compact("count")

    checkpoint = job.checkpoint()
    same(checkpoint, follower())
    assert 299 == len(contents(follower()._target.place)["number"])


@pytest.mark.usefixtures("way")
def test_a_checkpoint_that_was_abandoned_stays_in_the_comparison(job, follower, same, monkeypatch):
    """A key is put in it only, and has no record in the checkpoints before and after."""
    keys = sorted(job.entries("count"))
    job.delete("count", keys[5])
    job.compact("count")
    job.checkpoint()
    follower().step()

    job.put("count", keys[5], number(7))
    some = min(job.entries("events"))
    job.put("events", some, job.entries("events")[some] + b"," + number(8))
    job.checkpoint()
    write = ConvertedDatabase.write

    def failing(self, state, puts, deleted):
        if state == "events":
            raise ValueNotConvertible("a value does not fit")
        write(self, state, puts, deleted)

    with monkeypatch.context() as patched:
        patched.setattr(ConvertedDatabase, "write", failing)
        with pytest.raises(ValueNotConvertible):
            follower().step()

    job.delete("count", keys[5])
    job.compact("count")
    checkpoint = job.checkpoint()
    shutil.rmtree(checkpoint.parent / "chk-2")
    same(checkpoint, follower())


def test_the_first_conversion_goes_on_where_it_was_interrupted(job, follower, same, monkeypatch):
    """Some key groups at a time; what was written and not noted is written again."""
    monkeypatch.setattr(subtask, "_FIRST_BYTES", 1)
    monkeypatch.setattr(subtask, "_NOTED_EACH_S", 0)
    add, added = ConvertedDatabase.add, []

    def interrupted(self, written, place, first_key_group):
        add(self, written, place, first_key_group)
        added.append(first_key_group)
        if len(added) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(ConvertedDatabase, "add", interrupted)
    first = job.checkpoint()
    with pytest.raises(KeyboardInterrupt):
        follower().step()
    job.delete("count", min(job.entries("count")))
    checkpoint = job.checkpoint()
    job.subsume(first)
    same(checkpoint, follower())
    assert [*range(5), *range(4, 16)] == added


@pytest.mark.usefixtures("way")
def test_changes_go_on_where_they_were_interrupted(job, follower, same, monkeypatch):
    """From the last note on; the next checkpoint is compared with the one that was interrupted."""
    job.checkpoint()
    follower().step()
    monkeypatch.setattr(subtask, "_NOTED_EACH_S", -1)
    keys = sorted(job.entries("counts"))
    value = job.entries("counts")[keys[-1]]
    for key in keys[:400]:
        job.put("counts", key, value)
    for key in sorted(job.entries("count"))[:50]:
        job.delete("count", key)
    job.checkpoint()
    flush, flushed = ConvertedDatabase.flush, []

    def interrupted(self):
        flush(self)
        flushed.append(1)
        if len(flushed) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ConvertedDatabase, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            follower().step()
    for key in keys[:400:2]:
        job.delete("counts", key)
    job.compact("counts")
    same(job.checkpoint(), follower())


@pytest.mark.usefixtures("way")
def test_ranges_that_were_deleted(job, follower, same):
    job.checkpoint()
    follower().step()
    keys = sorted(job.entries("counts"))
    job.delete_range("counts", keys[40], keys[90])
    same(job.checkpoint(), follower())


def test_after_a_full_compaction(job, follower, same):
    job.checkpoint()
    follower().step()
    keys = sorted(job.entries("count"))
    job.delete("count", keys[3])
    for name in CONVERTED:
        job.compact(name)
    same(job.checkpoint(), follower())


def test_a_job_that_was_restarted_from_an_older_checkpoint_begins_again(job, follower, same):
    """Its backend uses the numbers of files once more, for others."""
    keys = sorted(job.entries("count"))
    first = job.checkpoint()
    job.put("count", keys[0], number(1))
    job.checkpoint()
    follower(job.checkpoints).step()

    job.stop()
    job.start(first, OTHER_JOB)
    job.put("count", keys[1], number(2))
    last = job.checkpoint()
    following = follower(job.checkpoints)
    status = following.step()

    assert str(last) == status.checkpoint
    (told,) = status.begun_again
    assert "the id of the backend" in told
    same(last, following)


def test_a_checkpoint_that_is_deleted_meanwhile_is_no_error(job, follower, monkeypatch):
    from stateshift.state.following import follower as module

    first = job.checkpoint()
    newest = module.newest_checkpoint
    asked = []

    def deleting(place):
        found = newest(place)
        if not asked:
            job.put("count", min(job.entries("count")), number(9))
            job.compact("count")
            job.checkpoint()
            job.subsume(first)
        asked.append(found)
        return found

    monkeypatch.setattr(module, "newest_checkpoint", deleting)
    monkeypatch.setattr(module, "_AGAIN_S", 0)
    status = follower().step()

    assert 2 == len(asked)
    assert status.checkpoint.endswith("chk-2")


def test_the_newest_checkpoint_is_not_that_of_the_highest_number(tmp_path):
    """A job started again from chk-3 under its id, and chk-9 was retained; chk-12 is not complete."""
    for number, completed_s in (("9", 100), ("3", 90), ("4", 200), ("5", 300)):
        metadata = tmp_path / JOB / f"chk-{number}" / "_metadata"
        metadata.parent.mkdir(parents=True)
        metadata.touch()
        os.utime(metadata, (completed_s, completed_s))
    (tmp_path / JOB / "chk-12").mkdir()

    for place in (tmp_path, tmp_path / JOB):
        assert str(tmp_path / JOB / "chk-5") == newest_checkpoint(Folder.at(place)).place


def test_files_of_the_job_are_only_read_and_those_it_deletes_are_told(job, follower):
    first = job.checkpoint()
    seen = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in job.checkpoints.rglob("*") if path.is_file()}
    following = follower()
    assert 0 == following.step().linked_bytes
    assert seen == {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in seen}

    for name in CONVERTED:
        job.compact(name)
    job.checkpoint()
    job.subsume(first)
    assert following._updated().linked_bytes > 0
    assert 0 == following.step().linked_bytes


def test_files_of_several_snapshots_that_the_job_deletes_are_told_once(job, follower):
    """The second one is linked, and not applied yet."""
    first = job.checkpoint()
    following = follower()
    following.step()
    job.put("count", min(job.entries("count")), number(1))
    second = job.checkpoint()
    following._link(newest_checkpoint(following._place))
    for name in CONVERTED:
        job.compact(name)
    job.checkpoint()
    for subsumed in (first, second):
        job.subsume(subsumed)

    sizes = {path.stat().st_ino: path.stat().st_size for path in following.work.rglob("snapshot-*/*.sst")}
    assert sum(sizes.values()) == following._updated().linked_bytes


def test_what_a_process_that_finishes_and_dies_has_deleted_is_not_missed(job, follower, tmp_path, monkeypatch):
    job.checkpoint()
    following = follower()
    following.step()
    job.put("count", min(job.entries("count")), number(9))
    last = job.savepoint(tmp_path / "last")

    with monkeypatch.context() as patched:
        patched.setattr(subtask.FollowedSubtask, "followed", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            follower().finish(last)

    assert following.step().is_up_to_date
    assert 0 == following.status.linked_bytes


def test_only_one_process_works_in_a_folder(job, follower):
    job.checkpoint()
    following = follower()
    with following._locked(), pytest.raises(TargetExists, match="another process"):
        follower().step()


def test_one_that_follows_sees_that_another_has_finished(job, follower):
    checkpoint = job.checkpoint()
    following = follower()
    following.step()
    follower().finish(checkpoint)

    assert following.step().finished
    assert not following.work.exists()
    with pytest.raises(TargetExists, match="nothing is left to finish"):
        follower().finish(checkpoint)


def test_one_that_follows_takes_a_deleted_folder_for_no_savepoint(job, follower):
    job.checkpoint()
    following = follower()
    following.step()
    shutil.rmtree(following.work)

    with pytest.raises(StorageFailed, match="was deleted, and there is no savepoint"):
        following.step()
    assert following.step().is_up_to_date


def test_a_folder_with_something_else_is_not_worked_in(job, tmp_path):
    """All that is not ours would be in danger."""
    file = tmp_path / "data" / "photos" / "one"
    file.parent.mkdir(parents=True)
    file.touch()
    last = job.checkpoint()

    following = Follower(job.checkpoints / JOB, tmp_path / "out", NEW, OPTIONS, work=tmp_path / "data")
    for act in (following.step, lambda: following.finish(last)):
        with pytest.raises(TargetExists, match="has something else in it, such as photos"):
            act()

    assert ["photos"] == [path.name for path in file.parents[1].iterdir()]


def test_what_comes_into_the_folder_meanwhile_stays(job, tmp_path):
    work = tmp_path / "data"
    following = Follower(job.checkpoints / JOB, tmp_path / "out", NEW, OPTIONS, work=work)
    job.checkpoint()
    following.step()
    (work / "photos").mkdir()
    (work / "photos" / "one").touch()
    last = job.checkpoint()
    following.step()

    following.finish(last)

    assert ["data", "photos", "one"] == [path.name for path in (work, *work.rglob("*"))]


def test_a_finish_without_anything_followed_leaves_no_folder(job, follower):
    checkpoint = job.checkpoint()

    with pytest.raises(DeclarationError, match="nothing was converted"):
        follower().finish(checkpoint)

    assert not follower().work.exists()


def test_what_cannot_be_followed_is_told(job, tmp_path):
    job.checkpoint()
    following = Follower(
        job.checkpoints / JOB, tmp_path / "out", NEW, MigrationOptions(parallelism=3, edits=OPTIONS.edits)
    )

    with pytest.raises(UnsupportedFormat, match=r"no state can be converted while the job runs.*key groups"):
        following.step()


def test_user_keys_that_may_become_one_are_converted_at_the_end_map_3(tmp_path):
    """A changed one is not compared with those that stay, so it would take the place of one of them."""
    job = RunningJob(tmp_path / "job", user_keys=(2**53, 5), user_key=int)
    states = [MapStateDescriptor("counts", float, int), ValueStateDescriptor("count", BigInt)]
    new = Job([Operator(UID, key=int, states=states)])
    job.checkpoint()
    status = Follower(job.checkpoints / JOB, tmp_path / "out", new).step()
    key, value = next((key, value) for key, value in job.entries("counts").items() if key.endswith(number(2**53)))
    job.put("counts", key[:-8] + number(2**53 + 1), value)
    last = job.checkpoint()
    job.stop()

    with pytest.raises(ValuesCollide, match="two user keys of one key become the same"):
        Follower(job.checkpoints / JOB, tmp_path / "out", new).finish(last)

    assert (f"{UID}: counts: its user keys change, and several may become one",) == status.at_the_end


def test_user_keys_that_stay_apart_are_followed(tmp_path):
    """With values of another type, too: keys that change, come, and go."""
    job = RunningJob(tmp_path / "job", user_keys=(7, 5), user_key=Int32)
    new = Job([Operator(UID, key=int, states=[MapStateDescriptor("counts", int, BigInt)])])
    job.checkpoint()
    status = Follower(job.checkpoints / JOB, tmp_path / "out", new).step()
    (first, value), (second, _), *_ = job.entries("counts").items()
    job.put("counts", first[:-4] + struct.pack(">i", 8), value)
    job.delete("counts", second)
    last = job.checkpoint()
    job.stop()

    Follower(job.checkpoints / JOB, tmp_path / "out", new).finish(last)

    assert (f"{UID}: counts",) == status.states
    migrate(last, tmp_path / "full", new)
    assert contents(tmp_path / "full") == contents(tmp_path / "out")
    assert verify(Savepoint.open(tmp_path / "out")).ok


def test_values_get_one_time_of_reference(job, tmp_path):
    """Those that are converted at the end, too: else equal values would differ."""
    from datetime import timedelta

    states = [ValueStateDescriptor("count", int, time_to_live=timedelta(hours=1))]
    new = Job([Operator(UID, key=int, states=states)])
    job.checkpoint()
    Follower(job.checkpoints / JOB, tmp_path / "out", new).step()
    noted = json.loads((tmp_path / "out.following" / "following.json").read_text())["reference_time"]
    keys = sorted(job.entries("count"))
    job.put("count", keys[0], number(12))

    report = Follower(job.checkpoints / JOB, tmp_path / "out", new).finish(job.checkpoint())

    assert noted
    entries = Savepoint.open(tmp_path / "out").operator(UID).state("count").read_entries()
    assert 1 == len({entry.value.last_access_ms for entry in entries})
    assert report.plan.reference_time is not None


@pytest.mark.parametrize("is_local", [True, False])
def test_the_folder_of_the_work(tmp_path, is_local):
    if is_local:
        assert tmp_path / "out.following" == Follower(tmp_path, tmp_path / "out").work
    else:
        with pytest.raises(DeclarationError, match="needs a local folder"):
            Follower(tmp_path, "s3://bucket/out")
