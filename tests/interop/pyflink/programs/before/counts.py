"""A job of PyFlink that keeps state of every kind; it yields a line for each line that it gets."""

import shop
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
        long, string, pickled = Types.LONG(), Types.STRING(), Types.PICKLED_BYTE_ARRAY()
        self.count = context.get_state(ValueStateDescriptor("count", long))
        self.name = context.get_state(ValueStateDescriptor("name", string))
        self.events = context.get_list_state(ListStateDescriptor("events", string))
        self.counts = context.get_map_state(MapStateDescriptor("counts", string, long))
        self.sum = context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, long))
        pair = Types.TUPLE([long, long])
        self.pair = context.get_aggregating_state(AggregatingStateDescriptor("pair", Sums(), pair))
        self.account = context.get_state(ValueStateDescriptor("account", pickled))
        self.moved = context.get_state(ValueStateDescriptor("moved", pickled))

    def process_element(self, line, context):
        key, text = line.split(" ")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.name.update(f"name-{key}-ä")
        self.events.add(text)
        self.counts.put(text, count)
        self.sum.add(count)
        self.pair.add(count)
        self.account.update(shop.Account(int(key), f"a{key}", count))
        self.moved.update(shop.Account(int(key), f"m{key}", count))
        context.timer_service().register_processing_time_timer(4102444800000 + count)
        yield line

    def on_timer(self, timestamp, context):
        yield from ()


def make(keyed):
    return keyed.process(Counts(), Types.STRING()).uid("counts")
