"""The executor of op lists by machine code, block by block.

The interpreter checks every offset, but its loads may run past the end of an entry by less than `PADDING` bytes: the
last entries of a block are copied into a padded buffer.
"""

from __future__ import annotations

import math
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from . import ops
from .even import moves_of
from .executors import Rewritten
from .framed import Survey
from .interpreter import FULL, NEAR_END
from .machine import PADDING
from .numba_kernels import (
    RESULT_NUMBERS,
    STATE_NUMBERS,
    TOTAL_NUMBERS,
    call,
    find_entries,
    find_placed,
    find_run,
    note_key_sums,
    read_only,
    rewrite,
    survey,
)
from .program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SLACK, SPARE_BYTES = 9 / 8, 1 << 14
"""The factor and the bytes by which a block may grow more than the one before it without a second try."""
_CHECKSUM = (1 << 64) - 1
_NO_STATES, _NO_TOTALS = np.zeros((0, STATE_NUMBERS), np.int64), np.zeros((0, TOTAL_NUMBERS), np.int64)
_NO_NUMBERS = np.zeros(0, np.int64)
_MIGRATING = ("rewrite", "find_run", "survey", "find_placed")
FUNCTIONS = (*_MIGRATING, "note_key_sums", "find_entries")
"""The functions of `numba_kernels` that are compiled."""


@attrs.frozen
class _Done:
    """The result of one run: the attributes of `Rewritten`, with the number of bytes written instead of data."""

    status: int
    stop: int
    size: int
    entries: int
    keys: int
    seen: Survey

    def go_on(self, rest: _Done) -> _Done:
        """Return this result extended by `rest`, the result for the entries from `stop` on."""
        return _Done(
            rest.status,
            self.stop + rest.stop,
            self.size + rest.size,
            self.entries + rest.entries,
            self.keys + rest.keys,
            self.seen.go_on(rest.seen, self.size),
        )


class NumbaExecutor:
    """An executor of an op list in machine code."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._code = np.array(program.code, np.int64)
        self._constants = padded(program.constants)
        self._registers = np.zeros(program.registers + 1, np.int64)
        self._places, self._key_group = np.zeros(3, np.int64), np.zeros(1, np.int64)
        self._result = np.zeros(RESULT_NUMBERS, np.int64)
        self._moves = np.array(moves_of(program), np.int64)
        self._growth = math.inf  # new bytes per old byte of the last block; unknown before the first

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one cannot be rewritten."""
        size = len(block) - start
        most = self._program.capacity(size)
        capacity = int(min(most, size * self._growth * SLACK + SPARE_BYTES))
        while True:
            done = self._rewrite(block, start, capacity, prefix)
            if done.status != FULL:
                if done.stop > start:
                    self._growth = len(done.data) / (done.stop - start)
                return done
            if done.entries and capacity >= most:
                return done
            capacity = most if capacity < most else 2 * capacity

    def _rewrite(self, block: bytes | memoryview, start: int, capacity: int, prefix: bytes) -> Rewritten:
        data, target = np.frombuffer(block, np.uint8), np.empty(capacity + PADDING, np.uint8)
        most = len(block) - max(PADDING - bytes_behind(block), 0)
        done = self._run(data, start, len(block), most, target, capacity, prefix)
        if done.status == NEAR_END:
            rest, left = padded(block[done.stop :]), len(block) - done.stop
            done = done.go_on(self._run(rest, 0, left, left, target[done.size :], capacity - done.size, prefix))
        return Rewritten(done.status, without(target, done.size), done.stop, done.entries, done.keys, done.seen)

    def _run(self, data: Any, start: int, size: int, most: int, target: Any, capacity: int, prefix: bytes) -> _Done:
        self._places[:] = start, size, most
        self._key_group[0] = int.from_bytes(prefix, "big")
        status = rewrite(
            read_only(data), self._places, self._key_group, len(prefix), _NO_STATES, _NO_NUMBERS, self._code,
            self._constants, self._moves, _NO_NUMBERS, target, capacity - self._program.fixed, self._registers,
            self._result, _NO_NUMBERS, _NO_TOTALS,
        )  # fmt: skip
        stop, written, entries, keys, seen, seen_keys, misplaced, last = self._result.tolist()
        return _Done(status, stop, written, entries, keys, Survey(seen, seen_keys & _CHECKSUM, misplaced, last))


def load_compiled(names: Iterable[str] = _MIGRATING) -> None:
    """Load machine code by running it on no entries, so that processes forked from this one have it.

    Args:
        names: Functions of `numba_kernels`; by default those that rewrite state and verify what was written.
    """
    nothing = memoryview(bytearray(PADDING))
    none, result = padded(b""), np.zeros(4, np.int64)
    runs: dict[str, Callable[[], Any]] = {
        "rewrite": lambda: NumbaExecutor(Program((ops.TABLES,), b"", registers=1, growth=0, fixed=0)).rewrite(
            nothing, len(nothing)
        ),
        "find_run": lambda: call(find_run, nothing, 0, 0),
        "survey": lambda: call(survey, nothing, 0, 0, 0),
        "find_placed": lambda: find_placed(none, 0, 0, 1, _NO_NUMBERS, _NO_NUMBERS, result),
        "note_key_sums": lambda: note_key_sums(none, 0, _NO_NUMBERS),
        "find_entries": lambda: find_entries(read_only(none), 0, 0, *[_NO_NUMBERS] * 4),
    }
    for name in names:
        runs[name]()


def padded(data: bytes | memoryview) -> Any:
    """Return a copy of bytes as an array with padding after them.

    It is writable like other arrays here: numba would compile another type of array separately.
    """
    return np.frombuffer(bytearray().join((data, bytes(PADDING))), np.uint8)


def with_margin(data: bytes | memoryview) -> Any:
    """Return bytes as a writable array with padding after it; they are copied if they are not in such a buffer."""
    is_plain = isinstance(data, memoryview) and not data.readonly and bytes_behind(data) >= PADDING
    return np.frombuffer(data, np.uint8) if is_plain else padded(data)


def bytes_behind(block: bytes | memoryview) -> int:
    """Return the number of bytes after a block in the buffer that it is a view of; 0 if it is no view."""
    if not isinstance(block, memoryview) or not block:
        return 0
    whole = memoryview(block.obj)
    return _address(whole) + whole.nbytes - _address(block) - block.nbytes


def _address(data: memoryview) -> int:
    if not data.readonly:  # several times as fast
        return addressof(c_char.from_buffer(data))
    array: Any = np.frombuffer(data, np.uint8)
    address: int = array.__array_interface__["data"][0]
    return address


def without(target: Any, size: int) -> memoryview:
    """Return the first bytes of an array; as a copy if they are less than half of it, so that the array is freed."""
    return memoryview(target[:size] if 2 * size >= len(target) else target[:size].copy())
