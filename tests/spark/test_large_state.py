"""State that is large for a test: right counts, no entry in the driver, and no more memory for more entries."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from stateshift import (
    Job,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    migrate,
)

pytestmark = pytest.mark.slow

ENTRIES = 50_000
OLD = Job([Operator("log", key=int, states=[ValueStateDescriptor("line", str), ValueStateDescriptor("length", int)])])
NEW = """
from stateshift import Job, Operator, ValueStateDescriptor

def encoded(line):
    return line.encode("ascii")

job = Job([Operator("log", key=int, states=[
    ValueStateDescriptor("line", bytes, converter=encoded), ValueStateDescriptor("length", int),
])])
"""


def test_fifty_thousand_entries_pass_by_the_driver(spark, load, tmp_path):
    line = "x" * 400
    with SavepointWriter(tmp_path / "old", OLD) as writer:
        for key in range(ENTRIES):
            writer.put("log", "line", key, line)
        writer.put("log", "length", 0, len(line))
    job = load("large_job", large_job=NEW).job
    migrate(tmp_path / "old", tmp_path / "warm", job, MigrationOptions(parallelism=1), session=spark, dry_run=True)

    tracemalloc.start()
    try:
        report = migrate(tmp_path / "old", tmp_path / "new", job, MigrationOptions(parallelism=4), session=spark)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    counts = {count.state: (count.action, count.read, count.written, count.dropped) for count in report.states}
    assert counts == {"line": ("convert", ENTRIES, ENTRIES, 0), "length": ("copy", 1, 1, 0)}
    assert report.bytes_written > ENTRIES * len(line)
    assert peak_bytes < 12 << 20  # a sample of one run of 4 MiB, before the run; the state has 22 MB
    (operator,) = Savepoint.open(tmp_path / "new").operators
    assert operator.state("line").measure().entries == ENTRIES
    assert [len(subtask.managed_keyed.key_groups) for subtask in operator.stored.subtasks] == [32] * 4


MEASURED = """
import os, pathlib, sys
from stateshift import Job, MapStateDescriptor, Operator
from stateshift.spark.migrate import migrate
from stateshift.spark.sessions import session

report = pathlib.Path(sys.argv[1])

def encoded(line):
    if line[0] == "!":
        facts = dict(line.split(":", 1) for line in open("/proc/self/status"))
        report.write_text(f"{os.getpid()} {facts['VmHWM'].split()[0]}")
    return line.encode("ascii")

job = Job([Operator("log", key=int, states=[MapStateDescriptor("lines", int, bytes, converter=encoded)])])
spark = session("local[1,4]")
for source, target in (sys.argv[2:4], sys.argv[4:6]):
    written = migrate(source, target, job, session=spark).states[0].written
    print(written, report.read_text())
"""
MAPS = Job([Operator("log", key=int, states=[MapStateDescriptor("lines", int, str)])])
STREAM_BYTES = (12_000_000, 48_000_000)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_a_stream_of_four_times_the_size_takes_a_worker_no_more_memory(tmp_path, start_python):
    """The same worker rewrites a small stream and then a large one, each of one task and in one key group."""
    line = "x" * 2000
    places = [tmp_path / f"{side}-{size}" for size in STREAM_BYTES for side in ("old", "new")]
    for size, source in zip(STREAM_BYTES, places[::2], strict=True):
        with SavepointWriter(source, MAPS) as writer:
            writer.put("log", "lines", 7, dict.fromkeys(range(size // 2000), line) | {size: "!"})

    process = start_python(MEASURED, tmp_path / "peak", *places)
    printed, errors = process.communicate(timeout=300)

    assert errors == ""
    small, large = ([int(number) for number in line.split()] for line in printed.splitlines())
    assert [small[0], large[0]] == [size // 2000 + 1 for size in STREAM_BYTES]
    assert small[1] == large[1]
    assert large[2] - small[2] < 16 << 10, f"kB: {small[2]}, then {large[2]}"
