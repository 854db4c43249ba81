"""What `make demo` shows is true, and it starts at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest


def test_the_savepoint_of_the_demo_is_the_one_that_flink_wrote(root, savepoint_of):
    shown = root / "examples" / "savepoints" / "rocksdb-account-v1"

    assert {file.name: file.read_bytes() for file in savepoint_of("rocksdb-account-v1").iterdir()} == {
        file.name: file.read_bytes() for file in shown.iterdir()
    }


@pytest.mark.slow
def test_it_ends_with_the_migration_proven_and_compiles_nothing(root, tmp_path):
    refusal = json.loads((root / "examples" / "flink-refusal.json").read_text(encoding="utf-8"))["refusals"][0]
    started = time.monotonic()
    environ = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, root / "examples" / "demo.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as demo:
        first = demo.stdout.readline()
        until_first = time.monotonic() - started
        shown = first + demo.stdout.read()

    assert demo.returncode == 0
    assert until_first < 10
    steps = [
        "$ stateshift inspect ",
        "$ stateshift check ",
        "$ stateshift migrate ",
        "$ stateshift verify ",
        "Migration proven",
    ]
    assert sorted(steps, key=shown.index) == steps
    assert " ".join(refusal["causes"][-1].split()[1:6]) in " ".join(shown.split())
    assert "FAILED" not in shown
    assert [] == list(tmp_path.rglob("*.nb?"))
