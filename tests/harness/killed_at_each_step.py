"""A migration that is killed at each step of what it writes: `python killed_at_each_step.py SOURCE FOLDER`.

The run into FOLDER/n dies by SIGKILL where it begins its nth step: it makes a folder, opens a file, writes a piece, or
closes, renames or deletes a file. The last run is at its end before it would die; its number is printed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from migrating import job_of, migrated

from stateshift import ValueStateDescriptor
from stateshift.compat.testing import V2

STEPS = frozenset({"create", "write", "output", "rename", "delete", "close"})
JOB = job_of(ValueStateDescriptor("s", V2()))


def die_at(step):
    """Kill this process where it begins so many steps."""
    left = step

    def count(frame, event, _):
        nonlocal left
        code = frame.f_code
        if event == "call" and code.co_name in STEPS and Path(code.co_filename).name == "files.py":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def main(source, folder):
    migrated(source, Path(folder) / "whole", JOB)  # what is compiled once need not be compiled in each child
    for step in range(1, 1000):
        child = os.fork()
        if child == 0:
            die_at(step)
            migrated(source, Path(folder) / str(step), JOB)
            sys.setprofile(None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            print(step, os.waitstatus_to_exitcode(status))
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
