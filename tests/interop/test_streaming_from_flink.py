"""A savepoint of Flink begins a query on Spark, and real Flink goes on from a savepoint of that query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from streaming_batches import close_slots
from streaming_queries import Query

from stateshift import KeyedProcessFunction, Savepoint, ValueStateDescriptor
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.savepoint.states import keyed_handles

NAME, UID = "rocksdb-string-p1-m128", "keyed-op"
MARK_MS = 45_000
"""The time stamp of the stream's only row; event time comes to one millisecond before."""


@attrs.frozen
class Visit:
    user: str
    amount: int


class Counts(KeyedProcessFunction):
    """Adds to one of the states that the job in Flink had, and yields its timers as they fire."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.value() or 0) + value.amount)
        yield from ()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def stored_bytes(place):
    """The bytes of all values of an operator, by state and bytes of the key; timers are keys without a value."""
    savepoint = Savepoint.open(place)
    operator = savepoint.operator(UID)
    found = {}
    for handle in keyed_handles(operator.stored):
        with open_keyed(handle, savepoint.folder, operator.max_parallelism) as reader:
            names = [info.name for info in reader.header.states]
            for block in reader.blocks():
                found |= {(names[block.state_id], bytes(key)): bytes(value) for key, value in block.items()}
    return found


def test_flink_to_spark_and_back(
    spark, flink_restore, same_contents, savepoint_of, expected_of, restorations, tmp_path
):
    flink = savepoint_of(NAME)
    query = Query(spark, tmp_path, "user string, amount long, at long", slots=3)
    begin = {"from_savepoint": flink, "allow_non_restored_state": True}

    def build(job, query):
        return job.stream(query.frame(), timestamp="at").key_by("user").process(Counts(), uid=UID)

    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    query.feed(("key-4", 1000, MARK_MS))
    query.run(build, begin=begin)
    query.feed(("key-4", 1, MARK_MS))
    query.run(build, begin=begin)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    close_slots()
    take_savepoint(tmp_path / "state", tmp_path / "savepoint")

    contents = expected_of(NAME)
    contents["operators"] = [one for one in contents["operators"] if one["uid"] == UID]
    (operator,) = contents["operators"]
    timers = operator["timers"]["event"]
    due = [(key, at) for key, _, at in timers if at < MARK_MS]
    assert sorted(due) == sorted(query.results())
    operator["timers"]["event"] = [timer for timer in timers if timer[2] >= MARK_MS]
    counts = operator["keyed"]["count"]["entries"]
    operator["keyed"]["count"]["entries"] = [[key, n + 1001 * (key == "key-4")] for key, n in counts]
    for backend, parallelism in (("hashmap", None), ("rocksdb", 2)):
        restored = flink_restore(tmp_path / "savepoint", backend=backend, parallelism=parallelism)
        assert same_contents(contents, restored) == []
        restorations.append((f"{NAME} by a query on Spark", "2.3", "2.3", backend, parallelism))
    before, after = stored_bytes(flink), stored_bytes(tmp_path / "savepoint")
    changed = [place for place in before.keys() & after.keys() if before[place] != after[place]]
    assert ["count"] == [state for state, _ in changed]
    assert after.keys() <= before.keys()
    assert len(due) == len(before) - len(after)
