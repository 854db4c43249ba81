"""Plans that real Flink compiled: `tests/interop/test_sql_upgrades.py` makes them."""

import gzip
import json
from functools import cache

import pytest

from stateshift.state.plans.compiled_plan import read_plan
from stateshift.state.plans.operators import describe_plan


@pytest.fixture(scope="session")
def plans(root):
    """`plans(row, side, change)`: what the plan of a query says; `change` changes its JSON before."""
    text = gzip.decompress((root / "tests/fixtures/flink-sql-upgrades.jsonl.gz").read_bytes())
    found = {one["row"]: one for one in map(json.loads, text.splitlines())}

    @cache
    def plan(row, side, change=None):
        data = found[row][side] if change is None else change(json.loads(json.dumps(found[row][side])))
        return describe_plan(read_plan(json.dumps(data).encode(), f"{row}-{side}.json"))

    return plan
