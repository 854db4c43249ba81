"""Programs of Flink's documentation on Spark: run, gone on with, and rescaled."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented_programs import ELEMENTS, averages, buffers, counts, taken_over

from stateshift.pyflink.datastream import SinkFunction
from stateshift.pyflink.datastream.state import ListStateDescriptor
from stateshift.pyflink.extensions import CheckpointedFunction

BACKEND = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
BY = pytest.mark.parametrize("by", ["checkpoint", "savepoint"])


def test_a_count_window_average_goes_on_from_its_checkpoint_with_another_parallelism(run):
    # The elements that were read are not read again.
    assert [(1, 4), (1, 5)] == run(averages, (ELEMENTS[:3], 1), (ELEMENTS, 3))


@pytest.mark.slow
@BACKEND
def test_a_count_window_average_goes_on_from_a_savepoint(run, backend):
    steps = (ELEMENTS[:3], 1), (ELEMENTS[3:], 3)

    assert [(1, 4), (1, 5)] == run(averages, *steps, by="savepoint", backend=backend)


@pytest.mark.slow
@BY
def test_a_buffering_sink_takes_over_the_list_of_the_older_interface(run, by):
    assert [[1, 2, 3]] == run(taken_over, ([1, 2], 1), ([1, 2, 3] if by == "checkpoint" else [3], 1), by=by)


@pytest.mark.slow
@BY
def test_a_buffering_sink_is_rescaled(run, by):
    first, both = [5, 6, 7, 8, 9], ([], [1]) if by == "savepoint" else ([5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 1])

    assert [[5, 6, 7], [8, 9, 1]] == run(buffers, (first, 1), (both[0], 2), (both[1], 1), by=by)


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


@pytest.mark.slow
@BY
@BACKEND
def test_a_counter_source_and_a_map_with_state(run, by, backend):
    expected = [(number, number // 2) for number in range(9)]

    assert expected == sorted(run(counts, (4, 1), (7, 3), (9, 2), by=by, backend=backend))
