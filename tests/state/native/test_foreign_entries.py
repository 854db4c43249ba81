"""Entries of key groups that are another subtask's, as a rescaling leaves them: they are left out, and counted."""

from __future__ import annotations

from contextlib import contextmanager

import attrs
import native_snapshots
import pytest
import rocksdict

from stateshift import CorruptSavepoint, Savepoint
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.savepoint.verify import verify

NAME = "rocksdb-native-long-p2-m200"
MAX_PARALLELISM, OWN = 200, range(100)
EVENT_TIMERS = "_timer_state/event_user-timers"


@pytest.fixture
def copy(tmp_path):
    return native_snapshots.copied(NAME, tmp_path / "copy")


@pytest.fixture
def changed(copy, tmp_path):
    """`with changed() as families`: the column families of the first subtask's database, to write to."""

    @contextmanager
    def change():
        place = native_snapshots.unpacked(copy, tmp_path / "database")
        options, families = rocksdict.Options.load_latest(str(place))
        database = rocksdict.Rdict(str(place), options=options, column_families=families)
        found = {name: database.get_column_family(name) for name in families if name != "default"}
        yield found
        for family in found.values():
            family.flush()
        database.close()
        native_snapshots.repacked(copy, place)

    return change


def foreign_key(key_group, key):
    return key_group.to_bytes(2, "big") + key[2:]


def entries_of(folder):
    savepoint = Savepoint.open(folder)
    handle = native_snapshots.keyed_handles(folder)[0]
    with open_keyed(handle, savepoint.folder, MAX_PARALLELISM) as reader:
        return reader.foreign, {item for block in reader.blocks() for item in block.items()}


def test_the_snapshots_of_flink_have_none_that_can_be_seen():
    """Flink deletes ranges of keys on a rescaling, and RocksDB leaves out what is deleted."""
    name = "rocksdb-incremental-rescaled-2-to-3"
    folder = Savepoint.open(native_snapshots.snapshot(name)).folder
    for handle in native_snapshots.keyed_handles(native_snapshots.snapshot(name)).values():
        with open_keyed(handle, folder, MAX_PARALLELISM) as reader:
            assert 0 == reader.foreign


def test_they_are_left_out_and_counted(copy, changed, contents):
    none, own = entries_of(copy)
    before = contents(copy)

    with changed() as families:
        for name, groups in (("count", (100, 199)), ("events", (150,)), (EVENT_TIMERS, (100,))):
            key, value = next(iter(families[name].items()))
            for group in groups:
                families[name][foreign_key(group, key)] = value

    assert (0, 4) == (none, entries_of(copy)[0])
    assert own == entries_of(copy)[1]
    assert before == contents(copy)
    assert verify(Savepoint.open(copy)).ok


def test_entries_before_the_range_are_left_out_too(copy, changed):
    """The second subtask's files in a database of the first: its range begins later."""
    with changed() as families:
        key, value = next(iter(families["count"].items()))
        for group in (0, 99):
            families["count"][foreign_key(group, key)] = value
    handle = native_snapshots.keyed_handles(copy)[0]

    def later(index, one):
        return attrs.evolve(one, key_groups=range(1, 99)) if index == 0 else one

    native_snapshots.with_keyed_handles(copy, later)
    with open_keyed(native_snapshots.keyed_handles(copy)[0], Savepoint.open(copy).folder, MAX_PARALLELISM) as reader:
        groups = {block.key_group for block in reader.blocks()}
        foreign = reader.foreign

    assert foreign >= 2
    assert groups <= set(range(1, 99))
    assert handle.key_groups == OWN


def test_a_database_with_no_others_is_refused(copy, changed):
    """Its files are those of another subtask: the entries of this one would be lost without a word."""
    with changed() as families:
        key, value = next(iter(families["count"].items()))
        for family in families.values():
            for own in list(family.keys()):
                del family[own]
        families["count"][foreign_key(120, key)] = value

    with pytest.raises(CorruptSavepoint, match="the files are those of another subtask"):
        entries_of(copy)


def test_an_empty_database_is_one(copy, changed):
    with changed() as families:
        for family in families.values():
            for own in list(family.keys()):
                del family[own]

    assert (0, set()) == entries_of(copy)


def test_a_state_that_is_in_no_header_is_refused(copy, changed):
    """What it holds would be lost without a word."""
    with changed() as families:
        families["count"].create_column_family("extra", rocksdict.Options(raw_mode=True))

    with pytest.raises(CorruptSavepoint, match="the header lacks the state 'extra'"):
        entries_of(copy)


def test_a_key_that_is_no_key_group_is_left_out(copy, changed):
    """Shorter than its prefix, or beyond all key groups."""
    none, own = entries_of(copy)
    with changed() as families:
        for key in (b"", b"\xff", b"\xff\xff\xff"):
            families["count"][key] = b"\0" * 8

    foreign, found = entries_of(copy)
    assert none < foreign
    assert own == found
