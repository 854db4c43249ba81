"""Op lists carried out by machine code, block by block.

The interpreter checks every place; machine code may run over the end of an entry, by less than `PADDING` bytes: the
last entries of a block are copied to where that is harmless.
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
"""How much more may become of a block than of the one before it."""
_CHECKSUM = (1 << 64) - 1
_NO_STATES, _NO_TOTALS = np.zeros((0, STATE_NUMBERS), np.int64), np.zeros((0, TOTAL_NUMBERS), np.int64)
_NO_NUMBERS = np.zeros(0, np.int64)
_MIGRATING = ("rewrite", "find_run", "survey", "find_placed")
FUNCTIONS = (*_MIGRATING, "note_key_sums", "find_entries")
"""All that is compiled here."""


@attrs.frozen
class _Done:
    """What the interpreter did: as of `Rewritten`, and how many bytes it wrote."""

    status: int
    stop: int
    size: int
    entries: int
    keys: int
    seen: Survey

    def go_on(self, rest: _Done) -> _Done:
        """Put behind it what was done with the entries where it stopped."""
        return _Done(
            rest.status,
            self.stop + rest.stop,
            self.size + rest.size,
            self.entries + rest.entries,
            self.keys + rest.keys,
            self.seen.go_on(rest.seen, self.size),
        )


class NumbaExecutor:
    """Carries out an op list in machine code."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._code = np.array(program.code, np.int64)
        self._constants = padded(program.constants)
        self._registers = np.zeros(program.registers + 1, np.int64)
        self._places, self._key_group = np.zeros(3, np.int64), np.zeros(1, np.int64)
        self._result = np.zeros(RESULT_NUMBERS, np.int64)
        self._moves = np.array(moves_of(program), np.int64)
        self._growth = math.inf  # how many bytes became of one, of the last block; of the first one it is not known

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        size = len(block) - start
        most = self._program.room(size)
        room = int(min(most, size * self._growth * SLACK + SPARE_BYTES))
        while True:
            done = self._rewrite(block, start, room, prefix)
            if done.status != FULL:
                if done.stop > start:
                    self._growth = len(done.data) / (done.stop - start)
                return done
            if done.entries and room >= most:
                return done
            room = most if room < most else 2 * room

    def _rewrite(self, block: bytes | memoryview, start: int, room: int, prefix: bytes) -> Rewritten:
        data, target = np.frombuffer(block, np.uint8), np.empty(room + PADDING, np.uint8)
        most = len(block) - max(PADDING - bytes_behind(block), 0)
        done = self._run(data, start, len(block), most, target, room, prefix)
        if done.status == NEAR_END:
            rest, left = padded(block[done.stop :]), len(block) - done.stop
            done = done.go_on(self._run(rest, 0, left, left, target[done.size :], room - done.size, prefix))
        return Rewritten(done.status, without(target, done.size), done.stop, done.entries, done.keys, done.seen)

    def _run(self, data: Any, start: int, size: int, most: int, target: Any, room: int, prefix: bytes) -> _Done:
        self._places[:] = start, size, most
        self._key_group[0] = int.from_bytes(prefix, "big")
        status = rewrite(
            read_only(data), self._places, self._key_group, len(prefix), _NO_STATES, _NO_NUMBERS, self._code,
            self._constants, self._moves, _NO_NUMBERS, target, room - self._program.fixed, self._registers,
            self._result, _NO_NUMBERS, _NO_TOTALS,
        )  # fmt: skip
        stop, written, entries, keys, seen, seen_keys, misplaced, last = self._result.tolist()
        return _Done(status, stop, written, entries, keys, Survey(seen, seen_keys & _CHECKSUM, misplaced, last))


def load_compiled(names: Iterable[str] = _MIGRATING) -> None:
    """Load machine code by running it on nothing: processes that are forked from this one have it then.

    Args:
        names: Functions of `numba_kernels`; without, those that rewrite state and look at what was written.
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
    """Give bytes as an array with room behind them.

    It may be written, as others may: another type of array would need machine code of its own.
    """
    return np.frombuffer(bytearray().join((data, bytes(PADDING))), np.uint8)


def with_room(data: bytes | memoryview) -> Any:
    """Give bytes as an array that has room behind it, and may be written; they are copied where that is not so."""
    is_plain = isinstance(data, memoryview) and not data.readonly and bytes_behind(data) >= PADDING
    return np.frombuffer(data, np.uint8) if is_plain else padded(data)


def bytes_behind(block: bytes | memoryview) -> int:
    """Give how many bytes are known to follow a block in memory: of those that it is a view of."""
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
    """Give the first bytes of an array; by themselves where they are much less than half of it, which is let go."""
    return memoryview(target[:size] if 2 * size >= len(target) else target[:size].copy())
