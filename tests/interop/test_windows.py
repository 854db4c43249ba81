"""Window operators of real Flink go on from savepoints of our window operators, as from their own."""

from __future__ import annotations

import pytest
from live_backends import BACKENDS
from window_jobs import FIXTURES, Jobs, of_flink, ordered

from stateshift import Savepoint


@pytest.mark.parametrize(("backend", "parallelism"), [("hashmap", 2), ("rocksdb", 1)])
@pytest.mark.parametrize("ours", ["hashmap", "rocksdb"])
def test_flink_goes_on_with_the_same_results(flink, tmp_path, ours, backend, parallelism):
    jobs = Jobs(backend=BACKENDS[ours])
    jobs.run("before.txt")
    options = ["--backend", backend, "--parallelism", str(parallelism)]
    ran = flink("2.3").go_on(jobs.write(tmp_path / "savepoint"), FIXTURES / "after.txt", *options)

    assert "restored" == ran["status"], ran["causes"]
    assert of_flink("after") == ordered(ran["results"])


def test_what_went_from_flink_to_us_goes_back(flink, tmp_path):
    jobs = Jobs(backend=BACKENDS["rocksdb"])
    jobs.restore(Savepoint.open(FIXTURES / "hashmap-p2" / "savepoint"))
    ran = flink("2.3").go_on(jobs.write(tmp_path / "savepoint"), FIXTURES / "after.txt")

    assert "restored" == ran["status"], ran["causes"]
    assert of_flink("after") == ordered(ran["results"])
