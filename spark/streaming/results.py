"""The results of a slot in a batch on their way through Spark.

They wait until the state is written, since only then it is certain that there are results. Few of them wait in memory,
and become one row for Spark. Many are in a file, and the row names it: what unpacks results is in the same task, and so
on the same machine. Java would hold them, since with `transformWithState` Spark takes all results of a slot at once,
however many they are. Source: `worker.py` of pyspark 4.3, at SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF.

The file is in a folder for the temporary files of Spark. It is deleted when it is opened to be read; and where a task
ends before, with Spark's folder.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...serializers.errors import StorageFailed
from .blobs import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HELD_BYTES = 4 << 20
"""How many bytes of the results of a slot are held in memory; larger batches of rows are written in parts."""

_FOLDERS = "SPARK_LOCAL_DIRS"
"""The variable in which Spark tells its workers where temporary files belong; there may be several, with commas."""


class Results:
    """The results of a slot in a batch."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: _File | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add some rows."""
        for part in _parts(rows):
            self._held.append(part)
            self._size += part.nbytes
            if self._size >= HELD_BYTES:
                self._write()

    def handed(self) -> bytes | Path:
        """Return the packed rows, or the file that has them; nothing can be added any more."""
        if self._file is None:
            return packed(self._held)
        self._write()
        return self._file.finished()

    def close(self) -> None:
        """Forget all."""
        self._held = []
        if self._file is not None:
            self._file.delete()

    def _write(self) -> None:
        if self._file is None and self._held:
            self._file = _File(self._held[0].schema)
        if self._file is not None:
            self._file.write(self._held)
        self._held, self._size = [], 0


class _File:
    """A temporary file of rows. Its errors are no errors of a function, which an operator might pass over."""

    def __init__(self, schema: pa.Schema) -> None:
        folder = os.environ.get(_FOLDERS, "").partition(",")[0] or tempfile.gettempdir()
        with _file_errors(folder):
            number, name = tempfile.mkstemp(prefix="stateshift-results-", dir=folder)
            os.close(number)
            self._path, self._file = Path(name), pa.OSFile(name, "wb")
            self._writer = pa.ipc.new_stream(self._file, schema)

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        with _file_errors(self._path.parent):
            for rows in batches:
                self._writer.write_batch(rows)

    def finished(self) -> Path:
        with _file_errors(self._path.parent):
            self._writer.close()
            self._file.close()
        return self._path

    def delete(self) -> None:
        self._file.close()
        self._path.unlink()


@contextmanager
def _file_errors(folder: str | Path) -> Iterator[None]:
    """Turn errors of the operating system about a temporary file into errors of stateshift."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"the results of a batch cannot be written to a temporary file in {folder}: {error.strerror or error}",
            advice="free space there, or set spark.local.dir to another folder",
        ) from error


def handed_rows(results: bytes | Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a slot has handed over; a file of them can be read once."""
    if isinstance(results, bytes):
        yield from unpacked(results)
        return
    with results.open("rb") as file:
        results.unlink()
        yield from pa.ipc.open_stream(file)


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of bounded size; a row that is larger is a part of its own."""
    if rows.num_rows <= 1 or rows.nbytes <= HELD_BYTES:
        if rows.num_rows:
            yield rows
        return
    half = rows.num_rows // 2
    yield from _parts(rows.slice(0, half))
    yield from _parts(rows.slice(half))
