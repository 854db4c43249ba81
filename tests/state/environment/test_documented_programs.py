"""Programs of Flink's documentation, in Python: run, restored and rescaled, on both backends."""

from __future__ import annotations

import pytest

from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.extensions import (
    CheckpointedFunction,
    CheckpointedRestoring,
    ListCheckpointed,
    SourceFunction,
    map_with_state,
)

BACKEND = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


@pytest.fixture
def run(tmp_path):
    """`run(program, backend, *steps)`: each step (input, parallelism) goes on from the one before; all results."""

    def run(program, backend, *steps):
        seen = []
        for number, (given, parallelism) in enumerate(steps):
            keys = {"state.backend.type": backend, "parallelism.default": parallelism}
            if number:
                keys["execution.savepoint.path"] = tmp_path / f"sp-{number - 1}"
            env = StreamExecutionEnvironment.get_execution_environment(keys)
            program(env, given).add_sink(seen.append).set_parallelism(1)
            env.execute(savepoint=tmp_path / f"sp-{number}")
        return seen

    return run


class CountWindowAverage(FlatMapFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("average", Types.TUPLE([Types.LONG(), Types.LONG()]))
        self.sum = runtime_context.get_state(descriptor)

    def flat_map(self, value):
        count, total = self.sum.value() or (0, 0)
        count, total = count + 1, total + value[1]
        if count < 2:
            self.sum.update((count, total))
        else:
            self.sum.clear()
            yield value[0], total // count


ELEMENTS = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]


@BACKEND
@pytest.mark.parametrize("steps", [[(ELEMENTS, 1)], [(ELEMENTS[:3], 1), (ELEMENTS[3:], 3)]])
def test_count_window_average(run, backend, steps):
    def program(env, given):
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        keyed = env.from_collection(given, pair).key_by(lambda value: value[0], Types.LONG())
        return keyed.flat_map(CountWindowAverage()).uid("average")

    assert [(1, 4), (1, 5)] == run(program, backend, *steps)


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


@BACKEND
def test_buffering_sink(run, backend):
    def program(env, given):
        function = Earlier() if given == [1, 2] else BufferingSink()
        return env.from_collection(given).rebalance().flat_map(function).uid("sink")

    assert [[1, 2, 3]] == run(program, backend, ([1, 2], 1), ([3], 1))


@BACKEND
def test_a_buffering_sink_is_rescaled(run, backend):
    def program(env, given):
        return env.from_collection(given).rebalance().flat_map(BufferingSink()).uid("sink")

    assert [[5, 6, 7], [8, 9, 1]] == run(program, backend, ([5, 6, 7, 8, 9], 1), ([], 2), ([1], 1))


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


@BACKEND
def test_a_counter_source_and_a_map_with_state(run, backend):
    def program(env, until):
        keyed = env.add_source(CounterSource(until)).uid("counter").key_by(lambda number: number % 2, Types.LONG())
        count = map_with_state(lambda number, count: ((number, count or 0), (count or 0) + 1), int)
        return keyed.process(count).uid("count")

    expected = [(number, number // 2) for number in range(9)]

    assert expected == run(program, backend, (4, 1), (7, 3), (9, 2))
