"""The benchmarks that start Spark and Flink as a user does, with few entries."""

from __future__ import annotations

import pytest

from benchmarks.watch import ROLES

pytestmark = pytest.mark.interop


def test_a_migration_is_measured_next_to_the_smallest_one(benchmark):
    found = benchmark("migrate", "--entries", 3000, "--runs", 1)

    assert {"as it comes": "process", "on Spark": "spark"} == {
        way: sizes["3000"]["engine"] for way, sizes in found["ways"].items()
    }
    for sizes in found["ways"].values():
        assert ["1000", "3000"] == list(sizes)
        assert {*ROLES, "JVM, live"} == sizes["3000"]["peak_bytes"].keys()
        assert sizes["3000"]["start_s"] == sizes["3000"]["seconds"] - sizes["3000"]["rest_s"]
        assert sizes["3000"]["file_to_file_s"] > 0 < sizes["3000"]["copy_s"]


def test_downtime_is_that_of_a_job_of_real_flink_which_finds_its_state_in_all_ways(benchmark):
    found = benchmark("downtime", "--entries", 2000, "--rounds", 1, "--heap", "900m")

    unchanged, copied = ("take", "restore", "first record"), ("migrate",)
    ours = ("take", "migrate", "restore", "first record")
    steps = {
        "Flink alone, canonical": unchanged,
        "with ours, canonical": ours,
        "unchanged": unchanged,
        "Flink alone, native": unchanged,
        "with ours, native": ours,
        "copy of the native files": copied,
        "followed, savepoint": ours,
        "followed, checkpoint": ours,
        "followed, compacted": ours,
    }
    assert steps == {way: tuple(times)[:-1] for way, times in found["seconds"].items()}
    for times in found["seconds"].values():
        assert pytest.approx(times["whole"]) == sum(times.values()) - times["whole"]
    assert 6 == len(found["ratios"])
