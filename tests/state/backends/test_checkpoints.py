"""Checkpoints of RocksDB: what is written, what is retained, what is restored, and what a dead run leaves."""

import random
import shutil
from pathlib import Path

import attrs
import native_snapshots
import pytest
from checkpointing import OPERATOR, contents, files_of, restore, take
from sorted_dict import DictStore

from stateshift import (
    Configuration,
    CorruptSavepoint,
    DeclarationError,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    Savepoint,
    StorageFailed,
    TargetExists,
    TimeDomain,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.backends.sorted.backend import SortedStateBackend
from stateshift.state.formats.flink.handles import AbsoluteFileHandle
from stateshift.state.formats.flink.keyed_readers import open_keyed, read_header
from stateshift.state.formats.flink.metadata import METADATA, read_metadata
from stateshift.state.formats.flink.roots import with_moved
from stateshift.state.key_groups import key_group_range
from stateshift.state.publication.checkpoints import clean_job
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

GROUPS = 16


@pytest.fixture
def made():
    backends = []

    def make(key_groups=range(GROUPS), *, kind=EmbeddedRocksDBStateBackend, **values):
        options = {}
        if kind is EmbeddedRocksDBStateBackend:
            settings = {"execution.checkpointing.incremental": True, **values}
            options = {"configuration": Configuration.of(settings, environment={})}
        backends.append(kind(serializer_for(int), GROUPS, key_groups, **options))
        return backends[-1]

    yield make
    for backend in backends:
        backend.dispose()


@pytest.fixture
def root(tmp_path):
    return Folder.at(tmp_path / "checkpoints")


class Program:
    """A function's state, and random work on it."""

    def __init__(self, backend, seed=0):
        self.backend, self.random = backend, random.Random(seed)  # noqa: S311 - no secret
        self.value = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
        self.several = backend.get_or_create_keyed_state(ListStateDescriptor("list", int))
        self.mapped = backend.get_or_create_keyed_state(MapStateDescriptor("map", str, int))
        self.timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())

    def work(self, keys):
        for key in keys:
            try:
                self.backend.set_current_key(key)
            except ValueError:
                continue  # of another subtask
            step = self.random.randrange(6)
            if step == 0:
                self.value.clear()
                self.several.clear()
            elif step == 1:
                self.mapped.clear()
            else:
                self.value.update(str(self.random.random()))
                self.several.add(key)
                self.mapped.put(str(step), key)
            self.timers.add(self.random.randrange(1000), key, None)
            self.timers.poll(self.random.randrange(100))


def delta(handles):
    return sum(handle.checkpointed_bytes for handle in handles)


def test_an_incremental_checkpoint_writes_only_new_files(made, root):
    backend = made()
    program = Program(backend)
    program.work(range(20_000))
    with open_checkpoints(root, retained=2) as storage:
        _, (first,) = take(storage, [backend])
        program.work(range(10))
        folder, (second,) = take(storage, [backend])
        _, (third,) = take(storage, [backend])

    kept = {file.stream for file in first.shared} & {file.stream for file in second.shared}
    assert kept
    assert {file.stream for file in second.shared} == {file.stream for file in third.shared}
    assert second.checkpointed_bytes < first.checkpointed_bytes / 3
    assert all(isinstance(file.stream, AbsoluteFileHandle) for file in second.shared)
    verify(Savepoint.open(folder.place))


def test_a_full_checkpoint_writes_every_file(made, root):
    backend = made(**{"execution.checkpointing.incremental": False})
    Program(backend).work(range(2000))
    with open_checkpoints(root, retained=2) as storage:
        _, (first,) = take(storage, [backend])
        _, (second,) = take(storage, [backend])

    assert not {file.stream for file in first.shared} & {file.stream for file in second.shared}


def test_the_last_checkpoints_are_retained_and_files_that_none_needs_are_deleted(made, root):
    backend = made()
    program = Program(backend)
    with open_checkpoints(root, retained=2) as storage:
        for generation in range(6):
            program.work(range(generation * 50, 3000, 1 + generation))
            folder, _ = take(storage, [backend])
            expected = contents(backend)
        used = {
            Path(stream.uri).name
            for number in (5, 6)
            for stream in Savepoint.open(f"{storage.folder.place}/chk-{number}").metadata.streams
            if isinstance(stream, AbsoluteFileHandle)
        }

        assert f"{storage.folder.place}/chk-6" == folder.place
        assert {"chk-5", "chk-6"} == {name.split("/")[0] for name in files_of(storage.folder) if "chk" in name}
        assert used == {Path(name).name for name in files_of(storage.folder) if name.startswith("shared/")}
    restored = made()
    restore(folder, restored)

    assert expected == contents(restored)


def test_a_restored_database_goes_on_with_the_files_of_its_checkpoint(made, root):
    backend = made()
    Program(backend).work(range(20_000))
    with open_checkpoints(root) as storage:
        folder, (before,) = take(storage, [backend])
        job = Path(storage.folder.place).name
    expected = contents(backend)
    restored = made()
    restore(folder, restored)
    program = Program(restored, seed=1)
    with open_checkpoints(root, job) as storage:
        assert folder == storage.latest
        program.work(range(10))
        later, (after,) = take(storage, [restored])
        assert 2 == after.checkpoint_id
        assert {file.stream for file in before.shared} & {file.stream for file in after.shared}
        assert after.checkpointed_bytes < before.checkpointed_bytes / 3
    with open_checkpoints(root) as storage:
        _, (elsewhere,) = take(storage, [restored])
        assert not {file.stream for file in after.shared} & {file.stream for file in elsewhere.shared}
    third = made()
    restore(later, third)

    assert contents(restored) == contents(third)
    assert expected != contents(third)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (3, 2), (2, 2)])
@pytest.mark.parametrize("kind", [EmbeddedRocksDBStateBackend, HashMapStateBackend], ids=["rocksdb", "heap"])
def test_a_checkpoint_restores_at_another_parallelism_into_either_backend(made, root, before, after, kind):
    backends = [made(key_group_range(index, before, GROUPS)) for index in range(before)]
    with open_checkpoints(root) as storage:
        for seed in range(3):
            for backend in backends:
                Program(backend, seed).work(range(500))
            folder, _ = take(storage, backends)
    restored = [made(key_group_range(index, after, GROUPS), kind=kind) for index in range(after)]
    restore(folder, *restored)
    assert contents(*backends) == contents(*restored)
    if kind is EmbeddedRocksDBStateBackend:
        again = [made(key_group_range(index, before, GROUPS)) for index in range(before)]
        with open_checkpoints(root) as storage:
            folder, handles = take(storage, restored)
            restore(folder, *again)

            assert contents(*backends) == contents(*again)
            for handle in handles:  # Flink does not look for keys of other subtasks
                with open_keyed(handle, folder, GROUPS) as reader:
                    assert 0 == reader.foreign


def test_a_heap_checkpoint_restores_into_rocksdb(made, root):
    heap = made(kind=HashMapStateBackend)
    Program(heap).work(range(300))
    with open_checkpoints(root) as storage:
        folder, _ = take(storage, [heap])
    restored = made()
    restore(folder, restored)

    assert contents(heap) == contents(restored)


def test_timers_on_the_heap_are_in_the_files(made, root):
    backend = made(**{"state.backend.rocksdb.timer-service.factory": "HEAP"})
    program = Program(backend)
    program.work(range(300))
    with open_checkpoints(root) as storage:
        folder, _ = take(storage, [backend])
    restored = made()
    restore(folder, restored)

    assert set(program.timers.timers()) == set(Program(restored).timers.timers())


def test_a_failed_checkpoint_leaves_nothing_and_the_next_one_is_whole(made, root, monkeypatch):
    backend = made()
    program = Program(backend)
    program.work(range(500))
    with open_checkpoints(root) as storage:
        take(storage, [backend])
        before = files_of(storage.folder)
        program.work(range(500))
        with monkeypatch.context() as patched:
            patched.setattr(Folder, "sync", _full)
            with pytest.raises(StorageFailed, match="full"):
                take(storage, [backend])
        assert before == files_of(storage.folder)
        program.work(range(50))
        folder, _ = take(storage, [backend], 3)
    restored = made()
    restore(folder, restored)

    assert contents(backend) == contents(restored)
    assert not list(backend.folder.parent.glob("files-*"))


def _full(self):
    if self.place.endswith("shared"):
        raise StorageFailed("the disk is full")


def test_clean_removes_what_a_dead_run_left_and_nothing_else(made, root):
    backend = made()
    program = Program(backend)
    program.work(range(500))
    with open_checkpoints(root) as storage:
        folder, _ = take(storage, [backend])
        job = Path(storage.folder.place)
    dead = [
        "chk-2/_metadata.attempt-0123456789ab",
        f"chk-2/{OPERATOR.id}-keyed-options-0",
        "chk-1/_metadata.attempt-0123456789ab",
        "shared/01234567-89ab-cdef-0123-456789abcdef",
    ]
    strange = [
        "notes.txt",
        "chk-1/notes.txt",
        "chk-3/mine",
        "shared/notes.txt",
        "chk-4x/_metadata.attempt-0123456789ab",
    ]
    for name in (*dead, *strange):
        (job / name).parent.mkdir(exist_ok=True)
        (job / name).write_bytes(b"x")
    before = files_of(Folder.at(job))

    assert sorted(dead) == sorted(clean_job(Folder.at(job)))
    assert before - set(dead) == files_of(Folder.at(job))
    assert not (job / "chk-2").exists()
    restore(folder, made())


def test_files_that_a_checkpoint_of_another_job_needs_are_kept(made, root):
    backend = made()
    program = Program(backend)
    program.work(range(500))
    with open_checkpoints(root) as storage:
        folder, _ = take(storage, [backend])
        job = Path(storage.folder.place)
    claimed = job.parent / ("0" * 32) / "chk-7"
    shutil.copytree(folder.place, claimed)
    expected = contents(backend)
    with open_checkpoints(root, job.name) as storage:
        for _ in range(3):
            program.work(range(500))
            take(storage, [backend])
    clean_job(Folder.at(job))
    restored = made()
    restore(attrs.evolve(Folder.at(claimed), roots=(str(job / "shared"),)), restored)

    assert expected == contents(restored)


def test_nothing_is_cleaned_where_a_checkpoint_cannot_be_read(made, root):
    backend = made()
    Program(backend).work(range(50))
    with open_checkpoints(root) as storage:
        take(storage, [backend])
        job = Path(storage.folder.place)
    (job.parent / ("0" * 32) / "chk-7").mkdir(parents=True)
    (job.parent / ("0" * 32) / "chk-7" / "_metadata").write_bytes(b"damaged")
    (job / "chk-2").mkdir()
    (job / "chk-2" / "_metadata.attempt-0123456789ab").write_bytes(b"x")
    before = files_of(storage.folder)

    with pytest.raises(CorruptSavepoint):
        clean_job(storage.folder)
    assert before == files_of(storage.folder)


def test_a_folder_that_another_program_wrote_is_left_alone(root):
    job = Path(root.place) / ("a" * 32)
    (job / "chk-1").mkdir(parents=True)
    (job / "chk-1" / "_metadata").write_bytes(b"")
    with pytest.raises(DeclarationError, match="another program"), open_checkpoints(root, "a" * 32):
        pass


def test_two_runs_do_not_write_into_one_folder(root):
    with open_checkpoints(root) as storage:
        job = Path(storage.folder.place).name
        with pytest.raises(TargetExists, match="another run"), open_checkpoints(root, job):
            pass
        with pytest.raises(TargetExists, match="another run"):
            clean_job(storage.folder)


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_databases_of_flink_go_on_as_ours(tmp_path, name):
    """Its list states are appends that RocksDB has not joined yet; what we change and checkpoint is read again."""
    folder = Folder.at(native_snapshots.snapshot(name))
    metadata = read_metadata(folder.read(METADATA))
    folder = with_moved(metadata, folder)
    stored = next(operator for operator in metadata.operators if any(map(_keyed, operator.subtasks)))
    key = read_header(_keyed(stored.subtasks[0]), folder).key_snapshot.restore_serializer()
    everything = key, stored.max_parallelism, range(stored.max_parallelism)
    entries, files = SortedStateBackend(DictStore(), *everything), EmbeddedRocksDBStateBackend(*everything)
    for backend in (entries, files):
        restore_keyed(backend, stored, folder)
    again = EmbeddedRocksDBStateBackend(*everything)
    with open_checkpoints(Folder.at(tmp_path)) as storage:
        taken, _ = take(storage, [files])
        restore(taken, again)

    assert contents(entries)
    assert contents(entries) == contents(files) == contents(again)
    files.dispose()
    again.dispose()


def _keyed(subtask):
    return subtask.managed_keyed
