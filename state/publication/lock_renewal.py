"""A process that renews a claim for as long as another one runs: `python -m stateshift.state.publication.lock_renewal`.

Spark plans, executes and commits a write in short-lived processes; their parent lives at least as long as the write.
The claim names the parent, and is renewed on its behalf for other hosts and containers, which cannot see whether it
runs.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ...serializers.errors import StateShiftError
from ..storage.files import Folder
from .target_lock import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_S = 5.0


def renew_apart(claim: Claim, process: int) -> None:
    """Start a process that renews a claim until it is released or lost, or until another process has ended.

    Args:
        claim: The claim, which names `process` as its owner.
        process: The PID of the other process.
    """
    command = [sys.executable, "-m", __name__, claim.folder.place, claim.folder.run, str(process)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    os.posix_spawn(sys.executable, command, environment, file_actions=silent)  # it is not waited for


def main(arguments: Sequence[str]) -> None:
    """Renew the claim of a run; the arguments are place, run and PID."""
    place, run, process = arguments
    claim = Claim(Folder(place, run), has_list=True)
    while _is_there(int(process)) and claim.is_held():
        with suppress(StateShiftError):  # the next renewal decides
            claim.renew()
        time.sleep(_LOOK_S)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # the process of another user
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
