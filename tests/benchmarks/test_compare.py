"""Every way through every shape writes the same bytes: those of Flink's own serializers, where they are here."""

from __future__ import annotations

import pytest

EXECUTORS = {"numba", "numpy", "plain", "objects"}


def those_that_differ(found):
    return [
        (shape, way)
        for shape, one in found["shapes"].items()
        for way, it in one["ways"].items()
        if not it["same_bytes"]
    ]


def test_a_loop_with_fastavro_writes_what_the_executors_write_where_flink_is_not_here(benchmark, tmp_path):
    """Nothing is on the path, so there is no JDK."""
    found = benchmark(
        "compare", "--entries", 1000, "--rounds", 1, "--shapes", "S3", PATH=str(tmp_path), JAVA_HOME=str(tmp_path)
    )

    assert those_that_differ(found) == []
    assert "flink" not in found["machine"]
    assert {"fastavro", "copy", "copy in pieces"} == found["shapes"]["S3"]["ways"].keys() - EXECUTORS


@pytest.mark.interop
def test_every_shape_becomes_what_the_serializers_of_real_flink_make_of_it(benchmark):
    found = benchmark("compare", "--entries", 2000, "--rounds", 1)

    assert those_that_differ(found) == []
    assert found["shapes"].keys() == {"S1", "S2", "S2n", "S3", "map", "list", "nested", "ttl"}
    for shape in found["shapes"].values():
        assert {"Flink", "Avro Java"} & shape["ways"].keys()
