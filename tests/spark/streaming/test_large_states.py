"""A query whose state is large enough to be divided: batches, another number of slots, a savepoint."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from stateshift import KeyedProcessFunction, Savepoint, ValueStateDescriptor
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.formats.flink.database_files import open_database_of
from stateshift.state.savepoint.states import keyed_handles

KEYS = 60_000


class Blobs(KeyedProcessFunction):
    """Keeps bytes that do not compress, and emits the key and how many times it has come."""

    def open(self, runtime_context):
        self.blob = runtime_context.get_state(ValueStateDescriptor("blob", bytes))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        before = self.blob.value()
        times = 1 if before is None else before[0] + 1
        self.blob.update(bytes([times]) + random.Random(value).randbytes(700))  # noqa: S311 - no secret
        yield value, times


def blobs(job, query):
    return job.stream(query.frame()).key_by("number").process(Blobs(), uid="blobs")


def entries_by_family(query):
    """Return the number of entries of each column family of the slots."""
    found, stored = {}, Savepoint.open(query.place / "state")
    (operator,) = (one for one in stored.metadata.operators if one.uid == "blobs")
    for handle in keyed_handles(operator):
        with open_database_of(handle, stored.folder) as database:
            for name in (part for parts in database._tables.values() for part in parts):
                found[name] = found.get(name, 0) + database._count(name)
    return found


@pytest.mark.slow
def test_a_large_state_is_divided_and_goes_to_other_slots(query, tmp_path):
    numbers = query("number long", slots=1)
    numbers.feed(*((key,) for key in range(KEYS)))
    numbers.feed(*((key,) for key in range(100)))
    numbers.run(blobs)

    divided = {name: count for name, count in entries_by_family(numbers).items() if name.startswith("stateshift/")}
    assert {f"stateshift/range-{start}-{start + 15}/blob" for start in range(0, 128, 16)} == divided.keys()
    assert sum(divided.values()) == KEYS

    numbers.feed(*((key,) for key in range(200)))
    numbers.run(blobs, slots=3)
    parts = entries_by_family(numbers)
    assert sum(count for name, count in parts.items() if name.endswith("blob")) == KEYS
    numbers.feed(*((key,) for key in range(50, 300)))
    numbers.run(blobs, slots=2)
    take_savepoint(numbers.place / "state", tmp_path / "savepoint")

    times = {}
    for key, one in numbers.results():
        times[key] = [*times.get(key, []), one]
    comings = [KEYS, 100, 200]
    for key, found in times.items():
        wanted = sum(key < some for some in comings) + (50 <= key < 300)
        assert sorted(found) == list(range(1, wanted + 1))
    assert len(times) == KEYS
    stored = Savepoint.open(tmp_path / "savepoint").operator("blobs").state("blob").read_entries()
    assert {entry.key: entry.value[0] for entry in stored} == {key: len(found) for key, found in times.items()}
