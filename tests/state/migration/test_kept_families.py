"""Column families that do not change keep their files, which are linked and not read."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import attrs
import native_snapshots
import pytest

from stateshift import (
    BigInt,
    CorruptSavepoint,
    Edits,
    IfTargetExists,
    IncompatibleState,
    Job,
    MigrationOptions,
    Operator,
    PlanChanged,
    Savepoint,
    SavepointFormatType,
    Target,
    UnsupportedFormat,
    ValueStateDescriptor,
    migrate,
)
from stateshift.compat.description import operator_id_of_uid
from stateshift.compat.edits import NewIdentity
from stateshift.serializers.wording import many
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.migration import estimate, kept_families
from stateshift.state.migration.plan_file import NewTypes, PlanFile
from stateshift.state.migration.planning import make_plan
from stateshift.state.publication import publish
from stateshift.state.rocksdb.database import FileNames
from stateshift.state.rocksdb.manifest import read_manifest
from stateshift.state.savepoint.verify import verify

KEYS = {"Long": int, "String": str, "Java Tuple2<String, Long>": tuple[str, int]}
SAMPLE = "rocksdb-native-long-p2-m200"
OLD = "rocksdb-6.20-native-string-p2-m128"
RENAMED = Edits(
    rename_operators=((native_snapshots.KEYED, NewIdentity(operator_id_of_uid("renamed").hex(), "renamed")),)
)
EDITS = Edits(drop=("counts",), rename_states=(("events", "lists"),))


def changed(name):
    """The job of a snapshot, in which one state has another type."""
    keyed = next(one for one in native_snapshots.expected(name)["operators"] if one["uid"] == native_snapshots.KEYED)
    states = [ValueStateDescriptor("count", BigInt)]
    return Job([Operator(native_snapshots.KEYED, key=KEYS[keyed["key_type"]], states=states)])


def contents(place):
    return {
        state.name: sorted(map(repr, state.read_timers() if state.kind == "timers" else state.read_entries()))
        for state in Savepoint.open(place).operator(native_snapshots.KEYED).states
        if state.kind.is_keyed
    }


def sums_of_files(place):
    """How many files with entries a snapshot has, and their bytes."""
    files = [file for handle in native_snapshots.keyed_handles(place).values() for file in handle.shared]
    return len(files), sum(file.stream.size for file in files)


def sums(*found):
    files = [one for each in found for one in each]
    return sum(one.files for one in files), sum(one.size for one in files)


def listed(place, subtask=0):
    """What the MANIFEST of a subtask says, and the streams of its files by name."""
    files = {file.name: file.stream for file in native_snapshots.keyed_handles(place)[subtask].files}
    names = FileNames.of([*files])
    return read_manifest(native_snapshots.content_of(files[names.manifest], place), names.manifest), files


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in {SAMPLE, OLD} else pytest.mark.slow) for name in native_snapshots.NAMES],
)
def test_all_but_what_changed_is_kept(tmp_path, name):
    source, options = native_snapshots.snapshot(name), MigrationOptions(edits=EDITS)
    planned = migrate(source, tmp_path / "made", changed(name), options, dry_run=True)
    assert not (tmp_path / "made").exists()
    report = migrate(source, tmp_path / "made", changed(name), options)

    assert planned.kept == report.kept
    before, after = contents(source), contents(tmp_path / "made")
    del before["counts"]
    before["lists"] = before.pop("events")
    assert before == after
    assert verify(Savepoint.open(tmp_path / "made")).ok
    assert after.keys() - {"count"} == {one.state for one in report.kept}
    read = {count.state for count in report.states if count.operator == native_snapshots.KEYED}
    assert {"count", "counts"} == read & {*contents(source), "lists"} == {one.state for one in planned.read_files}
    assert sums_of_files(source) == sums(planned.kept, planned.read_files)


def test_the_manifest_says_the_same_of_each_kept_file(tmp_path):
    """After a rescaling there are range deletes in them, too."""
    name = "rocksdb-incremental-rescaled-2-to-3"
    source = native_snapshots.snapshot(name)
    migrate(source, tmp_path / "made", changed(name), MigrationOptions(edits=EDITS))

    for subtask in range(3):
        (before, stored), (after, files) = listed(source, subtask), listed(tmp_path / "made", subtask)
        assert before.families["events"] == after.families["lists"]
        assert before.families["note"] == after.families["note"]
        assert after.families.keys().isdisjoint({"counts", "events"})
        assert after.next_file > before.next_file
        assert after.next_file > max(int("0" + "".join(filter(str.isdigit, file))) for file in files)
        for file in after.families["lists"]:
            was, now = native_snapshots.content_of(stored[file.name], source), files[file.name]
            assert was == native_snapshots.content_of(now, tmp_path / "made")


@pytest.fixture
def on_disk(tmp_path):
    return native_snapshots.apart(SAMPLE, tmp_path / "copy")


def damage(folder, state):
    for subtask in (0, 1):
        manifest, files = listed(folder, subtask)
        for file in manifest.families[state]:
            path = folder / files[file.name].path
            data = path.read_bytes()
            path.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])


def test_kept_files_are_linked_and_not_read(on_disk, tmp_path):
    damage(on_disk, "note")
    migrate(on_disk, tmp_path / "made", changed(SAMPLE))

    (manifest, files), (_, stored) = listed(tmp_path / "made"), listed(on_disk)
    for file in manifest.families["note"]:
        assert (tmp_path / "made" / files[file.name].path).samefile(on_disk / stored[file.name].path)
    assert not verify(Savepoint.open(tmp_path / "made")).ok


def test_verify_tells_what_was_kept_and_counts_its_entries_itself(on_disk, tmp_path):
    report = migrate(on_disk, tmp_path / "made", changed(SAMPLE))
    made = Savepoint.open(tmp_path / "made")
    found = verify(made)
    kept = {check.where.rpartition(" ")[2]: check.detail for check in found.checks if check.name == "kept"}

    assert found.ok
    assert report.kept == made.lineage.kept
    assert kept.keys() == {one.state for one in report.kept}
    for sizes in made.operator(native_snapshots.KEYED).measure().states:
        if sizes.state.name in kept:
            entries = many(sizes.measure.entries, "entry", "entries")
            assert kept[sizes.state.name].endswith(f": {entries} found here")
    assert ["ok", "unproven"] == [str(check.status) for check in found.checks if check.name == "digests"]


@pytest.mark.parametrize("seed", range(3))
def test_verify_finds_damage_to_a_kept_file(on_disk, tmp_path, seed):
    """Also where its size stays, so that no digest says it; what no block has is read by nobody."""
    migrate(on_disk, tmp_path / "made", changed(SAMPLE))
    chance, before = random.Random(seed), contents(tmp_path / "made")  # noqa: S311 - no secret
    files = [stream.path for stream in listed(tmp_path / "made")[1].values() if hasattr(stream, "path")]
    path = tmp_path / "made" / chance.choice([name for name in files if "-table-" in name])
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.unlink()  # the source has it, too
    path.write_bytes(data)

    assert not verify(Savepoint.open(tmp_path / "made")).ok or before == contents(tmp_path / "made")


@pytest.mark.parametrize("change", ["shortened", "missing"])
def test_verify_finds_a_kept_file_that_is_not_as_long_as_it_was(on_disk, tmp_path, change):
    migrate(on_disk, tmp_path / "made", changed(SAMPLE))
    stream = next(one for one in listed(tmp_path / "made")[1].values() if hasattr(one, "path"))
    path = tmp_path / "made" / stream.path
    data = path.read_bytes()
    path.unlink()
    if change == "shortened":
        path.write_bytes(data[:-1])

    failed = [check for check in verify(Savepoint.open(tmp_path / "made")).checks if check.status == "failed"]
    assert stream.path in {check.where for check in failed}


def test_a_run_that_died_before_its_cleanup_tells_all_that_it_wrote(on_disk, tmp_path, monkeypatch):
    """Databases, too, and what it kept."""
    with monkeypatch.context() as patch:
        patch.setattr(publish, "leave", lambda *_, **__: None)
        done = migrate(on_disk, tmp_path / "made", changed(SAMPLE))
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert any(name.endswith(".done") for name in names)

    report = migrate(on_disk, tmp_path / "made", changed(SAMPLE), target_exists=IfTargetExists.RESUME)

    assert (done.bytes_written, done.kept) == (report.bytes_written, report.kept)


def test_what_changes_is_read(on_disk, tmp_path):
    damage(on_disk, "count")

    with pytest.raises(CorruptSavepoint):
        migrate(on_disk, tmp_path / "made", changed(SAMPLE))
    assert not (tmp_path / "made").exists()


def test_copies_of_parts_of_databases_do_not_stay_on_the_machine(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    migrate(native_snapshots.snapshot(SAMPLE), tmp_path / "out", changed(SAMPLE))

    assert [] == [path for path in scratch.glob("stateshift-rocksdb-*/*") if path.is_dir()]


def test_the_copy_does_not_need_the_source(on_disk, tmp_path):
    before = contents(on_disk)
    migrate(on_disk, tmp_path / "made", None, MigrationOptions())
    for path in on_disk.iterdir():
        path.unlink()

    assert before == contents(tmp_path / "made")
    assert verify(Savepoint.open(tmp_path / "made")).ok


def test_they_are_copied_where_there_are_no_links(on_disk, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("another disk")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    migrate(on_disk, tmp_path / "made", changed(SAMPLE))

    made = Savepoint.open(tmp_path / "made")
    assert verify(made).ok
    copied = {stream.path for stream in listed(tmp_path / "made")[1].values() if hasattr(stream, "path")}
    assert copied
    assert copied <= made.lineage.files.keys()


def test_what_is_kept_needs_room_only_on_another_disk(on_disk, tmp_path, monkeypatch):
    linked = migrate(on_disk, tmp_path / "made", changed(SAMPLE), dry_run=True)
    monkeypatch.setattr(estimate, "_is_one_disk", lambda *_: False)
    copied = migrate(on_disk, tmp_path / "made", changed(SAMPLE), dry_run=True)

    kept = sum(one.size for one in linked.kept)
    assert copied.estimate.bytes_to_write - linked.estimate.bytes_to_write == kept > 0


def test_at_another_parallelism_everything_is_rewritten(tmp_path):
    source = native_snapshots.snapshot(SAMPLE)
    planned = migrate(source, tmp_path / "made", None, MigrationOptions(parallelism=3), dry_run=True)
    report = migrate(source, tmp_path / "made", None, MigrationOptions(parallelism=3))

    assert () == report.kept == planned.kept
    assert sums_of_files(source) == sums(planned.read_files)
    assert contents(source) == contents(tmp_path / "made")


@pytest.mark.parametrize(("name", "is_kept"), [(SAMPLE, False), (OLD, True)])
def test_files_that_flink_1_20_cannot_read_are_rewritten_for_it(tmp_path, name, is_kept):
    """Flink 2.3 writes checksums that RocksDB 6 does not know."""
    source = native_snapshots.snapshot(name)
    options = MigrationOptions(restore_target=Target.FLINK_1_20)
    planned = migrate(source, tmp_path / "made", None, options, dry_run=True)
    report = migrate(source, tmp_path / "made", None, options)

    assert planned.kept == report.kept
    assert is_kept is bool(report.kept)
    assert contents(source) == contents(tmp_path / "made")


def test_where_the_parts_of_a_database_do_not_agree_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_families, "_agree", lambda *_: False)
    report = migrate(native_snapshots.snapshot(SAMPLE), tmp_path / "made", changed(SAMPLE))

    assert () == report.kept
    assert verify(Savepoint.open(tmp_path / "made")).ok


def test_a_plan_file_says_what_is_kept_and_what_is_read(tmp_path):
    """A file that does not say it, as those of earlier releases, is followed, too; one that says otherwise is not."""
    source, options = native_snapshots.snapshot(SAMPLE), MigrationOptions(edits=EDITS)
    made = make_plan(Savepoint.open(source), changed(SAMPLE), options, NewTypes(job="accounts:job"), counted=False)
    (keyed,) = (one for one in made.operators if one["uid"] == native_snapshots.KEYED)
    files = {state["name"]: state["files"] for state in keyed["states"] if "files" in state}

    assert {"kept", "kept_bytes"} == files["note"].keys()
    assert {"read", "read_bytes"} == files["count"].keys() == files["counts"].keys()
    read = sum(one.get("read_bytes", 0) for one in files.values())
    assert read <= made.summary["bytes_to_read"]

    for state in keyed["states"]:
        state.pop("files", None)
    migrate(source, tmp_path / "made", changed(SAMPLE), options, expected=PlanFile.from_json(made.to_json()))
    for state in keyed["states"]:
        state["files"] = files["count"]
    with pytest.raises(PlanChanged, match="files"):
        migrate(source, tmp_path / "again", changed(SAMPLE), options, expected=PlanFile.from_json(made.to_json()))


@pytest.fixture
def unreadable(on_disk):
    """The same with a snapshot class in its headers that nobody knows."""

    def change(_, handle):
        data = native_snapshots.content_of(handle.stream, on_disk)
        assert b"LongSerializer$" in data
        stream = InlineHandle("header", data.replace(b"LongSerializer$", b"ThatSerializer$"))
        return attrs.evolve(handle, stream=stream)

    native_snapshots.with_keyed_handles(on_disk, change)
    assert Savepoint.open(on_disk).operator(native_snapshots.KEYED).unreadable_keyed
    return on_disk


@pytest.mark.parametrize("wanted", ["keep", "native"])
def test_a_database_whose_header_cannot_be_read_is_kept_whole(unreadable, tmp_path, wanted):
    options = MigrationOptions(edits=RENAMED, format=SavepointFormatType(wanted))
    planned = migrate(unreadable, tmp_path / "made", None, options, dry_run=True)
    report = migrate(unreadable, tmp_path / "made", None, options)

    assert planned.kept == report.kept
    assert sums_of_files(unreadable) == sums(report.kept)
    before, after = (native_snapshots.keyed_handles(place) for place in (unreadable, tmp_path / "made"))
    for subtask, handle in before.items():
        contents = {file.name: native_snapshots.content_of(file.stream, unreadable) for file in handle.files}
        copy = after[subtask]
        copies = {file.name: native_snapshots.content_of(file.stream, tmp_path / "made") for file in copy.files}
        assert contents == copies
        assert native_snapshots.content_of(handle.stream, unreadable) == native_snapshots.content_of(
            copy.stream, tmp_path / "made"
        )
        assert (handle.backend_id, handle.handle_id) != (copy.backend_id, copy.handle_id)
    made = Savepoint.open(tmp_path / "made")
    assert made.operator("renamed").unreadable_keyed
    assert ["unproven"] == [str(check.status) for check in verify(made).checks if check.name == "kept"]
    assert verify(made).ok


def test_one_that_is_not_the_snapshots_is_refused(unreadable, tmp_path):
    native_snapshots.with_keyed_handles(unreadable, lambda _, handle: attrs.evolve(handle, shared=handle.shared[1:]))

    with pytest.raises(CorruptSavepoint, match="other files"):
        migrate(unreadable, tmp_path / "made", None, MigrationOptions())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (MigrationOptions(format=SavepointFormatType.CANONICAL), "its header cannot be read"),
        (MigrationOptions(restore_target=Target.FLINK_1_20), "written for a newer RocksDB"),
        (MigrationOptions(parallelism=3), "its states are not known"),
    ],
)
def test_what_would_have_to_be_written_anew_is_refused_before_anything_is_written(unreadable, tmp_path, options, why):
    with pytest.raises((UnsupportedFormat, IncompatibleState), match=why):
        migrate(unreadable, tmp_path / "made", None, options, dry_run=True)
