"""The entries in a piece of a snapshot of Spark's default provider, found by machine code: no object is made for a row.

They are framed as those of a savepoint, so that the same machine code finds them.
"""

from __future__ import annotations

import numpy as np

from ....serializers.spark_rows.rows import Rows
from ...transcode.executor_choice import ExecutorName
from ...transcode.frames import COMPLETE, NEEDS_MORE, NO_KEY, find_entries, find_run

_END, _LENGTH_BYTES = -1, 4
_PADDING = 128  # machine code may read past the end, by less than this


def find_rows(content: bytes) -> tuple[int, int, bool, Rows, Rows] | None:
    """Find the entries that are whole in a piece of a snapshot.

    Returns:
        Where the rest begins; how many bytes its first entry needs at least; whether the file ends there; keys; and
        values. None: an entry has no key, or no value, which machine code does not find.
    """
    buffer, end = content + bytes(_PADDING), len(content)
    whole, at, count = memoryview(buffer)[:end], 0, 0
    while True:
        run = find_run(whole, at, ExecutorName.NUMBA)
        at, count = run.stop, count + run.entries
        if run.ending != COMPLETE:  # it says no more than that a key begins with a byte above 0x7f
            break
    is_complete = run.ending == NO_KEY and run.detail == _END
    if run.ending != NEEDS_MORE and not is_complete:
        return None
    data = np.frombuffer(buffer, np.uint8)
    keys, key_ends, values, value_ends = np.empty((4, count), np.int64)
    find_entries(data, 0, at, [keys, key_ends, values, value_ends])
    rest = at + _LENGTH_BYTES if is_complete else at
    return rest, run.detail, is_complete, Rows(data, keys, key_ends - keys), Rows(data, values, value_ends - values)
