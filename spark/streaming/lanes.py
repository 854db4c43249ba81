"""What came by a slot's lanes, in a temporary file of the worker until the slot's own group comes in the same task."""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING

from .blobs import Blob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Place = tuple[str, str, int]
"""A directory, an operator and a slot."""

_HEAD = struct.Struct("<iqq?q")


class _Kept:
    """The blobs that an attempt of a task has got for a slot."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed, and so deleted, when it has been read

    def add(self, blob: Blob) -> None:
        head = _HEAD.pack(blob.index, blob.origin, blob.highest_ms or 0, blob.highest_ms is not None, len(blob.rows))
        self._file.write(head)
        self._file.write(blob.rows)

    def blobs(self) -> Iterator[Blob]:
        self._file.seek(0)
        with self._file as file:
            while head := file.read(_HEAD.size):
                index, origin, highest, has_highest, size = _HEAD.unpack(head)
                yield Blob(index, origin, highest if has_highest else None, file.read(size))

    def close(self) -> None:
        self._file.close()


_KEPT: dict[Place, _Kept] = {}


def keep(place: Place, blobs: Iterable[Blob]) -> None:
    """Keep the blobs of a lane."""
    attempt, held = _attempt(), _KEPT.get(place)
    if held is None or held.attempt != attempt:
        if held is not None:  # of an attempt that failed
            held.close()
        held = _KEPT[place] = _Kept(attempt)
    for blob in blobs:
        held.add(blob)


def kept(place: Place) -> Iterator[Blob]:
    """Yield what this attempt has kept for a slot."""
    held = _KEPT.pop(place, None)
    if held is None:
        return
    if held.attempt != _attempt():
        held.close()
        return
    yield from held.blobs()


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()
