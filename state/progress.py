"""The progress of a run: streams, entries and bytes, its speed, and the estimated time left."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ..serializers.wording import size_text as size_text  # noqa: PLC0414 - sizes are part of what is told of progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
_TOLD_EACH_S = 0.5


@attrs.frozen
class Progress:
    """The progress of a run, or of the verification of a savepoint.

    Attributes:
        phase: `planning`, `checking` (of the results of an interrupted run), `starting Spark`, `migrating`, `copying`,
            `encoding`, `writing`, `publishing`; when a savepoint is verified `digests`, `streams`; `downloading` while
            files of a database are fetched from a store; `scanning` and `exporting` by these commands.
        done: The number of finished streams, files, or Spark tasks.
        total: The number of all streams, files, or Spark tasks.
        entries: The number of entries read from finished streams.
        bytes_done: About how many bytes of the source were read for finished streams.
        bytes_total: About how many bytes of the source are read for all streams; 0 where it is not known.
        seconds: The time since the phase began.
    """

    phase: str
    done: int
    total: int
    entries: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    seconds: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        """The average speed so far."""
        return self.bytes_done / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated time left at the average speed; None as long as no bytes are done."""
        rate = self.bytes_per_s
        return (self.bytes_total - self.bytes_done) / rate if rate else None


class Listened(Generic[T]):
    """What this process tells while it works: it is passed on to the innermost function that listens."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[T], None]] = []

    @contextmanager
    def heard_by(self, tell: Callable[[T], None]) -> Iterator[None]:
        """Call a function with what is told deep within any work, until the `with` block ends."""
        self._listeners.append(tell)
        try:
            yield
        finally:
            self._listeners.remove(tell)

    def __call__(self, told: T) -> None:
        for tell in self._listeners[-1:]:
            tell(told)


report_progress = Listened[Progress]()
"""Passes progress on to the function that listens, if there is one."""
count_bytes = Listened[int]()
"""Passes on how many bytes were read of a stream, to the function that counts them, if there is one."""
count_file_bytes = Listened[int]()
"""Passes on how many stored bytes were read of files, to the function that counts them, if there is one."""


@attrs.define
class ProgressMeter:
    """Reports the progress of a work after each part, and within parts now and then; threads may share it.

    Attributes:
        tell: Called with the progress, by one thread at a time.
        phase: The name of the phase.
        total: The number of all parts.
        bytes_total: About how many bytes they have; 0: it is not known.
        done: The number of finished parts.
    """

    tell: Callable[[Progress], None]
    phase: str
    total: int
    bytes_total: int
    done: int = attrs.field(default=0, init=False)
    _entries: int = attrs.field(default=0, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _highest: int = attrs.field(default=0, init=False)
    _within: dict[int, int] = attrs.field(factory=dict, init=False)
    _began: float = attrs.field(factory=time.monotonic, init=False)
    _told: float = attrs.field(factory=time.monotonic, init=False)
    _lock: Lock = attrs.field(factory=Lock, init=False)

    def take(self, size_bytes: int, part: int = 0) -> None:
        """Count bytes that were read of a part; blocks of compressed streams have more bytes than their files."""
        with self._lock:
            self._within[part] = self._within.get(part, 0) + size_bytes
            if time.monotonic() - self._told >= _TOLD_EACH_S:
                self._tell()

    def add(self, size_bytes: int | None = None, part: int = 0, *, parts: int = 1, entries: int = 0) -> None:
        """Count a part that was read to its end.

        Args:
            size_bytes: The bytes of the part; None: those that were counted.
            part: The number of the part, as in `take`.
            parts: The number of parts that it counts for.
            entries: The number of its entries.
        """
        with self._lock:
            taken = self._within.pop(part, 0)
            self._bytes += taken if size_bytes is None else size_bytes
            self.done, self._entries = self.done + parts, self._entries + entries
            self._tell()

    def tell_now(self) -> None:
        """Report the progress."""
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        read = min(self._bytes + sum(self._within.values()), self.bytes_total)
        self._highest = max(self._highest, read)
        seconds = self._told - self._began
        self.tell(Progress(self.phase, self.done, self.total, self._entries, self._highest, self.bytes_total, seconds))


class Stopwatch:
    """A progress callback that passes progress on, and measures the time of each phase.

    Args:
        tell: The callback to pass progress on to.
    """

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell
        self._start = time.monotonic()
        self._began: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """The time since it was made."""
        return time.monotonic() - self._start

    def __call__(self, progress: Progress) -> None:
        if progress.phase not in self._began:
            self._began[progress.phase] = time.monotonic()
        self._tell(progress)

    def stopped(self) -> dict[str, float]:
        """Return the seconds of each phase, in order; the last one ends now."""
        ends = [*self._began.values(), time.monotonic()][1:]
        return {phase: end - began for (phase, began), end in zip(self._began.items(), ends, strict=True)}
