"""The interpreter of op lists by Python itself, in which a read or write beyond the bytes is an error.

numba compiles the interpreter, and what it compiles checks nothing: so the same function runs here as it is.
"""

from __future__ import annotations

import attrs

from stateshift.state.transcode.interpreter import FULL, interpret
from stateshift.state.transcode.numba_executor import Rewritten


class PlainExecutor:
    """An executor of an op list like `NumbaExecutor`, some hundred times slower."""

    def __init__(self, program):
        self.program = program
        self._registers = [0] * program.registers

    def rewrite(self, block, start, prefix=b""):
        capacity, code = self.program.capacity(len(block) - start), self.program.code
        while True:
            target, result = bytearray(capacity), [0, 0, 0, 0]
            free = capacity - self.program.fixed
            status = interpret(
                block, start, len(block), len(block), code, self.program.constants, target, free, self._registers,
                result,
            )  # fmt: skip
            stop, size, entries, keys = result
            if status != FULL or entries:
                return Rewritten(status, bytes(target[:size]), stop, entries, keys)
            capacity *= 2


def plainly(transcoder):
    """A block transcoder like this one, whose op list goes by Python."""
    one = attrs.evolve(transcoder)
    one._made = PlainExecutor(one.program)
    return one
