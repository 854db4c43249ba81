"""Files of packed rows of one state, from the tasks that encode rows to the process that writes the streams.

A data source cannot shuffle rows: each task has whatever rows Spark passed to it. Therefore a task writes its packed
rows to a file of its attempt, and the process that writes the streams reads the same range of key groups from all
files.

    file    pieces, each an Arrow stream of `PACKED_ROWS` of one of `RANGES` ranges of key groups
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
from .packed_rows import HELD_BYTES, PACKED_ROWS, rows_in_order
from .streams import RowCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..storage.files import FileOutput, Folder

RANGES = 256


@attrs.frozen
class Piece:
    """The part of a file that has the packed rows of one range of key groups.

    Attributes:
        place: The index of the range, below `RANGES`.
        start: The offset in the file.
        size: The size in bytes.
        held: The size of the entries of the rows in bytes.
    """

    place: int
    start: int
    size: int
    held: int


@attrs.frozen
class RowFile:
    """The result of one encoding task.

    Attributes:
        name: The name of the file, with its attempt; "" if there were no rows.
        pieces: The pieces of the file.
        rows: The count of the rows.
        error: A pickled error that another attempt would raise again; the other attributes are then meaningless.
    """

    name: str = ""
    pieces: tuple[Piece, ...] = attrs.field(default=(), repr=False)
    rows: RowCount = attrs.field(factory=RowCount)
    error: bytes | None = attrs.field(default=None, repr=False)

    @property
    def held(self) -> int:
        """The size of the rows' entries in bytes."""
        return sum(piece.held for piece in self.pieces)

    def refuse(self) -> None:
        """Raise the error of the task, if there was one."""
        if self.error is not None:
            raise pickle.loads(self.error)  # noqa: S301 - our own task wrote it


def write_row_file(records: Iterable[pa.RecordBatch], max_parallelism: int, folder: Folder, name: str) -> RowFile:
    """Write the packed rows of a task to a file.

    Args:
        records: The packed rows from `packed_rows.packed`.
        max_parallelism: The number of key groups.
        folder: The folder to write to.
        name: The name of the file without its attempt.

    Raises:
        StorageFailed: The store failed; the file was deleted.
    """
    writer = _Writer(folder, folder.attempt_name(name), max_parallelism)
    try:
        for batch in records:
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

    def add(self, records: pa.RecordBatch) -> None:
        if self._output is None:
            self._output = self._open.enter_context(self._folder.output(self._name))
        places = records.column("key_group").to_numpy().astype(np.int64) * RANGES // self._max_parallelism
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]):
            part = records.slice(start, end - start)
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
            with suppress(StateShiftError):  # the original failure is the one to report
                self._open.close()
            with suppress(StateShiftError):
                self._folder.delete(self._name)


def _sums(records: pa.RecordBatch) -> list[int]:
    return [int(records.column(name).to_numpy().sum()) for name in ("rows", "size", "checksum")]


def _stream_of(records: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PACKED_ROWS) as stream:
        stream.write_batch(records)
    return memoryview(sink.getvalue())


def sorted_batches(files: Sequence[RowFile], folder: Folder, state_id: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files, sorted, as `streams.SORTED_ROWS`; about `HELD_BYTES` are in memory at a time.

    Args:
        files: The files of all tasks.
        folder: The folder of the files.
        state_id: The state id that the rows get.
    """
    at = PACKED_ROWS.get_field_index("state")
    for places in _handy_ranges(files):
        records = pa.concat_tables([table for file in files for table in _read(file, folder, places)])
        states = pa.array(np.full(len(records), state_id, dtype=np.int32))
        (batch,) = records.set_column(at, "state", states).combine_chunks().to_batches()
        yield from rows_in_order(batch)


def _handy_ranges(files: Sequence[RowFile]) -> Iterator[range]:
    """Yield spans of ranges whose rows fit into `HELD_BYTES`, or span one large range; nothing if there are no rows."""
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
