"""Encoded rows of one state on their way from the tasks that have them to who writes the streams.

A data source cannot bring rows together: each task has whatever rows Spark gave it. So a task parts what it encoded by
key group, a piece of memory at a time, and writes it to a file of its attempt, in runs; whoever writes the streams
reads the same range of key groups from all runs, and sorts that.

    run     for each of `RANGES` ranges of key groups that has rows: an Arrow stream (key group, key, value), compressed
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.errors import StateShiftError
from .streams import RowCount, checksums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..savepoint.files import FileOutput, Folder

HELD_BYTES = 64 << 20
"""So many bytes of rows are parted, and later sorted, at a time."""
RANGES = 256
_COLUMNS = pa.schema({"key_group": pa.int32(), "key": pa.large_binary(), "value": pa.large_binary()})
_BATCH_ROWS = 1 << 15


@attrs.frozen
class Piece:
    """The rows of one range of key groups in one run.

    Attributes:
        place: Of the range, of `RANGES`.
        start: Where its bytes begin in the file.
        size: How many they are.
        held: How many the rows have, uncompressed.
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
        pieces: Of all runs.
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


def write_row_file(encoded: Iterable[pa.RecordBatch], max_parallelism: int, folder: Folder, name: str) -> RowFile:
    """Write the rows of a task.

    Args:
        encoded: `rows.ENCODED_ROWS`, in any order.
        max_parallelism: Number of key groups.
        folder: Where to.
        name: What the file is called but for its attempt.

    Raises:
        StorageFailed: The store failed; nothing is left there.
    """
    writer = _Writer(folder, folder.attempt_name(name), max_parallelism)
    try:
        for batch in encoded:
            error = batch.column("error")
            if error.null_count < len(error):
                writer.abandon()
                return RowFile(error=error.drop_null()[0].as_py())
            if batch.num_rows:
                writer.add(batch)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


class _Writer:
    def __init__(self, folder: Folder, name: str, max_parallelism: int) -> None:
        self._folder, self._name, self._max_parallelism = folder, name, max_parallelism
        self._held: list[pa.Table] = []
        self._size = self._written = 0
        self._pieces: list[Piece] = []
        self._rows = RowCount()
        self._output: FileOutput | None = None
        self._open = ExitStack()

    def add(self, batch: pa.RecordBatch) -> None:
        self._rows += RowCount(batch.num_rows, int(checksums(batch).sum()))
        table = pa.Table.from_batches([batch]).select(_COLUMNS.names).cast(_COLUMNS)
        self._held.append(table)
        self._size += table.nbytes
        if self._size >= HELD_BYTES:
            self._write_run()

    def finish(self) -> RowFile:
        self._write_run()
        self._open.close()
        return RowFile() if self._output is None else RowFile(self._name, tuple(self._pieces), self._rows)

    def abandon(self) -> None:
        if self._output is not None:
            with suppress(StateShiftError):  # the failure that led here is the one to tell
                self._open.close()
            with suppress(StateShiftError):
                self._folder.delete(self._name)

    def _write_run(self) -> None:
        if not self._held:
            return
        if self._output is None:
            self._output = self._open.enter_context(self._folder.output(self._name))
        (held,) = pa.concat_tables(self._held).combine_chunks().to_batches()
        self._held, self._size = [], 0
        places = held["key_group"].to_numpy().astype(np.int64) * RANGES // self._max_parallelism
        order = np.argsort(places, kind="stable")
        places, rows = places[order], held.take(pa.array(order))
        edges = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for start, end in pairwise(edges):
            part = rows.slice(start, end - start)
            data = _packed(part)
            self._pieces.append(Piece(int(places[start]), self._written, len(data), part.nbytes))
            self._output.write(data)
            self._written += len(data)


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _COLUMNS, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def sorted_batches(files: Sequence[RowFile], folder: Folder, operator: int, state_id: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of all files as `streams.SORTED_ROWS`, sorted; about `HELD_BYTES` of them are in memory at a time.

    Args:
        files: Of all tasks.
        folder: Where they are.
        operator: Place of the operator, for the rows.
        state_id: Of the state.
    """
    for places in _handy_ranges(files):
        tables = [_read(file, folder, places) for file in files]
        rows = pa.concat_tables([table for table in tables if table is not None]).combine_chunks()
        rows = rows.take(pc.sort_indices(rows["key"]))  # their bytes begin with the key group
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            numbers = [pa.array(np.full(batch.num_rows, number, dtype=np.int32)) for number in (operator, state_id)]
            columns = [numbers[0], batch["key_group"], numbers[1], batch["key"], batch["value"]]
            yield pa.RecordBatch.from_arrays(columns, names=["operator", "key_group", "state", "key", "value"])


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


def _read(file: RowFile, folder: Folder, places: range) -> pa.Table | None:
    wanted = [piece for piece in file.pieces if piece.place in places]
    if not wanted:
        return None
    tables = []
    with folder.open_range(file.name) as source:
        for piece in wanted:
            with pa.ipc.open_stream(source.read_at(piece.start, piece.size)) as stream:
                tables.append(stream.read_all())
    return pa.concat_tables(tables)
