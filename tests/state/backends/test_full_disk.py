"""A disk that is full in the asynchronous part of a checkpoint: the program goes on, and the checkpoint is declined.

Checkpoints go to a file system of a few megabytes, mounted in a namespace of its own, which needs no root on most
machines. The program itself is `full_disk.py`, which runs there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
INSIDE = """
import subprocess, sys
disk, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", disk], check=True)
sys.exit(subprocess.run(command).returncode)
"""


@pytest.fixture
def on_small_disk(tmp_path):
    """`on_small_disk(backend, ending)`: run `full_disk.py`; return what it says."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no small disk can be mounted here: there is no `unshare`")
    tried = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", disk], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no small disk can be mounted here: {tried.stderr.decode().strip()}")

    def run(*arguments):
        program = [sys.executable, TESTS / "full_disk.py", disk, *arguments]
        ran = subprocess.run(
            ["unshare", "-rm", sys.executable, "-c", INSIDE, disk, *program],
            capture_output=True, text=True, check=False, timeout=300, env=os.environ | {"PYTHONPATH": str(TESTS)},
        )  # fmt: skip
        assert not ran.returncode, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_checkpoint_is_declined_and_the_program_goes_on(on_small_disk, backend):
    said = on_small_disk(backend, "declined")

    assert "NoSpaceLeft" == said["error"]
    assert "no space left" in said["what"].lower()
    assert said["worked_meanwhile"]
    assert said["files_before"] == said["files_after"]
    assert 1 == said["latest_after"]
    assert said["state_is_whole"]
    assert said["next_restores"]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_a_process_leaves_that_dies_of_it_is_no_checkpoint_and_is_cleaned(on_small_disk, backend):
    said = on_small_disk(backend, "dies")

    assert said["left"]
    assert ["chk-1"] == said["complete"]
    assert sorted(said["left"]) == sorted(said["cleaned"])
    assert said["files_before"] == said["files_after"]
    assert said["next_restores"]
