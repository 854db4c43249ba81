"""Every way through every shape writes the same bytes: those of Flink's own serializers, where they are here."""

from __future__ import annotations

import pytest

from benchmarks.compare import print_rows_beside_records, print_shape
from benchmarks.shapes import SHAPES

EXECUTORS = {"numba", "objects"}


def those_that_differ(found):
    return [
        (shape, way)
        for shape, one in found["shapes"].items()
        for way, it in one["ways"].items()
        if not it["same_bytes"]
    ]


@pytest.mark.slow
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
    assert found["shapes"].keys() == SHAPES.keys() - {"wide"}
    for shape in found["shapes"].values():
        assert {"Flink", "Avro Java"} & shape["ways"].keys()


def test_what_was_too_short_to_be_measured_has_no_ratio(capsys):
    way = {"ns": 5.0, "cpu_ns": 0.0, "kernel_ns": None, "peak_bytes": 0, "same_bytes": True}
    found = {"title": "short", "entries": 1, "bytes": 1, "ways": {"Flink": way, "copy": way}}

    print_shape("S1", found, markdown=True)

    assert "| copy | 5 | 200 | 1.00 x | 1.00 x | 0 |  |  |  | 0 | yes |" in capsys.readouterr().out


def test_rows_are_shown_beside_records_as_values_and_as_keys_where_both_were_measured(capsys):
    used = {"join": 180.0, "record": 120.0, "counted": 150.0, "aggregate": 140.0}
    shapes = {name: {"ways": {"numba": {"cpu_ns": ns}}} for name, ns in used.items()}

    print_rows_beside_records(shapes | {"side": {"ways": {"Flink": {}}}}, markdown=True)

    lines = capsys.readouterr().out.splitlines()
    assert ["| join | 180 | record | 120 | 1.50 x |", "| join | 180 | counted | 150 | 1.20 x |"] == lines[-3:-1]
