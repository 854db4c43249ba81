"""A migration of a Spark checkpoint that can be killed at any moment; run as a program by the tests.

    python killed_migrations.py SOURCE TARGET LIKE CHANGES STEP

CHANGES are those of operator 0, as JSON. It prints `ready` before it begins, and how many steps it took at the end. A
step is what changes the storage: a folder or file that is created, written, renamed or deleted. STEP is the one before
which it kills itself; -1: none.
"""

import json
import os
import signal
import sys

from stateshift.compat.queries.changes import FieldChanges
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.storage.files import FileOutput, Folder


class Steps:
    """Counts the steps, and kills the process before one of them."""

    def __init__(self, last):
        self.last, self.count = last, 0

    def watch(self, of, name):
        """Count the calls of a method as steps."""
        method = getattr(of, name)

        def counted(*arguments, **named):
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1
            return method(*arguments, **named)

        setattr(of, name, counted)


def main(source, target, like, changes, step):
    """Migrate, or die."""
    steps = Steps(int(step))
    for of, name in (
        (Folder, "create"),
        (Folder, "output"),
        (FileOutput, "write"),
        (Folder, "rename"),
        (Folder, "delete"),
    ):
        steps.watch(of, name)
    print("ready", flush=True)
    migrate_checkpoint(source, target, like=like, changes={0: FieldChanges(**json.loads(changes))})
    print(steps.count)


if __name__ == "__main__":
    main(*sys.argv[1:])
