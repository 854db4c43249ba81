"""The executors of op lists: machine code, or plain Python; to the same bytes. `choice` says which one it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from .choice import ExecutorName
from .interpreter import FULL, interpret

if TYPE_CHECKING:
    from .framed import Survey
    from .program import Program


@attrs.frozen
class Rewritten:
    """New entries, and why there are no more.

    Attributes:
        status: One of those of the interpreter.
        data: The new entries, framed; a view is of memory that nobody else has.
        stop: Where in the block the entry begins that is not rewritten; the block's size where all are.
        entries: How many there are.
        keys: The checksum of the old entries' keys, to 64 bits; see `framed`.
        seen: What was seen of the new entries, if they were looked at on the way.
    """

    status: int
    data: bytes | memoryview
    stop: int
    entries: int
    keys: int
    seen: Survey | None = attrs.field(default=None, eq=False)


class Executor(Protocol):
    """Carries out an op list."""

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it.

        Args:
            block: Entries.
            start: Where the first one begins.
            prefix: How the keys of the new entries must begin; for who looks at them.
        """
        ...


@attrs.frozen
class PlainExecutor:
    """Carries out an op list in plain Python."""

    program: Program
    _registers: list[int] = attrs.field(init=False, eq=False, repr=False)

    @_registers.default
    def _make_registers(self) -> list[int]:
        return [0] * self.program.registers

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        room, code = self.program.room(len(block) - start), self.program.code
        while True:
            target, result, registers = bytearray(room), [0, 0, 0, 0], self._registers
            free = room - self.program.fixed
            status = interpret(
                block, start, len(block), len(block), code, self.program.constants, target, free, registers, result
            )
            stop, size, entries, keys = result
            if status != FULL or entries:
                return Rewritten(status, bytes(target[:size]), stop, entries, keys)
            room *= 2


def make_executor(name: ExecutorName, program: Program) -> Executor:
    """Make who carries out an op list; any but `objects`, which carries out none."""
    if name is ExecutorName.NUMBA:
        from .numba_executor import NumbaExecutor

        return NumbaExecutor(program)
    return PlainExecutor(program)
