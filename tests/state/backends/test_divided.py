"""Large states of RocksDB in parts, by key groups: when they are divided, and what a restore makes of the parts."""

from functools import partial

import pytest
from checkpointing import contents, restore, take
from live_backends import BACKENDS

from stateshift import (
    CorruptSavepoint,
    DeclarationError,
    ListStateDescriptor,
    StorageFailed,
    TimeDomain,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import VOID_NAMESPACE, VoidNamespaceSerializer
from stateshift.state.backends.rocksdb import store
from stateshift.state.backends.rocksdb.backend import EmbeddedRocksDBStateBackend
from stateshift.state.backends.rocksdb.store import Loading
from stateshift.state.formats.flink.database_files import open_database_of
from stateshift.state.formats.flink.metadata import METADATA, read_metadata
from stateshift.state.key_groups import key_group, key_group_range, key_hasher
from stateshift.state.publication.checkpoints import open_checkpoints
from stateshift.state.rocksdb.ranges import KeyRanges, families_of_tables, family_of
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.storage.files import Folder

GROUPS = 12
KEYS = range(300)


@pytest.fixture(autouse=True)
def _large(monkeypatch):
    monkeypatch.setattr(store, "_LARGE_BYTES", 4000)


@pytest.fixture
def made():
    """`made(0, 2)`: the backend of the first of two subtasks, with four parts."""
    backends = []

    def make(index=0, parallelism=1, key_ranges=4, max_parallelism=GROUPS):
        groups = key_group_range(index, parallelism, max_parallelism)
        kind = partial(EmbeddedRocksDBStateBackend, key_ranges=key_ranges)
        backends.append(kind(serializer_for(int), max_parallelism, groups))
        return backends[-1]

    yield make
    for backend in backends:
        backend.dispose()


@pytest.fixture
def storage(tmp_path):
    with open_checkpoints(Folder.at(tmp_path / "checkpoints"), retained=2) as opened:
        yield opened


def fill(backend, keys=KEYS, text="a value of some length "):
    own = backend.key_groups
    large = backend.get_or_create_keyed_state(ValueStateDescriptor("large", str))
    small = backend.get_or_create_keyed_state(ListStateDescriptor("small", int))
    timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for key in keys:
        if group_of(backend, key) in own:
            backend.set_current_key(key)
            large.update(f"{text}{key}")
            if key < 9:
                small.add(key)
                timers.add(1000 - key, key, VOID_NAMESPACE)


def group_of(backend, key):
    return key_group(key_hasher(serializer_for(int))(key), backend.max_parallelism)


def families(backend):
    return {table: [family.name for family in found.families] for table, found in backend._database._tables.items()}


PARTS = [f"stateshift/range-{start}-{start + 2}/large" for start in (0, 3, 6, 9)]


def test_only_a_large_state_is_divided_and_nothing_else_changes(made, storage):
    backend = made()
    fill(backend)
    before = contents(backend)
    folder, _ = take(storage, [backend])

    found = families(backend)
    assert PARTS == found.pop("large")
    assert all([name] == parts for name, parts in found.items())
    assert before == contents(backend)

    fill(backend, range(250, 400), "another value of some length ")
    after = contents(backend)
    second, _ = take(storage, [backend])
    again, old = made(), made()
    restore(second, again)
    restore(folder, old)
    assert families(backend) == families(again)
    assert (before, after) == (contents(old), contents(again))
    assert list(again.get_keys("large", VOID_NAMESPACE)) == list(backend.get_keys("large", VOID_NAMESPACE))


def test_a_checkpoint_is_read_whole_and_by_key_group(made, storage):
    backend = made()
    fill(backend)
    folder, _ = take(storage, [backend])
    (operator,) = read_metadata(folder.read(METADATA)).operators
    (handle,) = keyed_handles(operator)
    with open_database_of(handle, folder) as database:
        assert {"large", "small"} < database.families
        assert database.count("large") == len(KEYS)
        keys = [key for found, _ in database.items("large") for key in found]
        assert keys == sorted(keys)
        assert len(keys) == len(KEYS)
        some = [key for found, _ in database.items("large", b"\x02", b"\x07") for key in found]
        assert some == [key for key in keys if b"\x02" <= key < b"\x07"]


@pytest.mark.parametrize("steps", [(1, 2, 1), (2, 3, 2), (3, 1, 4), (1, 5, 2)], ids=str)
def test_parts_follow_their_key_groups_to_other_subtasks(made, storage, steps):
    backends = [made(index, steps[0]) for index in range(steps[0])]
    for backend in backends:
        fill(backend)
    wanted = contents(*backends)
    for parallelism in steps[1:]:
        folder, _ = take(storage, backends)
        backends = [made(index, parallelism) for index in range(parallelism)]
        for backend in backends:
            restore(folder, backend)
        assert wanted == contents(*backends)
        for backend in backends:
            fill(backend, range(0, 300, 3), f"a value of {parallelism} subtasks ")
            assert covers(backend)
        wanted = contents(*backends)
    folder, _ = take(storage, backends)
    last = made()
    restore(folder, last)
    assert wanted == contents(last)


def covers(backend):
    """Whether the parts of the large state have all key groups of the subtask, and each once."""
    names = families(backend)["large"]
    if names == ["large"]:
        return True
    parts = [name.removeprefix("stateshift/range-").split("/")[0].split("-") for name in names]
    groups = [group for first, last in parts for group in range(int(first), int(last) + 1)]
    return groups == sorted(set(groups)) and set(backend.key_groups) <= set(groups)


@pytest.mark.parametrize("kind", sorted(BACKENDS))
def test_another_backend_restores_what_was_divided(made, storage, kind):
    backend = made()
    fill(backend)
    folder, _ = take(storage, [backend])
    other = BACKENDS[kind](serializer_for(int), GROUPS, range(GROUPS))
    restore(folder, other)
    assert contents(backend) == contents(other)
    other.dispose()


def test_a_backend_that_divides_nothing_makes_one_column_family_of_the_parts(made, storage):
    backend = made()
    fill(backend)
    folder, _ = take(storage, [backend])
    whole = made(key_ranges=1)
    restore(folder, whole)
    fill(whole, range(10, 20), "a later value ")
    wanted = contents(whole)
    folder, _ = take(storage, [whole])
    assert all([name] == parts for name, parts in families(whole).items())
    assert wanted == contents(whole)


def test_what_is_being_read_is_divided_later(made, storage):
    backend = made()
    fill(backend)
    frozen = backend.freeze()
    take(storage, [backend])
    assert families(backend)["large"] == ["large"]
    frozen.release()
    keys = backend.get_keys("large", VOID_NAMESPACE)
    next(keys)
    take(storage, [backend])
    assert families(backend)["large"] == ["large"]
    assert len(list(keys)) == len(KEYS) - 1
    take(storage, [backend])
    assert families(backend)["large"] == PARTS


def test_a_subtask_with_fewer_key_groups_than_parts_has_a_part_for_each(made, storage):
    backends = [made(index, 5) for index in range(5)]
    for backend in backends:
        fill(backend, range(3000))
    take(storage, backends)
    assert [["0-0", "1-1", "2-2"][: len(backends[0].key_groups)]] == [
        [name.split("/")[1].removeprefix("range-") for name in families(backends[0])["large"]]
    ]


def test_the_next_checkpoint_has_only_what_changed(made, storage):
    backend = made()
    fill(backend)
    _, (first,) = take(storage, [backend])
    key = KEYS[7]
    backend.set_current_key(key)
    backend.get_or_create_keyed_state(ValueStateDescriptor("large", str)).update("x")
    _, (second,) = take(storage, [backend])
    assert len({file.name for file in second.shared} - {file.name for file in first.shared}) == 1


def test_two_column_families_with_one_key_group_are_damage():
    one, other = family_of("a", range(4)), family_of("a", range(3, 8))
    assert families_of_tables([family_of("a", range(4, 8)), one, "b"]) == {
        "a": (one, family_of("a", range(4, 8))),
        "b": ("b",),
    }
    for families in ([one, other], [one, "a"]):
        with pytest.raises(CorruptSavepoint, match="same key groups"):
            families_of_tables(families)


def test_ranges_have_all_key_groups_once():
    for count, groups in ((8, range(128)), (8, range(43, 85)), (3, range(1)), (8, range(7)), (1, range(5, 9))):
        parts = KeyRanges(groups, 1, count).parts(groups)
        assert [group for part in parts for group in part] == list(groups)
        assert len(parts) == min(count, len(groups))


def test_a_division_that_fails_leaves_the_state_as_it_was(made, storage, monkeypatch):
    backend = made()
    fill(backend)
    before = contents(backend)
    ingest, calls = Loading.ingest, []

    def fails_once(self):
        calls.append(self)
        if len(calls) == 3:
            raise StorageFailed("the disk is gone")
        ingest(self)

    monkeypatch.setattr(Loading, "ingest", fails_once)
    with pytest.raises(StorageFailed, match="gone"):
        take(storage, [backend])
    assert families(backend)["large"] == ["large"]
    fill(backend, range(5), "a value after the failure ")
    after = contents(backend)
    folder, _ = take(storage, [backend])
    assert families(backend)["large"] == PARTS
    again = made()
    restore(folder, again)
    assert before != after == contents(backend) == contents(again)


@pytest.mark.parametrize("fails", [1, 3])
def test_a_column_family_that_could_not_be_dropped_is_in_no_checkpoint(made, storage, monkeypatch, fails):
    backend = made()
    fill(backend)
    drop, calls = store.RocksDBStore._drop, []

    def fails_at_first(self, family):
        calls.append(family)
        if len(calls) <= fails:
            family.close()
            raise StorageFailed("the disk is gone")
        drop(self, family)

    monkeypatch.setattr(store.RocksDBStore, "_drop", fails_at_first)
    for _ in range(fails):
        with pytest.raises(StorageFailed, match="gone"):
            take(storage, [backend])
    folder, _ = take(storage, [backend])
    again = made()
    restore(folder, again)
    assert contents(backend) == contents(again)


@pytest.mark.parametrize("key_ranges", [0, -1])
def test_parts_are_at_least_one(made, key_ranges):
    with pytest.raises(DeclarationError, match=f"divided into {key_ranges} parts"):
        made(key_ranges=key_ranges)


def test_the_names_of_parts_are_not_for_states(made):
    with pytest.raises(DeclarationError, match="stateshift/range-0-3/x"):
        made(key_ranges=1).get_or_create_keyed_state(ValueStateDescriptor("stateshift/range-0-3/x", int))


def test_many_key_groups_have_two_bytes_each(made, storage):
    backends = [made(index, 2, max_parallelism=300) for index in range(2)]
    for backend in backends:
        fill(backend, range(1000))
    wanted = contents(*backends)
    folder, _ = take(storage, backends)
    assert all(len(families(backend)["large"]) == 4 for backend in backends)
    others = [made(index, 3, max_parallelism=300) for index in range(3)]
    for other in others:
        restore(folder, other)
    assert wanted == contents(*others)
