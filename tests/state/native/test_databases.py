"""Native snapshots of RocksDB and ForSt: what real Flink wrote is read as Flink read it, wherever it lies now."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import attrs
import native_snapshots
import pytest

from stateshift import (
    CorruptSavepoint,
    Savepoint,
    SavepointNotFound,
    StateShiftError,
    UnsupportedFormat,
    UntrustedPlace,
)
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.savepoint.verify import Outcome, verify

JOB = "0" * 31
CLAIMED = "rocksdb-incremental-tuple-claimed"
MERGED = "rocksdb-incremental-merged-files"
ONE_JOB = "rocksdb-incremental-string-p1-m128"
SAVEPOINT = "rocksdb-native-long-p2-m200"


@pytest.fixture(scope="module")
def read_by_flink(by_room):
    """`read_by_flink(name)`: what the job of a snapshot read back itself."""
    return lambda name: by_room(native_snapshots.expected(name)["operators"])


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_metadata_is_written_again_to_the_byte(name):
    data = (native_snapshots.snapshot(name) / "_metadata").read_bytes()

    assert data == write_metadata(read_metadata(data))


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_everything_is_read_as_flink_read_it(contents, read_by_flink, name):
    savepoint = Savepoint.open(native_snapshots.snapshot(name))

    assert all(operator.is_native for operator in savepoint.operators if operator.key is not None)
    assert read_by_flink(name) == contents(savepoint)
    report = verify(savepoint)
    assert report.ok
    assert {Outcome.OK} == {check.status for check in report.checks if check.name in {"key groups", "values"}}


@pytest.mark.parametrize("name", [SAVEPOINT, "rocksdb-incremental-rescaled-2-to-3", MERGED])
def test_parts_of_the_key_groups_make_the_whole(name):
    """As tasks read a stream: each a range of its key groups, and no entry twice."""
    place, most = native_snapshots.snapshot(name), native_snapshots.expected(name)["max_parallelism"]
    folder = Savepoint.open(place).folder

    for handle in native_snapshots.keyed_handles(place).values():
        with open_keyed(handle, folder, most) as reader:

            def entries(key_groups=None, states=None, reader=reader):
                blocks = reader.blocks(key_groups, states)
                return sorted((b.key_group, b.state_id, *item) for b in blocks for item in b.items())

            whole = entries()
            assert whole
            assert {entry[0] for entry in whole} <= set(handle.key_groups)
            for size in (1, 7, most - 1):
                parts = [range(start, min(start + size, most)) for start in range(0, most, size)]
                assert whole == sorted(entry for part in parts for entry in entries(part))
            assert [entry for entry in whole if entry[1] in {2, 0}] == entries(states=[2, 0])
            assert [] == entries(range(0))


@pytest.mark.parametrize("name", [SAVEPOINT, "rocksdb-6.20-native-string-p2-m128"])
def test_a_table_of_a_newer_rocksdb_is_refused_with_both_versions(contents, tmp_path, name):
    """The number of its format is in its last bytes, before the number that says what kind of file it is."""
    copy = native_snapshots.copied(name, tmp_path / "copy")
    for handle in native_snapshots.keyed_handles(copy).values():
        for file in handle.shared:
            path, *_ = native_snapshots.local_path(file.stream, copy)
            data = path.read_bytes()
            path.write_bytes(data[:-12] + (99).to_bytes(4, "little") + data[-8:])

    with pytest.raises(UnsupportedFormat, match=r"format_version: 99 \d+\.sst") as refused:
        contents(copy)

    writer = {"2.3": "8.10.0", "1.20": "6.20.3"}[native_snapshots.RELEASES[name]]
    assert f"(RocksDB {writer} wrote them, and rocksdict {version('rocksdict')} reads them)" in str(refused.value)
    assert "upgrade rocksdict" in refused.value.advice


def test_a_table_of_another_subtask_is_refused_though_its_size_fits(contents, tmp_path):
    """RocksDB 6 writes no identity of a table into the MANIFEST."""
    name = "rocksdb-6.20-incremental-tuple-p2-m200"
    handles = native_snapshots.keyed_handles(native_snapshots.snapshot(name))
    pairs = [(one, other) for one in handles[0].shared for other in handles[1].shared
             if one.stream.size == other.stream.size]  # fmt: skip
    assert pairs

    for number, (one, other) in enumerate(pairs):
        copy = native_snapshots.copied(name, tmp_path / str(number))

        def exchanged(_, handle, one=one, other=other):
            shared = [attrs.evolve(one, stream=other.stream) if file == one else file for file in handle.shared]
            return attrs.evolve(handle, shared=tuple(shared))

        native_snapshots.with_keyed_handles(copy, exchanged)
        with pytest.raises(CorruptSavepoint):
            contents(copy)


# Moved checkpoints.


@pytest.mark.parametrize("name", [CLAIMED, SAVEPOINT])
def test_a_moved_root_is_found(contents, read_by_flink, tmp_path, name):
    assert read_by_flink(name) == contents(native_snapshots.copied(name, tmp_path / "else where"))


@pytest.mark.parametrize("name", [CLAIMED, MERGED])
def test_moved_folders_of_jobs_are_found(contents, read_by_flink, tmp_path, name):
    copy = native_snapshots.copied(name, tmp_path / "copy")
    for job in copy.parents[1].iterdir():
        job.rename(tmp_path / job.name)

    assert read_by_flink(name) == contents(tmp_path / copy.relative_to(copy.parents[1]))


@pytest.mark.parametrize("name", [ONE_JOB, MERGED])
def test_a_renamed_folder_of_the_only_job_is_found(contents, read_by_flink, tmp_path, name):
    copy = native_snapshots.copied(name, tmp_path / "copy")
    copy.parent.rename(tmp_path / "from production")

    assert read_by_flink(name) == contents(tmp_path / "from production" / copy.name)


def test_a_renamed_folder_of_one_of_two_jobs_is_named(tmp_path):
    """Which of them it was is not to be guessed: the files of the other one are not in it."""
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    old = copy.parents[1] / f"{JOB}1"
    old.rename(copy.parents[1] / "old")

    with pytest.raises(UntrustedPlace) as refused:
        Savepoint.open(copy)

    assert (f"{native_snapshots.ORIGINAL_ROOT}/{JOB}1/shared",) == refused.value.roots


@pytest.mark.parametrize("name", [CLAIMED, MERGED, ONE_JOB])
def test_files_in_any_other_folder_are_found_where_the_roots_are_given(contents, read_by_flink, tmp_path, name):
    copy = native_snapshots.copied(name, tmp_path / "copy")
    jobs = copy.parents[1]
    checkpoint = Path(shutil.move(copy, tmp_path / "downloaded"))
    moved = []
    for kind in ("shared", "taskowned"):
        for folder in jobs.glob(f"*/{kind}"):
            new = tmp_path / f"{kind} of {folder.parent.name[-1]}"
            shutil.move(folder, new)
            moved.append((f"file:{native_snapshots.ORIGINAL_ROOT}/{folder.parent.name}/{kind}", new))

    with pytest.raises(UntrustedPlace) as refused:
        Savepoint.open(checkpoint)
    assert {old.removeprefix("file:") for old, _ in moved} == set(refused.value.roots)
    if len(moved) > 1:  # two jobs, or a job with merged files
        with pytest.raises(UntrustedPlace):
            Savepoint.open(checkpoint, allow_roots=moved[:1])

    assert read_by_flink(name) == contents(Savepoint.open(checkpoint, allow_roots=moved))


def test_one_root_may_stand_for_all_jobs(contents, read_by_flink, tmp_path):
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    checkpoint = shutil.move(copy, tmp_path / "alone")

    opened = Savepoint.open(checkpoint, allow_roots=[(native_snapshots.ORIGINAL_ROOT, copy.parents[1])])

    assert read_by_flink(CLAIMED) == contents(opened)


@pytest.mark.parametrize("name", [ONE_JOB, MERGED])
def test_names_that_lead_out_of_a_mapped_root_are_refused(tmp_path, name):
    """A savepoint is not trusted: neither `..` nor a link may lead elsewhere."""
    copy = native_snapshots.copied(name, tmp_path / "copy")
    (tmp_path / "secret").write_bytes(b"hidden")
    shared = f"file:{native_snapshots.ORIGINAL_ROOT}/{JOB}1/shared"

    def lead_out(_, handle):
        first, *others = handle.shared
        stream = attrs.evolve(first.stream, uri=f"{shared}/../../../../secret")
        return attrs.evolve(handle, shared=(attrs.evolve(first, stream=stream), *others))

    native_snapshots.with_keyed_handles(copy, lead_out)
    with pytest.raises(StateShiftError) as refused:
        Savepoint.open(copy, allow_roots=[(shared, copy.parent / "shared")])

    assert isinstance(refused.value, UntrustedPlace)


def test_a_link_in_a_moved_folder_that_leads_elsewhere_is_refused(tmp_path):
    copy = native_snapshots.copied(ONE_JOB, tmp_path / "copy")
    file = next((copy.parent / "shared").iterdir())
    file.rename(tmp_path / "outside")
    file.symlink_to(tmp_path / "outside")

    with pytest.raises(UntrustedPlace) as refused:
        Savepoint.open(copy)

    assert (str(tmp_path),) == refused.value.roots


@pytest.mark.parametrize("at", [0, -1])
def test_a_file_that_is_missing_in_a_moved_folder_is_named(contents, tmp_path, at):
    """Whichever it is: the other files show where the folder is now."""
    copy = native_snapshots.copied(ONE_JOB, tmp_path / "copy")
    file = native_snapshots.keyed_handles(copy)[0].files[at]
    path, _, _ = native_snapshots.local_path(file.stream, copy)
    path.unlink()

    with pytest.raises(SavepointNotFound, match=path.name):
        contents(copy)
