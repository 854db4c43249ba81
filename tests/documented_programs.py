"""Programs of Flink's documentation, in Python."""

from __future__ import annotations

from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import FlatMapFunction
from stateshift.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.extensions import (
    CheckpointedFunction,
    CheckpointedRestoring,
    ListCheckpointed,
    SourceFunction,
    map_with_state,
)

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
ELEMENTS = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]


class CountWindowAverage(FlatMapFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", PAIR))

    def flat_map(self, value):
        count, total = self.sum.value() or (0, 0)
        count, total = count + 1, total + value[1]
        if count < 2:
            self.sum.update((count, total))
        else:
            self.sum.clear()
            yield value[0], total // count


def averages(env, elements):
    keyed = env.from_collection(elements, PAIR).key_by(lambda value: value[0], Types.LONG())
    return keyed.flat_map(CountWindowAverage()).uid("average")


class BufferingSink(FlatMapFunction, CheckpointedFunction, CheckpointedRestoring):
    """Sends elements by the three."""

    state_type = int

    def __init__(self):
        self.buffered = []

    def flat_map(self, value):
        self.buffered.append(value)
        if len(self.buffered) == 3:
            yield self.buffered
            self.buffered = []

    def snapshot_state(self, context):
        self.state.update(self.buffered)

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffered-elements", int))
        self.buffered += self.state.get()

    def restore_state(self, state):
        self.buffered += state


def buffers(env, elements):
    return env.from_collection(elements).rebalance().flat_map(BufferingSink()).uid("sink")


class Earlier(FlatMapFunction, ListCheckpointed):
    """What it was before: its elements are in the list of the older interface."""

    state_type = int

    def __init__(self):
        self.buffered = []

    def flat_map(self, value):
        self.buffered.append(value)

    def snapshot_state(self, checkpoint_id, timestamp):
        return self.buffered

    def restore_state(self, state):
        self.buffered = state


def taken_over(env, elements):
    """Elements 1 and 2 come to what the sink was before."""
    function = Earlier() if elements == [1, 2] else BufferingSink()
    return env.from_collection(elements).rebalance().flat_map(function).uid("sink")


class CounterSource(SourceFunction, ListCheckpointed):
    """Emits numbers, and moves its offset under the checkpoint lock."""

    state_type = int

    def __init__(self, until):
        self.until, self.offset = until, 0

    def run(self, ctx):
        while self.offset < self.until:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1

    def cancel(self):
        self.until = 0

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.offset]

    def restore_state(self, state):
        (self.offset,) = state


def counts(env, until):
    keyed = env.add_source(CounterSource(until)).uid("counter").key_by(lambda number: number % 2, Types.LONG())
    count = map_with_state(lambda number, count: ((number, count or 0), (count or 0) + 1), int)
    return keyed.process(count).uid("count")
