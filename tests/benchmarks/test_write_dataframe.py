"""Rows become a savepoint in both ways; Spark's own write of them is measured for comparison."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_each_way_writes_the_rows(benchmark):
    found = benchmark("write_dataframe", "--entries", 200, "--rounds", 1, "--shape", "map")

    assert ["parquet", "df.write", "bootstrap"] == list(found["seconds"])
    assert 200 == found["machine"]["entries"]
