"""A program whose checkpoints meet a full disk; run by `tests/state/backends/test_full_disk.py` on a small one.

full_disk.py DISK BACKEND declined    a checkpoint fails in its asynchronous part, while the function works
full_disk.py DISK BACKEND dies        the same in a child (`dying`), which dies before it removes anything
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from checkpointing import OPERATOR, contents, files_of, restore, take

from stateshift import (
    Configuration,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateShiftError,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.state.backends.snapshots import SnapshotTarget
from stateshift.state.formats.flink.metadata import METADATA
from stateshift.state.publication.checkpoints import clean_job
from stateshift.state.publication.commit import Commit
from stateshift.state.publication.publish import stream_name
from stateshift.state.storage.files import Folder

JOB = "a" * 32
KEYS = range(20_000)
CLAIMED = ExitStack()
TEXT_BYTES = 200
"""About four megabytes of values, of which the small disk holds several checkpoints."""


def made(kind):
    place = serializer_for(int), 16, range(16)
    if kind == "hashmap":
        return HashMapStateBackend(*place)
    values = {
        "execution.checkpointing.incremental": True,
        "state.backend.rocksdb.compression.per.level": "NO_COMPRESSION",
    }
    return EmbeddedRocksDBStateBackend(*place, configuration=Configuration.of(values, environment={}))


def work(backend, generation):
    """Change every value."""
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    for key in KEYS:
        backend.set_current_key(key)
        state.update(f"{generation} {key} ".ljust(TEXT_BYTES, "."))


def begun(storage, backend):
    """The folder of a new checkpoint, and its asynchronous part."""
    number, folder = storage.next_id, storage.folder.folder(f"chk-{storage.next_id}")
    folder.create()
    target = SnapshotTarget(number, 0, Commit(folder), stream_name(OPERATOR.id, "keyed", 0), storage.shared)
    return backend.checkpoint_strategy().snapshot(target)


def declined(storage, backend):
    """Run the asynchronous part of a checkpoint on a thread of its own; return its error and whether work went on."""
    meanwhile = []
    try:
        with storage.checkpoint(storage.next_id):
            future = begun(storage, backend)
            thread = threading.Thread(target=future.run)
            thread.start()
            state = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
            backend.set_current_key(1)
            while not meanwhile or (thread.is_alive() and len(meanwhile) < 1000):
                state.update(f"meanwhile {len(meanwhile)}")
                meanwhile.append(state.value())
            thread.join()
            future.result()
    except StateShiftError as error:
        return error, meanwhile
    raise AssertionError("the disk was not full")


def fill(disk):
    """Leave about one megabyte free."""
    free = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - (1 << 20)))
    return ballast


def restores(folder, kind, backend):
    restored = made(kind)
    restore(folder, restored)
    try:
        return contents(restored) == contents(backend)
    finally:
        restored.dispose()


def first_checkpoint(disk, backend):
    with open_checkpoints(str(disk / "checkpoints"), JOB) as storage:
        work(backend, 1)
        take(storage, [backend])
    return storage.folder


def run_declined(disk, kind):
    backend = made(kind)
    folder = first_checkpoint(disk, backend)
    with open_checkpoints(str(disk / "checkpoints"), JOB) as storage:
        before = files_of(folder)
        work(backend, 2)
        expected = {key: value for (_, key), value in contents(backend).items()}
        ballast = fill(disk)
        error, meanwhile = declined(storage, backend)
        now = {key: value for (_, key), value in contents(backend).items()}
        said = {
            "error": type(error).__name__,
            "what": error.what,
            "worked_meanwhile": bool(meanwhile) and meanwhile[-1] == f"meanwhile {len(meanwhile) - 1}",
            "files_before": sorted(before),
            "files_after": sorted(files_of(folder)),
            "latest_after": int(storage.latest.place.rpartition("-")[2]),
            "state_is_whole": 1 == sum(now[key] != expected[key] for key in expected) and now.keys() == expected.keys(),
        }
        ballast.unlink()
        work(backend, 3)
        latest, _ = take(storage, [backend])
        said["next_restores"] = restores(latest, kind, backend)
    backend.dispose()
    return said


def run_dies(disk, kind):
    ran = subprocess.run(
        [sys.executable, __file__, disk, kind, "dying"], check=True, stdout=subprocess.PIPE, timeout=120
    )
    before, folder = set(json.loads(ran.stdout)), Folder.at(str(disk / "checkpoints" / JOB))
    (disk / "ballast").unlink()
    left = files_of(folder) - before
    complete = sorted(path.parent.name for path in Path(folder.place).glob(f"chk-*/{METADATA}"))
    said = {"left": sorted(left), "complete": complete, "cleaned": sorted(clean_job(folder))}
    said |= {"files_before": sorted(before), "files_after": sorted(files_of(folder))}
    backend = made(kind)
    with open_checkpoints(str(disk / "checkpoints"), JOB) as storage:
        restore(storage.latest, backend)
        work(backend, 3)
        latest, _ = take(storage, [backend])
        said["next_restores"] = restores(latest, kind, backend)
    backend.dispose()
    return said


def die(disk, kind):
    """Meet the full disk, and end at once, before anything is removed; say which files there were before."""
    backend = made(kind)
    folder = first_checkpoint(disk, backend)
    before = files_of(folder)
    work(backend, 2)
    fill(disk)
    storage = CLAIMED.enter_context(open_checkpoints(str(disk / "checkpoints"), JOB))
    future = begun(storage, backend)
    Folder.delete = lambda *_: None  # a sink would remove its file
    future.run()
    print(json.dumps(sorted(before)), flush=True)
    os._exit(0 if isinstance(future.exception(), StateShiftError) else 1)


if __name__ == "__main__":
    _, place, kind, ending = sys.argv
    print(json.dumps({"declined": run_declined, "dies": run_dies, "dying": die}[ending](Path(place), kind)))
