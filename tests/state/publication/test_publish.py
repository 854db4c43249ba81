"""Targets: what is taken stays, what a dead run left is cleared, and `_metadata` comes last."""

import hashlib
import json
import os
import subprocess
from contextlib import suppress

import attrs
import pytest

from stateshift import CorruptSavepoint, IfTargetExists, MigrationFailed, Savepoint, StateShiftError, TargetExists
from stateshift.state.formats.flink.handles import InlineHandle, RelativeFileHandle
from stateshift.state.formats.flink.metadata import SavepointMetadata, write_metadata
from stateshift.state.publication.commit import Commit
from stateshift.state.publication.lineage import LINEAGE, NEXT_LINEAGE, FileDigest, Lineage
from stateshift.state.publication.publish import (
    INLINE_BYTES,
    Destination,
    all_or_nothing,
    check_target,
    clean,
    give_name,
    now,
    publish,
    source_facts,
    stream_name,
)
from stateshift.state.publication.runs import names_of
from stateshift.state.publication.stored_serializers import SERIALIZERS
from stateshift.state.publication.target_lock import CLAIM_NAME, claimed
from stateshift.state.storage.files import Folder

OPERATOR = "00112233445566778899aabbccddeeff"
EMPTY = SavepointMetadata.new(())


def names(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_names_are_derived_from_operator_part_and_subtask():
    assert f"{OPERATOR}-keyed-3" == stream_name(OPERATOR, "keyed", 3)


def into(place, if_exists=IfTargetExists.FAIL):
    """Where a run writes that makes the one operator."""
    return Destination(Folder.at(place), names_of([OPERATOR]), if_exists=if_exists)


@pytest.fixture
def dead(folder):
    """`dead(*names)`: files of a run that was killed, and its list; gives the folder's names then."""

    def leave(*left):
        (folder / "_run-0123456789ab").write_text(json.dumps({"names": names_of([OPERATOR])}))
        for name in left:
            (folder / name).write_bytes(b"left")
        return names(folder)

    return leave


@pytest.mark.parametrize("part", ["keyed", "operator", "raw-keyed", "raw-operator", "quarantine-keyed", "rows"])
def test_what_a_dead_run_has_listed_is_cleared(folder, dead, part):
    name = stream_name(OPERATOR, part, 12)
    attempt = ".attempt-0123456789ab-00112233aabb"
    dead(name, name + ".done", name + attempt, LINEAGE, LINEAGE + attempt, "_metadata" + attempt, SERIALIZERS)

    with all_or_nothing(into(folder)) as claim:
        assert sorted([claim.name, claim.list_name]) == names(folder)
    assert [] == names(folder)


@pytest.mark.parametrize("foreign", ["notes.txt", "data", f"{OPERATOR}-keyed", f"x{OPERATOR}-keyed-1", "_metadata.bak"])
def test_files_of_others_are_never_touched(folder, dead, foreign):
    before = dead(stream_name(OPERATOR, "keyed", 0), foreign)

    for refused in (lambda: all_or_nothing(into(folder)).__enter__(), lambda: clean(Folder.at(folder))):
        with pytest.raises(TargetExists, match="is not empty") as caught:
            refused()
        assert foreign in caught.value.what
        assert "Nothing was written." == caught.value.written
        assert before == names(folder)


@pytest.mark.parametrize("listed", ["notes.txt", "*", "../target/notes.txt", 7, ["notes.txt"], "_claim-*", "[0-9]"])
def test_a_foreign_list_removes_no_other_file(folder, listed):
    (folder / "_run-0123456789ab").write_text(json.dumps({"names": [listed]}))
    (folder / "notes.txt").write_bytes(b"mine")

    with pytest.raises(TargetExists, match=r"it contains 'notes\.txt'"):
        clean(Folder.at(folder))
    assert b"mine" == (folder / "notes.txt").read_bytes()


@pytest.mark.parametrize("metadata", [None, "0" * 32, "", 7])
def test_a_note_of_another_replacement_takes_no_file(taken, metadata):
    taken.write("_replaced-0123456789ab", json.dumps({"metadata": metadata, "names": ["notes.txt"]}).encode())
    taken.write("notes.txt", b"mine")

    clean(taken)
    assert b"mine" == taken.read("notes.txt")


def test_a_list_of_many_names_is_checked_quickly(folder, dead):
    many = [f"{number:032x}-keyed-*" for number in range(200_000)]
    (folder / "_run-ba9876543210").write_text(json.dumps({"names": many}))
    left = dead(f"{7:032x}-keyed-3.done")

    assert left == sorted(clean(Folder.at(folder)))


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"[]", b'{"names": 7}', b"9" * 5000])
def test_a_damaged_list_covers_nothing_and_goes(folder, content):
    (folder / "_run-0123456789ab").write_bytes(content)

    assert ("_run-0123456789ab",) == clean(Folder.at(folder))


def test_what_an_earlier_release_left_is_reported_with_the_command_that_removes_it(folder):
    left = [f"{stream_name(OPERATOR, 'keyed', 0)}.attempt-00112233aabb", f"{stream_name(OPERATOR, 'keyed', 1)}.done"]
    for name in left:
        (folder / name).write_bytes(b"left")

    for refused in (lambda: all_or_nothing(into(folder)).__enter__(), lambda: clean(Folder.at(folder))):
        with pytest.raises(TargetExists, match="2 files that an earlier release of stateshift left") as caught:
            refused()
        assert sorted(left) == names(folder)
    command = caught.value.advice.partition("remove them: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    assert [] == names(folder)


def test_what_an_earlier_release_left_next_to_a_savepoint_is_reported_too(taken):
    name = f"{stream_name(OPERATOR, 'keyed', 1)}.done"
    taken.write(name, b"left")

    with pytest.raises(TargetExists, match="that an earlier release of stateshift left") as caught:
        clean(taken)
    assert f"rm -- {name}" in caught.value.advice


def test_a_savepoint_is_never_overwritten(folder):
    (folder / "_metadata").write_bytes(b"mine")

    with pytest.raises(TargetExists, match="there is a savepoint"), all_or_nothing(into(folder)):
        pass
    assert b"mine" == (folder / "_metadata").read_bytes()
    assert ["_metadata"] == names(folder)


def test_a_target_that_is_not_there_is_made_with_its_parents(tmp_path):
    place = Folder.at(tmp_path / "a" / "b" / "c")
    check_target(place)
    assert not (tmp_path / "a").exists()

    with all_or_nothing(into(tmp_path / "a" / "b" / "c")):
        assert (tmp_path / "a" / "b" / "c").is_dir()
    assert not (tmp_path / "a").exists()


def test_a_target_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")

    with pytest.raises(StateShiftError), all_or_nothing(into(tmp_path / "file")):
        pass
    assert b"mine" == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize(("size", "inline"), [(0, True), (INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_streams_up_to_flinks_threshold_are_inline(folder, size, inline):
    commit = Commit(Folder.at(folder))
    handle = commit.put("name", bytes(size))

    if inline:
        assert (InlineHandle("name", bytes(size)), {}) == (handle, commit.files)
    else:
        assert (RelativeFileHandle("name", size), {"name": FileDigest.of(bytes(size))}) == (handle, commit.files)
    assert names(folder) == sorted(commit.files)


def test_the_lineage_has_the_digest_of_the_metadata_and_lies_there_first(folder, monkeypatch):
    order = []
    write = Folder.write
    monkeypatch.setattr(Folder, "write", lambda self, name, data: order.append(name) or write(self, name, data))
    found = publish(Folder.at(folder), EMPTY, Lineage(stateshift="1", created=now(), job="j"))

    assert [LINEAGE, "_metadata"] == order
    assert {"_metadata": FileDigest.of(write_metadata(EMPTY))} == found.files
    assert found.to_json() == (folder / LINEAGE).read_bytes()
    assert ["_metadata", LINEAGE] == names(folder)


def test_a_source_is_known_by_place_and_digest():
    assert {"place": "/sp", "metadata_sha256": hashlib.sha256(b"m").hexdigest()} == source_facts("/sp", b"m")


def test_times_are_utc_to_the_second():
    assert now().endswith("+00:00")
    assert len("2026-01-01T00:00:00+00:00") == len(now())


@pytest.fixture
def target(folder):
    return Folder.at(folder)


@pytest.fixture
def taken(target, savepoint_of):
    """A target with a savepoint of Flink in it, files and all."""
    source = Folder.at(savepoint_of("rocksdb-long-p2-m200-files"))
    for name in source.names():
        target.write(name, source.read(name))
    return target


NEW = Lineage(stateshift="1", created=now(), job="new")


def test_a_savepoint_that_is_replaced_is_whole_until_the_new_one_is(taken, monkeypatch):
    old, seen = Savepoint.open(taken.place), []
    write = Folder.write

    def write_and_look(folder, name, data):
        if name == "_metadata":
            seen.append((Savepoint.open(taken.place), set(old_files(old)) <= set(taken.names())))
        write(folder, name, data)

    monkeypatch.setattr(Folder, "write", write_and_look)
    with all_or_nothing(into(taken.place, IfTargetExists.REPLACE)) as claim:
        publish(claim.folder, EMPTY, NEW)

    assert [(old, True)] == seen
    assert ("_metadata", LINEAGE) == taken.names()
    assert NEW.job == Savepoint.open(taken.place).lineage.job


def old_files(savepoint):
    return [stream.path for stream in savepoint.metadata.streams if isinstance(stream, RelativeFileHandle)]


class Killed(BaseException):
    """Ends a run without what it does at its end."""


@pytest.mark.parametrize("cut", range(40))
def test_a_replacement_that_was_cut_off_is_complete_or_absent_and_the_next_run_finishes_it(taken, monkeypatch, cut):
    """Every call that changes the target may be the last one."""
    old = Savepoint.open(taken.place)
    monkeypatch.setattr("stateshift.state.publication.target_lock._BEAT_S", 600)
    left = [cut]

    def counted(method):
        def call(self, *arguments):
            if left[0] < 0:
                return None
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return method(self, *arguments)

        return call

    for name in ("write", "rename", "delete"):
        monkeypatch.setattr(Folder, name, counted(getattr(Folder, name)))
    with suppress(Killed), all_or_nothing(into(taken.place, IfTargetExists.REPLACE)) as claim:
        claim.folder.write(stream_name(OPERATOR, "keyed", 0), bytes(9))
        publish(claim.folder, EMPTY, NEW)
    monkeypatch.undo()

    found = Savepoint.open(taken.place)
    assert found in (old, attrs.evolve(found, metadata=EMPTY))
    assert set(old_files(old)) <= set(taken.names()) if found == old else NEW.job == found.lineage.job
    for name in filter(CLAIM_NAME.fullmatch, taken.names()):  # the process is gone
        taken.write(name, b"{}")
        os.utime(f"{taken.place}/{name}", (0, 0))
    before = set(taken.names())
    with suppress(TargetExists):  # nothing may be left
        told = clean(taken)
        renamed = set(filter(NEXT_LINEAGE.fullmatch, before)) - set(told)
        assert set(told) | renamed == before - set(taken.names())
    assert set(taken.names()) - {LINEAGE} == {"_metadata", *(old_files(old) if found == old else ())}
    assert Savepoint.open(taken.place) == found


def test_replacing_leaves_the_files_of_others_and_refuses(taken):
    taken.write("notes.txt", b"mine")
    before = taken.names()

    with pytest.raises(TargetExists, match=r"notes\.txt"), all_or_nothing(into(taken.place, IfTargetExists.REPLACE)):
        pass

    assert before == taken.names()


def test_a_savepoint_to_be_replaced_that_cannot_be_read_is_left(taken):
    taken.write("_metadata", b"damaged")
    before = taken.names()

    with pytest.raises(CorruptSavepoint), all_or_nothing(into(taken.place, IfTargetExists.REPLACE)):
        pass

    assert before == taken.names()


def test_a_run_that_is_resumed_finds_what_the_dead_one_left(folder, dead):
    name = stream_name(OPERATOR, "keyed", 0) + ".attempt-0123456789ab-00112233aabb"
    dead(name)

    with all_or_nothing(into(folder, IfTargetExists.RESUME)):
        assert name in names(folder)


def test_clean_removes_what_a_dead_run_left_and_reports_it(folder, dead):
    left = dead(stream_name(OPERATOR, "keyed", 0) + ".attempt-1", stream_name(OPERATOR, "keyed", 1) + ".done")

    assert left == sorted(clean(Folder.at(folder)))
    assert [] == names(folder)
    assert () == clean(Folder.at(folder))


def test_clean_never_touches_a_savepoint(taken):
    before = taken.names()

    with pytest.raises(TargetExists, match="no run has left files next to it"):
        clean(taken)

    assert before == taken.names()


NOTHING = "Nothing was published: the target has no _metadata."


@pytest.mark.parametrize(
    ("if_exists", "told", "left"),
    [
        (IfTargetExists.FAIL, NOTHING, False),
        (IfTargetExists.RESUME, f"{NOTHING} Finished work is kept, to be resumed.", True),
    ],
)
def test_an_interrupt_says_what_was_written(tmp_path, if_exists, told, left):
    def run():
        with all_or_nothing(into(tmp_path / "target", if_exists)):
            (tmp_path / "target" / stream_name(OPERATOR, "keyed", 0)).write_bytes(b"finished")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert (caught.value.__notes__, (tmp_path / "target").exists()) == ([told], left)


def test_what_is_finished_is_promised_only_where_something_is(tmp_path):
    def run():
        with all_or_nothing(into(tmp_path / "target", IfTargetExists.RESUME)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert [NOTHING] == caught.value.__notes__


def test_an_interrupt_of_a_replacement_says_that_the_old_savepoint_is_there(taken):
    before = taken.names()

    def run():
        with all_or_nothing(into(taken.place, IfTargetExists.REPLACE)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert [f"Nothing was published: {taken} still holds its previous savepoint."] == caught.value.__notes__
    assert before == taken.names()


def test_an_interrupt_that_comes_too_late_says_that_all_was_written(tmp_path):
    target = Folder.at(tmp_path / "target")

    def run():
        with all_or_nothing(into(target.place)) as claim:
            publish(claim.folder, EMPTY, NEW)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert caught.value.__notes__ == [f"Everything was written: {target} is complete."]
    assert ("_metadata", LINEAGE) == target.names()


def test_a_run_that_lost_its_target_gives_no_name_and_removes_what_it_wrote_since(folder, monkeypatch):
    attempt = {}

    def run():
        with all_or_nothing(into(folder)) as claim:
            monkeypatch.setattr("stateshift.state.publication.target_lock.SILENT_S", -1)
            facts = json.loads(claim.folder.read(claim.name))
            claim.folder.write(claim.name, json.dumps({**facts, "namespace": "pid:[1]"}).encode())
            with claimed(Folder.at(folder)) as other:  # it is silent, and in another namespace
                (folder / "theirs").write_bytes(b"theirs")
                attempt["name"] = claim.folder.attempt_name(stream_name(OPERATOR, "keyed", 0))
                claim.folder.write(attempt["name"], b"late")
                assert f"_late-{claim.folder.run}" in other.folder.names()
                give_name(claim.folder, attempt["name"], stream_name(OPERATOR, "keyed", 0))

    with pytest.raises(MigrationFailed, match="another run took the target over"):
        run()

    assert ["theirs"] == names(folder)
