"""The job after its change; for each line it yields the state of the key before it, as JSON, and goes on with it."""

import json

import store
from pyflink.common import Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Sums(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])


class Counts(KeyedProcessFunction):
    def open(self, context):
        long, string = Types.LONG(), Types.STRING()
        self.count = context.get_state(ValueStateDescriptor("count", string))
        self.title = context.get_state(ValueStateDescriptor("title", string))
        self.events = context.get_list_state(ListStateDescriptor("events", string))
        self.counts = context.get_map_state(MapStateDescriptor("counts", string, string))
        self.sum = context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, long))
        pair = Types.TUPLE([long, long])
        self.pair = context.get_aggregating_state(AggregatingStateDescriptor("pair", Sums(), pair))
        row = Types.ROW_NAMED(["id", "name", "visits"], [long, string, long])
        self.account = context.get_state(ValueStateDescriptor("account", row))
        self.moved = context.get_state(ValueStateDescriptor("moved", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, line, context):
        key, text = line.split(" ")
        account, moved = self.account.value(), self.moved.value()
        assert isinstance(moved, store.Account)
        found = {
            "count": self.count.value(),
            "title": self.title.value(),
            "events": list(self.events.get()),
            "counts": dict(self.counts.items()),
            "sum": self.sum.get(),
            "pair": list(self.pair.get()),
            "account": [account["id"], account["name"], account["visits"]],
            "moved": [moved.number, moved.name, moved.visits],
        }
        self.count.update(str(int(found["count"]) + 1))
        self.events.add(text)
        self.counts.put(text, "new")
        self.sum.add(1)
        yield json.dumps([int(key), found])

    def on_timer(self, timestamp, context):
        yield from ()


def make(keyed):
    return keyed.process(Counts(), Types.STRING()).uid("counts")
