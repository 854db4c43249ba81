"""The newest values of a column family, read by blocks: they are those that RocksDB says."""

from __future__ import annotations

import random

import attrs
import pytest
from rocksdb_files import Written, listed, opened, written_by_chance

from stateshift import CorruptSavepoint, UnsupportedFormat
from stateshift.state.rocksdb.newest_entries import newest_entries
from stateshift.state.storage.files import Folder

pytest.importorskip("numba")


def found(folder, start=None, stop=None):
    entries = newest_entries([file for file, _ in listed(folder)], Folder.at(folder), start, stop)
    if entries is None:
        return None
    found = [(key, value) for records in entries for key, _, _, value in records.items()]
    assert [*dict(found).items()] == found
    return dict(found)


@pytest.mark.parametrize("flushes", [1, 2, 6])
@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_rocksdb(tmp_path, seed, flushes):
    """Overwritten and deleted, within a file and among files."""
    folder = tmp_path / "database"
    expected = written_by_chance(folder, seed, Written(block_bytes=100), ranges=False, flushes=flushes)

    assert found(folder) == expected
    assert [*found(folder)] == sorted(expected)
    chance = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(20):
        start, stop = sorted(chance.choice([*expected]) + chance.choice([b"", b"\0"]) for _ in range(2))
        assert found(folder, start, stop) == {key: value for key, value in expected.items() if start <= key < stop}


def test_files_one_after_the_other(tmp_path):
    database, expected = opened(tmp_path / "database"), {}
    for first in range(0, 250, 50):
        for key in range(first, first + 50):
            database[bytes([key])] = expected[bytes([key])] = bytes(key)
        database.flush()
    database.close()

    assert found(tmp_path / "database") == expected
    assert len(listed(tmp_path / "database")) == 5


def test_many_versions_of_one_key_that_no_block_holds(tmp_path):
    database = opened(tmp_path / "database", Written("none", block_bytes=100))
    snapshots = []
    for version in range(60):
        for key in (b"a", b"b", b"c"):
            if version % 7 == 6:
                database.delete(key)
            else:
                database[key] = bytes([version]) * 90_000
        snapshots.append(database.snapshot())
    database.flush()
    del snapshots
    expected = dict(database.items())
    database.close()

    assert found(tmp_path / "database") == expected == {key: bytes([59]) * 90_000 for key in (b"a", b"b", b"c")}


def test_ranges_that_were_deleted_are_left_to_rocksdb_unless_they_are_others(tmp_path):
    database = opened(tmp_path / "database")
    for key in range(200):
        database[bytes([key])] = b""
    database.flush()
    database.delete_range(b"\x10", b"\x20")
    database.flush()
    database.close()

    assert found(tmp_path / "database") is None
    assert found(tmp_path / "database", b"\x15", b"\x16") is None
    assert [*found(tmp_path / "database", b"\x20")] == [bytes([key]) for key in range(0x20, 200)]


def test_two_entries_of_one_key_and_one_sequence_number_are_refused(tmp_path):
    for number in (3, 4):
        database = opened(tmp_path / f"{number}")
        database[b"a"] = bytes([number])
        database.close()
    (one, stored), (other, again) = (listed(tmp_path / name)[0] for name in ("3", "4"))
    (tmp_path / "both").mkdir()
    files = [attrs.evolve(one, number=3), attrs.evolve(other, number=4)]
    for file, data in zip(files, (stored.data, again.data), strict=True):
        (tmp_path / "both" / file.name).write_bytes(data)

    with pytest.raises(UnsupportedFormat, match="one sequence number"):
        list(newest_entries(files, Folder.at(tmp_path / "both"), None, None))


def test_damage_is_an_error(tmp_path):
    written_by_chance(tmp_path / "database", 1, ranges=False)
    file, stored = listed(tmp_path / "database")[0]
    data = bytearray(stored.data)
    data[100] ^= 1
    (tmp_path / "database" / file.name).write_bytes(data)

    with pytest.raises(CorruptSavepoint, match="does not match its checksum"):
        found(tmp_path / "database")
