"""The state of Spark's queries becomes a savepoint, from which a function goes on; and a savepoint an initial state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from bridged import DAY_MS, STATES, TRANSFORM, Keeping, Total, bridged, keeping, variable
from spark_queries import F, Stream, settings

from stateshift import (
    DeclarationError,
    Job,
    KeyedProcessFunction,
    Operator,
    Savepoint,
    SavepointWriter,
    StateSource,
    TimerServiceDescriptor,
    TtlValue,
    ValueStateDescriptor,
    bootstrap,
)
from stateshift.spark import StreamJob, position_of, register


@attrs.frozen
class Counted:
    rows: int
    weight: int | None
    sum: float
    count: int


COUNTED = ValueStateDescriptor("counted", Counted)


class Counting(KeyedProcessFunction):
    """Goes on with the buffers of the aggregates."""

    def open(self, runtime_context):
        self.counted = runtime_context.get_state(COUNTED)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int, int, float]]:
        before = self.counted.value() or Counted(0, None, 0.0, 0)
        after = Counted(before.rows + 1, (before.weight or 0) + row.w, before.sum + row.v, before.count + 1)
        self.counted.update(after)
        yield row.a, after.rows, after.weight, after.sum / after.count


ROWS = [("x", "p", 10, 1), ("y", "q", 20, 2), ("x", "r", 5, 1), ("x", "p", 1, 7)]
MORE = [("x", "s", 100, 7), ("z", "t", 3, 3)]


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path)


def goes_on(stream, function, savepoint):
    """Run a function on what the query of a checkpoint has not read; return its results."""
    job = StreamJob(stream.folder / "state", stream.folder / "new", slots=2)
    results = job.stream(stream.source()).key_by("a").process(function, uid="keeping")
    writer = results.writeStream.format("parquet").option("path", str(stream.folder / "results"))
    job.start(writer, available_now=True, from_savepoint=savepoint, take_offsets=True).awaitTermination()
    return sorted(tuple(row) for row in stream.spark.read.parquet(str(stream.folder / "results")).collect())


def contents(savepoint, state):
    return {
        entry.key: entry.value for entry in Savepoint.open(savepoint).operator("keeping").state(state).read_entries()
    }


@pytest.mark.slow
def test_variables_of_transform_with_state_become_states_from_which_a_function_goes_on(stream, tmp_path, facts_of):
    bridged(stream, tmp_path / "savepoint", ROWS)
    before = facts_of(stream.checkpoint)

    totals = contents(tmp_path / "savepoint", "total")
    assert {key: total._asdict() for key, total in totals.items()} == {
        "x": {"first": "p", "sum": 16},
        "y": {"first": "q", "sum": 20},
    }
    assert contents(tmp_path / "savepoint", "names") == {"x": ["p", "r", "p"], "y": ["q"]}
    assert contents(tmp_path / "savepoint", "parts") == {"x": {1: 15, 7: 1}, "y": {2: 20}}
    last = variable(stream, stateVarName="last").collect()
    deadlines = {row.key.a: row.value.ttlExpirationMs for row in last}
    assert contents(tmp_path / "savepoint", "last") == {
        key: TtlValue(deadlines[key] - DAY_MS, name) for key, name in {"x": "p", "y": "q"}.items()
    }
    timers = variable(stream, readRegisteredTimers="true").collect()
    assert {row.key.a for row in timers} == {"x", "y"}
    stream.rows(*MORE)
    assert goes_on(stream, Keeping(), tmp_path / "savepoint") == [
        ("x", "p", 116, "p r p s", "[(1, 15), (7, 101)]", "p"),
        ("z", "t", 3, "t", "[(3, 3)]", None),
    ]
    assert facts_of(stream.checkpoint) == before


@pytest.mark.slow
def test_the_buffers_of_an_aggregation_become_a_record(stream, tmp_path):
    def query():
        return stream.source().groupBy("a").agg(F.count("*"), F.sum("w"), F.avg("v"))

    stream.rows(*ROWS)
    assert stream.run(query()) == [("x", 3, 16, 3.0), ("y", 1, 20, 2.0)]
    stored = stream.spark.read.format("statestore").load(stream.checkpoint)
    buffers = F.col("value").cast("struct<rows: bigint, weight: bigint, sum: double, count: bigint>").alias("value")
    bootstrap(
        tmp_path / "savepoint",
        Job([Operator("keeping", key=str, states=[COUNTED])]),
        StateSource("keeping", "counted", stored.select("key.a", buffers).select("a", "value.*"), key_by="a"),
        position=position_of(f"spark:{stream.checkpoint}", stream.source()),
    )

    stream.rows(*MORE)
    went_on = goes_on(stream, Counting(), tmp_path / "savepoint")
    assert went_on == stream.run(query()) == [("x", 4, 116, 4.0), ("z", 1, 3, 3.0)]


@pytest.mark.slow
def test_a_savepoint_is_the_initial_state_of_transform_with_state(stream, tmp_path):
    job = Job([Operator("keeping", key=str, states=STATES, timers=[TimerServiceDescriptor()])])
    with SavepointWriter(tmp_path / "savepoint", job) as writer:
        writer.put("keeping", "total", "x", Total("p", 16))
        writer.put("keeping", "names", "x", ["p", "r", "p"])
        writer.put("keeping", "parts", "x", {1: 15, 7: 1})
        writer.put("keeping", "last", "x", TtlValue(1, "p"))
        writer.put("keeping", "total", "y", Total("q", 20))
        writer.register_processing_time_timer("keeping", 1, "y")
    register(stream.spark)

    def state(name, column="value"):
        options = {"operator": "keeping", "state": name}
        read = stream.spark.read.format("savepoint").options(**options).load(str(tmp_path / "savepoint"))
        return read.withColumnRenamed("key", "a").withColumn(name, F.col(column))

    entries = F.map_from_entries(F.collect_list(F.struct("user_key", "value"))).alias("parts")
    timers = F.collect_list("timestamp_ms").alias("timers")
    initial = state("total").select("a", "total")
    for other in (
        state("names").select("a", "names"),
        state("parts").groupBy("a").agg(entries),
        state("last", "value.value").select("a", "last"),
        state("_timer_state/processing_user-timers", "timestamp_ms").groupBy("a").agg(timers),
    ):
        initial = initial.join(other, "a", "full")

    with settings(stream.spark, **TRANSFORM):
        stream.rows(*MORE)
        first = stream.run(keeping(stream.source(), initial.groupBy("a")))
        stream.rows(("y", "u", 1, 1))
        second = stream.run(keeping(stream.source()))

    assert first == [
        ("x", "p", 116, "p r p s", "[(1, 15), (7, 101)]", "s", None),
        ("y", "q", 20, "", "[]", None, 1),
        ("z", "t", 3, "t", "[(3, 3)]", "t", None),
    ]
    assert second == [("y", "q", 21, "u", "[(1, 1)]", "u", None)]


def test_offsets_that_would_not_fit_are_refused_before_a_savepoint_is_made(stream, spark):
    checkpoint = Path(stream.checkpoint)
    with pytest.raises(DeclarationError, match=r"no batch is committed in .*checkpoint"):
        position_of(checkpoint, stream.source())
    for log, text in {"offsets": 'v1\n{"conf":{}}\n{"logOffset":3}', "commits": "v1\n{}"}.items():
        (checkpoint / log).mkdir(parents=True)
        (checkpoint / log / "7").write_text(text)

    position = position_of(checkpoint, stream.source())

    assert position["batch"] == 7
    assert position["sources"] == [f"FileSource[{stream.folder / 's'}]"]
    with pytest.raises(DeclarationError, match=r"has 1 sources, and the new one 2: FileSource"):
        position_of(checkpoint, stream.source(), stream.source("t"))
    with pytest.raises(DeclarationError, match="not known whether the source 'socket'"):
        position_of(checkpoint, spark.readStream.format("socket").options(host="localhost", port=1).load())
    (checkpoint / "offsets" / "7").write_text('v2\n{"conf":{}}\n0:{"logOffset":3}')
    with pytest.raises(DeclarationError, match=r"offsets of the checkpoint .* in another format than v1"):
        position_of(checkpoint, stream.source())
