"""The table of snapshots and values that the tests of serializers stand on is what Flink writes."""

from __future__ import annotations

import json
import os

import pytest


@pytest.mark.parametrize("release", ["2.3", "1.20"])
def test_the_table_of_values_is_flinks(flink, root, tmp_path, release):
    """STATESHIFT_RECORD=1 rewrites the table."""
    table = root / "tests" / "fixtures" / "flink-values.json"

    written = flink(release).table("fx.Values", tmp_path / "values.json")

    if os.environ.get("STATESHIFT_RECORD"):
        table.write_text(written, encoding="utf-8")
    assert json.loads(table.read_text(encoding="utf-8")) == json.loads(written)
