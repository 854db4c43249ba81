"""The interpreter of op lists as machine code: one function for all, compiled once per machine and kept on disk.

The interpreter checks every place; machine code may run over the end of an entry, by less than `PADDING` bytes: the
last entries of a block are copied to where that is harmless.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import framed, ops
from .columns import bytes_behind
from .even import moves_of, rewrite_even
from .executors import Rewritten
from .held import keep_freed_memory
from .interpreter import FULL, NEAR_END, interpret
from .machine import PADDING, address, compiled
from .program import Program

keep_freed_memory()


@compiled
def run(
    data: Any, start: int, size: int, most: int, code: Any, moves: Any, constants: Any, target: Any, room: int,
    registers: Any, result: Any,
) -> int:  # fmt: skip
    """The interpreter, after entries of one size that are rewritten at once, where `moves` tell how.

    Buffers are arrays of bytes; the op list, moves, registers and result are arrays of 64-bit integers.
    """
    at, written, entries, keys = start, 0, 0, 0
    if len(moves) > 0:
        rewrite_even(
            address(data), start, most, address(moves), address(constants), address(target), room, address(result)
        )
        at, written, entries, keys = result
    status = interpret(
        address(data), at, size, most, address(code), address(constants), address(target[written:]), room - written,
        address(registers), address(result),
    )  # fmt: skip
    result[1] += written
    result[2] += entries
    result[3] += keys
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
        self._result = np.zeros(4, np.int64)
        self._moves = np.array(moves_of(program), np.int64)

    def rewrite(self, block: bytes | memoryview, start: int) -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        room = self._program.room(len(block) - start)
        while True:
            done = self._rewrite(block, start, room)
            if done.status != FULL or done.entries:
                return done
            room *= 2

    def _rewrite(self, block: bytes | memoryview, start: int, room: int) -> Rewritten:
        data, target = np.frombuffer(block, np.uint8), np.empty(room + PADDING, np.uint8)
        most = len(block) - max(PADDING - bytes_behind(block), 0)
        status, stop, size, entries, keys = self._run(data, start, len(block), most, target, room)
        if status == NEAR_END:
            rest = _padded(block[stop:])
            status, more, rest_size, rest_entries, rest_keys = self._run(
                rest, 0, len(block) - stop, len(block) - stop, target[size:], room - size
            )
            stop, size, entries, keys = stop + more, size + rest_size, entries + rest_entries, keys + rest_keys
        return Rewritten(status, _without(target, size), stop, entries, keys)

    def _run(self, data: Any, start: int, size: int, most: int, target: Any, room: int) -> tuple[int, ...]:
        """Call the interpreter; give why it came back, and its result."""
        status = run(
            data, start, size, most, self._code, self._moves, self._constants, target, room - self._program.fixed,
            self._registers, self._result,
        )  # fmt: skip
        return status, *self._result.tolist()


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
