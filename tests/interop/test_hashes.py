"""The table of hash codes that the tests of key groups stand on is what Flink computes."""

from __future__ import annotations

import json
import os

import pytest


@pytest.mark.parametrize("release", ["2.3", "1.20"])
def test_the_table_of_hashes_is_flinks(flink, root, tmp_path, release):
    """STATESHIFT_RECORD=1 rewrites the table."""
    table = root / "tests" / "fixtures" / "flink-hashes.json"

    computed = flink(release).table("fx.Hashes", tmp_path / "hashes.json")

    if os.environ.get("STATESHIFT_RECORD"):
        table.write_text(computed, encoding="utf-8")
    assert json.loads(table.read_text(encoding="utf-8")) == json.loads(computed)
