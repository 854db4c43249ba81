"""A database read where it lies: its ranges have what RocksDB says, and few bytes of files are read."""

from __future__ import annotations

import random
from itertools import chain

import attrs
import native_snapshots
import pytest
from rocksdb_files import opened, written_by_chance

from stateshift import CorruptSavepoint, Savepoint
from stateshift.state.formats.flink.database_files import FewOfDatabase, open_database_of
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.rocksdb.manifest import read_manifest
from stateshift.state.rocksdb.options_file import DEFAULT_FAMILY, read_options
from stateshift.state.rocksdb.stored_tables import StoredTables


def whole(file):
    return InlineBytes(file.read_bytes(), file.name)


def stored(folder, opener=whole):
    (manifest,), options = folder.glob("MANIFEST-*"), max(folder.glob("OPTIONS-*"))
    return StoredTables.of(
        read_manifest(manifest.read_bytes(), manifest.name),
        read_options(options.read_bytes(), options.name),
        lambda name: opener(folder / name),
    )


def entries(found):
    return dict(chain.from_iterable(zip(*part, strict=True) for part in found))


@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_keys_have_what_rocksdb_says(tmp_path, seed):
    expected = written_by_chance(tmp_path / "database", seed, flushes=4)
    tables, chance = stored(tmp_path / "database"), random.Random(seed)  # noqa: S311 - no secret

    assert entries(tables.items(DEFAULT_FAMILY)) == expected
    for _ in range(50):
        start, stop = sorted((chance.randbytes(1), chance.randbytes(2)))
        within = {key: value for key, value in expected.items() if start <= key < stop}
        assert entries(tables.items(DEFAULT_FAMILY, start, stop)) == within


def test_a_deletion_of_a_range_holds_for_older_entries_of_other_files_alone(tmp_path):
    database = opened(tmp_path / "database")
    for key in (b"a", b"b", b"c"):
        database[key] = b"old"
    database.flush()
    database.delete_range(b"a", b"c")
    database.flush()
    database[b"b"] = b"new"
    database.flush()
    database.close()

    assert entries(stored(tmp_path / "database").items(DEFAULT_FAMILY)) == {b"b": b"new", b"c": b"old"}


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_snapshots_of_flink_have_what_rocksdb_says(name, monkeypatch):
    savepoint = Savepoint.open(native_snapshots.snapshot(name))
    monkeypatch.setattr(FewOfDatabase, "_whole", property(lambda _: pytest.fail("RocksDB is not needed")))

    for handle in native_snapshots.keyed_handles(native_snapshots.snapshot(name)).values():
        with (
            open_database_of(handle, savepoint.folder) as database,
            FewOfDatabase.opened(handle, savepoint.folder) as few,
        ):
            assert few.families == database.families
            for family in database.families:
                expected = entries(database.items(family))
                assert entries(few.items(family)) == expected
                for key in [*expected][:3]:
                    assert entries(few.items(family, key, key + b"\0")) == {key: expected[key]}


def test_what_only_rocksdb_reads_is_read_by_it(monkeypatch):
    name = native_snapshots.NAMES[0]
    savepoint = Savepoint.open(native_snapshots.snapshot(name))
    (handle, *_) = native_snapshots.keyed_handles(native_snapshots.snapshot(name)).values()
    monkeypatch.setattr("stateshift.state.rocksdb.table_reader._KNOWN", frozenset())

    with open_database_of(handle, savepoint.folder) as database, FewOfDatabase.opened(handle, savepoint.folder) as few:
        for family in database.families:
            assert entries(few.items(family)) == entries(database.items(family))


def test_of_a_large_database_little_is_read_for_a_key(tmp_path):
    database = opened(tmp_path / "database")
    for number in range(20_000):
        database[number.to_bytes(4, "big")] = random.Random(number).randbytes(50)  # noqa: S311 - no secret
        if number % 5000 == 4999:
            database.flush()
    database.close()
    read, key = [], (12_345).to_bytes(4, "big")

    tables = stored(tmp_path / "database", lambda file: _Ranges(file, read))
    assert [*entries(tables.items(DEFAULT_FAMILY, key, key + b"\0"))] == [key]

    assert 0 < sum(read) < sum(file.stat().st_size for file in (tmp_path / "database").glob("*.sst")) / 20


class _Ranges:
    def __init__(self, file, read):
        self.file, self.read, self.name, self.size = file, read, file.name, file.stat().st_size

    def read_at(self, offset, size):
        self.read.append(size)
        return self.file.read_bytes()[offset : offset + size]


def test_a_file_that_is_not_listed_is_damage():
    name = native_snapshots.NAMES[0]
    savepoint = Savepoint.open(native_snapshots.snapshot(name))
    (handle, *_) = native_snapshots.keyed_handles(native_snapshots.snapshot(name)).values()
    fewer = attrs.evolve(handle, shared=handle.shared[1:])

    with (
        pytest.raises(CorruptSavepoint, match="MANIFEST"),
        FewOfDatabase.opened(fewer, savepoint.folder),
    ):
        pass
