"""A job of PyFlink with state of every kind; of each line, a key and a number, it yields all that its key has.

The text is run by PyFlink, and with the imports changed by the local environment and by a query on Spark.
"""

import json

from pyflink.common import Row, Time, Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

LATER_MS = 4102444800000


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


class Everything(KeyedProcessFunction):
    def open(self, context):
        long, string = Types.LONG(), Types.STRING()
        self.count = context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.last = context.get_state(ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [long, string])))
        self.note = context.get_state(ValueStateDescriptor("note", Types.PICKLED_BYTE_ARRAY()))
        kept = ValueStateDescriptor("kept", string)
        kept.enable_time_to_live(StateTtlConfig.new_builder(Time.days(7)).build())
        self.kept = context.get_state(kept)
        self.events = context.get_list_state(ListStateDescriptor("events", Types.TUPLE([long, string])))
        self.counts = context.get_map_state(MapStateDescriptor("counts", string, Types.INT()))
        self.total = context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, Types.DOUBLE()))
        pair = Types.TUPLE([long, long])
        self.mean = context.get_aggregating_state(AggregatingStateDescriptor("mean", Average(), pair))

    def process_element(self, line, ctx):
        key, number = map(int, line.split(" "))
        self.count.update((self.count.value() or 0) + 1)
        self.last.update(Row(at=number, text=f"n{number}"))
        self.note.update({"seen": [*(self.note.value() or {"seen": []})["seen"], number]})
        self.kept.update((self.kept.value() or "") + f"k{number}")
        self.events.add((number, f"é{number}"))
        kind = "even" if number % 2 == 0 else "odd"
        self.counts.put(kind, (self.counts.get(kind) or 0) + 1)
        self.total.add(number / 4)
        self.mean.add(number)
        ctx.timer_service().register_processing_time_timer(LATER_MS + number)
        ctx.timer_service().register_event_time_timer(LATER_MS + number)
        last = self.last.value()
        yield json.dumps(
            [
                key,
                {
                    "count": self.count.value(), "last": [last[0], last[1]], "note": self.note.value(),
                    "kept": self.kept.value(), "events": [[*one] for one in self.events.get()],
                    "counts": dict(sorted(self.counts.items())), "total": self.total.get(), "mean": self.mean.get(),
                },
            ]
        )  # fmt: skip

    def on_timer(self, timestamp, ctx):
        yield from ()


def make(keyed):
    return keyed.process(Everything(), Types.STRING()).uid("everything")
