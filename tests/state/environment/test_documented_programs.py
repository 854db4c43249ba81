"""Programs of Flink's documentation, in Python: run, restored and rescaled, on both backends."""

from __future__ import annotations

import pytest
from documented_programs import ELEMENTS, averages, buffers, counts, taken_over

from stateshift.pyflink.datastream import StreamExecutionEnvironment

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


@BACKEND
@pytest.mark.parametrize("steps", [[(ELEMENTS, 1)], [(ELEMENTS[:3], 1), (ELEMENTS[3:], 3)]])
def test_count_window_average(run, backend, steps):
    assert [(1, 4), (1, 5)] == run(averages, backend, *steps)


@BACKEND
def test_buffering_sink(run, backend):
    assert [[1, 2, 3]] == run(taken_over, backend, ([1, 2], 1), ([3], 1))


@BACKEND
def test_a_buffering_sink_is_rescaled(run, backend):
    assert [[5, 6, 7], [8, 9, 1]] == run(buffers, backend, ([5, 6, 7, 8, 9], 1), ([], 2), ([1], 1))


@BACKEND
def test_a_counter_source_and_a_map_with_state(run, backend):
    expected = [(number, number // 2) for number in range(9)]

    assert expected == run(counts, backend, (4, 1), (7, 3), (9, 2))
