"""The executor of op lists by numpy: the entries of a block go through an op together, some ten thousands at a time.

Op lists with loops are declined, for plain Python. An entry of which columns cannot tell whether it is sound is
rewritten by plain Python alone; where that finds it odd, it is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from . import columns
from .executors import PlainExecutor, Rewritten
from .held import keep_freed_memory
from .interpreter import DONE, ODD
from .lockstep import Entries
from .numpy_framing import KEY_HEAD_BYTES, entries_of, key_sums, known, last_words, written
from .row_ops import RowProgram
from .rows import Rows

if TYPE_CHECKING:
    from .columns import Column
    from .program import Program

_ROWS = 1 << 16
_LENGTH_BYTES = 4
_RARE = 100

keep_freed_memory()


@attrs.define
class _Block:
    """A block whose entries are rewritten, but for those that were declined.

    Attributes:
        block: The old bytes.
        found: Where the old entries lie.
        declined: Which are not rewritten.
        data: The new entries.
        ends: Where each of the new entries ends, with a 0 before; those that were declined have no bytes.
        keys: What the key of each adds to the checksum.
    """

    block: bytes | memoryview
    found: Entries
    declined: Column
    data: memoryview
    ends: Column
    keys: Column


@attrs.frozen
class _Chunk:
    """Entries that are rewritten: which, their bytes, where each ends, and what their keys add to the checksum."""

    which: Any
    data: Any
    ends: Column
    keys: Column


class NumpyExecutor:
    """Carries out an op list by columns."""

    def __init__(self, program: Program) -> None:
        self._plain = PlainExecutor(program)
        self._program = RowProgram(program)
        self._careful = False
        self._reached: dict[int, int] = {}
        self._last: _Block | None = None

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        done = self._done(block)
        if done is None:
            return self._plain.rewrite(block, start)
        starts = done.found.starts
        first = int(np.searchsorted(starts, start))
        if first == 0 and not len(done.declined):
            return self._finished(done, done.data, done.ends[:-1], int(done.keys.sum(dtype=np.uint64)))
        return self._around_declined(done, first)

    def _finished(self, done: _Block, data: memoryview, starts: Column, keys: int) -> Rewritten:
        """Give all entries of a block, rewritten; where they lie need not be found again."""
        known.forget(done.block)
        written.put(data, Entries(starts, starts + (done.found.values - done.found.starts)))
        self._last = None
        return Rewritten(DONE, data, len(done.block), len(starts), keys)

    def _around_declined(self, done: _Block, first: int) -> Rewritten:
        """Put together what is rewritten from an entry on and, by plain Python, those that were declined."""
        block, starts, sizes = done.block, done.found.starts, np.diff(done.ends)
        after = int(np.searchsorted(done.declined, first))
        pieces: list[bytes | memoryview] = []
        entry, keys = first, 0
        for declined in [*done.declined[after:].tolist(), len(starts)]:
            pieces.append(done.data[done.ends[entry] : done.ends[declined]])
            keys += int(done.keys[entry:declined].sum(dtype=np.uint64))
            if declined == len(starts):
                break
            here = int(starts[declined])
            stop = int(starts[declined + 1]) if declined + 1 < len(starts) else len(block)
            alone = self._plain.rewrite(block[here:stop], 0)
            if alone.status != DONE:
                return Rewritten(ODD, _joined(pieces), here, declined - first, keys)
            pieces.append(alone.data)
            sizes[declined] = len(alone.data)
            keys += alone.keys
            entry = declined + 1
        if first == 0:
            return self._finished(done, _joined(pieces), np.cumsum(sizes) - sizes, keys)
        self._last = None
        return Rewritten(DONE, _joined(pieces), len(block), len(starts) - first, keys)

    def _done(self, block: bytes | memoryview) -> _Block | None:
        if self._last is None or self._last.block is not block:
            found = entries_of(block)
            self._last = None if found is None else self._rewritten(block, found)
        return self._last

    def _rewritten(self, block: bytes | memoryview, found: Entries) -> _Block:
        buffer = columns.padded(block, self._program.reach)
        stops = np.append(found.starts[1:], len(block))
        ends, keys = np.zeros(len(stops) + 1, np.int64), np.zeros(len(stops), np.uint64)
        pieces, size = [], 0
        for first in range(0, len(stops), _ROWS):
            chunk = slice(first, first + _ROWS)
            done = self._chunk(buffer, found.starts[chunk], found.values[chunk], stops[chunk])
            ends[1:][chunk][done.which] = size + done.ends
            keys[chunk][done.which] = done.keys
            pieces.append(done.data)
            size += len(done.data)
        declined = np.flatnonzero(ends[1:] == 0)
        if len(declined):
            np.maximum.accumulate(ends, out=ends)
        return _Block(block, found, declined, _joined(pieces), ends, keys)

    def _chunk(self, buffer: Any, starts: Column, values: Column, stops: Column) -> _Chunk:
        """Rewrite entries."""
        which: Any = slice(None)
        careful = self._careful
        while True:
            rows = Rows(buffer, values[which], stops[which], self._reached)
            output = self._program.run(rows, careful=careful)
            if rows.sound.all():
                break
            if careful or not self._program.has_texts:
                left = np.flatnonzero(rows.sound)
                which = left if isinstance(which, slice) else which[left]
            else:
                careful = True
                self._careful |= _RARE * int((~rows.sound).sum()) > len(rows)
        starts, values = starts[which], values[which]
        heads = values - starts - _LENGTH_BYTES
        seen = columns.widely(buffer, starts, heads, KEY_HEAD_BYTES)
        data, ends = output.written(starts, heads, seen)
        if seen is None:
            seen = columns.gathered(buffer, starts, 0, KEY_HEAD_BYTES)
        return _Chunk(
            which, data, ends, key_sums(buffer, starts, heads - _LENGTH_BYTES, seen, last_words(buffer, values)[0])
        )


def _joined(pieces: list[Any]) -> memoryview:
    return memoryview(pieces[0]) if len(pieces) == 1 else memoryview(bytearray().join(pieces))
