"""A damaged checkpoint is not copied as a sound one, though none of its types changes; what no file shows is said."""

from __future__ import annotations

import json

import pytest
from damaged_checkpoints import HDFS, ROCKSDB, outcome, run, with_sums
from spark_changes import Probe, copy_of, entries_of
from spark_checkpoints import place

from stateshift.spark.queries.migration import migrate_checkpoint

FEW, MANY = range(3), range(3, 20)  # of each fixture, with checksums beside the files and without


def refuses_or_is_right(name, seed, scratch, *, sums):
    damage, status, told, changed = outcome(name, seed, scratch, sums=sums)
    assert "Traceback" not in told, (damage, told)
    if status != 0:
        assert not changed, (damage, told)
        return
    if damage.kind == "missing" and damage.file.rpartition("/")[0] in {"offsets", "commits"}:
        changed = [one for one in changed if one != damage.file]  # an older batch, which Spark deletes at some time
    if not sums and damage.kind == "of another":
        return  # an exchanged file shows nothing
    assert not changed or (not sums and "compressed by" in told), (damage, told)


@pytest.mark.parametrize("name", HDFS[::2] + ROCKSDB[::3])
def test_a_damage_ends_the_copy_or_changes_nothing(name, tmp_path):
    for seed in FEW:
        refuses_or_is_right(name, seed, tmp_path, sums=True)
        refuses_or_is_right(name, seed, tmp_path, sums=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", HDFS + ROCKSDB)
def test_many_damages_end_the_copy_or_change_nothing(name, tmp_path):
    for seed in MANY:
        refuses_or_is_right(name, seed, tmp_path, sums=True)
        refuses_or_is_right(name, seed, tmp_path, sums=False)


def migrated(source, target, name):
    return run("migrate", f"spark:{source}", f"spark:{target}", "--like", f"spark:{place(name)}")


@pytest.mark.parametrize("name", ["aggregation", "rocksdb-format-2"])
@pytest.mark.parametrize("change", [lambda _: b"", lambda data: data[:-3]], ids=["emptied", "cut"])
def test_a_delta_that_is_cut_is_named(name, change, tmp_path):
    source = copy_of(name, tmp_path / "source")
    (file, *_) = sorted(source.glob("state/0/1/3*"))
    file.write_bytes(change(file.read_bytes()))

    status, told = migrated(source, tmp_path / "copy", name)

    assert status == 3
    assert f"state/0/1/{file.name}" in told
    assert not (tmp_path / "copy" / "metadata").read_bytes().startswith(b"{")


@pytest.mark.parametrize(
    "file", ["metadata", "offsets/0", "commits/2", "state/0/_metadata/metadata", "state/0/1/2.delta"]
)
def test_a_checksum_of_hadoop_shows_a_bit_that_still_reads(file, tmp_path):
    source = copy_of("aggregation", tmp_path / "source")
    with_sums(source)
    data = (source / file).read_bytes()
    (source / file).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    status, told = migrated(source, tmp_path / "copy", "aggregation")

    assert status == 3
    assert f"{file.rpartition('/')[2]}.crc" in told


def test_a_checksum_of_hadoop_is_for_local_disks_and_one_that_is_none_is_left_out(tmp_path):
    source = copy_of("aggregation", tmp_path / "source")
    (source / "commits" / ".2.crc").write_bytes(b"")

    migrate_checkpoint(source, tmp_path / "copy", like=source)

    assert entries_of(tmp_path / "copy") == entries_of(place("aggregation"))


@pytest.mark.parametrize("change", [{"value": 7}, {"mainFileSize": 7}])
def test_a_checksum_of_spark_is_compared(change, tmp_path):
    source = copy_of("rocksdb-zips-2", tmp_path / "source")
    (sums, *_) = source.glob("state/0/1/3*.crc")
    sums.write_text(json.dumps(json.loads(sums.read_text()) | change))

    status, told = migrated(source, tmp_path / "copy", "rocksdb-zips-2")

    assert status == 3
    assert sums.name in told


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("offsets/0", b"v1\n"),
        ("offsets/1", b'v1\n{"batchWatermarkMs":0}\n{"logOff'),
        ("commits/1", b"v1"),
        ("sources/0/0", b""),
        ("sources/0/0", b'v1\n{"path":"fi'),
    ],
)
def test_logs_of_older_batches_are_read_before_they_are_copied(file, data, tmp_path):
    source = copy_of("aggregation", tmp_path / "source")
    (source / file).parent.mkdir(parents=True, exist_ok=True)
    (source / file).write_bytes(data)

    status, told = migrated(source, tmp_path / "copy", "aggregation")

    assert status == 3
    assert file in told


def test_partitions_that_the_metadata_leaves_out_are_found(tmp_path):
    source = copy_of("aggregation", tmp_path / "source")
    metadata = source / "state" / "0" / "_metadata" / "metadata"
    metadata.write_text(metadata.read_text().replace('"numPartitions":2', '"numPartitions":1'))

    status, told = migrated(source, tmp_path / "copy", "aggregation")

    assert status == 3
    assert "there is state of partition 1" in " ".join(told.split())


@pytest.mark.parametrize(
    ("name", "said"), [("aggregation", False), ("zstd", True), ("lzf", True), ("rocksdb-changelog", False)]
)
def test_what_files_cannot_show_is_said(name, said, tmp_path):
    report = migrate_checkpoint(place(name), tmp_path / "copy", like=place(name))

    assert said is any("compressed by" in line for line in report.query.not_shown)


@pytest.mark.parametrize("name", ["join-outer", "rocksdb-join", "join-v3", "rocksdb"])
def test_entries_that_do_not_change_are_counted(name, tmp_path):
    report = migrate_checkpoint(place(name), tmp_path / "copy", like=place(name))

    counts = {one.state: (one.read, one.written) for one in report.states}
    assert all(read == written for read, written in counts.values())
    assert sum(read for read, _ in counts.values()) > 0


def without(name):
    return lambda found: found.pop(name)


def exchanged(found):
    found["seen"][:2] = found["seen"][1::-1]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("transform", without("$procTimers_timestampToKey"), "it has no column family '$procTimers_timestampToKey'"),
        ("transform", without("$count_recent"), "it has no column family '$count_recent'"),
        ("transform-event-time", exchanged, "the key of 'seen' is not"),
    ],
)
def test_a_schema_file_that_lacks_a_part_is_damaged(name, change, said, tmp_path):
    probe = Probe.of(name, tmp_path / "source").change(change)
    sound, damaged = f"spark:{place(name)}", f"spark:{probe.folder}"

    told = [
        run("migrate", damaged, f"spark:{tmp_path / 'one'}", "--like", sound),
        run("migrate", sound, f"spark:{tmp_path / 'two'}", "--like", damaged),
    ]

    assert any(status == 3 and said in text for status, text in told), told
    assert all("Traceback" not in text for _, text in told)
