"""A migration to a native savepoint that can be killed at any moment; run as a program by the tests.

    python killed_native.py SOURCE TARGET STEP [OPTION…]

Further arguments are those of `stateshift migrate`. It prints at the end how many steps it took. A step is what changes
the storage: a file that is begun, written, linked, renamed or deleted. STEP is the one before which it kills itself;
-1: none.
"""

import sys
from pathlib import Path

from killed_migrations import Steps

from stateshift.cli import main
from stateshift.state.storage.files import FileOutput, Folder

STEPS = [(Folder, "create"), (Folder, "output"), (Folder, "write"), (Folder, "write_last"), (Folder, "rename"),
         (Folder, "delete"), (FileOutput, "write"), (Path, "hardlink_to")]  # fmt: skip


def run(source, target, step, *options):
    """Migrate, or die."""
    steps = Steps(int(step))
    for of, name in STEPS:
        steps.watch(of, name)
    try:
        main(["migrate", source, target, *options])
    except SystemExit as ended:
        print(steps.count)
        raise SystemExit(ended.code) from None


if __name__ == "__main__":
    run(*sys.argv[1:])
