"""State stores in RocksDB: which files are one version, what damage is found, and how keys contain rows."""

from __future__ import annotations

import shutil
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_checkpoints import place, rows_of

from stateshift.serializers.errors import (
    CorruptFile,
    CorruptSavepoint,
    LibraryNotFound,
    SavepointNotFound,
    UnsupportedFormat,
)
from stateshift.serializers.spark_rows.spark_types import SparkField, SparkType
from stateshift.state.formats.spark.layouts import RowEncoding
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.schema_files import KeyLayout, read_families

DAMAGED = (CorruptFile, CorruptSavepoint, UnsupportedFormat, SavepointNotFound)


@pytest.fixture
def copied(tmp_path):
    """A function that copies a fixture; it returns the folder of the copy."""

    def copy(name):
        return shutil.copytree(place(name), tmp_path / name)

    return copy


def stores(folder):
    return [one for operator in SparkCheckpoint.open(folder).operators for one in operator.stores]


def partition(folder):
    """The folder of a partition with entries."""
    return folder / "state" / "0" / "0"


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("rocksdb-dedup", "dedup-within"),
        ("rocksdb-limit", "limit"),
        ("rocksdb-pandas", "pandas"),
        ("rocksdb-join", "join-outer"),
        ("join-v3", "join-outer"),
        ("rocksdb-checksums", "rocksdb"),
        ("rocksdb-zips-2", "rocksdb"),
    ],
)
def test_the_same_rows_in_rocksdb_and_in_another_store(name, other):
    assert [rows_of(one) for one in stores(place(name))] == [rows_of(one) for one in stores(place(other))]


@pytest.mark.parametrize("name", ["rocksdb", "rocksdb-checksums", "transform-checksums"])
def test_a_changed_byte_is_found_or_changes_nothing(copied, name):
    folder = copied(name)
    names = {"default", "names", "total"}
    whole = [rows_of(store) for store in stores(folder) if store.name in names]
    found = 0
    for file in sorted(one for one in partition(folder).rglob("*") if one.suffix in {".zip", ".changelog", ".sst"}):
        data = file.read_bytes()
        for at in range(0, len(data), max(len(data) // 5, 1)):
            file.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
            try:
                assert [rows_of(store) for store in stores(folder) if store.name in names] == whole
            except DAMAGED:
                found += 1
        file.write_bytes(data)
    assert found


@pytest.mark.parametrize(("name", "pattern"), [("rocksdb", "*.sst"), ("rocksdb-changelog", "2.changelog")])
def test_a_missing_file_is_named(copied, name, pattern):
    folder = copied(name)
    missing = min(partition(folder).rglob(pattern))
    missing.unlink()

    with pytest.raises(SavepointNotFound, match=missing.name):
        stores(folder)[0].measure()


def test_without_its_snapshot_a_version_is_not_made_of_changelogs_alone(copied):
    folder = copied("transform-checksums")
    for file in partition(folder).glob("*.zip"):
        file.unlink()

    for read in (rows_of, lambda store: store.measure()):
        with pytest.raises(CorruptFile, match="has no column family"):
            read(stores(folder)[0])


def test_an_older_snapshot_and_changelogs_have_the_entries_of_the_last_one(copied):
    folder = copied("transform-evolved")
    whole = [rows_of(store) for store in stores(folder)]
    (partition(folder) / "3.zip").unlink()

    assert [rows_of(store) for store in stores(folder)] == whole


def test_a_snapshot_of_one_query_and_changelogs_of_another_one_with_the_same_rows(copied):
    folder = copied("rocksdb")
    for file in folder.glob("state/0/[01]/[23].zip"):
        file.unlink()
        name = f"{file.stem}.changelog"
        shutil.copyfile(place("rocksdb-changelog") / "state" / "0" / file.parent.name / name, file.with_name(name))

    assert rows_of(stores(folder)[0]) == rows_of(stores(place("rocksdb"))[0])


def test_before_spark_4_keys_of_session_windows_are_known_by_their_names(copied):
    folder = copied("rocksdb-session")
    shutil.rmtree(folder / "state" / "0" / "_metadata")

    assert rows_of(stores(folder)[0]) == rows_of(stores(place("rocksdb-session"))[0])


def test_what_a_batch_that_is_not_committed_wrote_of_its_variables_is_not_read(copied):
    folder = copied("transform-evolved")
    committed = sorted(int(file.name) for file in (folder / "commits").iterdir())
    first = min(int(file.name) for file in (folder / "state/0/_metadata/v2").iterdir() if file.name != "0")
    for batch in committed:
        if batch >= first:
            (folder / "commits" / str(batch)).unlink()

    values = {store.name: store.schema.value for store in stores(folder)}

    assert "note" not in values["total"].names


def test_files_of_another_attempt_are_not_read(copied):
    folder = copied("rocksdb-format-2")
    whole = rows_of(stores(folder)[0])
    for file in partition(folder).glob("2_*.changelog"):
        shutil.copyfile(file, file.with_name("3_00000000-0000-0000-0000-000000000000.changelog"))

    assert rows_of(stores(folder)[0]) == whole


def test_the_log_has_no_id_of_a_partition(copied):
    folder = copied("rocksdb-format-2")
    file = max((folder / "commits").iterdir())
    file.write_text(file.read_text().replace('"stateUniqueIds":{"0":', '"stateUniqueIds":{"7":'))

    with pytest.raises(CorruptFile, match="no id"):
        stores(folder)[0].measure()


def test_without_its_library_the_types_are_there_and_a_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    store = stores(place("rocksdb"))[0]

    assert store.schema.value.names == ("sum",)
    with pytest.raises(LibraryNotFound, match="rocksdict") as caught:
        store.measure()
    assert "pip install 'stateshift[rocksdb]'" in str(caught.value)


def test_a_moved_checkpoint_needs_no_file_of_its_former_place(copied):
    folder = copied("join-v4")

    assert [rows_of(one) for one in stores(folder)] == [rows_of(one) for one in stores(place("join-v4"))]


def test_a_damaged_schema_file_is_an_error():
    file = min((place("join-v4") / "state" / "0" / "_stateSchema" / "default").iterdir())
    data = file.read_bytes()
    for at in range(0, len(data), 9):
        with pytest.raises(CorruptFile):
            read_families(data[:at], "schema")
    with pytest.raises(UnsupportedFormat, match="NewStateEncoderSpec"):
        read_families(
            data.replace(b"TimestampAsPrefixKeyStateEncoderSpec", b"AlsoAQuiteNewNewStateEncoderSpec    "), ""
        )
    with pytest.raises(UnsupportedFormat, match="newer Spark"):
        read_families(data.replace(b"v3", b"v9", 1), "schema")


NUMBERS = {
    "tinyint": ("b", st.integers(-(2**7), 2**7 - 1)),
    "smallint": ("h", st.integers(-(2**15), 2**15 - 1)),
    "int": ("i", st.integers(-(2**31), 2**31 - 1)),
    "bigint": ("q", st.integers(-(2**63), 2**63 - 1)),
    "float": ("f", st.floats(width=32, allow_nan=False)),
    "double": ("d", st.floats(allow_nan=False)),
}


def sorted_key(value, code):
    """A key of one column that sorts as bytes, as the layout has it."""
    data = bytearray(struct.pack(f">{code}", value or 0))
    is_negative = bool(data[0] & 0x80) if value is not None else False
    if code in "fd" and is_negative:
        data = bytearray(byte ^ 0xFF for byte in data)
    chunk = bytes([2 if value is None else 0 if is_negative else 1]) + bytes(data)
    padded = chunk + bytes(-len(chunk) % 8)
    row = b"\0" + struct.pack("<qq", 0, 16 << 32 | len(chunk)) + padded
    return struct.pack("<i", len(row)) + row + b"\0"


@pytest.mark.parametrize("word", sorted(NUMBERS))
@given(data=st.data())
def test_a_column_that_sorts_as_bytes_is_decoded(word, data):
    code, numbers = NUMBERS[word]
    values = data.draw(st.lists(numbers, min_size=1))
    of = SparkType("struct", (SparkField("a", SparkType(word)),))
    stored = sorted(sorted_key(value, code) for value in values)

    found = RowEncoding().decode_keys([*stored, sorted_key(None, code)], of, KeyLayout("range", (0,)))

    assert found.field(0).to_pylist() == [*sorted(values), None]


@pytest.mark.parametrize("layout", ["row", "prefix", "range", "time first", "time last"])
@given(key=st.binary(max_size=40))
def test_a_damaged_key_is_an_error_or_a_key(layout, key):
    fields = (SparkField("a", SparkType("bigint")), SparkField("b", SparkType("bigint")))
    try:
        found = RowEncoding().decode_keys([key], SparkType("struct", fields), KeyLayout(layout, (0,)))
    except CorruptFile:
        return
    assert len(found) == 1
