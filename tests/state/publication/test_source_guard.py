"""No target lies in a folder that has files of the source, at any depth: Flink may write and remove there."""

from __future__ import annotations

import shutil

import native_snapshots
import pytest

from stateshift import IfTargetExists, Savepoint, TargetExists, migrate
from stateshift.state.formats.flink.unchanged import SourceFiles

CLAIMED, MERGED = "rocksdb-incremental-tuple-claimed", "rocksdb-incremental-merged-files"
ROOT = native_snapshots.ORIGINAL_ROOT


def jobs(checkpoint):
    return checkpoint.parents[1]


@pytest.mark.parametrize("mode", [IfTargetExists.FAIL, IfTargetExists.REPLACE])
@pytest.mark.parametrize(
    ("name", "inside"),
    [
        (CLAIMED, f"{1:0>32}/shared/new"),
        (CLAIMED, f"{1:0>32}/shared/a/b/new"),
        (CLAIMED, f"{2:0>32}/shared/new"),
        (MERGED, f"{1:0>32}/shared/new"),
        (MERGED, f"{1:0>32}/taskowned/new"),
        (CLAIMED, f"{2:0>32}/chk-6/new"),
    ],
)
def test_a_target_inside_a_folder_of_a_job_that_the_source_uses_is_refused(tmp_path, name, inside, mode):
    checkpoint = native_snapshots.copied(name, tmp_path / "copy")
    target = jobs(checkpoint) / inside

    with pytest.raises(TargetExists, match="lies inside") as refused:
        migrate(checkpoint, target, target_exists=mode)

    assert "which is never written to" in refused.value.what
    assert not target.exists()


def test_a_target_inside_a_folder_to_which_files_were_moved_is_refused(tmp_path):
    checkpoint = native_snapshots.copied(MERGED, tmp_path / "copy")
    moved = []
    for kind in ("shared", "taskowned"):
        shutil.move(checkpoint.parent / kind, tmp_path / f"{kind} files")
        moved.append((f"{ROOT}/{1:0>32}/{kind}", tmp_path / f"{kind} files"))

    for _, now in moved:
        with pytest.raises(TargetExists, match="lies inside"):
            migrate(checkpoint, now / "new", allow_roots=moved)


def test_beside_the_folders_of_the_job_is_a_target(tmp_path):
    checkpoint = native_snapshots.copied(CLAIMED, tmp_path / "copy")

    assert migrate(checkpoint, checkpoint.parent / "rescued").kept


def test_a_root_for_all_jobs_does_not_make_what_lies_beside_them_a_part_of_the_source(tmp_path):
    checkpoint = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    alone = shutil.move(checkpoint, tmp_path / "alone")

    assert migrate(alone, jobs(checkpoint) / "rescued", allow_roots=[(ROOT, jobs(checkpoint))]).kept


def test_writes_to_a_base_guard_the_same_folders(tmp_path):
    savepoint = Savepoint.open(native_snapshots.copied(MERGED, tmp_path / "copy"))

    folders = {folder.place for folder in SourceFiles.of(savepoint.folder, savepoint.metadata).folders}

    job = jobs(tmp_path / savepoint.place) / f"{1:0>32}"
    assert {str(job / "shared"), str(job / "taskowned")} <= folders
