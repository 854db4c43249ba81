"""Flink 1.20 restores what we write for it; its own savepoints, and those of Flink 2.3."""

from __future__ import annotations

import pytest

from stateshift import MigrationOptions, Savepoint, Target, migrate


@pytest.fixture
def kept(spark, savepoint_of, tmp_path):
    """A savepoint of a Flink, written for a Flink, with its types as they are."""

    def write(name, *, of, target):
        source = Savepoint.open(savepoint_of(name, version=of))
        return migrate(
            source.place,
            tmp_path / "new",
            source.describe().as_probe(),
            MigrationOptions(restore_target=target),
            session=spark,
        )

    return write


@pytest.mark.parametrize("name", ["hashmap-account-v1", "hashmap-long-p1-m128", "rocksdb-tuple-p2-m200-files"])
def test_a_savepoint_of_flink_1_20_stays_one(flink_restore, same_contents, expected_of, kept, name):
    report = kept(name, of="1.20", target=Target.FLINK_1_20)

    restored = flink_restore(report.target, release="1.20")

    assert same_contents(expected_of(name, version="1.20"), restored) == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", ["hashmap-long-p1-m128", "rocksdb-tuple-p2-m128", "hashmap-operator-only-p2-m128"])
def test_a_savepoint_of_flink_2_3_is_written_for_flink_1_20(
    flink_restore, same_contents, expected_of, kept, name, backend
):
    report = kept(name, of="2.3", target=Target.FLINK_1_20)

    restored = flink_restore(report.target, release="1.20", backend=backend)

    assert 4 == Savepoint.open(report.target).metadata.version
    assert same_contents(expected_of(name), restored) == []


def test_flink_1_20_refuses_a_savepoint_written_for_flink_2_3(flink_restore, kept):
    report = kept("hashmap-long-p1-m128", of="1.20", target=Target.FLINK_2_3)

    refused = flink_restore(report.target, release="1.20")

    assert "failed" == refused["status"]
    assert "restored" == flink_restore(report.target)["status"]
