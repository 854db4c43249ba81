"""A process that takes checkpoints until it kills itself at a seeded step; run as a program by the tests.

    python killed_checkpoints.py ROOT BACKEND SEED STEP    the kind of step at which it dies

It writes `ROOT/model-N.json` with what checkpoint N must hold before it begins to take it, and `ROOT/died-at` with the
step. A step is what changes the storage: a file that is opened, written, closed, renamed or deleted.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

from checkpointing import take
from live_backends import BACKENDS

from stateshift import (
    Configuration,
    EmbeddedRocksDBStateBackend,
    ListStateDescriptor,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.state.storage.files import FileOutput, Folder

STEPS = (
    "create",
    "file written",
    "upload",
    "before metadata",
    "after metadata",
    "delete metadata",
    "delete shared",
    "delete own",
)
JOB = "a" * 32
GROUPS = 16


def backend_of(name):
    """A backend with one subtask, whose checkpoints are incremental where it has such."""
    made, arguments = BACKENDS[name], (serializer_for(int), GROUPS, range(GROUPS))
    if made is EmbeddedRocksDBStateBackend:
        values = {"execution.checkpointing.incremental": True, "state.backend.rocksdb.writebuffer.size": "64kb"}
        return made(*arguments, configuration=Configuration.of(values, environment={}))
    return made(*arguments)


class Death:
    """Kills the process at one of the steps of a kind, which the seed chooses."""

    def __init__(self, root, step, left):
        self.root, self.step, self.left = root, step, left

    def at(self, step, place):
        if step != self.step:
            return
        self.left -= 1
        if self.left < 0:
            (self.root / "died-at").write_text(f"{step}: {place}", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self):
        """Look at everything that changes the storage."""
        create, write, rename, delete = Folder.create, FileOutput.write, Folder.rename, Folder.delete

        def created(folder):
            made = create(folder)
            self.at("create", folder.place)
            return made

        def written(output, data):
            size = write(output, data)
            self.at("upload" if output.name.count("-") == 4 else "file written", output.name)
            return size

        def renamed(folder, name, new_name):
            is_metadata = new_name == "_metadata"
            if is_metadata:
                self.at("before metadata", folder.place)
            rename(folder, name, new_name)
            if is_metadata:
                self.at("after metadata", folder.place)

        def deleted(folder, name):
            delete(folder, name)
            kind = "shared" if folder.place.endswith("/shared") else "metadata" if name == "_metadata" else "own"
            self.at(f"delete {kind}", f"{folder.place}/{name}")

        Folder.create, FileOutput.write, Folder.rename, Folder.delete = created, written, renamed, deleted


def main(root, name, seed, step):
    """Take checkpoints of random work until the process dies."""
    place, chance = Path(root), random.Random(seed)  # noqa: S311 - no secret
    backend, model = backend_of(name), {}
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("several", int))
    with open_checkpoints(Folder.at(place), JOB, retained=2) as storage:
        Death(place, step, chance.randrange(3 if "metadata" in step or step == "create" else 12)).watch()
        for number in range(1, 40):
            for key in chance.choices(range(300), k=200):
                backend.set_current_key(key)
                if chance.random() < 0.3:
                    value.clear()
                    several.clear()
                    model.pop(key, None)
                else:
                    held = model.setdefault(key, ["", []])
                    held[0] = f"{chance.random()} {'x' * 50}"
                    held[1].append(number)
                    value.update(held[0])
                    several.add(number)
            (place / f"model-{number}.json").write_text(json.dumps(model), encoding="utf-8")
            take(storage, [backend], number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
