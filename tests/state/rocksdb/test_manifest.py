"""Every bit of a MANIFEST counts: RocksDB itself takes a damaged end for one that a crash cut off."""

from __future__ import annotations

import random
from contextlib import suppress

import native_snapshots
import pytest
from rocksdb_files import new_file

from stateshift import CorruptSavepoint, UnsupportedFormat
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.rocksdb.manifest import (
    _framed,
    _records,
    read_manifest,
    require_whole_manifest,
    write_manifest,
)
from stateshift.state.rocksdb.options_file import Family
from stateshift.state.rocksdb.table_writer import TableWriter

BLOCK_BYTES = 1 << 15


@pytest.fixture(scope="module")
def manifest():
    """A MANIFEST of Flink's."""
    folder = native_snapshots.snapshot("rocksdb-native-long-p2-m200")
    files = native_snapshots.keyed_handles(folder)[0].private
    return next(native_snapshots.content_of(f.stream, folder) for f in files if f.name.startswith("MANIFEST-"))


@pytest.fixture(scope="module")
def long_manifest(tmp_path_factory):
    """One of several blocks, as a database has that is written to for long."""
    import rocksdict

    place = tmp_path_factory.mktemp("long") / "database"
    database = rocksdict.Rdict(str(place), options=rocksdict.Options(raw_mode=True))
    for number in range(700):
        database[b"%d" % number] = b"x" * 10
        database.flush()
    data = next(place.glob("MANIFEST-*")).read_bytes()
    database.close()
    assert len(data) > 2 * BLOCK_BYTES
    return data


def test_whole_ones_are_whole(manifest, long_manifest):
    require_whole_manifest(manifest, "MANIFEST-1")
    require_whole_manifest(long_manifest, "MANIFEST-1")
    require_whole_manifest(b"", "MANIFEST-1")


def test_any_bit_that_changed_is_found(manifest, long_manifest):
    chance = random.Random(4)  # noqa: S311 - no secret
    for data in (manifest, long_manifest):
        for at in {*chance.sample(range(len(data)), 300), *range(8), *range(len(data) - 8, len(data))}:
            damaged = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            with pytest.raises(CorruptSavepoint):
                require_whole_manifest(damaged, "MANIFEST-1")


def test_a_cut_within_a_frame_is_found(manifest):
    """A cut between two frames is not: RocksDB's size of the files and their names do not fit then."""
    ends = set()
    for size in range(len(manifest)):
        try:
            require_whole_manifest(manifest[:size], "MANIFEST-1")
        except CorruptSavepoint:
            continue
        ends.add(size)

    at, frames = 0, set()
    while at < len(manifest):
        frames.add(at)
        at += 7 + int.from_bytes(manifest[at + 4 : at + 6], "little")
    assert frames == ends


def test_what_follows_the_last_frame_is_found(manifest):
    for more in (b"\0", b"\0" * 100, b"x" * 3, b"\xff" * 50):
        with pytest.raises(CorruptSavepoint):
            require_whole_manifest(manifest + more, "MANIFEST-1")


def test_one_that_is_written_lists_its_files_to_rocksdb(tmp_path):
    """Records of several blocks, too; and a name in any letters."""
    import rocksdict

    names = ["default", "état", *map(str, range(300))]
    numbers = iter(range(3, 1000))
    families, options = [], rocksdict.Options(raw_mode=True)
    for name in names:
        writer = TableWriter(Family(name), lambda: new_file(tmp_path, next(numbers)))
        if name != "default":
            block = Block.of(0, 0, [(b"\0" * 100 + name.encode(), name.encode())])
            writer.add(block.data, block.entries)
        families.append((name, writer.finish()))
    data = write_manifest(families, next(numbers))
    require_whole_manifest(data, "MANIFEST-000001")
    (tmp_path / "MANIFEST-000001").write_bytes(data)
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000001\n")

    database = rocksdict.Rdict(str(tmp_path), options, column_families=dict.fromkeys(names, options))
    assert [6] * 301 == [file["level"] for file in database.live_files()]
    for name in names[1:]:
        family = database.get_column_family(name)
        assert [(b"\0" * 100 + name.encode(), name.encode())] == list(family.items())
        family[b"\1"] = b"later"
        family.compact_range(None, None)
        assert 2 == len(list(family.items()))
    database.close()
    assert len(data) > BLOCK_BYTES


def test_what_was_read_is_written_the_same(manifest, long_manifest):
    for data in (manifest, long_manifest):
        found = read_manifest(data, "MANIFEST-1")
        again = read_manifest(write_manifest([*found.families.items()], found.next_file), "MANIFEST-1")
        assert found == again
    assert 700 == len(read_manifest(long_manifest, "MANIFEST-1").families["default"])


def test_an_edit_that_is_not_known_is_refused():
    data = b"".join(_framed([bytes([77, 1])]))

    with pytest.raises(UnsupportedFormat, match="edit 77"):
        read_manifest(data, "MANIFEST-1")


def test_an_edit_that_is_cut_off_is_damage(manifest):
    for record in _records(manifest):
        for size in range(1, len(record)):
            with suppress(CorruptSavepoint, UnsupportedFormat):
                read_manifest(b"".join(_framed([record[:size]])), "MANIFEST-1")
