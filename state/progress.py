"""The progress of a run: streams, entries and bytes, its speed, and the estimated time left."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@attrs.frozen
class Progress:
    """The progress of a run, or of the verification of a savepoint.

    Attributes:
        phase: `planning`, `checking` (of the results of an interrupted run), `starting Spark`, `migrating`, `copying`,
            `encoding`, `writing`, `publishing`; when a savepoint is verified `digests`, `streams`; `downloading` while
            files of a database are fetched from a store.
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


_listeners: list[Callable[[Progress], None]] = []


@contextmanager
def listening(tell: Callable[[Progress], None]) -> Iterator[None]:
    """Call a function with the progress of what this process does deep within any work, until the `with` block ends."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def report_progress(progress: Progress) -> None:
    """Pass progress on to the function that listens, if there is one."""
    for tell in _listeners[-1:]:
        tell(progress)


_counters: list[Callable[[int], None]] = []


@contextmanager
def counting(count: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the numbers of bytes that this process reads of a stream, until the `with` block ends."""
    _counters.append(count)
    try:
        yield
    finally:
        _counters.remove(count)


def count_bytes(size: int) -> None:
    """Pass on how many bytes were read of a stream, to the function that counts them, if there is one."""
    for count in _counters[-1:]:
        count(size)


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    size, unit = float(size_bytes), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, bigger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
