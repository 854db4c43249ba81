"""Real Flink restores a savepoint that was made of the checkpoint of a query of Spark."""

from __future__ import annotations

import pytest
from bridged import bridged
from spark_queries import Stream

from stateshift import Savepoint, Target
from stateshift.state.savepoint.json_encoding import tagged_operator

ROWS = [("x", "p", 10, 1), ("y", "q", 20, 2), ("x", "ż", 5, 1), ("x", "p", 1, 7)]
JAVA = "package bridged; public class Total { public String first; public long sum; }"
DESCRIPTORS = """key STRING
value total POJO(bridged.Total)
list names STRING
map parts LONG LONG
value last STRING
"""


@pytest.fixture(scope="module")
def savepoint(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bridged")
    bridged(Stream(spark, folder), folder / "savepoint", ROWS, restore_target=Target.FLINK)
    return folder / "savepoint"


@pytest.mark.parametrize(("backend", "parallelism"), [("hashmap", 1), ("rocksdb", 3)])
def test_flink_restores_the_variables_of_transform_with_state(
    flink, flink_restore, same_contents, restorations, savepoint, tmp_path, backend, parallelism
):
    classes = flink("2.3").compile(tmp_path, JAVA)
    (tmp_path / "job").write_text(DESCRIPTORS, encoding="utf-8")

    restored = flink_restore(
        savepoint, scenario=f"@{tmp_path / 'job'}", backend=backend, parallelism=parallelism, ttl=["last"],
        classes=classes,
    )  # fmt: skip

    expected = {"operators": [tagged_operator(one, one.states) for one in Savepoint.open(savepoint).operators]}
    (keyed,) = (one["keyed"] for one in expected["operators"])
    assert {name: len(state["entries"]) for name, state in keyed.items()} == dict.fromkeys(keyed, 2)
    assert len(keyed) == 4
    assert same_contents(expected, restored) == []
    restorations.append(("of a checkpoint of Spark", "-", "2.3", backend, parallelism))
