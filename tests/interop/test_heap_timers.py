"""Timers that a job on RocksDB kept on the heap fire in real Flink after a migration, wherever the job keeps them."""

from __future__ import annotations

import json

import pytest

from stateshift import Job, MigrationOptions, Operator, SavepointFormatType, ValueStateDescriptor, migrate

WIDER = Job([Operator("timers", key=str, states=[ValueStateDescriptor("count", int)])])
PLACES = [("rocksdb", "HEAP", 2), ("rocksdb", "ROCKSDB", 3), ("hashmap", "HEAP", 1)]


@pytest.fixture(scope="module")
def migrated(root, tmp_path_factory):
    """`migrated(job, format)`: the savepoint that a migration of the checkpoint writes, and the fixture's contents."""
    fixture = root / "tests/fixtures/flink-2.3-native/rocksdb-heap-timers-p2"
    expected = json.loads((fixture / "expected.json").read_text(encoding="utf-8"))
    done = {}

    def of(job, form):
        if (job, form) not in done:
            done[job, form] = tmp_path_factory.mktemp("migrated") / "savepoint"
            migrate(fixture / expected["snapshot"], done[job, form], job, MigrationOptions(format=form))
        return done[job, form], expected["operators"]

    return of


def fired(flink, savepoint, backend, timers, parallelism, *options, patience_s=5):
    """Give the timers that fired, with the values that their keys had, by operator."""
    places = ["--backend", backend, "--timers", timers, "--parallelism", str(parallelism)]
    ran = flink("2.3").fire(savepoint, *places, "--expect", "30", "--patience-s", str(patience_s), *options)
    assert "restored" == ran["status"], ran["causes"]
    return ran["operators"]


def rows(operators):
    return [
        (one["uid"], one["timers"], {name: state["entries"] for name, state in one["keyed"].items()})
        for one in operators
    ]


@pytest.mark.parametrize(("backend", "timers", "parallelism"), PLACES)
@pytest.mark.parametrize(("job", "options"), [(None, ()), (WIDER, ("--wide",))], ids=["same types", "another type"])
def test_every_timer_of_the_checkpoint_fires(flink, migrated, job, options, backend, timers, parallelism):
    form = SavepointFormatType.NATIVE if backend == "rocksdb" else SavepointFormatType.CANONICAL
    savepoint, expected = migrated(job, form)

    assert rows(expected) == rows(fired(flink, savepoint, backend, timers, parallelism, *options))


def test_flink_itself_has_no_timers_from_its_native_savepoint(flink, savepoint_of, expected_of):
    name, version = "rocksdb-heap-timers-native-p1", "2.3-native"
    operators = fired(flink, savepoint_of(name, version=version), "rocksdb", "HEAP", 1)

    counted = {one["uid"]: {domain: len(timers) for domain, timers in one["timers"].items()} for one in operators}
    assert expected_of(name, version=version)["fired"] == counted


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--backend", "hashmap"), ("--timers", "HEAP")], ids=["hashmap", "rocksdb"])
def test_timers_of_a_canonical_savepoint_fire_from_a_native_one_if_the_job_keeps_them_in_rocksdb(
    flink, tmp_path, options
):
    """Else Flink goes on without them, and does not say so: the printed command sets where they are kept."""
    source = flink("2.3").write_timers(tmp_path, *options)
    migrate(source, tmp_path / "native", WIDER, MigrationOptions(format=SavepointFormatType.NATIVE))
    expected = json.loads((tmp_path / "expected.json").read_text(encoding="utf-8"))["operators"]

    assert rows(expected) == rows(fired(flink, tmp_path / "native", "rocksdb", "ROCKSDB", 2, "--wide", patience_s=90))
    lost = fired(flink, tmp_path / "native", "rocksdb", "HEAP", 2, "--wide", patience_s=1)
    assert [[0, 0], [0, 0]] == [[len(found) for found in one["timers"].values()] for one in lost]
