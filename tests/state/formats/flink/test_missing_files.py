"""Files that a snapshot names and that are not there: all of them are named, before any of them is read."""

from __future__ import annotations

import os
import pickle
import shutil

import attrs
import native_snapshots
import pytest

from stateshift import CorruptSavepoint, Savepoint, SavepointNotFound, UntrustedPlace, migrate
from stateshift.serializers.errors import FilesElsewhere
from stateshift.state.formats.flink.handles import SegmentHandle
from stateshift.state.formats.flink.missing_files import require_files
from stateshift.state.savepoint.verify import verify

CLAIMED, MERGED, ONE_JOB = (
    "rocksdb-incremental-tuple-claimed",
    "rocksdb-incremental-merged-files",
    "rocksdb-incremental-string-p1-m128",
)
ROOT = native_snapshots.ORIGINAL_ROOT
JOBS = {number: f"{number:0>32}" for number in (1, 2)}
SHARED = f"{ROOT}/{JOBS[1]}/shared"


@pytest.fixture
def claimed(tmp_path):
    """A checkpoint of one job that still uses files of another one, which lies beside it."""
    return native_snapshots.copied(CLAIMED, tmp_path / "copy")


@pytest.fixture
def others(claimed):
    """The folder with the shared files of the other job."""
    return claimed.parents[1] / JOBS[1] / "shared"


def checked(folder):
    savepoint = Savepoint.open(folder)
    require_files(savepoint.metadata.streams, savepoint.folder)


def test_what_is_complete_is_not_refused(claimed):
    for folder in (claimed, native_snapshots.snapshot(MERGED), native_snapshots.snapshot(ONE_JOB)):
        checked(folder)


def test_all_missing_and_cut_files_are_named_at_once(claimed, others):
    gone, cut = sorted(others.iterdir())[:8], sorted(others.iterdir())[8]
    for file in gone:
        file.unlink()
    os.truncate(cut, 3)

    with pytest.raises(SavepointNotFound) as refused:
        checked(claimed)

    first, *lines = refused.value.what.splitlines()
    assert "8 files are missing and 1 file has another size" == first
    assert ["  … and 4 more"] == lines[5:]
    names = {file.name for file in gone}
    for line in lines[:5]:
        name = line.split()[2]
        assert name in names
        assert f"  the file {name} is missing in {others}; _metadata names it as file:{SHARED}/{name}" == line


def test_a_single_one_has_its_whole_path(claimed, others):
    file = min(others.iterdir())
    size = file.stat().st_size
    os.truncate(file, 3)

    with pytest.raises(CorruptSavepoint) as refused:
        checked(claimed)

    assert f"the file {file} has 3 bytes and should have {size:,}" == refused.value.what


def test_a_merged_file_may_end_after_its_segments_but_not_before(tmp_path):
    copy = native_snapshots.copied(MERGED, tmp_path / "copy")
    streams = [file.stream for file in native_snapshots.keyed_handles(copy)[0].files]
    last = max((one for one in streams if isinstance(one, SegmentHandle)), key=lambda one: one.start + one.size)
    file, start, size = native_snapshots.local_path(last, copy)
    with file.open("ab") as stream:
        stream.write(b"of another one")
    checked(copy)
    os.truncate(file, start + size - 1)

    with pytest.raises(CorruptSavepoint, match=f"should have at least {start + size:,}"):
        checked(copy)


def test_verify_names_them_in_the_failed_check_of_the_operator(claimed, others):
    gone = sorted(others.iterdir())[:2]
    for file in gone:
        file.unlink()

    (failed,) = (check for check in verify(claimed).checks if check.status == "failed")

    assert ("structure", True) == (failed.name, failed.detail.startswith("2 files are missing; the file "))
    assert all(file.name in failed.detail for file in gone)


def test_a_dry_run_looks_for_files_that_it_would_not_read(claimed, others, tmp_path):
    file = min(others.iterdir())
    file.unlink()

    with pytest.raises(SavepointNotFound, match=file.name):
        migrate(claimed, tmp_path / "new", dry_run=True)


class TestFoldersOfJobs:
    """A folder that is not beside the checkpoint is a download that is not complete."""

    @pytest.mark.parametrize("left", ["nothing", "an empty folder"])
    def test_it_is_said_where_the_files_were_and_where_they_are_looked_for(self, claimed, others, left):
        count = len(list(others.iterdir()))
        shutil.rmtree(others)
        if left != "nothing":
            others.mkdir()

        with pytest.raises(FilesElsewhere) as refused:
            Savepoint.open(claimed)

        assert f"{count} files of the checkpoint are missing: they were in {SHARED}" == refused.value.what
        assert f"download what is missing to {others}, or say with an option where the files are" == (
            refused.value.advice
        )
        assert f"--checkpoint-root {SHARED}=FOLDER" == str(refused.value.options[0])
        assert (SHARED,) == refused.value.roots
        lines = str(pickle.loads(pickle.dumps(refused.value))).splitlines()
        assert f"  what to do: {refused.value.advice}" == lines[2]
        assert f'  allow_roots=[("{SHARED}", "FOLDER")]' == lines[3]

    def test_a_place_of_that_name_on_this_machine_only_adds_an_option(self, tmp_path):
        """It may be there by chance, and may be the files."""
        found = []
        for exists in (False, True):
            copy = native_snapshots.copied(CLAIMED, tmp_path / str(exists) / "copy")
            root = tmp_path / str(exists) / "flink"
            old = f"{root}/{JOBS[1]}/shared"

            def moved(_, handle, old=old):
                files = {
                    part: tuple(self.rooted(file, SHARED, old) for file in getattr(handle, part))
                    for part in ("shared", "private")
                }
                return attrs.evolve(handle, **files)

            native_snapshots.with_keyed_handles(copy, moved)
            shutil.rmtree(copy.parents[1] / JOBS[1])
            if exists:
                (root / JOBS[1] / "shared").mkdir(parents=True)
            with pytest.raises(FilesElsewhere) as refused:
                Savepoint.open(copy)
            told = str(refused.value).replace(str(tmp_path / str(exists)), "T").splitlines()
            found.append([line for line in told if 'allow_roots=["' not in line])
            assert exists is (f"--allow-root {old}" in map(str, refused.value.options))

        assert found[0] == found[1]

    @staticmethod
    def rooted(file, old, new):
        uri = getattr(file.stream, "uri", "")
        stream = attrs.evolve(file.stream, uri=uri.replace(old, new)) if uri else file.stream
        return attrs.evolve(file, stream=stream)

    def test_a_renamed_folder_of_the_job_is_where_its_files_are_looked_for(self, tmp_path):
        copy = native_snapshots.copied(ONE_JOB, tmp_path / "copy")
        job = copy.parent.rename(tmp_path / "downloaded")
        (job / "shared").rename(tmp_path / "files")

        with pytest.raises(FilesElsewhere, match=f"download what is missing to {job}/shared, or") as refused:
            Savepoint.open(job / copy.name)

        assert isinstance(refused.value, UntrustedPlace)


class TestPairsOfPlaces:
    """What is wrong with `--checkpoint-root OLD=NEW` is said of it, not of the files."""

    def test_a_new_place_that_does_not_exist(self, claimed, others, tmp_path):
        others.rename(tmp_path / "files")

        with pytest.raises(SavepointNotFound, match=f"the folder {tmp_path}/nowhere does not exist"):
            Savepoint.open(claimed, allow_roots=[(SHARED, tmp_path / "nowhere")])

    def test_the_two_places_the_wrong_way_round(self, claimed, others, tmp_path):
        others.rename(tmp_path / "files")

        with pytest.raises(FilesElsewhere, match="is the wrong way round") as refused:
            Savepoint.open(claimed, allow_roots=[(tmp_path / "files", SHARED)])

        assert [f"--checkpoint-root {SHARED}={tmp_path}/files"] == [*map(str, refused.value.options)]
        assert verify(Savepoint.open(claimed, allow_roots=[(SHARED, tmp_path / "files")])).ok

    def test_an_old_place_that_is_named_nowhere_is_said_with_the_files_that_are_missing(
        self, claimed, others, tmp_path
    ):
        others.rename(tmp_path / "files")

        with pytest.raises(FilesElsewhere, match="it names no file in /typo, for which another folder was given"):
            Savepoint.open(claimed, allow_roots=[("/typo", tmp_path / "files")])
