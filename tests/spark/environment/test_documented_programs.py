"""Programs of Flink's documentation on Spark: run, gone on with, and rescaled."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import FlatMapFunction, SinkFunction
from stateshift.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.extensions import (
    CheckpointedFunction,
    CheckpointedRestoring,
    ListCheckpointed,
    SourceFunction,
    map_with_state,
)

BACKEND = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
BY = pytest.mark.parametrize("by", ["checkpoint", "savepoint"])
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


def test_a_count_window_average_goes_on_from_its_checkpoint_with_another_parallelism(run):
    # The elements that were read are not read again.
    assert [(1, 4), (1, 5)] == run(averages, (ELEMENTS[:3], 1), (ELEMENTS, 3))


@pytest.mark.slow
@BACKEND
def test_a_count_window_average_goes_on_from_a_savepoint(run, backend):
    steps = (ELEMENTS[:3], 1), (ELEMENTS[3:], 3)

    assert [(1, 4), (1, 5)] == run(averages, *steps, by="savepoint", backend=backend)


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


@pytest.mark.slow
@BY
def test_a_buffering_sink_takes_over_the_list_of_the_older_interface(run, by):
    def program(env, elements):
        function = Earlier() if elements == [1, 2] else BufferingSink()
        return env.from_collection(elements).rebalance().flat_map(function).uid("sink")

    assert [[1, 2, 3]] == run(program, ([1, 2], 1), ([1, 2, 3] if by == "checkpoint" else [3], 1), by=by)


@pytest.mark.slow
@BY
def test_a_buffering_sink_is_rescaled(run, by):
    def program(env, elements):
        return env.from_collection(elements).rebalance().flat_map(BufferingSink()).uid("sink")

    first, both = [5, 6, 7, 8, 9], ([], [1]) if by == "savepoint" else ([5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 1])

    assert [[5, 6, 7], [8, 9, 1]] == run(program, (first, 1), (both[0], 2), (both[1], 1), by=by)


class Sending(SinkFunction, CheckpointedFunction):
    """The same as a sink, whose state is that of an operator: it is called in Spark's workers."""

    def __init__(self, place):
        self.place, self.buffered = place, []

    def invoke(self, value):
        self.buffered.append(value)
        if len(self.buffered) == 3:
            with Path(self.place).open("a", encoding="utf-8") as file:
                file.write(f"{self.buffered}\n")
            self.buffered = []

    def snapshot_state(self, context):
        self.state.update(self.buffered)

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffered-elements", int))
        self.buffered += self.state.get()


@pytest.mark.slow
def test_a_sink_with_state_is_gone_on_with_and_rescaled(run, tmp_path):
    def program(env, elements):
        env.from_collection(elements).rebalance().add_sink(Sending(str(tmp_path / "sent"))).uid("sink")

    run(program, ([5, 6, 7, 8, 9], 1), ([], 2), ([1], 1), by="savepoint")

    assert ["[5, 6, 7]", "[8, 9, 1]"] == (tmp_path / "sent").read_text().splitlines()


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


@pytest.mark.slow
@BY
@BACKEND
def test_a_counter_source_and_a_map_with_state(run, by, backend):
    def program(env, until):
        keyed = env.add_source(CounterSource(until)).uid("counter").key_by(lambda number: number % 2, Types.LONG())
        count = map_with_state(lambda number, count: ((number, count or 0), (count or 0) + 1), int)
        return keyed.process(count).uid("count")

    expected = [(number, number // 2) for number in range(9)]

    assert expected == sorted(run(program, (4, 1), (7, 3), (9, 2), by=by, backend=backend))
