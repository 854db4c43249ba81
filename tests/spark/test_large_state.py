"""State that is large for a test: right counts, and no entry in the driver."""

from __future__ import annotations

import tracemalloc

import pytest

from stateshift.spark.migrate import migrate
from stateshift.state.descriptors import ValueStateDescriptor
from stateshift.state.job import Job, Operator
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.writer import SavepointWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENTRIES = 200_000
OLD = Job([Operator("log", key=int, states=[ValueStateDescriptor("line", str), ValueStateDescriptor("length", int)])])
NEW = """
from stateshift import Job, Operator, ValueStateDescriptor

def encoded(line):
    return line.encode("ascii")

job = Job([Operator("log", key=int, states=[
    ValueStateDescriptor("line", bytes, converter=encoded), ValueStateDescriptor("length", int),
])])
"""


def test_two_hundred_thousand_entries_pass_by_the_driver(spark, load, tmp_path):
    line = "x" * 200
    with SavepointWriter(tmp_path / "old", OLD) as writer:
        for key in range(ENTRIES):
            writer.put("log", "line", key, line)
        writer.put("log", "length", 0, len(line))
    job = load("large_job", large_job=NEW).job
    migrate(tmp_path / "old", tmp_path / "warm", job, session=spark, parallelism=1, dry_run=True)

    tracemalloc.start()
    try:
        report = migrate(tmp_path / "old", tmp_path / "new", job, session=spark, parallelism=4)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    counts = {count.state: (count.action, count.read, count.written, count.dropped) for count in report.states}
    assert counts == {"line": ("convert", ENTRIES, ENTRIES, 0), "length": ("copy", 1, 1, 0)}
    assert report.bytes_written > ENTRIES * len(line)
    assert peak_bytes < 12 << 20  # a sample of one run of 4 MiB, before the run; the state has 48 MB
    (operator,) = Savepoint.open(tmp_path / "new").operators
    assert operator.state("line").measure().entries == ENTRIES
    assert [len(subtask.managed_keyed.key_groups) for subtask in operator.stored.subtasks] == [32] * 4
