"""Files with entries, read without RocksDB: they come to what RocksDB says, and damage is an error."""

from __future__ import annotations

import random
from itertools import product

import attrs
import native_snapshots
import pytest
import rocksdict
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdb_files import Written, come_to, listed, opened, written_by_chance

from stateshift import CorruptSavepoint, UnsupportedFormat
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.rocksdb.database import FileNames, open_database
from stateshift.state.rocksdb.table_reader import VALUE, TableProperties, open_table
from stateshift.state.transcode.executor_choice import ExecutorName, has_numba

EXECUTORS = [one for one in ExecutorName if one is not ExecutorName.NUMBA or has_numba()]
COMPRESSIONS = ["none", "snappy", "zlib", "lz4", "lz4hc", "zstd"]
CHECKSUMS = ["crc32c", "xxh3"]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seed", range(3))
def test_files_come_to_what_rocksdb_says(tmp_path, seed, executor):
    expected = written_by_chance(tmp_path / "database", seed)

    tables = [open_table(file, entry, executor) for entry, file in listed(tmp_path / "database")]

    assert come_to(tables) == expected


@pytest.mark.parametrize(
    "written",
    [
        *(Written(compression, 5) for compression in COMPRESSIONS),
        *(Written("zstd", 2, checksum) for checksum in CHECKSUMS),
        *(Written("none", form, checksum, "two_level_index_search") for form, checksum in product((3, 6), CHECKSUMS)),
        Written("snappy", 6, "xxh3", block_bytes=1 << 20),
    ],
)
def test_of_each_format(tmp_path, written):
    expected = written_by_chance(tmp_path / "database", 7, written, flushes=1)

    tables = [open_table(file, entry) for entry, file in listed(tmp_path / "database")]

    assert come_to(tables) == expected
    assert {table.properties.stored["block.based.table.index.type"][0] for table in tables} == {
        2 if written.index == "two_level_index_search" else 0
    }


@pytest.mark.parametrize("written", [Written(checksum="xxhash"), Written(form=6, checksum="xxhash64")])
def test_checksums_that_flink_cannot_set_are_left_to_rocksdb(tmp_path, written):
    written_by_chance(tmp_path / "database", 7, written, flushes=1)
    ((entry, file),) = listed(tmp_path / "database")

    with pytest.raises(UnsupportedFormat, match="without RocksDB"):
        open_table(file, entry)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_files_of_flink(tmp_path, name, executor):
    folder = native_snapshots.snapshot(name)
    for subtask, handle in native_snapshots.keyed_handles(folder).items():
        place = native_snapshots.unpacked(folder, tmp_path / str(subtask), subtask)
        files = {file.name: file.stream.size for file in handle.files}
        with open_database(place, FileNames.of([*files]), files) as database:
            for family in database.families:
                tables = [open_table(stored, entry, executor) for entry, stored in listed(place, family)]
                expected = {
                    key: value
                    for keys, values in database.items(family)
                    for key, value in zip(keys, values, strict=True)
                }
                assert come_to(tables) == expected, family


@pytest.mark.parametrize("index", ["binary_search", "two_level_index_search"])
def test_a_key_is_read_with_the_blocks_that_may_have_it_alone(tmp_path, index):
    expected = written_by_chance(tmp_path / "database", 5, Written("none", index=index), ranges=False, flushes=1)
    ((entry, file),) = listed(tmp_path / "database")
    read = []

    class Noted(InlineBytes):
        def read_at(self, offset, size):
            read.append(size)
            return super().read_at(offset, size)

    table = open_table(Noted(file.data, file.name), entry)
    for key in expected:
        del read[:]
        ((_, kind, value), *_) = table.get(key)
        assert (kind, value) == (VALUE, expected[key])
        assert sum(read) < 3_000
    assert table.get(b"\xff" * 9) == table.get(b"") == []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_range_of_keys(tmp_path, executor):
    written_by_chance(tmp_path / "database", 3, flushes=1)
    ((entry, file),) = listed(tmp_path / "database")
    table = open_table(file, entry, executor)
    everything = [item for records in table.blocks() for item in records.items()]
    chance = random.Random(1)  # noqa: S311 - no secret

    for _ in range(50):
        start, stop = sorted(chance.choice(everything)[0] + chance.choice([b"", b"\0"]) for _ in range(2))
        found = [item for records in table.blocks(start, stop) for item in records.items()]
        assert found == [item for item in everything if start <= item[0] < stop]


@settings(max_examples=20, deadline=None)
@given(entries=st.dictionaries(st.binary(min_size=1), st.binary(max_size=2_000), min_size=1))
def test_any_keys_and_values(tmp_path_factory, entries):
    folder = tmp_path_factory.mktemp("any") / "database"
    database = opened(folder)
    for key, value in entries.items():
        database[key] = value
    database.close()

    tables = [open_table(file, entry) for entry, file in listed(folder)]

    assert come_to(tables) == dict(sorted(entries.items()))


@pytest.mark.parametrize("form", [5, 6])
def test_damage_is_an_error_and_never_another_entry(tmp_path, form):
    expected = written_by_chance(tmp_path / "database", 11, Written("snappy", form), flushes=1)
    ((entry, file),) = listed(tmp_path / "database")
    chance, refused = random.Random(form), 0  # noqa: S311 - no secret
    for _ in range(150):
        at = chance.randrange(file.size)
        damaged = bytearray(file.data)
        damaged[at] ^= 1 << chance.randrange(8)
        try:
            assert come_to([open_table(InlineBytes(bytes(damaged), file.name), entry)]) == expected
        except (CorruptSavepoint, UnsupportedFormat) as error:
            assert error.where["file"] == entry.name  # noqa: PT017 - either is right
            refused += 1
    assert refused > 140


@pytest.mark.parametrize("size", [0, 20, 52, 53, 500])
def test_a_file_that_is_cut_off(tmp_path, size):
    written_by_chance(tmp_path / "database", 11, flushes=1)
    ((_, file),) = listed(tmp_path / "database")

    with pytest.raises(CorruptSavepoint, match=r"cut off|does not end"):
        open_table(InlineBytes(file.data[:size], file.name))


def test_a_file_that_is_not_the_one_of_the_manifest(tmp_path):
    written_by_chance(tmp_path / "database", 11, flushes=1)
    ((entry, file),) = listed(tmp_path / "database")

    with pytest.raises(CorruptSavepoint, match="by the MANIFEST"):
        open_table(file, attrs.evolve(entry, size=entry.size + 1))
    other = open_table(file, attrs.evolve(entry, greatest=b"\x20" + entry.greatest[-8:]))
    with pytest.raises(CorruptSavepoint, match="keys that the MANIFEST does not list"):
        list(other.blocks())


def test_what_is_not_known_is_refused_by_name():
    with pytest.raises(UnsupportedFormat, match=r"the property 'new\.layout'"):
        TableProperties.of({"comparator": b"leveldb.BytewiseComparator", "new.layout": b"1"})
    with pytest.raises(UnsupportedFormat, match="another order of keys"):
        TableProperties.of({"comparator": b"rocksdb.ReverseBytewiseComparator"})


def test_the_sequence_numbers_of_a_file_from_outside_are_those_of_the_manifest(tmp_path):
    outside = tmp_path / "outside.sst"
    writer = rocksdict.SstFileWriter(rocksdict.Options(raw_mode=True))
    writer.open(str(outside))
    writer[b"a"] = b"new"
    writer.finish()
    database = opened(tmp_path / "database")
    database[b"a"] = b"old"
    database.flush()
    database.ingest_external_file([str(outside)])
    database.close()

    tables = [open_table(file, entry) for entry, file in listed(tmp_path / "database")]

    assert come_to(tables) == {b"a": b"new"}
    assert sorted(table.properties.is_external for table in tables) == [False, True]
