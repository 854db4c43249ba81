"""A program on Spark whose driver is killed goes on where it was, and its files have each element once."""

from __future__ import annotations

import pytest

SCRIPT = """
import os, signal, sys
from stateshift.pyflink.common import Encoder, Types
from stateshift.pyflink.datastream import SourceFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.connectors.file_system import FileSink
from stateshift.pyflink.extensions import ListCheckpointed, map_with_state
from stateshift.spark import session

place, parallelism, fatal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Counter(SourceFunction, ListCheckpointed):
    state_type = int
    offset = 0
    def run(self, ctx):
        while self.offset < 2000:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1
    def cancel(self):
        self.offset = 2000
    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.offset]
    def restore_state(self, state):
        (self.offset,) = state

seen = []
def die(element):
    seen.append(element)
    if len(seen) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": parallelism})
keyed = env.add_source(Counter()).uid("counter").key_by(lambda number: number % 7, Types.LONG())
counts = keyed.process(map_with_state(lambda number, count: ((number, count or 0), (count or 0) + 1), int)).uid("count")
counts.sink_to(FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder()).build())
counts.add_sink(die)
env.execute(spark=session("local[2]"), checkpoint=f"{place}/checkpoint")
"""


@pytest.mark.faults
def test_a_killed_driver_goes_on_with_each_element_once(start_python, tmp_path):
    for parallelism, fatal, status in ((1, 500, -9), (2, 900, -9), (1, 0, 0)):
        process = start_python(SCRIPT, tmp_path, parallelism, fatal)
        _, told = process.communicate(timeout=300)
        assert status == process.returncode, told

    named = [path for path in (tmp_path / "out").rglob("part-*") if path.is_file()]
    lines = [line for path in named for line in path.read_text().splitlines()]
    assert sorted(str((number, number // 7)) for number in range(2000)) == sorted(lines)
