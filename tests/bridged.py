"""A query of Spark with each kind of variable, a function that does the same, and a savepoint that leads over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs
from spark_queries import F, settings

from stateshift import (
    Job,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    StateSource,
    StateTtlConfig,
    ValueStateDescriptor,
    bootstrap,
    record,
)
from stateshift.spark import position_of

DAY = timedelta(days=1)
DAY_MS = 86_400_000
OUTPUT = "a string, first string, sum bigint, names string, parts string, last string, ended bigint"
STORE = "spark__sql__streaming__stateStore__providerClass"
TRANSFORM = {
    STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark__sql__streaming__noDataMicroBatches__enabled": "false",
}


def keeping(rows, initial=None):
    """A query with a value, a list, a map, a value with a time to live, and a timer for each key."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Keeping(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.total = handle.getValueState("total", "first string, sum bigint")
            self.names = handle.getListState("names", "name string")
            self.parts = handle.getMapState("parts", "part int", "sum bigint")
            self.last = handle.getValueState("last", "name string", DAY_MS)

        def handleInitialState(self, key, initial, timerValues):  # noqa: N802, N803 - Spark's names
            if initial.total is not None:
                self.total.update((initial.total["first"], initial.total["sum"]))
            if initial.names:
                self.names.put([(name,) for name in initial.names])
            for part, total in initial.parts or ():
                self.parts.updateValue((part,), (total,))
            if initial.last is not None:
                self.last.update((initial.last,))
            for time_ms in initial.timers or ():
                self.handle.registerTimer(time_ms)

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
            for row in rows:
                first, total = self.total.get() or (row.b, 0)
                self.total.update((first, total + row.w))
                self.names.appendValue((row.b,))
                before = self.parts.getValue((row.v,))[0] if self.parts.containsKey((row.v,)) else 0
                self.parts.updateValue((row.v,), (before + row.w,))
                self.last.update((row.b,))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + DAY_MS)
            yield self.result(key, None)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
            yield self.result(key, expiredTimerInfo.getExpiryTimeInMs())

        def result(self, key, ended):
            first, total = self.total.get()
            names = " ".join(name for (name,) in self.names.get())
            parts = str(sorted((part, value) for (part,), (value,) in self.parts.iterator()))
            last = (self.last.get() or (None,))[0]
            return Row(a=key[0], first=first, sum=total, names=names, parts=parts, last=last, ended=ended)

        def close(self):
            pass

    grouped = rows.groupBy("a")
    return grouped.transformWithState(Keeping(), OUTPUT, "update", "processingTime", initialState=initial)


@record(java_class="bridged.Total")
@attrs.frozen
class Total:
    first: str
    sum: int


def in_days(state):
    state.enable_time_to_live(StateTtlConfig.new_builder(DAY).build())
    return state


TOTAL = ValueStateDescriptor("total", Total)
NAMES, PARTS = ListStateDescriptor("names", str), MapStateDescriptor("parts", int, int)
LAST = in_days(ValueStateDescriptor("last", str))
STATES = [TOTAL, NAMES, PARTS, LAST]


class Keeping(KeyedProcessFunction):
    """Does with a row what the query above does."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(TOTAL)
        self.names = runtime_context.get_list_state(NAMES)
        self.parts = runtime_context.get_map_state(PARTS)
        self.last = runtime_context.get_state(LAST)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, str, int, str, str, str | None]]:
        before, last = self.total.value() or Total(row.b, 0), self.last.value()
        self.total.update(Total(before.first, before.sum + row.w))
        self.names.add(row.b)
        self.parts.put(row.v, (self.parts.get(row.v) or 0) + row.w)
        self.last.update(row.b)
        parts = str(sorted(self.parts.items()))
        yield row.a, before.first, before.sum + row.w, " ".join(self.names.get()), parts, last


def bridged(stream, target, rows, **options):
    """Run the query on two batches of rows, and make a savepoint of its checkpoint."""
    with settings(stream.spark, **TRANSFORM):
        for batch in (rows[:2], rows[2:]):
            stream.rows(*batch)
            stream.run(keeping(stream.source()))
    names = variable(stream, stateVarName="names", flattenCollectionTypes="false")
    parts = variable(stream, stateVarName="parts").select("key.a", "user_map_key.part", "user_map_value.sum")
    accessed = F.col("value.ttlExpirationMs") - DAY_MS
    last = F.struct(accessed.alias("last_access_ms"), F.col("value.value.name").alias("value")).alias("last")
    sources = {
        "total": (variable(stream, stateVarName="total").select("key.a", "value.*"), {}),
        "names": (names.select("key.a", F.col("list_value.name").alias("names")), {"value": "names"}),
        "parts": (parts, {"user_key": "part", "value": "sum"}),
        "last": (variable(stream, stateVarName="last").select("key.a", last), {"value": "last"}),
    }
    bootstrap(
        target,
        Job([Operator("keeping", key=str, states=STATES)]),
        [StateSource("keeping", state, rows, key_by="a", **how) for state, (rows, how) in sources.items()],
        position=position_of(stream.checkpoint, stream.source()),
        **options,
    )


def variable(stream, **options):
    return stream.spark.read.format("statestore").options(**options).load(stream.checkpoint)
