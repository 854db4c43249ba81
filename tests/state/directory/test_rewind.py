"""A copy of a query stands at an earlier batch, and the first query is as it was."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from streaming_batches import BACKENDS
from streaming_totals import totals, totals_in, visits

from stateshift import DeclarationError, Savepoint, SavepointNotFound, TargetExists
from stateshift.state.directory.committed_state import Written
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.directory.garbage import collect
from stateshift.state.directory.rewind import Stretch, rewind, stretches
from stateshift.state.formats.flink.metadata import METADATA, write_metadata
from stateshift.state.publication.target_lock import claimed
from stateshift.state.storage.files import Folder


def changed(engine, backend, **options):
    """Another start, which begins an epoch with the present state."""
    directory, after = engine.directory, engine.number - 1
    epoch = directory.epoch(engine.manifests[0].epoch)
    number = str(epoch.number + 1)
    directory.base(number).create()
    directory.base(number).write(METADATA, write_metadata(directory.savepoint(engine.manifests, epoch, after).metadata))
    return totals(Path(directory.folder.place), backend, before=engine, base=number, **options)


@pytest.fixture
def upgraded(tmp_path, backend):
    """A query with three batches, and three more in another epoch."""
    engine = totals(tmp_path / "state", backend)
    for amount in (1, 2, 3):
        engine.batch(visits(ann=amount, bob=amount))
    engine = changed(engine, backend, slots=3)
    for amount in (10, 20, 30):
        engine.batch(visits(ann=amount, cy=amount))
    return engine


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copy(upgraded, backend, batch):
    """The engine of the copy: Spark has in its state what it had after that batch."""
    before = SimpleNamespace(committed=upgraded.committed, number=batch + 1)
    return totals(upgraded.checkpoint.parent / "copy", backend, before=before)


def test_the_copy_goes_on_from_the_last_batch_of_the_epoch_before(upgraded, backend, tmp_path):
    before = files_of(tmp_path / "state"), files_of(upgraded.checkpoint)
    told = rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")

    assert (2, 1, (3, 5)) == (told.batch, told.epoch, told.again)
    assert before == (files_of(tmp_path / "state"), files_of(upgraded.checkpoint))
    opened = Savepoint.open(tmp_path / "copy")
    assert {"ann": 6, "bob": 6} == totals_in(opened)
    assert opened.position["offsets"].endswith('{"read":2}')
    assert ["0", "1", "2"] == sorted(path.name for path in (tmp_path / "copy-checkpoint/offsets").iterdir())
    upgraded.new_process()
    engine = copy(upgraded, backend, 2)
    assert [{"value": 16}] == engine.batch(visits(ann=10))
    engine.new_process()
    assert [{"value": 17}] == engine.batch(visits(ann=1))
    assert {"ann": 17, "bob": 6} == totals_in(Savepoint.open(tmp_path / "copy"))
    assert {"ann": 66, "bob": 6, "cy": 60} == totals_in(Savepoint.open(tmp_path / "state"))


def test_the_copy_lives_on_without_the_first_query_and_can_be_rewound_itself(upgraded, backend, tmp_path):
    rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint", to_batch=4)
    upgraded.new_process()
    (tmp_path / "state").rename(tmp_path / "gone")
    engine = copy(upgraded, backend, 4)
    engine.batch(visits(ann=1))
    told = rewind(tmp_path / "copy", tmp_path / "again", tmp_path / "again-checkpoint", to_batch=5)

    assert (5, 1, None) == (told.batch, told.epoch, told.again)
    assert {"ann": 37, "bob": 6, "cy": 30} == totals_in(Savepoint.open(tmp_path / "again"))
    directory = StateDirectory.open(Folder.at(tmp_path / "again"))
    assert 2 == len(directory.copied_from)
    with pytest.raises(DeclarationError, match="no epoch before 1"):
        rewind(tmp_path / "copy", tmp_path / "third", tmp_path / "third-checkpoint")


def test_what_was_deleted_is_refused_with_what_is_still_there(upgraded, tmp_path):
    upgraded.batch(visits(ann=1))
    collect(upgraded.directory, older_than_h=0)
    kept = tmp_path / "state-checkpoint"
    for number in range(3):
        for log in ("offsets", "commits"):
            (kept / log / str(number)).unlink()
    message = (
        r"after batch 2 is not there any more: .*\n.*there is still: batch 6, the last of epoch 2, and from batch 4 to"
    )
    with pytest.raises(SavepointNotFound, match=message):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")
    with pytest.raises(DeclarationError, match="no batch of epoch 7"):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint", to_epoch=7)
    with pytest.raises(DeclarationError, match="no batch 7"):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint", to_batch=7)

    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "copy-checkpoint").exists()


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize("backend", [BACKENDS["rocksdb"]], indirect=False)
def test_files_that_are_missing_are_named(tmp_path):
    for path in (*(tmp_path / "state/shared").iterdir(), *(tmp_path / "state/files").iterdir()):
        path.unlink()
    with pytest.raises(SavepointNotFound, match=r"missing in .*\n.*start a new query from a savepoint"):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")


def test_folders_that_are_taken_and_a_query_that_runs_are_refused(upgraded, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    with pytest.raises(TargetExists, match="is not empty"):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "taken")
    with pytest.raises(TargetExists, match="is inside"):
        rewind(tmp_path / "state", tmp_path / "state/copy", tmp_path / "copy-checkpoint")
    with pytest.raises(DeclarationError, match="cannot be in each other"):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy/checkpoint")
    with claimed(upgraded.directory.folder), pytest.raises(TargetExists):
        rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")


@pytest.mark.usefixtures("upgraded")
def test_the_copy_of_a_checkpoint_is_of_another_query_and_has_nothing_later(tmp_path):
    kept = tmp_path / "state-checkpoint"
    files = {
        "metadata": '{"id":"first"}', ".metadata.crc": "", "sources/0/5": "v1", "sources/0/0": "v1",
        "state/0/0/3.delta": "a", "state/0/0/4.delta": "a", "state/0/0/3_ab-c.zip": "a", "state/0/1/4_ab-c.zip": "a",
        "state/0/0/SSTs/000004-x.sst": "a", "state/0/0/default/4.changelog": "a", "state/0/0/4.snapshot": "a",
        "state/0/_metadata/v2/0": f"v2 file:{kept}/state/0/x", "state/0/_metadata/v2/3": "v2",
    }  # fmt: skip
    for name, text in files.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (kept / name).write_text(text, encoding="utf-8")
    rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")

    copied = tmp_path / "copy-checkpoint"
    found = {path.relative_to(copied).as_posix() for path in copied.rglob("*") if path.is_file()}
    assert found == {
        "_stateshift-state.json", "metadata", *(f"{log}/{n}" for log in ("offsets", "commits") for n in range(3)),
        "sources/0/0", "sources/0/5", "state/0/0/3.delta", "state/0/0/3_ab-c.zip", "state/0/0/SSTs/000004-x.sst",
        "state/0/_metadata/v2/0",
    }  # fmt: skip
    assert json.loads((copied / "metadata").read_text())["id"] != "first"
    assert (copied / "state/0/_metadata/v2/0").read_text() == f"v2 file:{copied}/state/0/x"


def test_batches_belong_to_the_epoch_of_the_last_start_that_could_run_them(upgraded, backend):
    further = totals(upgraded.checkpoint.parent / "state", backend, before=upgraded)
    further.batch(visits(ann=1))

    written = Written.in_directory(further.directory)
    assert [Stretch(1, 0, 2), Stretch(2, 3, 6)] == stretches(written, 6)


def test_gc_keeps_what_a_copy_began_with_until_no_batch_needs_it(upgraded, backend, tmp_path):
    rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")
    upgraded.new_process()
    before = SimpleNamespace(committed=upgraded.committed, number=3)
    engine = totals(tmp_path / "copy", backend, before=before, retained=1)
    for number in range(4):
        collect(engine.directory, older_than_h=0)
        assert [{"value": 7 + number}] == engine.batch(visits(ann=1))
        engine.new_process()
    collect(engine.directory, older_than_h=0)

    assert {"ann": 10, "bob": 6} == totals_in(Savepoint.open(tmp_path / "copy"))
    assert not list((tmp_path / "copy/bases").iterdir())
