"""The entries of a column family, read from its files by blocks: the newest value of each key.

A key has entries in several files, and all but the newest are of the past. Files of which no two have keys between each
other's are a run; there are as few runs as possible. Where there are merge operands, or ranges were deleted, RocksDB
must bring the entries together. Only machine code is faster than RocksDB at this.
"""

from __future__ import annotations

from ctypes import string_at
from typing import TYPE_CHECKING, Any

from ...serializers.errors import UnsupportedFormat
from ..transcode.executor_choice import VARIABLE, ExecutorName, load_machine_code
from ..transcode.table_entries import ROOM_BYTES
from .table_reader import Records, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..storage.files import Folder
    from .manifest import TableFile

_MOST_RUNS = 16
"""More runs take too much memory: of each a megabyte or more is held."""


def newest_entries(
    files: Sequence[TableFile], folder: Folder, start: bytes | None, stop: bytes | None
) -> Iterator[Records] | None:
    """Return the newest values of a range of keys, in order; None where RocksDB must bring the entries together.

    Args:
        files: The files of a column family.
        folder: The folder that has them.
        start: The first key, inclusive; None: from the beginning.
        stop: The last key, exclusive; None: to the end.

    Raises:
        CorruptSavepoint: A file is damaged.
        UnsupportedFormat: Two entries of a key have one sequence number.
    """
    wanted = [file for file in files if file.reaches(start, stop)]
    runs, has_deletions = _runs(wanted), False
    if len(runs) > _MOST_RUNS:
        return None
    for file in wanted:
        with folder.open_range(file.name) as source:
            try:
                table = open_table(source, file)
                deleted = table.range_deletions()
            except UnsupportedFormat:
                return None
            if table.properties.merge_operands or any(_overlaps(one[0], one[1], start, stop) for one in deleted):
                return None
            has_deletions |= table.properties.deletions > 0
    found = [_of_run(run, folder, start, stop) for run in runs]
    return _merged(found) if len(runs) > 1 or has_deletions else _plain(found)


def _overlaps(first: bytes, after: bytes, start: bytes | None, stop: bytes | None) -> bool:
    return (start is None or after > start) and (stop is None or first < stop)


def _runs(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Return the files in as few runs as possible."""
    runs: list[list[TableFile]] = []
    for file in sorted(files, key=lambda file: file.keys[0]):
        run = next((run for run in runs if run[-1].keys[1] < file.keys[0]), None)
        if run is None:
            runs.append([file])
        else:
            run.append(file)
    return runs


def _of_run(files: list[TableFile], folder: Folder, start: bytes | None, stop: bytes | None) -> Iterator[Records]:
    for file in files:
        with folder.open_range(file.name) as source:
            yield from open_table(source, file, ExecutorName.NUMBA).blocks(start, stop)


def _plain(runs: list[Iterator[Records]]) -> Iterator[Records]:
    """Yield the entries of at most one run, which are values; merge them from where a key has several."""
    for run in runs:
        last = b""
        for records in run:
            if not records.has_values_only or records.key(0) == last:
                yield from _merged([_with(records, run)], last)
                return
            last = records.key(len(records) - 1)
            yield records


def _with(first: Records, rest: Iterator[Records]) -> Iterator[Records]:
    yield first
    yield from rest


def _merged(runs: list[Iterator[Records]], last: bytes | None = None) -> Iterator[Records]:
    """Yield the newest values of several runs.

    Args:
        runs: The runs.
        last: The key of which an entry was seen.
    """
    import numpy as np

    code: Any = load_machine_code()
    held = [(records, run) for run in runs if (records := next(run, None)) is not None]
    numbers = np.array([_numbers(records, code) for records, _ in held], np.int64).reshape(len(held), code.RUN_NUMBERS)
    result = np.zeros(4, np.int64)
    while held:
        left = [(int(row), records) for row, (records, _) in zip(numbers[:, code.ROW], held, strict=True)]
        rows = sum(len(records) - row for row, records in left)
        size = sum(int(records.places[len(records)]) - int(records.places[row]) for row, records in left)
        target: Any = np.empty(size + ROOM_BYTES, np.uint8)
        places: Any = np.empty(rows + 1, np.int64)
        seen = np.frombuffer((last or b"") + bytes(ROOM_BYTES), np.uint8)
        code.merge_entries(numbers, code.read_only(seen), -1 if last is None else len(last), target, places, result)
        count, address, length, is_unclear = result.tolist()
        if is_unclear:
            raise UnsupportedFormat(
                "two entries of a key have one sequence number, whose order only RocksDB knows",
                advice=f"set {VARIABLE}={ExecutorName.OBJECTS}: then RocksDB reads the files, which takes longer",
            )
        if address:
            last = string_at(address, length)
        if count:
            ones: Any = np.ones(count, np.int64)  # nothing is known of sequence numbers; all are values
            yield Records(memoryview(target), places[: count + 1], ones, ones, has_values_only=True)
        for at, (records, run) in enumerate(held):
            if numbers[at, code.ROW] == len(records):
                more = next(run, None)
                if more is None:
                    del held[at]
                    numbers = np.delete(numbers, at, 0)
                else:
                    held[at] = more, run
                    numbers[at] = _numbers(more, code)
                break


def _numbers(records: Records, code: Any) -> list[int]:
    """Return the numbers of a run of `merge_entries`, from its first entry on."""
    import numpy as np

    numbers = [0] * code.RUN_NUMBERS
    arrays: Any = (np.frombuffer(records.data, np.uint8), records.places, records.sequences, records.types)
    for at, array in enumerate(arrays):
        numbers[at] = array.ctypes.data
    numbers[code.ROWS] = len(records)
    return numbers
