"""A job file may import PyFlink itself: its functions, descriptors and types are taken as ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("pyflink_python")

JOB = """
import os, sys
sys.path.append(os.environ["STATESHIFT_PYFLINK"])

from pyflink.common import Types
from pyflink.common.time import Duration
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, StateTtlConfig,
    ValueStateDescriptor,
)

from stateshift import Job, Operator


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Keeps(KeyedProcessFunction):
    def open(self, runtime_context):
        kept = ValueStateDescriptor("kept", Types.STRING())
        kept.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_days(1)).build())
        self.kept = runtime_context.get_state(kept)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_state(
            ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [Types.LONG(), Types.STRING()]))
        )
        self.note = runtime_context.get_state(ValueStateDescriptor("note", Types.PICKLED_BYTE_ARRAY()))
        self.events = runtime_context.get_list_state(ListStateDescriptor("events", Types.STRING()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.LONG()))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        yield value


job = Job([Operator.pyflink("keeps", Keeps(), key=Types.LONG()), Operator("lines")])
"""

TYPES = """
import os, sys
sys.path.append(os.environ["STATESHIFT_PYFLINK"])

from pyflink.common import Types as theirs
from stateshift.pyflink.common import Types as ours
from stateshift.serializers.pyflink import coder_for
from stateshift.state.runtime.of_pyflink import as_ours

words = "BIG_DEC BIG_INT BOOLEAN BYTE CHAR DOUBLE FLOAT INSTANT INT LONG SHORT SQL_DATE SQL_TIME SQL_TIMESTAMP STRING"


def each(of):
    yield from (getattr(of, word)() for word in words.split())
    yield of.PRIMITIVE_ARRAY(of.INT())
    yield of.PRIMITIVE_ARRAY(of.BYTE())
    yield of.BASIC_ARRAY(of.STRING())
    yield of.OBJECT_ARRAY(of.MAP(of.STRING(), of.LONG()))
    yield of.LIST(of.ROW([of.LONG(), of.STRING()]))
    yield of.MAP(of.STRING(), of.TUPLE([of.LONG(), of.LIST(of.INT())]))
    yield of.ROW_NAMED(["a", "b"], [of.LONG(), of.LIST(of.STRING())])


for one, other in zip(each(theirs), each(ours), strict=True):
    assert coder_for(as_ours(one)) == coder_for(other), (one, other)
"""


@pytest.fixture
def run(tmp_path):
    """`run(…)`: the command line in a folder where a job imports PyFlink."""

    def command(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=dict(os.environ), capture_output=True, encoding="utf-8",
            check=False,
        )  # fmt: skip

    return command


def test_the_function_says_its_states(run, root, tmp_path):
    (tmp_path / "keeps.py").write_text(JOB, "utf-8")
    savepoint = root / "tests/fixtures/pyflink-2.3/values-process/savepoint"
    shown = run("-m", "stateshift", "inspect", str(savepoint), "--old-job", "keeps:job")
    checked = run(
        "-m", "stateshift", "check", str(savepoint), "--job", "keeps:job", "--scan", "--allow-non-restored-state"
    )

    assert (0, "") == (shown.returncode, shown.stderr)
    assert (0, "") == (checked.returncode, checked.stderr)
    assert "would fail" in checked.stdout
    for told in ("bytes of row<", "ttl<bytes of PyFlink string>", "bytes of tuple<long, long>", "bytes of bytes"):
        assert told in shown.stdout


def test_each_type_is_the_same_here(run, tmp_path):
    (tmp_path / "types_of.py").write_text(TYPES, "utf-8")
    ran = run("types_of.py")

    assert (0, "") == (ran.returncode, ran.stderr)
