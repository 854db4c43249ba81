"""OPTIONS files have no checksum: what determines what is read is pinned to what Flink sets."""

from __future__ import annotations

import native_snapshots
import pytest

from stateshift import CorruptSavepoint, UnsupportedFormat
from stateshift.state.rocksdb.options_file import (
    Family,
    StoredOptions,
    TableSettings,
    print_options,
    print_stored_options,
    read_options,
)

OPERATOR = "merge_operator={id=StringAppendTESTOperator;delimiter=,;}"
NAME = "OPTIONS-000033"


def options_of(name):
    """The OPTIONS file of the first database of a snapshot."""
    folder = native_snapshots.snapshot(name)
    files = native_snapshots.keyed_handles(folder)[0].private
    return next(native_snapshots.content_of(f.stream, folder) for f in files if f.name.startswith("OPTIONS-"))


@pytest.fixture(scope="module")
def flinks():
    return options_of("rocksdb-native-long-p2-m200")


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_files_of_flink_are_read(name):
    options = read_options(options_of(name), NAME)

    assert {"2.3": "8.10.0", "1.20": "6.20.3"}[native_snapshots.RELEASES[name]] == options.version
    assert {"default", "count", "events", "_timer_state/event_user-timers"} <= {one.name for one in options.families}
    assert {"", "StringAppendTESTOperator", "stringappendtest"} >= {one.appends for one in options.families}
    assert all(one.appends for one in options.families if one.name == "events")


def test_what_is_printed_is_read_the_same():
    families = [Family("default"), Family('a "b" #c: d\\e\n\r[x]', "stringappendtest", 3), Family("ä/_timer")]
    options = StoredOptions("8.10.0", tuple(families))

    assert options == read_options(print_options(options).encode(), NAME)


def test_nothing_of_the_machine_that_wrote_it_is_kept():
    """ForSt's have a folder of it."""
    data = options_of("forst-incremental-long-p2-m128")

    assert b"db_log_dir=/" in data
    assert "log_dir" not in print_options(read_options(data, NAME))


@pytest.mark.parametrize(
    "other",
    [
        "merge_operator={id=StringAppendTESTOperator;delimiter=;;}",
        "merge_operator={id=StringAppendTESTOperator;delimiter=.;}",
        "merge_operator={id=StringAppendTESTOperator;delimiter=,,;}",
        "merge_operator={id=StringAppendTESTOperator;}",
        "merge_operator={id=MaxOperator;}",
        "merge_operator=PutOperator",
        "merge_operator=StringAppendTESTOperator;",
        "merge_operator=StringAppendTESTOperatorx",
        "merge_operator={id=StringAppendTESTOperator;delimiter=,;delimiter=.;}",
    ],
)
def test_another_merge_operator_is_refused(flinks, other):
    """It would put other bytes between the elements of a list."""
    changed = flinks.decode().replace(OPERATOR, other, 1)
    assert changed != flinks.decode()

    with pytest.raises(UnsupportedFormat, match="merge operator"):
        read_options(changed.encode(), NAME)


def test_another_comparator_is_refused(flinks):
    changed = flinks.replace(b"comparator=leveldb.BytewiseComparator", b"comparator=rocksdb.ReverseBytewise", 1)

    with pytest.raises(UnsupportedFormat, match="comparator"):
        read_options(changed, NAME)


@pytest.mark.parametrize("levels", [b"0", b"-1", b"65", b"x", b""])
def test_a_number_of_levels_that_is_none_is_refused(flinks, levels):
    with pytest.raises(CorruptSavepoint):
        read_options(flinks.replace(b"num_levels=7", b"num_levels=" + levels, 1), NAME)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[Version]\n", b'[CFOptions "default"]\n', b"\0" * 1000])
def test_what_is_no_such_file_is_refused(data):
    with pytest.raises(CorruptSavepoint):
        read_options(data, NAME)


def test_a_family_that_is_listed_twice_is_refused(flinks):
    with pytest.raises(CorruptSavepoint):
        read_options(flinks + b'[CFOptions "default"]\ncomparator=leveldb.BytewiseComparator\nmerge_operator=nullptr\n'
                              b"num_levels=7\n", NAME)  # fmt: skip


@pytest.mark.parametrize("version", ["8.10.0", "6.20.3"])
def test_how_files_are_written_is_taken_over(version):
    tables = TableSettings("kZSTD", 1 << 14, 8)
    options = StoredOptions(version, (Family("default"), Family("a", "StringAppendTESTOperator", 5, tables=tables)))

    assert options == read_options(print_stored_options(options).encode(), NAME)


def test_the_compression_is_that_of_the_last_level(flinks):
    per_level = b"compression_per_level=kSnappyCompression"

    def found(*change):
        assert change[0] in flinks
        return {one.tables.compression for one in read_options(flinks.replace(*change), NAME).families}

    assert {"kZSTD"} == found(per_level, b"compression_per_level=kNoCompression:kZSTD")
    assert {"kLZ4Compression"} == found(
        b"bottommost_compression=kDisableCompressionOption", b"bottommost_compression=kLZ4Compression"
    )
