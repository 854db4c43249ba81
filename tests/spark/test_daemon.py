"""Workers of a large run are forked from a process that has loaded what they need; others are as Spark has them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor

pytest.importorskip("numba")

TELLING = """
import os, sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate

def told(count):
    return f"{sys.orig_argv[2]} {'numba' in sys.modules}"

states = [ValueStateDescriptor("count", str, converter=told), ValueStateDescriptor("text", str)]
job = Job([Operator("counter", key=int, states=states)])
migrate(*sys.argv[1:3], job, master="local[1,4]")
"""
TEXT_BYTES = 64 << 10


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "expected"), [(2, "pyspark.daemon False"), (300, "stateshift.spark.daemon True")], ids=["small", "large"]
)
def test_it_is_used_where_there_is_much_to_do(tmp_path, start_python, values_of, texts, expected):
    states = [ValueStateDescriptor("count", int), ValueStateDescriptor("text", str)]
    with SavepointWriter(tmp_path / "old", Job([Operator("counter", key=int, states=states)])) as writer:
        writer.put("counter", "count", 1, 1)
        for key in range(texts):
            writer.put("counter", "text", key, "x" * TEXT_BYTES)

    process = start_python(TELLING, tmp_path / "old", tmp_path / "new")
    printed = process.communicate(timeout=300)

    assert ("", "") == printed
    assert {1: expected} == values_of(tmp_path / "new", "counter", "count")


LOADING = """
import gc, sys
from stateshift.spark.daemon import load
load()
from stateshift.compat.transcode import numba_kernels as loaded
functions = loaded.rewrite, loaded.find_run, loaded.survey
print([len(function.signatures) for function in functions], gc.get_freeze_count() > 10_000, file=sys.stderr)
"""


def test_it_loads_machine_code_and_prints_nothing():
    """Spark reads the daemon's port from its output."""
    ran = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)

    assert ("", "[1, 1, 1] True\n") == (ran.stdout, ran.stderr)
