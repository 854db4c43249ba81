"""Workers of a large run are forked from a process that has loaded what they need; others are as Spark has them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor
from stateshift.spark.daemon import prefer_installed

pytest.importorskip("numba")

TELLING = """
import os, sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate

def told(count):
    import pyspark
    return f"{sys.orig_argv[2]} {'llvmlite' in sys.modules} {'zipped' if '.zip' in pyspark.__file__ else 'installed'}"

states = [ValueStateDescriptor("count", str, converter=told), ValueStateDescriptor("text", str)]
job = Job([Operator("counter", key=int, states=states)])
migrate(*sys.argv[1:3], job, master="local[1,4]")
"""
TEXT_BYTES = 64 << 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "expected"),
    [(2, "pyspark.daemon False zipped"), (300, "stateshift.spark.daemon True installed")],
    ids=["small", "large"],
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
from stateshift.state.transcode import numba_kernels as loaded
functions = loaded.rewrite, loaded.find_run, loaded.survey
are_there = [bool({"kept", "by_numba"} & {*vars(function)}) for function in functions]
print(are_there, gc.get_freeze_count() > 10_000, file=sys.stderr)
"""


def test_it_loads_machine_code_and_prints_nothing():
    """Spark reads the daemon's port from its output."""
    ran = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)

    assert ("", "[True, True, True] True\n") == (ran.stdout, ran.stderr)


def test_what_is_zipped_gives_way_to_the_same_installation_only(tmp_path, monkeypatch):
    for name in ("pyspark/python/lib/pyspark.zip", "pyspark/__init__.py", "py4j/__init__.py", "other/pyspark.zip"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lib = tmp_path / "pyspark" / "python" / "lib"
    foreign = "/opt/spark/python/lib/pyspark.zip"  # of a Spark that was unpacked, and not installed
    kept = ["", foreign, str(tmp_path / "other" / "pyspark.zip")]
    monkeypatch.setattr(
        sys, "path", [*kept[:1], str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), *kept[1:]]
    )

    prefer_installed()

    assert sys.path == [*kept, str(tmp_path)]


FORKED = """
import os, sys
from stateshift.spark import daemon
daemon.prefer_installed()
daemon.load()
loaded = set(sys.modules)
import pyspark.worker
from stateshift.spark.runner import SparkRunner
print(sorted(set(sys.modules) - loaded), sorted(path for path in sys.path_importer_cache if path.endswith(".zip")))
"""


def test_nothing_is_left_for_each_worker_to_load():
    lib = Path(find_spec("pyspark").origin).parent / "python" / "lib"
    zipped = {"PYTHONPATH": os.pathsep.join(map(str, lib.glob("*.zip")))}  # as Spark does it
    command = [sys.executable, "-c", FORKED]

    ran = subprocess.run(command, env=os.environ | zipped, capture_output=True, text=True, check=False)

    assert ("[] []\n", "") == (ran.stdout, ran.stderr)
