"""Targets: what is taken stays, what a dead run left is cleared, and `_metadata` comes last."""

import hashlib

import pytest

from stateshift.serializers.errors import CorruptSavepoint, StateShiftError, TargetExists
from stateshift.state.savepoint.files import Folder, attempt_name
from stateshift.state.savepoint.handles import InlineHandle, RelativeFileHandle
from stateshift.state.savepoint.lineage import LINEAGE, FileDigest, Lineage
from stateshift.state.savepoint.metadata import SavepointMetadata, write_metadata
from stateshift.state.savepoint.publish import (
    INLINE_BYTES,
    IfTargetExists,
    all_or_nothing,
    check_target,
    clean,
    clear_target,
    now,
    prepare_target,
    publish,
    source_facts,
    store_stream,
    stream_name,
)
from stateshift.state.savepoint.stored_serializers import SERIALIZERS

OPERATOR = "00112233445566778899aabbccddeeff"
EMPTY = SavepointMetadata.new(())


def names(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_names_are_derived_and_tell_operator_part_and_subtask():
    assert f"{OPERATOR}-keyed-3" == stream_name(OPERATOR, "keyed", 3)


@pytest.mark.parametrize("part", ["keyed", "operator", "raw-keyed", "raw-operator"])
def test_what_a_dead_run_left_is_cleared(folder, part):
    name = stream_name(OPERATOR, part, 12)
    for left in (name, attempt_name(name), LINEAGE, attempt_name(LINEAGE), attempt_name("_metadata"), SERIALIZERS):
        (folder / left).write_bytes(b"left")

    prepare_target(Folder.at(folder))
    assert [] == names(folder)


@pytest.mark.parametrize("foreign", ["notes.txt", "data", f"{OPERATOR}-keyed", f"x{OPERATOR}-keyed-1", "_metadata.bak"])
def test_files_of_somebody_else_are_never_touched(folder, foreign):
    (folder / stream_name(OPERATOR, "keyed", 0)).write_bytes(b"left")
    (folder / foreign).write_bytes(b"mine")

    with pytest.raises(TargetExists, match="is not empty") as caught:
        prepare_target(Folder.at(folder))
    assert foreign in caught.value.what
    assert "Nothing was written." == caught.value.written
    assert 2 == len(names(folder))
    clear_target(Folder.at(folder))
    assert [foreign] == names(folder)


def test_a_savepoint_is_never_overwritten(folder):
    (folder / "_metadata").write_bytes(b"mine")

    with pytest.raises(TargetExists, match="there is a savepoint"):
        prepare_target(Folder.at(folder))
    assert b"mine" == (folder / "_metadata").read_bytes()


def test_a_target_that_is_not_there_is_made_with_its_parents(tmp_path):
    place = Folder.at(tmp_path / "a" / "b" / "c")
    check_target(place)
    assert not (tmp_path / "a").exists()

    prepare_target(place)
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_target_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")

    with pytest.raises(StateShiftError):
        prepare_target(Folder.at(tmp_path / "file"))
    assert b"mine" == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize(("size", "inline"), [(0, True), (INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_streams_up_to_flinks_threshold_are_inline(folder, size, inline):
    handle, files = store_stream(Folder.at(folder), "name", bytes(size))

    if inline:
        assert (InlineHandle("name", bytes(size)), {}) == (handle, files)
    else:
        assert (RelativeFileHandle("name", size), {"name": FileDigest.of(bytes(size))}) == (handle, files)
    assert names(folder) == sorted(files)


def test_the_lineage_has_the_digest_of_the_metadata_and_lies_there_first(folder, monkeypatch):
    order = []
    write = Folder.write
    monkeypatch.setattr(Folder, "write", lambda self, name, data: order.append(name) or write(self, name, data))
    found = publish(Folder.at(folder), EMPTY, Lineage(stateshift="1", created=now(), job="j"))

    assert [LINEAGE, "_metadata"] == order
    assert {"_metadata": FileDigest.of(write_metadata(EMPTY))} == found.files
    assert found.to_json() == (folder / LINEAGE).read_bytes()
    assert ["_metadata", LINEAGE] == names(folder)


def test_clearing_takes_the_metadata_first(folder, monkeypatch):
    # else there would be, for a moment, a savepoint whose files are gone
    for name in (stream_name(OPERATOR, "keyed", 0), "_metadata", LINEAGE):
        (folder / name).write_bytes(b"x")
    order = []
    delete = Folder.delete
    monkeypatch.setattr(Folder, "delete", lambda self, name: order.append(name) or delete(self, name))
    clear_target(Folder.at(folder))

    assert "_metadata" == order[0]
    assert [] == names(folder)


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


def test_a_savepoint_that_is_to_be_replaced_goes_with_all_its_files(taken):
    prepare_target(taken, IfTargetExists.REPLACE)

    assert () == taken.names()


def test_replacing_leaves_the_files_of_somebody_else_and_refuses(taken):
    taken.write("notes.txt", b"mine")
    before = taken.names()

    with pytest.raises(TargetExists, match=r"notes\.txt"):
        prepare_target(taken, IfTargetExists.REPLACE)

    assert before == taken.names()


def test_a_savepoint_to_be_replaced_that_cannot_be_read_is_left(taken):
    taken.write("_metadata", b"damaged")
    before = taken.names()

    with pytest.raises(CorruptSavepoint):
        prepare_target(taken, IfTargetExists.REPLACE)

    assert before == taken.names()


def test_a_run_that_is_resumed_finds_what_the_dead_one_left(target):
    name = stream_name("ab" * 16, "keyed", 0) + ".attempt-1"
    target.write(name, b"half")

    prepare_target(target, IfTargetExists.RESUME)

    assert (name,) == target.names()


def test_clean_removes_what_a_dead_run_left_and_tells_it(target):
    names = [stream_name("ab" * 16, "keyed", 0) + ".attempt-1", stream_name("ab" * 16, "keyed", 1) + ".done"]
    for name in names:
        target.write(name, b"left")

    assert sorted(names) == sorted(clean(target))
    assert () == target.names()
    assert () == clean(target)


def test_clean_never_touches_a_savepoint(taken):
    before = taken.names()

    with pytest.raises(TargetExists, match="nothing that a run has left beside it"):
        clean(taken)

    assert before == taken.names()


@pytest.mark.parametrize(
    ("if_exists", "told", "left"),
    [
        (IfTargetExists.FAIL, "Nothing.", False),
        (IfTargetExists.RESUME, "Nothing. What is finished is kept, to be resumed.", True),
    ],
)
def test_an_interrupt_says_what_was_written(tmp_path, if_exists, told, left):
    target = Folder.at(tmp_path / "target")

    def run():
        with all_or_nothing(target, "Nothing.", if_exists):
            (tmp_path / "target" / stream_name(OPERATOR, "keyed", 0)).write_bytes(b"finished")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert (caught.value.__notes__, (tmp_path / "target").exists()) == ([told], left)


def test_an_interrupt_that_comes_too_late_says_that_all_was_written(tmp_path):
    target = Folder.at(tmp_path / "target")

    def run():
        with all_or_nothing(target, "Nothing."):
            publish(target, EMPTY, Lineage(stateshift="1", created=now(), job="j"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()

    assert caught.value.__notes__ == [f"Everything was written: {target} is complete."]
    assert (tmp_path / "target" / "_metadata").exists()
