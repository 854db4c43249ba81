"""Keys whose Java hash is stable, and of no fixed size: real Flink finds what is written under them."""

from __future__ import annotations

import pytest

from stateshift import BigInt, Job, Operator, SavepointWriter, ValueStateDescriptor

BIG = [0, 1, -1, 10, 2**31, -(2**32), 2**64 + 7, -(2**200)]
LISTS = [[1], [1, 2], [-1, 2**40], [7] * 20]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("hint", "keys"),
    [
        (BigInt, BIG),
        (list[int], LISTS),
        (tuple[BigInt, str], [(key, "a") for key in BIG]),
        (list[BigInt], [[key, 5] for key in BIG]),
        (list[str], [["a"], ["a", "é"], ["", "b"]]),
    ],
    ids=["big integers", "lists", "tuples", "lists of big integers", "lists of texts"],
)
def test_flink_finds_the_value_of_each_key(flink_restore, tmp_path, hint, keys, backend):
    job = Job([Operator("keyed", key=hint, states=[ValueStateDescriptor("place", int)])])
    with SavepointWriter(tmp_path / "written", job, parallelism=3) as writer:
        for place, key in enumerate(keys):
            writer.put("keyed", "place", key, place)

    restored = flink_restore(tmp_path / "written", backend=backend)

    assert "restored" == restored["status"], restored
    (operator,) = restored["operators"]
    assert list(range(len(keys))) == sorted(value for _, value in operator["keyed"]["place"]["entries"])
