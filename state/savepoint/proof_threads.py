"""Verification in this process, in as many threads as there are cores, with progress.

Threads suffice, because machine code and digests release the GIL. Work with Python objects does not run in parallel.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from threading import Lock
from typing import TYPE_CHECKING

import attrs

from ..progress import Progress
from ..storage.prefetch import cores
from ..transcode.choice import choose_executor
from .proof_tasks import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..storage.files import Folder
    from .proof_tasks import Answer, ProofTask


def run_in_threads(
    phase: str, tasks: Sequence[ProofTask], folder: Folder, tell: Callable[[Progress], None]
) -> list[Answer]:
    """Run tasks, and return their answers. If that is interrupted, no thread is running afterwards.

    Args:
        phase: The name of the phase, for the progress.
        tasks: The tasks.
        folder: The savepoint.
        tell: Called with the progress, by one thread at a time.
    """
    meter = _Meter(phase, tasks, tell)
    executor = choose_executor(sum(task.size_bytes for task in tasks), compiles=True)
    alone = folder.is_local and len(tasks) >= cores()

    def run(task: ProofTask) -> Answer:
        with meter.measured(task) as take:
            return run_task(task, folder, executor, take, alone=alone)

    pool = ThreadPoolExecutor(cores())
    try:
        return [future.result() for future in [pool.submit(copy_context().run, run, task) for task in tasks]]
    finally:
        meter.end()
        pool.shutdown(cancel_futures=True)


class _Meter:
    """Adds up the progress of all threads; after `end`, a thread that reports any is cancelled."""

    def __init__(self, phase: str, tasks: Sequence[ProofTask], tell: Callable[[Progress], None]) -> None:
        self._tell, self._lock, self._has_ended = tell, Lock(), False
        self._began = time.monotonic()
        self._now = Progress(phase, 0, len(tasks), bytes_total=sum(task.size_bytes for task in tasks))
        tell(self._now)

    @contextmanager
    def measured(self, task: ProofTask) -> Iterator[Callable[[int], None]]:
        """Yield the function that takes the numbers of bytes read; those read twice or ahead do not count."""
        left = task.size_bytes

        def take(size: int) -> None:
            nonlocal left
            size = min(size, left)
            left -= size
            self._add(size=size)

        yield take
        self._add(done=1, size=left)

    def end(self) -> None:
        """Cancel the threads that are still running."""
        with self._lock:
            self._has_ended = True

    def _add(self, *, done: int = 0, size: int = 0) -> None:
        with self._lock:
            if self._has_ended:
                raise CancelledError
            now = self._now
            self._now = attrs.evolve(
                now, done=now.done + done, bytes_done=now.bytes_done + size, seconds=time.monotonic() - self._began
            )
            self._tell(self._now)
