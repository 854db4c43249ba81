"""A short fuzz run of all targets, the same each time; `make fuzz` is the long one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift import CorruptSavepoint
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import snapshot_from_bytes

HERE = Path(__file__).parent
RUNS = {"atheris": 1000, "chance": 2000}
SEEDS_EACH = 8


@pytest.fixture
def modules(monkeypatch):
    """The harness is made of scripts next to this file, which a fuzzer starts in processes of their own."""
    monkeypatch.syspath_prepend(str(HERE))


def fuzz(folder, *options):
    command = [sys.executable, str(HERE / "run_fuzz.py"), "--folder", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("engine", RUNS)
def test_bad_input_gives_our_errors_in_time_and_in_little_memory(tmp_path, engine):
    if engine == "atheris" and importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris has no wheel for this Python or system; the engine `chance` fuzzes in its place")

    ran = fuzz(
        tmp_path, "--targets", "all", "--engine", engine, "--runs", str(RUNS[engine]),
        "--seeds-each", str(SEEDS_EACH), "--seed", "7", "--jobs", "1",
    )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    executions = json.loads((tmp_path / "all" / "report.json").read_text())["executions"]
    # A fuzzer ends its process without a word: the few inputs since its last report are not counted.
    assert executions > RUNS[engine] * 9 // 10


@pytest.mark.usefixtures("modules")
def test_every_registered_snapshot_is_among_the_seeds():
    import seeds

    pending, found = list(map(snapshot_from_bytes, seeds.snapshots())), set()
    while pending:
        found.add(type(pending[-1]))
        pending += pending.pop().children()

    # One that only records have is read as the snapshot for which it stands.
    written = b"".join(seeds.snapshots())
    assert [
        name for name, cls in registry._snapshots.items() if cls not in found and name.encode() not in written
    ] == []


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("kind", ["canonical", "snappy", "native", "operator"])
def test_a_savepoint_comes_apart_and_together_again(kind):
    """A mutation that no reader gets past tests nothing: with the pieces as they were, all is as it was."""
    import pieces
    import seeds

    apart = [pieces.streams_apart(data) for data in seeds.streams(kind)]

    assert len(apart) > 20
    assert {len(one.parts) > 1 for one in apart} >= {True}
    again = [pieces.streams_apart(one.join(one.parts)).parts for one in apart]
    assert [one.parts for one in apart] == again


def _bare(_):
    raise IndexError("list index out of range")


def _endless(_):
    while True:
        pass


def _large(_):
    assert bytearray(1 << 24)


def _ours(_):
    raise CorruptSavepoint("as it should be")


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("run", "found"),
    [(_bare, ["IndexError"]), (_endless, ["TookTooLong"]), (_large, ["TookTooMuch"]), (_ours, [])],
    ids=["bare", "endless", "large", "ours"],
)
def test_what_breaks_the_law_is_kept_with_its_input(tmp_path, monkeypatch, run, found):
    import targets
    import watch

    monkeypatch.setattr(watch, "CPU_SECONDS", 0.1)
    monkeypatch.setattr(watch, "MEMORY_ONE_IN", 1)
    watched = watch.Watch(targets.Target("planted", run, list), tmp_path)

    for data in (b"longer", b"short"):
        watched.run(data)

    assert [place.partition(" at ")[0] for place in watched.findings] == found
    assert [Path(facts["file"]).read_bytes() for facts in watched.findings.values()] == [b"short"] * len(found)
