"""Checkpoints that Spark wrote: what is read from them equals what Spark's own state reader says."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from spark_checkpoints import as_exported, expected, names, parsed, place, rows_of

from stateshift.serializers.errors import CorruptFile, SavepointNotFound, StateNotFound, UnsupportedFormat
from stateshift.serializers.spark_rows.spark_types import parse_struct
from stateshift.state.formats.spark.reader import SparkCheckpoint

NOT_READ_BY_SPARK = ["pandas-v1"]  # its reader fails on state format 1
READ = [name for name in names() if name not in NOT_READ_BY_SPARK]


def store_of(checkpoint, said):
    """The store of which Spark says something."""
    operator = checkpoint.operator(str(said.get("operator", 0)))
    if "timers" in said:
        return next(store for store in operator.stores if store.kind == "timers")
    return operator.state(said.get("family") or said.get("variable") or said["store"])


@pytest.mark.parametrize("name", READ)
def test_every_store_has_the_entries_that_spark_reads(name):
    checkpoint = SparkCheckpoint.open(place(name))
    compared = set()
    for said in expected(name):
        if "side" in said:
            continue
        store = store_of(checkpoint, said)
        schema = store.schema
        wanted = Counter()
        for line in said["rows"]:
            partition, key, value = parsed(line)
            wanted[json.dumps([partition, as_exported(key, schema.key), as_exported(value, schema.value)])] += 1

        assert rows_of(store) == wanted
        assert sum(one.entries for one in store.measure()) == sum(wanted.values())
        assert wanted, "the fixture has no entry"
        compared.add((store.operator, store.name))
    assert compared >= {
        (one.number, store.name) for one in checkpoint.operators for store in one.stores if not store.is_index
    }


@pytest.mark.parametrize("name", names())
def test_batches_and_partitions_are_those_that_spark_reports(name):
    checkpoint = SparkCheckpoint.open(place(name))

    for said in expected(name):
        if "store" in said:
            assert checkpoint.log.committed == said["batches"][1]
            assert store_of(checkpoint, said).facts.partitions == said["partitions"]
            assert store_of(checkpoint, said).facts.name == said["store"]
            assert checkpoint.operator(str(said["operator"])).facts.name == said["name"]


def test_another_provider_is_not_read_and_says_so(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("rocksdb"), copy)
    for file in (copy / "offsets").iterdir():
        file.write_text(file.read_text().replace("RocksDBStateStoreProvider", "MyProvider"))

    (store,) = SparkCheckpoint.open(copy).operators[0].stores

    assert store.unsupported.startswith("entries of MyProvider are not read")
    with pytest.raises(UnsupportedFormat):
        next(store.blocks())


def test_state_format_1_of_pandas_state_is_read_where_sparks_reader_fails():
    store = SparkCheckpoint.open(place("pandas-v1")).operators[0].stores[0]

    assert [json.loads(row)[1:] for row in sorted(rows_of(store))] == [
        [{"k": "x"}, {"total": 4, "names": "aa", "timeoutTimestamp": -1}],
        [{"k": "y"}, {"total": 2, "names": "b", "timeoutTimestamp": -1}],
    ]


def test_a_partition_is_read_in_parts_if_too_many_keys_changed(monkeypatch):
    from stateshift.state.formats.spark import store_files

    store = SparkCheckpoint.open(place("types")).operators[0].stores[0]
    whole = rows_of(store)
    of_version = store_files.PartitionFiles.of_version.__func__

    def small(cls, *given, **named):
        import attrs

        return attrs.evolve(of_version(cls, *given, **named), most_digests=1)

    monkeypatch.setattr(store_files.PartitionFiles, "of_version", classmethod(small))

    assert rows_of(store) == whole


def test_an_unfinished_batch_is_told_and_its_changes_are_not_read(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    (copy / "commits" / "2").unlink()

    checkpoint = SparkCheckpoint.open(copy)

    assert (checkpoint.log.committed, checkpoint.log.unfinished) == (1, 2)
    whole = rows_of(SparkCheckpoint.open(place("aggregation")).operators[0].stores[0])
    assert rows_of(checkpoint.operators[0].stores[0]) != whole


def test_a_query_without_a_committed_batch_has_no_state(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    shutil.rmtree(copy / "commits")

    store = SparkCheckpoint.open(copy).operators[0].stores[0]

    assert list(store.blocks()) == []


def test_before_spark_4_there_is_no_metadata_of_operators_but_the_state_is_read(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("join-inner"), copy)
    shutil.rmtree(copy / "state" / "0" / "_metadata")

    old, new = SparkCheckpoint.open(copy).operators[0], SparkCheckpoint.open(place("join-inner")).operators[0]

    assert old.kind == "unknown operator"
    assert {store.name: rows_of(store) for store in old.stores} == {store.name: rows_of(store) for store in new.stores}


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(SavepointNotFound, match="no checkpoint of a Spark query"):
        SparkCheckpoint.open(tmp_path)


def test_an_unknown_operator_or_store_is_refused_by_name():
    checkpoint = SparkCheckpoint.open(place("two"))

    assert checkpoint.operator("dropDuplicates").number == 1
    with pytest.raises(StateNotFound, match=r"0 \(aggregation\), 1 \(dropDuplicates\)"):
        checkpoint.operator("sums")
    with pytest.raises(StateNotFound, match="default"):
        checkpoint.operators[0].state("counts")


def test_a_missing_delta_is_named(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    (copy / "state" / "0" / "0" / "2.delta").unlink()

    with pytest.raises(SavepointNotFound, match=r"2\.delta"):
        SparkCheckpoint.open(copy).operators[0].stores[0].measure()


def test_a_missing_partition_is_an_error(tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    shutil.rmtree(copy / "state" / "0" / "1")

    with pytest.raises(SavepointNotFound):
        SparkCheckpoint.open(copy).operators[0].stores[0].measure()


@pytest.mark.parametrize("file", ["offsets/2", "commits/2", "state/0/_metadata/metadata"])
def test_a_newer_version_is_refused_by_name(tmp_path, file):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    text = (copy / file).read_text()
    (copy / file).write_text(text.replace("v1", "v9", 1))

    with pytest.raises(UnsupportedFormat, match="newer Spark"):
        SparkCheckpoint.open(copy)


@pytest.mark.parametrize("name", ["aggregation", "zstd", "snappy", "checksums"])
def test_a_changed_byte_is_found_or_changes_nothing(tmp_path, name):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place(name), copy)
    whole = rows_of(SparkCheckpoint.open(place(name)).operators[0].stores[0])
    found = 0
    for partition in ("0", "1"):
        for file in sorted((copy / "state" / "0" / partition).glob("*.[ds]*")):
            data = file.read_bytes()
            for at in range(0, len(data), 5):
                file.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
                try:
                    rows = rows_of(SparkCheckpoint.open(copy).operators[0].stores[0])
                except (CorruptFile, UnsupportedFormat, SavepointNotFound):
                    found += 1
                    continue
                # snappy's blocks have no checksum, and zstd's frames none by default: there a value may change
                assert rows == whole or name in {"zstd", "snappy"}
            file.write_bytes(data)
    assert found


@pytest.mark.parametrize("cut", [1, 9, 30])
@pytest.mark.parametrize("name", ["aggregation", "zstd", "snappy"])
def test_a_file_that_is_cut_off_is_an_error(tmp_path, name, cut):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place(name), copy)
    file = max((copy / "state" / "0" / "0").glob("*.delta"), key=lambda one: one.stat().st_size)
    file.write_bytes(file.read_bytes()[:-cut])

    with pytest.raises(CorruptFile):
        rows_of(SparkCheckpoint.open(copy).operators[0].stores[0])


@pytest.mark.parametrize(("name", "file"), [("aggregation", "3.delta"), ("rocksdb-changelog", "3.changelog")])
@pytest.mark.parametrize("data", [b"LZ4Block", b"none", b"\x28\xb5\x2f\xfd" * 5])
def test_a_damaged_file_is_named_with_its_partition(tmp_path, name, file, data):
    copy = shutil.copytree(place(name), tmp_path / "checkpoint")
    (copy / "state" / "0" / "1" / file).write_bytes(data)

    with pytest.raises(CorruptFile) as caught:
        rows_of(SparkCheckpoint.open(copy).operators[0].stores[0])

    assert caught.value.where["file"] == f"state/0/1/{file}"


@pytest.mark.parametrize("schema", ["", "3", "{}", '{"type":"array"}', '"string"', '{"type":"struct","fields":[{}]}'])
def test_a_damaged_schema_is_an_error(schema):
    with pytest.raises(CorruptFile):
        parse_struct(schema)
