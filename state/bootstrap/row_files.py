"""Parcels of one state on their way from the tasks that have encoded rows to who writes the streams.

A data source cannot bring rows together: each task has whatever rows Spark gave it. So a task writes its parcels to a
file of its attempt; whoever writes the streams reads the same range of key groups from all files.

    file    pieces, each an Arrow stream of parcels of one of `RANGES` ranges of key groups
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from ...serializers.errors import StateShiftError
from .shuffle_batches import HELD_BYTES, PARCELS, rows_in_order
from .streams import RowCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..storage.files import FileOutput, Folder

RANGES = 256


@attrs.frozen
class Piece:
    """Parcels of one range of key groups.

    Attributes:
        place: Of the range, of `RANGES`.
        start: Where its bytes begin in the file.
        size: How many they are.
        held: How many the entries of their rows have.
    """

    place: int
    start: int
    size: int
    held: int


@attrs.frozen
class RowFile:
    """What one task has written.

    Attributes:
        name: The file, under an attempt's name; "" where there were no rows.
        pieces: What lies in it.
        rows: What was counted.
        error: A pickled error that another attempt would meet again; then the rest means nothing.
    """

    name: str = ""
    pieces: tuple[Piece, ...] = attrs.field(default=(), repr=False)
    rows: RowCount = attrs.field(factory=RowCount)
    error: bytes | None = attrs.field(default=None, repr=False)

    @property
    def held(self) -> int:
        """Bytes of the rows' entries."""
        return sum(piece.held for piece in self.pieces)

    def refuse(self) -> None:
        """Raise the error of the task, if there was one."""
        if self.error is not None:
            raise pickle.loads(self.error)  # noqa: S301 - our own task wrote it


def write_row_file(parcels: Iterable[pa.RecordBatch], max_parallelism: int, folder: Folder, name: str) -> RowFile:
    """Write the parcels of a task.

    Args:
        parcels: As `parcels.packed` gives them.
        max_parallelism: Number of key groups.
        folder: Where to.
        name: What the file is called but for its attempt.

    Raises:
        StorageFailed: The store failed; nothing is left there.
    """
    writer = _Writer(folder, folder.attempt_name(name), max_parallelism)
    try:
        for batch in parcels:
            error = batch.column("error")[0].as_py()
            if error is not None:
                writer.abandon()
                return RowFile(error=error)
            writer.add(batch)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


class _Writer:
    def __init__(self, folder: Folder, name: str, max_parallelism: int) -> None:
        self._folder, self._name, self._max_parallelism = folder, name, max_parallelism
        self._written = 0
        self._pieces: list[Piece] = []
        self._rows = RowCount()
        self._output: FileOutput | None = None
        self._open = ExitStack()

    def add(self, parcels: pa.RecordBatch) -> None:
        if self._output is None:
            self._output = self._open.enter_context(self._folder.output(self._name))
        places = parcels.column("key_group").to_numpy().astype(np.int64) * RANGES // self._max_parallelism
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]):
            part = parcels.slice(start, end - start)
            data, (rows, held, checksum) = _stream_of(part), _sums(part)
            self._pieces.append(Piece(int(places[start]), self._written, len(data), held))
            self._rows += RowCount(rows, checksum)
            self._output.write(data)
            self._written += len(data)

    def finish(self) -> RowFile:
        self._open.close()
        return RowFile() if self._output is None else RowFile(self._name, tuple(self._pieces), self._rows)

    def abandon(self) -> None:
        if self._output is not None:
            with suppress(StateShiftError):  # the failure that led here is the one to tell
                self._open.close()
            with suppress(StateShiftError):
                self._folder.delete(self._name)


def _sums(parcels: pa.RecordBatch) -> list[int]:
    return [int(parcels.column(name).to_numpy().sum()) for name in ("rows", "size", "checksum")]


def _stream_of(parcels: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PARCELS) as stream:
        stream.write_batch(parcels)
    return memoryview(sink.getvalue())


def sorted_batches(files: Sequence[RowFile], folder: Folder, state_id: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of all files as `streams.SORTED_ROWS`, sorted; about `HELD_BYTES` of them are in memory at a time.

    Args:
        files: Of all tasks.
        folder: Where they are.
        state_id: Of the state, from now on.
    """
    at = PARCELS.get_field_index("state")
    for places in _handy_ranges(files):
        parcels = pa.concat_tables([table for file in files for table in _read(file, folder, places)])
        states = pa.array(np.full(len(parcels), state_id, dtype=np.int32))
        (batch,) = parcels.set_column(at, "state", states).combine_chunks().to_batches()
        yield from rows_in_order(batch)


def _handy_ranges(files: Sequence[RowFile]) -> Iterator[range]:
    """Join ranges of key groups to as many as memory is meant for; those without rows are left out."""
    sizes = [0] * RANGES
    for piece in (piece for file in files for piece in file.pieces):
        sizes[piece.place] += piece.held
    first = held = 0
    for place, size in enumerate(sizes):
        if held and held + size > HELD_BYTES:
            yield range(first, place)
            first, held = place, 0
        held += size
    if held:
        yield range(first, RANGES)


def _read(file: RowFile, folder: Folder, places: range) -> Iterator[pa.Table]:
    wanted = [piece for piece in file.pieces if piece.place in places]
    if not wanted:
        return
    with folder.open_range(file.name) as source:
        for piece in wanted:
            with pa.ipc.open_stream(source.read_at(piece.start, piece.size)) as stream:
                yield stream.read_all()
