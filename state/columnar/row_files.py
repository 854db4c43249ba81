"""Files of packed rows of one state, from the tasks that encode rows to the process that writes the streams.

A data source cannot shuffle rows: each task has whatever rows Spark passed to it. Therefore a task writes its packed
rows to a file of its attempt, and the process that writes the streams reads the same range of key groups from all
files.

    file    pieces, each an Arrow stream of `PACKED_ROWS` of one of `RANGES` ranges of key groups
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from ..publication.sink import StreamSink
from .packed_rows import HELD_BYTES, PACKED_ROWS, rows_in_order
from .row_streams import RowCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..storage.files import Folder

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
    pieces, rows, size = list[Piece](), RowCount(), 0
    with StreamSink(folder, name, inline_bytes=0) as sink:
        for batch in records:
            error = batch.column("error")[0].as_py()
            if error is not None:
                sink.discard()
                return RowFile(error=error)
            places = batch.column("key_group").to_numpy().astype(np.int64) * RANGES // max_parallelism
            for start, end in pairwise([0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]):
                part = batch.slice(start, end - start)
                data, (count, held, checksum) = _stream_of(part), _sums(part)
                pieces.append(Piece(int(places[start]), size, len(data), held))
                rows += RowCount(count, checksum)
                size += sink.write(data)
    return RowFile(sink.attempt, tuple(pieces), rows)


def _sums(records: pa.RecordBatch) -> list[int]:
    return [int(records.column(name).to_numpy().sum()) for name in ("rows", "size", "checksum")]


def _stream_of(records: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PACKED_ROWS) as stream:
        stream.write_batch(records)
    return memoryview(sink.getvalue())


def sorted_batches(files: Sequence[RowFile], folder: Folder, state_id: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files, sorted, as `row_streams.SORTED_ROWS`; about `HELD_BYTES` are in memory at a time.

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
