"""The results of a slot in a batch on their way to Spark: pieces of bounded size, however many they are.

They wait until the state is written, since only then it is certain that there are results; up to some size in memory,
and else in a temporary file.

Spark takes rows of a worker until they are many, and hands them to Java in one piece. A row of ours is a piece of many
results, so Java would get all of a batch at once. Therefore, with `applyInPandasWithState`, empty rows follow large
pieces, and make them many for Spark. With `transformWithState` Spark takes all results of a slot in one piece.
Source: `worker.py` of pyspark 4.3, at SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

from .packing import packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

PIECE_BYTES = 4 << 20
"""The size of the rows in a piece; a row that is larger is a piece of its own."""
HELD_BYTES = 32 << 20
"""How many bytes of the results of a slot are held in memory."""
MANY_ROWS = 10_000
"""What Spark may hand over at a time, and so how many empty rows follow a piece; Spark's own default."""

_LENGTH_BYTES = 8


class Results:
    """The packed results of a slot in a batch; they can be read once."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add some rows."""
        for piece in _pieces(rows):
            data = packed([piece])
            self._held.append(data)
            self._size += len(data)
            if self._size >= HELD_BYTES:
                self._write()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces in their order; at least one, which is empty where there are no results."""
        is_empty = self._file is None and not self._held
        if self._file is not None:
            with self._file as file:
                file.seek(0)
                while length := file.read(_LENGTH_BYTES):
                    yield file.read(int.from_bytes(length, "big"))
        while self._held:
            yield self._held.pop(0)
        if is_empty:
            yield b""

    def close(self) -> None:
        """Forget all."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed, and so deleted, when it has been read
        for data in self._held:
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(data)
        self._held, self._size = [], 0


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts that are not larger than a piece."""
    if rows.num_rows <= 1 or rows.nbytes <= PIECE_BYTES:
        if rows.num_rows:
            yield rows
        return
    half = rows.num_rows // 2
    yield from _pieces(rows.slice(0, half))
    yield from _pieces(rows.slice(half))
