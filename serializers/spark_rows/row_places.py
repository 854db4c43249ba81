"""Rows at their places in one buffer, found by machine code: no object is made for a row.

Entries of a snapshot are framed as those of a savepoint, so that the same machine code finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

from ...state.transcode.choice import ExecutorName
from ...state.transcode.framed import COMPLETE, NEEDS_MORE, NO_KEY, find_entries, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[Any]

_END, _LENGTH_BYTES = -1, 4
_PADDING = 128  # machine code may read past the end, by less than this


@attrs.frozen(eq=False)
class Rows(Sequence[bytes]):
    """Rows at places in a buffer, which goes on for at least 8 bytes behind them.

    Attributes:
        data: The buffer.
        starts: Where each row begins.
        sizes: The bytes of each.
    """

    data: Numbers = attrs.field(repr=False)
    starts: Numbers
    sizes: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> bytes | Rows:
        if isinstance(index, slice):
            return Rows(self.data, self.starts[index], self.sizes[index])
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        data = self.data.tobytes()
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield data[start : start + size]

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Rows:
        """Return rows in one buffer: these, or a copy."""
        if isinstance(rows, Rows):
            return rows
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        joined = b"".join(rows)
        data = np.frombuffer(joined + bytes(8 + -len(joined) % 8), np.uint8)
        return cls(data, np.cumsum(sizes) - sizes, sizes)


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
