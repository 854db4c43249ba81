"""Files with entries, written by blocks: RocksDB checks, reads, extends and compacts them."""

from __future__ import annotations

import random
from itertools import pairwise

import attrs
import pytest
import rocksdict
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdb_files import come_to, listed, new_file

from stateshift import StorageFailed, UnsupportedFormat
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.rocksdb import table_writer
from stateshift.state.rocksdb.manifest import write_manifest
from stateshift.state.rocksdb.options_file import Family, TableSettings
from stateshift.state.rocksdb.table_reader import open_table
from stateshift.state.rocksdb.table_writer import TableWriter
from stateshift.state.transcode.executor_choice import ExecutorName, has_numba

EXECUTORS = [one for one in ExecutorName if one is not ExecutorName.NUMBA or has_numba()]
COMPRESSIONS = [
    "kNoCompression", "kSnappyCompression", "kZlibCompression", "kLZ4Compression", "kLZ4HCCompression", "kZSTD",
]  # fmt: skip


def written(folder, items, tables=TableSettings(), executor=ExecutorName.OBJECTS, parts=1):  # noqa: B008 - frozen
    """Write a database of one family; give its files."""
    folder.mkdir()
    numbers = iter(range(3, 1000))
    writer = TableWriter(Family("state", tables=tables), lambda: new_file(folder, next(numbers)), executor)
    for begin, end in pairwise([*range(0, len(items), -(-len(items) // parts) or 1), len(items)]):
        block = Block.of(0, 0, items[begin:end])
        writer.add(block.data, block.entries)
    files = writer.finish()
    (folder / "MANIFEST-000001").write_bytes(write_manifest([("default", ()), ("state", files)], next(numbers)))
    (folder / "CURRENT").write_bytes(b"MANIFEST-000001\n")
    return files


def some(seed, count):
    chance = random.Random(seed)  # noqa: S311 - no secret
    keys = {
        chance.randbytes(chance.randrange(1, 4)).replace(b"\x80", b"") + b"k" * chance.choice([0, 9, 300])
        for _ in range(count)
    }
    return [(b"\0" + key, chance.choice([b"", b"text " * 20, chance.randbytes(99)])) for key in sorted(keys)]


def opened(folder):
    options = rocksdict.Options(raw_mode=True)
    return rocksdict.Rdict(str(folder), options, column_families={"default": options, "state": options})


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("compression", [one for one in COMPRESSIONS if one != "kZlibCompression"])  # not in rocksdict
def test_rocksdb_reads_extends_and_compacts_them(tmp_path, compression, executor):
    items = some(1, 900)
    tables = TableSettings(compression, block_bytes=1000, restart_interval=3)
    files = written(tmp_path / "database", items, tables, executor, parts=7)

    database = opened(tmp_path / "database")
    state, reading = database.get_column_family("state"), rocksdict.ReadOptions()
    reading.set_verify_checksums(True)
    assert items == list(state.items(read_opt=reading))
    assert all(state.get(key) == value for key, value in items)
    assert state.get(b"\0k") is None
    backwards = state.iter(reading)
    backwards.seek_to_last()
    assert items[-1][0] == backwards.key()
    said = state.property_value("rocksdb.aggregated-table-properties")
    assert f"# entries={len(items)}; " in said
    assert [file.size for file in files] == [one["size"] for one in database.live_files()]
    state[items[0][0]] = b"new"
    state.delete(items[1][0])
    state.compact_range(None, None)
    assert [(items[0][0], b"new"), *items[2:]] == list(state.items())
    database.close()


@pytest.mark.parametrize("compression", [*COMPRESSIONS, "kBZip2Compression"])
def test_they_are_read_as_they_were_written_and_by_each_executor_the_same(tmp_path, monkeypatch, compression):
    monkeypatch.setattr(table_writer, "_FILE_BYTES", 20_000)
    monkeypatch.setattr(table_writer, "_RUN_BYTES", 3_000)
    items, tables = some(2, 900), TableSettings(compression)
    files = {executor: written(tmp_path / executor, items, tables, executor, parts=40) for executor in EXECUTORS}

    found = listed(tmp_path / EXECUTORS[0], "state")
    assert dict(items) == come_to([open_table(file, entry) for entry, file in found])
    assert len(found) > 1
    assert all(entry.size < 40_000 for entry, _ in found)
    for executor in EXECUTORS[1:]:
        assert files[executor] == files[EXECUTORS[0]]
        assert [file.data for _, file in listed(tmp_path / executor, "state")] == [file.data for _, file in found]


@settings(max_examples=25, deadline=None)
@given(
    entries=st.dictionaries(st.binary(max_size=40).map(lambda key: b"\0" + key), st.binary(max_size=300), min_size=1),
    block_bytes=st.sampled_from([1, 60, 4096]),
    interval=st.sampled_from([1, 2, 16]),
    parts=st.integers(1, 4),
    executor=st.sampled_from(EXECUTORS),
)
def test_any_entries(tmp_path_factory, entries, block_bytes, interval, parts, executor):
    folder, items = tmp_path_factory.mktemp("any") / "database", sorted(entries.items())
    written(folder, items, TableSettings("kNoCompression", block_bytes, interval), executor, parts)

    assert dict(items) == come_to([open_table(file, entry, executor) for entry, file in listed(folder, "state")])


def test_a_value_of_megabytes(tmp_path):
    items = [(b"\0a", b"1"), (b"\0b", bytes(5 << 20)), (b"\0c", b"2")]
    written(tmp_path / "database", items)

    assert dict(items) == come_to([open_table(file, entry) for entry, file in listed(tmp_path / "database", "state")])


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("keys", [[b"\1", b"\0"], [b"\0", b"\0"], [b"\0a", b"\0"]])
@pytest.mark.parametrize("parts", [1, 2])
def test_keys_out_of_order_are_refused(tmp_path, monkeypatch, keys, executor, parts):
    monkeypatch.setattr(table_writer, "_RUN_BYTES", 1)

    with pytest.raises(StorageFailed, match="not in order"):
        written(tmp_path / "database", [(key, b"") for key in keys], TableSettings(block_bytes=1), executor, parts)


def test_a_compression_that_is_not_known_is_refused():
    with pytest.raises(UnsupportedFormat, match="kXpressCompression"):
        TableWriter(attrs.evolve(Family("state"), tables=TableSettings("kXpressCompression")), lambda: None)
