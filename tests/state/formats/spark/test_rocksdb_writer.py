"""Snapshots of the RocksDB provider that this release writes: read back here, and by Spark."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_checkpoints import names, place

from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.rocksdb_files import DatabaseFiles
from stateshift.state.formats.spark.rocksdb_writer import DatabaseWriter, WrittenFamily
from stateshift.state.storage.files import Folder

PROVIDER = "RocksDBStateStoreProvider"
STORES = [name for name in names() if SparkCheckpoint.open(place(name)).log.last.provider == PROVIDER]
SCRATCH = "file:/tmp/stateshift-spark-fixtures/checkpoint"  # where the fixtures were made
SETTINGS = "spark.sql.streaming.stateStore."


def families_of(stores):
    """The column families of a store as they are written, by name; {}: it has none."""
    numbers = stores[0]._database(0)._snapshot.families if stores[0].family is not None else {}
    return {
        one.name: WrittenFamily(
            numbers[one.name], is_internal=one.is_index or one.kind == "timers", is_list=one.family.is_list
        )
        for one in stores
        if one.name in numbers
    }


def rewritten(name, folder):
    """A copy of a fixture, with one snapshot for each partition in place of its files."""
    source = SparkCheckpoint.open(place(name))
    shutil.copytree(place(name), folder, ignore=lambda _, found: [one for one in found if one == "SSTs"])
    for file in [*folder.glob("state/*/*/*.zip*"), *folder.glob("state/*/*/*.changelog*")]:
        file.unlink()
    for file in folder.glob("state/*/_metadata/v2/*"):
        file.write_text(file.read_text().replace(SCRATCH, f"file:{folder}"))
    log = source.log
    for operator in source.operators:
        stores = operator.stores
        families = families_of(stores)
        for partition in range(stores[0].partitions):
            with DatabaseWriter(
                Folder.at(folder / "state" / str(operator.number) / str(partition)),
                version=log.committed + 1,
                unique_id="".join(log.ids_of(operator.number, partition)),
                families=families,
                has_checksums=log.last.has_row_checksums,
                delimiter=log.last.delimiter,
            ) as writer:
                for one in stores:
                    if not families or one.name in families:
                        for block in one.stored_blocks(partition):
                            writer.write(one.name if families else "", *block)
    return folder


def entries(folder):
    """What is stored of each store and partition."""
    return {
        (operator.number, store.name, partition): [
            pair for keys, values in store.stored_blocks(partition) for pair in zip(keys, values, strict=True)
        ]
        for operator in SparkCheckpoint.open(folder).operators
        for store in operator.stores
        for partition in range(store.partitions)
    }


@pytest.mark.parametrize("name", [name for name in STORES if name != "rocksdb-join"])
def test_what_is_written_is_read_back(tmp_path, name):
    assert entries(rewritten(name, tmp_path / "copy")) == entries(place(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("rocksdb", [""]),
        ("rocksdb-checksums", [""]),
        ("rocksdb-format-2", [""]),
        ("transform", ["names", "last", "seen"]),
        ("transform-checksums", ["recent", "by_name"]),
        ("transform-avro", ["names", "total"]),
    ],
)
def test_spark_reads_what_was_written(spark, tmp_path, name, variables):
    copies = [rewritten(name, tmp_path / "written"), tmp_path / "as-it-was"]
    shutil.copytree(place(name), copies[1])
    for file in copies[1].glob("state/*/_metadata/v2/*"):
        file.write_text(file.read_text().replace(SCRATCH, f"file:{copies[1]}"))

    def rows(folder, variable):
        format_of = SparkCheckpoint.open(folder).log.format
        spark.conf.set(SETTINGS + "checkpointFormatVersion", str(format_of))
        try:
            read = spark.read.format("statestore")
            read = read.option("stateVarName", variable) if variable else read
            return sorted(map(str, read.load(str(folder)).collect()))
        finally:
            spark.conf.unset(SETTINGS + "checkpointFormatVersion")

    for variable in variables:
        found, before = (rows(folder, variable) for folder in copies)
        assert found == before
        assert found


@given(
    st.lists(
        st.tuples(st.binary(max_size=5), st.lists(st.binary(max_size=9), min_size=1, max_size=4)),
        max_size=9,
        unique_by=lambda one: one[0],
    ),
    st.sampled_from([b",", b""]),
    st.booleans(),
    st.integers(1, 3),
)
def test_lists_and_values_of_families_in_any_order_and_blocks(tmp_path_factory, lists, delimiter, has_checksums, size):
    folder = Folder.at(tmp_path_factory.mktemp("partition"))
    families = {"lists": WrittenFamily(1, is_list=True), "$index": WrittenFamily(513, is_internal=True)}
    elements = [(key, element) for key, several in lists for element in several]
    with DatabaseWriter(
        folder, version=4, unique_id="id", families=families, has_checksums=has_checksums, delimiter=delimiter
    ) as writer:
        for start in range(0, len(elements), size):
            keys, values = zip(*elements[start : start + size], strict=True)
            writer.write("lists", keys, values)
        for key, several in lists:
            writer.write("$index", [key], [several[0]])

    files = DatabaseFiles(folder, "0", 4, ("id",), has_checksums, delimiter, frozenset({"lists"}))

    found = {}
    for key, element in pairs_of(files, "lists"):
        found.setdefault(key, []).append(element)
    assert found == dict(lists)
    assert dict(pairs_of(files, "$index")) == {key: several[0] for key, several in lists}


def pairs_of(files, family):
    return [pair for keys, values in files.blocks(family) for pair in zip(keys, values, strict=True)]


def test_a_version_is_there_when_all_of_it_is_there(tmp_path):
    folder = Folder.at(tmp_path)
    (tmp_path / "SSTs").mkdir()
    (tmp_path / "SSTs" / "000008-of-a-killed-run.sst").touch()

    def write_and_fail():
        with DatabaseWriter(folder, version=1) as writer:
            writer.write("", [b"key"], [b"value"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()

    assert folder.names_below() == ()
    assert [one.name for one in tmp_path.iterdir()] == ["SSTs"]


@pytest.mark.parametrize(("entries", "is_one"), [(40_000, False), (400_000, True)])
def test_files_of_a_small_buffer_are_merged_if_they_are_many(tmp_path, entries, is_one):
    folder = Folder.at(tmp_path)
    keys = [(number * 7919 % entries).to_bytes(4, "big") for number in range(entries)]
    with DatabaseWriter(folder, version=1, buffer_bytes=1) as writer:
        writer.write("", keys, [key * 20 for key in keys])

    found = [pair for block in DatabaseFiles(folder, "0", 1).blocks() for pair in zip(*block, strict=True)]
    assert found == [(key, key * 20) for key in sorted(keys)]
    assert (len(folder.folder("SSTs").names()) == 1) is is_one
