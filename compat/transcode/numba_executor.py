"""The interpreter of op lists as machine code: one function for all, compiled once per machine and kept on disk.

The interpreter checks every place; machine code may run over the end of an entry, by less than `PADDING` bytes: the
last entries of a block are copied to where that is harmless.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import framed, ops
from .columns import bytes_behind
from .even import moves_of, rewrite_even
from .executors import Rewritten
from .framed import Survey
from .held import keep_freed_memory
from .interpreter import FULL, NEAR_END, interpret
from .machine import PADDING, address, compiled
from .program import Program

_AT_ONCE = 1 << 16
"""So many new bytes are looked at before more are written."""
_SLACK, _SPARE_BYTES = 9 / 8, 1 << 14
"""How much more may become of a block than of the one before it."""
_CHECKSUM = (1 << 64) - 1

keep_freed_memory()


@compiled
def run(
    data: Any, start: int, size: int, most: int, code: Any, moves: Any, constants: Any, target: Any, room: int,
    registers: Any, prefix: int, prefix_bytes: int, result: Any,
) -> int:  # fmt: skip
    """The interpreter, after entries of one size that are rewritten at once, where `moves` tell how.

    What was written is looked at as in `survey`, some of it at a time, while it is in the processor's cache: the result
    has those four numbers behind the interpreter's. Of what is not sound, it says that no entry was seen.

    Buffers are arrays of bytes; the op list, moves, registers and result are arrays of 64-bit integers.
    """
    at, written, entries, keys, most_room = start, 0, 0, 0, _AT_ONCE
    seen, seen_keys, misplaced, last = 0, 0, -1, -1
    while True:
        left, made = room - written, 0
        free = min(left, most_room)
        if len(moves) > 0:
            rewrite_even(
                address(data), at, most, address(moves), address(constants), address(target[written:]), free,
                prefix, prefix_bytes, address(result),
            )  # fmt: skip
            at, made, entries, keys = result[0], result[1], entries + result[2], keys + result[3]
            seen, seen_keys = seen + result[2], seen_keys + result[3]
            last = written + result[4] if made > 0 else last
        written += made
        status = interpret(
            address(data), at, size, most, address(code), address(constants), address(target[written:]), free - made,
            address(registers), address(result),
        )  # fmt: skip
        more = result[1]
        at, entries, keys = result[0], entries + result[2], keys + result[3]
        if more > 0 and framed._survey(address(target[written:]), more, prefix, prefix_bytes, address(result)):  # noqa: SLF001 - what is compiled is marked so
            seen, seen_keys, last = seen + result[0], seen_keys + result[1], written + result[3]
            if misplaced < 0 <= result[2]:
                misplaced = written + result[2]
        written += more
        if status != FULL or (made + more == 0 and free == left):
            break
        if made + more == 0:
            most_room *= 2
    result[0], result[1], result[2], result[3] = at, written, entries, keys
    result[4], result[5], result[6], result[7] = seen, seen_keys, misplaced, last
    return status


@compiled
def find_run(data: Any, start: int, size: int, result: Any) -> int:
    """`framed`'s function of this name, of an array of bytes; the result is one of 64-bit integers."""
    return framed._find_run(address(data), start, size, address(result))  # noqa: SLF001 - what is compiled is marked so


@compiled
def survey(data: Any, size: int, prefix: int, prefix_bytes: int, result: Any) -> bool:
    """As `find_run`."""
    return framed._survey(address(data), size, prefix, prefix_bytes, address(result))  # noqa: SLF001 - as above


@compiled
def find_entries(data: Any, start: int, end: int, keys: Any, key_ends: Any, values: Any, value_ends: Any) -> bool:
    """As `find_run`; the places are arrays of 64-bit integers."""
    return framed._find_entries(address(data), start, end, keys, key_ends, values, value_ends)  # noqa: SLF001 - as above


def call(function: Any, data: bytes | memoryview, *numbers: int) -> tuple[int, list[int]]:
    """Call one of `framed`'s functions; give what it returns, and its result."""
    result = np.zeros(4, np.int64)
    returned = function(np.frombuffer(data, np.uint8), *numbers, result)
    return int(returned), result.tolist()


class NumbaExecutor:
    """Carries out an op list in machine code."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._code = np.array(program.code, np.int64)
        self._constants = _padded(program.constants)
        self._registers = np.zeros(program.registers + 1, np.int64)
        self._result = np.zeros(8, np.int64)
        self._moves = np.array(moves_of(program), np.int64)
        self._growth = math.inf  # how many bytes became of one, of the last block; of the first one it is not known

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        size = len(block) - start
        most = self._program.room(size)
        room = int(min(most, size * self._growth * _SLACK + _SPARE_BYTES))
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
        status, stop, size, entries, keys, seen = self._run(data, start, len(block), most, target, room, prefix)
        if status == NEAR_END:
            rest = _padded(block[stop:])
            status, more, rest_size, rest_entries, rest_keys, rest_seen = self._run(
                rest, 0, len(block) - stop, len(block) - stop, target[size:], room - size, prefix
            )
            seen = seen.go_on(rest_seen, size)
            stop, size, entries, keys = stop + more, size + rest_size, entries + rest_entries, keys + rest_keys
        return Rewritten(status, _without(target, size), stop, entries, keys, seen)

    def _run(
        self, data: Any, start: int, size: int, most: int, target: Any, room: int, prefix: bytes
    ) -> tuple[int, int, int, int, int, Survey]:
        """Call the interpreter; give why it came back, its result, and what was seen of what it wrote."""
        status = run(
            data, start, size, most, self._code, self._moves, self._constants, target, room - self._program.fixed,
            self._registers, int.from_bytes(prefix, "big"), len(prefix), self._result,
        )  # fmt: skip
        stop, written, entries, keys, seen, seen_keys, misplaced, last = self._result.tolist()
        return status, stop, written, entries, keys, Survey(seen, seen_keys & _CHECKSUM, misplaced, last)


def load_compiled() -> None:
    """Load the machine code by running it on nothing: processes that are forked from this one have it then."""
    nothing = bytes(PADDING)
    NumbaExecutor(Program((ops.TABLES,), b"", registers=1, growth=0, fixed=0)).rewrite(nothing, len(nothing))
    call(find_run, nothing, 0, 0)
    call(survey, nothing, 0, 0, 0)


def _padded(data: bytes | memoryview) -> Any:
    """Give bytes as an array with room behind them."""
    return np.frombuffer(b"".join((data, bytes(PADDING))), np.uint8)


def _without(target: Any, size: int) -> memoryview:
    """Give the first bytes of an array; by themselves where they are much less than half of it, which is let go."""
    return memoryview(target[:size] if 2 * size >= len(target) else target[:size].copy())
