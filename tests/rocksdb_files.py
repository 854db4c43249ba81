"""Small databases of RocksDB, written by chance, and what the entries of their files come to."""

from __future__ import annotations

import random
from types import SimpleNamespace

import attrs
import rocksdict

from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.rocksdb.manifest import read_manifest
from stateshift.state.rocksdb.options_file import DEFAULT_FAMILY
from stateshift.state.rocksdb.table_reader import DELETION, MERGE, SINGLE_DELETION, VALUE


@attrs.frozen
class Written:
    """What files are written with."""

    compression: str = "snappy"
    form: int = 5
    checksum: str = "crc32c"
    index: str = "binary_search"
    block_bytes: int = 512


def opened(folder, written=Written()):
    """Open a database for writing; little of it is enough for several blocks."""
    options, blocks = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
    blocks.set_format_version(written.form)
    blocks.set_checksum_type(getattr(rocksdict.ChecksumType, written.checksum)())
    blocks.set_index_type(getattr(rocksdict.BlockBasedIndexType, written.index)())
    blocks.set_block_size(written.block_bytes)
    blocks.set_metadata_block_size(100)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, written.compression)())
    options.set_disable_auto_compactions(True)
    return rocksdict.Rdict(str(folder), options)


def written_by_chance(folder, seed, written=Written(), *, ranges=True, flushes=3):
    """Write a database with overwritten and deleted entries, in ranges, too, in several files; give its entries."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    database = opened(folder, written)
    for flush in range(flushes):
        for _ in range(chance.randrange(300)):
            key = chance.randbytes(chance.randrange(1, 3)) + b"k" * chance.choice([0, 0, 5, 40])
            deed, value = chance.random(), chance.choice([b"", b"v", chance.randbytes(9) * 9])
            if deed < 0.5:
                database[key] = value
            elif deed < 0.65:
                database.delete(key)
            elif ranges and deed < 0.73:
                database.delete_range(*sorted((key, chance.randbytes(1))))
        database.flush()
        if flush == 1 and chance.random() < 0.5:
            database.compact_range(None, None)
    found = dict(database.items())
    database.close()
    return found


def listed(folder, family=DEFAULT_FAMILY):
    """The files of a family, each with its bytes."""
    (manifest,) = folder.glob("MANIFEST-*")
    files = read_manifest(manifest.read_bytes(), manifest.name).families[family]
    return [(file, InlineBytes((folder / file.name).read_bytes(), file.name)) for file in files]


def come_to(tables):
    """What the entries of files come to, by key."""
    deleted = [one for table in tables for one in table.range_deletions()]
    entries = {}
    for table in tables:
        for records in table.blocks():
            for key, sequence, kind, value in records.items():
                entries.setdefault(key, []).append((sequence, kind, value))
    found = {}
    for key, stored in sorted(entries.items()):
        gone = max((sequence for first, after, sequence in deleted if first <= key < after), default=-1)
        parts = []
        for sequence, kind, value in sorted(stored, reverse=True):
            if sequence < gone or kind in {DELETION, SINGLE_DELETION}:
                break
            parts.insert(0, value)
            assert kind in {VALUE, MERGE}
            if kind == VALUE:
                break
        if parts:
            found[key] = b",".join(parts)
    return found


def new_file(folder, number):
    """A file that is written into a folder, and its number."""
    data = bytearray()
    path = folder / f"{number:06d}.sst"
    return number, SimpleNamespace(write=data.extend, finish=lambda: path.write_bytes(data))
