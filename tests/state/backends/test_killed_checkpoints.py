"""kill -9 of a process while it takes checkpoints: the last complete one is found, and `clean` removes the rest."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import killed_checkpoints
import pytest
from checkpointing import files_of, restore
from killed_checkpoints import JOB, STEPS, backend_of

from stateshift import ListStateDescriptor, ValueStateDescriptor, open_checkpoints
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from stateshift.state.formats.flink.metadata import METADATA, read_metadata
from stateshift.state.publication.checkpoints import clean_job
from stateshift.state.storage.files import Folder

RUNS = 104
OF_FILES = {"upload", "delete shared"}
"""Steps that only a backend with shared files has."""


def steps_of(name):
    return [step for step in STEPS if name == "rocksdb" or step not in OF_FILES]


def killed(root, name, seed, step):
    """Let a process die; return the step at which it did."""
    tests = Path(killed_checkpoints.__file__).parent
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tests), *filter(None, sys.path)]),
        "TMPDIR": str(root),
    }
    command = [sys.executable, killed_checkpoints.__file__, root, name, str(seed), step]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert -signal.SIGKILL == ran.returncode, ran.stderr
    return (root / "died-at").read_text(encoding="utf-8").partition(":")[0]


def require_recovered(root, name):
    """Check the last complete checkpoint against the model, and that nothing needless is left after `clean`."""
    job = Folder.at(root / JOB)
    complete = sorted(int(path.parent.name[4:]) for path in (root / JOB).glob("chk-*/_metadata"))
    clean_job(job)
    used = {"_stateshift-job.json"}
    for number in complete:
        folder = job.folder(f"chk-{number}")
        used |= {f"chk-{number}/_metadata", f"chk-{number}/_stateshift.json"}
        for stream in read_metadata(folder.read(METADATA)).streams:
            if isinstance(stream, AbsoluteFileHandle):
                used.add(f"shared/{stream.uri.rpartition('/')[2]}")
            elif isinstance(stream, RelativeFileHandle):
                used.add(f"chk-{number}/{stream.path}")

    assert used == files_of(job)
    assert {"shared", *(f"chk-{number}" for number in complete)} == {
        path.name for path in (root / JOB).iterdir() if path.is_dir()
    }
    with open_checkpoints(Folder.at(root), JOB, retained=2) as storage:
        latest = storage.latest
    if not complete:
        assert latest is None
        return
    expected = json.loads((root / f"model-{complete[-1]}.json").read_text(encoding="utf-8"))
    backend, found = backend_of(name), {}
    restore(latest, backend)
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("several", int))
    for key in backend.get_keys("value", None):
        backend.set_current_key(key)
        found[str(key)] = [value.value(), several.get()]
    backend.dispose()

    assert expected == found


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_process_leaves_its_last_complete_checkpoint(tmp_path, step):
    assert step == killed(tmp_path, "rocksdb", 1, step)
    require_recovered(tmp_path, "rocksdb")


@pytest.mark.parametrize("step", ["file written", "after metadata"])
def test_a_killed_process_leaves_its_last_complete_checkpoint_of_the_heap(tmp_path, step):
    assert step == killed(tmp_path, "hashmap", 1, step)
    require_recovered(tmp_path, "hashmap")


@pytest.mark.faults
@pytest.mark.parametrize("name", ["rocksdb", "hashmap"])
def test_a_hundred_processes_are_killed(tmp_path, name, record_property):
    hit, steps = Counter(), steps_of(name)
    for seed in range(RUNS):
        root = tmp_path / str(seed)
        root.mkdir()
        hit[killed(root, name, seed, steps[seed % len(steps)])] += 1
        require_recovered(root, name)
    record_property("killed at", dict(hit))
    print(f"{name}: killed at {dict(hit)}")

    assert RUNS == hit.total()
    assert all(hit[step] >= 5 for step in steps)
