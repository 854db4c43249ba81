"""Programs on the session of all tests."""

from __future__ import annotations

import pytest

from stateshift.pyflink.datastream import StreamExecutionEnvironment


@pytest.fixture
def run(stateshift_spark, tmp_path):
    """`run(program, (input, parallelism), …, by="savepoint")`: all results of runs that go on from each other.

    They do by a savepoint, each with a checkpoint of its own; or by the checkpoint, which all have.
    """

    def run(program, *steps, by="checkpoint", backend="rocksdb", **options):
        seen = []
        for number, (given, parallelism) in enumerate(steps):
            keys = {"parallelism.default": parallelism, "state.backend.type": backend}
            places = {"checkpoint": tmp_path / "checkpoint"}
            if by == "savepoint":
                places = {"checkpoint": tmp_path / f"checkpoint-{number}", "savepoint": tmp_path / f"sp-{number}"}
                keys |= {"execution.savepoint.path": tmp_path / f"sp-{number - 1}"} if number else {}
            env = StreamExecutionEnvironment.get_execution_environment(keys)
            stream = program(env, given)
            if stream is not None:
                stream.add_sink(seen.append)
            env.execute(spark=stateshift_spark, **places, **options)
        return seen

    return run
