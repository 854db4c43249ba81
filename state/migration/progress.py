"""The progress of a run, read from its journal, and the time of its phases."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import StateShiftError
from ..progress import Progress
from .run import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .journal import Journal
    from .tasks import Task, TaskResult

_LOCAL_LOOK_S = 0.5
_REMOTE_LOOK_S = 5.0
_TELL_EVERY_S = 0.5


class Stopwatch:
    """A progress callback that passes progress on, and measures the time of each phase.

    Args:
        tell: The callback to pass progress on to.
    """

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell
        self._began: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.phase not in self._began:
            self._began[progress.phase] = time.monotonic()
        self._tell(progress)

    def stopped(self) -> dict[str, float]:
        """Return the seconds of each phase, in order; the last one ends now."""
        ends = [*self._began.values(), time.monotonic()][1:]
        return {phase: end - began for (phase, began), end in zip(self._began.items(), ends, strict=True)}


class RunMeter:
    """Reports the progress of a run from its journal, which every worker writes to on any store.

    Args:
        phase: The name of the phase.
        tasks: The tasks to run.
        journal: The journal of their results.
        tell: A callback that is called with the progress.
    """

    def __init__(self, phase: str, tasks: Iterable[Task], journal: Journal, tell: Callable[[Progress], None]) -> None:
        self._sizes = {name_of(task): task.size_bytes for task in tasks}
        self._journal = journal
        self._tell = tell
        self._started = self._looked = time.monotonic()
        self._every_s = _LOCAL_LOOK_S if journal.folder.is_local else _REMOTE_LOOK_S
        self._seen: set[str] = set()
        self._within, self._told = 0, self._started
        self._now = Progress(phase, 0, len(self._sizes), bytes_total=sum(self._sizes.values()))
        tell(self._now)

    def look(self) -> None:
        """Read the journal and report the progress, if the last look was some time ago."""
        if time.monotonic() - self._looked < self._every_s:
            return
        with suppress(StateShiftError):  # the store does not answer; the workers will raise
            wanted = self._sizes.keys() - self._seen
            self.add(self._journal.results_of(wanted))
        self._looked = time.monotonic()

    def take(self, size: int) -> None:
        """Count bytes of the stream that is being read, and report the progress now and then.

        Compressed streams have more bytes than their files; so no more is told than what is left of all streams.
        """
        self._within += size
        if time.monotonic() - self._told >= _TELL_EVERY_S:
            self._told = time.monotonic()
            done = min(self._now.bytes_done + self._within, self._now.bytes_total)
            self._tell(attrs.evolve(self._now, bytes_done=done, seconds=self._told - self._started))

    def add(self, results: Iterable[TaskResult]) -> None:
        """Count finished streams that were not counted yet, and report the progress."""
        new = {result.stored.name: result for result in results if result.stored.name not in self._seen}
        self._within = 0
        self._seen |= new.keys()
        self._now = attrs.evolve(
            self._now,
            done=len(self._seen),
            entries=self._now.entries + sum(count.read for result in new.values() for count in result.counts),
            bytes_done=sum(self._sizes.get(name, 0) for name in self._seen),
            seconds=time.monotonic() - self._started,
        )
        self._tell(self._now)
