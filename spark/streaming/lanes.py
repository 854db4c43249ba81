"""The rows of a slot in a batch: kept until its lanes have brought all, and put in the order of their time stamps.

What comes by lanes waits in a temporary file until the slot's own group comes in the same task. Rows are collected up
to a number of bytes, and sorted. Where there are more, each such part waits in a temporary file, and all parts are read
together, a few rows of each at a time.
"""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...state.runtime.timer_service import MIN_WATERMARK
from .blobs import Blob, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from ...state.streaming.slot import Elements
    from .elements import ElementReader
    from .row_errors import ToleratingReader

    Reader: TypeAlias = ElementReader | ToleratingReader

Place = tuple[str, str, int]
"""A directory, an operator and a slot."""

_HEAD = struct.Struct("<iqq?q")


class _Kept:
    """The blobs that an attempt of a task has received for a slot."""

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


HELD_BYTES = 32 << 20
"""How many bytes of the rows of a slot are held at a time."""
_ROWS = 512
"""How many rows of each part are read at a time."""


def in_order(
    parts: Iterable[tuple[int, pa.RecordBatch]], readers: Sequence[Reader], most_bytes: int = HELD_BYTES
) -> list[Iterator[Elements]]:
    """Return the elements of some rows as several sequences, each sorted by time stamp.

    Args:
        parts: The rows, with the number of their input.
        readers: Make the elements of each input.
        most_bytes: How many bytes are held at a time.
    """
    held: dict[int, list[pa.RecordBatch]] = {}
    found: list[tuple[int, Iterable[pa.RecordBatch]]] = []
    size = 0
    for index, rows in parts:
        held.setdefault(index, []).append(rows)
        size += rows.nbytes
        if size >= most_bytes:
            found += [(one, _in_file(_sorted(batches, readers[one]))) for one, batches in held.items()]
            held, size = {}, 0
    found += [(one, _sorted(batches, readers[one])) for one, batches in held.items()]
    return [_elements(index, batches, readers[index]) for index, batches in found]


def _elements(index: int, batches: Iterable[pa.RecordBatch], reader: Reader) -> Iterator[Elements]:
    return (reader.read(index, rows) for rows in batches)


def _sorted(batches: list[pa.RecordBatch], reader: Reader) -> Iterator[pa.RecordBatch]:
    """Yield rows sorted by time stamp, those without one first; rows of equal time stamps keep their order."""
    table = pa.Table.from_batches(batches)
    batches.clear()
    if reader.time_column:
        times = milliseconds(table.column(reader.time_column).combine_chunks()).fill_null(MIN_WATERMARK).to_numpy()
        if (times[1:] < times[:-1]).any():
            table = table.take(pa.array(np.argsort(times, kind="stable")))
    yield from table.combine_chunks().to_batches(max_chunksize=_ROWS)


def _in_file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows to a temporary file, and return a reader of it."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed, and so deleted, when it has been read
    first = next(batches)
    with pa.ipc.new_stream(file, first.schema) as writer:
        writer.write_batch(first)
        for rows in batches:
            writer.write_batch(rows)
    file.seek(0)

    def read() -> Iterator[pa.RecordBatch]:
        with file:
            yield from pa.ipc.open_stream(file)

    return read()
