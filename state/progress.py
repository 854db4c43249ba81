"""The progress of a run: streams, entries and bytes, its speed, and the estimated time left."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
_TOLD_EACH_BYTES = 4 << 20


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


@attrs.define
class ProgressMeter:
    """Reports the progress of a reading after each part, and within it now and then.

    Attributes:
        tell: Called with the progress.
        phase: The name of the phase.
        total: The number of all parts.
        bytes_total: About how many bytes they have; 0: it is not known.
    """

    tell: Callable[[Progress], None]
    phase: str
    total: int
    bytes_total: int
    _done: int = 0
    _bytes: int = 0
    _within: int = 0
    _told: int = 0
    _begin: float = attrs.field(factory=time.monotonic)

    def take(self, size_bytes: int) -> None:
        """Count the bytes of a block; blocks of compressed streams have more bytes than their files."""
        self._within += size_bytes
        if self._within - self._told >= _TOLD_EACH_BYTES:
            self._tell()

    def add(self, size_bytes: int | None = None) -> None:
        """Count a part that was read to its end, of so many bytes; None: of those that were counted."""
        self._bytes += self._within if size_bytes is None else size_bytes
        self._done, self._within = self._done + 1, 0
        self._tell()

    def _tell(self) -> None:
        self._told = self._within
        seconds, read = time.monotonic() - self._begin, min(self._bytes + self._within, self.bytes_total)
        self.tell(Progress(self.phase, self._done, self.total, 0, read, self.bytes_total, seconds))


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    size, unit = float(size_bytes), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, bigger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
