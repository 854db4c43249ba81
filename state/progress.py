"""How far a run is: streams, entries and bytes, how fast it is, and how long the rest will take."""

from __future__ import annotations

import attrs


@attrs.frozen
class Progress:
    """How far a run, or a look at a savepoint, is.

    Attributes:
        phase: `planning`, `checking` (what a run that died has finished), `starting Spark`, `migrating`, `copying`,
            `encoding`, `writing`, `publishing`; of a look at a savepoint `digests`, `streams`.
        done: Streams, files, or Spark's tasks, that are finished.
        total: All of them.
        entries: Entries that were read, of finished streams.
        bytes_done: About how many bytes of the source were read for finished streams.
        bytes_total: For all of them; 0 where it is not told.
        seconds: Since the phase began.
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
        """How fast it was up to now."""
        return self.bytes_done / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes if it goes on like this; None before there is anything to tell by."""
        rate = self.bytes_per_s
        return (self.bytes_total - self.bytes_done) / rate if rate else None
