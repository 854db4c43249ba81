"""Packed rows of one state: records of the shuffle, and files from tasks to the process that writes the streams.

Spark, or a file, moves records without looking at single rows: each packs rows of one state and key group
(`PACKED_ROWS`). A task packs what it has encoded, some memory at a time, and the writer of a stream first unpacks its
records and sorts their rows.

    sizes                    three i32 per row, little-endian: the sizes of its key, place (to order by) and value
    keys, places, values     the concatenated bytes of all rows

A data source cannot shuffle rows: each task has whatever rows Spark passed to it. Therefore a task writes its packed
rows to a file of its attempt, and the process that writes the streams reads the same range of key groups from all
files.

    file    pieces, each an Arrow stream of `PACKED_ROWS` of one of `RANGES` ranges of key groups
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.codec import binary_of, offsets_of
from ..publication.sink import StreamSink
from ..runner import BATCH_BYTES
from .row_streams import RowCount, checksums, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..storage.files import Folder

HELD_BYTES = 64 << 20
"""The size of the rows that are packed at a time."""
PACKED_ROWS = pa.schema(
    {
        "operator": pa.int32(),
        "key_group": pa.int32(),
        "state": pa.int32(),
        "rows": pa.int64(),
        "size": pa.int64(),
        "checksum": pa.int64(),
        "sizes": pa.large_binary(),
        "keys": pa.large_binary(),
        "places": pa.large_binary(),
        "values": pa.large_binary(),
        "error": pa.binary(),
    }
)
"""`size` is the size of the rows' framed entries, `checksum` that of `RowCount`; an error is a record without rows."""
_ROW = ("key", "place", "value")
_OWNER = ("operator", "key_group", "state")
_FRAME_BYTES = 8

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def packed(encoded: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack rows of one state, up to the first error. Key groups ascend within each `HELD_BYTES`.

    Args:
        encoded: Batches of `rows.ENCODED_ROWS`, in any order.

    Yields:
        Batches of `PACKED_ROWS` of about `BATCH_BYTES`.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in encoded:
        error = batch.column("error").drop_null()
        if len(error):
            told = batch.slice(0, 1).select(["operator", "state"]).to_pylist()[0] | {"error": error[0].as_py()}
            yield pa.RecordBatch.from_pylist([told], PACKED_ROWS)
            return
        for first, end in _pieces(_sizes(batch).sum(axis=1), HELD_BYTES):
            part = batch.slice(first, end - first)
            if held and size + part.nbytes > HELD_BYTES:
                yield from _records(held)
                held, size = [], 0
            held.append(part)
            size += part.nbytes
    if held:
        yield from _records(held)


def _records(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = joined(held)
    rows = rows.take(pa.array(np.argsort(rows["key_group"].to_numpy().astype(np.uint16), kind="stable")))
    sizes = _sizes(rows)
    totals = sizes.sum(axis=1)
    changes = np.flatnonzero(np.diff(rows["key_group"].to_numpy())) + 1
    firsts = np.union1d(changes, [first for first, _ in _pieces(totals, BATCH_BYTES)])
    edges = np.append(firsts, len(totals))
    sums = [np.ones_like(totals), sizes[:, 0] + sizes[:, 2] + _FRAME_BYTES, checksums(rows)]
    matrix = np.ascontiguousarray(sizes, "<i4")
    data = [binary_of(pa.py_buffer(matrix), edges * matrix.strides[0])]
    data += [binary_of(rows[name].buffers()[2], offsets_of(rows[name])[edges]) for name in _ROW]
    columns = [rows[name].take(pa.array(firsts)) for name in _OWNER]
    columns += [pa.array(np.add.reduceat(numbers, firsts)) for numbers in sums]
    records = pa.RecordBatch.from_arrays([*columns, *data, pa.nulls(len(firsts), pa.binary())], schema=PACKED_ROWS)
    for first, end in _pieces(np.add.reduceat(totals, firsts), BATCH_BYTES):
        yield records.slice(first, end - first)


def sorted_rows(records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack and sort rows from sorted batches.

    One batch is in memory at a time, or all rows of one state and key group, if those are more.

    Args:
        records: Batches of `PACKED_ROWS`, sorted by operator, key group and state.

    Yields:
        Batches of rows as `rows_in_order`.
    """
    for whole in _whole(records):
        yield from rows_in_order(joined(whole))


def rows_in_order(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Unpack rows, and sort them by operator, key group, state, key, bytes to order by, and value.

    Args:
        records: A batch of `PACKED_ROWS` in any order, with all rows of its states and key groups.

    Yields:
        Batches of `row_streams.SORTED_ROWS` of about `BATCH_BYTES`.
    """
    rows = _rows(records)
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*_OWNER, *_ROW)])
    sizes = _sizes(rows).sum(axis=1)[order.to_numpy()]
    rows = rows.drop_columns(["place"])
    for first, end in _pieces(sizes, BATCH_BYTES):
        yield rows.take(order.slice(first, end - first))


def _whole(records: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield regrouped batches so that all rows of a state and key group are in one group."""
    held: list[pa.RecordBatch] = []
    for batch in (batch.cast(PACKED_ROWS) for batch in records if batch.num_rows):  # Spark uses another binary type
        if held and _owner(held[-1], -1) != _owner(batch, 0):
            yield held
            held = []
        changed = [np.diff(batch.column(name).to_numpy()) != 0 for name in _OWNER]
        last = int(np.max(np.flatnonzero(np.any(changed, axis=0)), initial=-1)) + 1
        if last:
            yield [*held, batch.slice(0, last)]
            held = []
        held.append(batch.slice(last))
    if held:
        yield held


def _owner(records: pa.RecordBatch, at: int) -> list[int]:
    return [records.column(name)[at].as_py() for name in _OWNER]


def _rows(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the unpacked rows; keys, places and values are not copied."""
    counts = records.column("rows").to_numpy()
    owners = [pa.array(np.repeat(records.column(name).to_numpy(), counts)) for name in _OWNER]
    packed_sizes = offsets_of(records.column("sizes"))
    matrix = np.frombuffer(records.column("sizes").buffers()[2], "<i4", counts.sum() * len(_ROW), packed_sizes[0])
    data = []
    for name, sizes in zip(_ROW, matrix.reshape(-1, len(_ROW)).T, strict=True):
        column = records.column(f"{name}s")
        data.append(binary_of(column.buffers()[2], offsets_of(column)[0] + _with_zero(sizes)))
    return pa.RecordBatch.from_arrays([*owners, *data], names=[*_OWNER, *_ROW])


def _sizes(rows: pa.RecordBatch) -> Numbers:
    """Return the sizes of key, place and value of each row."""
    return np.stack([np.diff(offsets_of(rows.column(name))) for name in _ROW], axis=1)


def _with_zero(sizes: np.ndarray[Any, Any]) -> Numbers:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _pieces(sizes: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of pieces of rows with about `most` bytes."""
    if not len(sizes):
        return
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // most)) + 1
    yield from pairwise([0, *cuts.tolist(), len(sizes)])


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
