"""The executors of op lists: machine code or plain Python, with the same output. `choice` selects one."""

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
    """New entries, and the reason why rewriting stopped.

    Attributes:
        status: The status of the interpreter.
        data: The new entries, framed; a memoryview is of a buffer that nothing else uses.
        stop: The offset in the block of the first entry that is not rewritten; the block's size if all are.
        entries: The number of entries rewritten.
        keys: The checksum of the old entries' keys, to 64 bits; see `framed`.
        seen: The survey of the new entries, if the executor made one.
    """

    status: int
    data: bytes | memoryview
    stop: int
    entries: int
    keys: int
    seen: Survey | None = attrs.field(default=None, eq=False)


class Executor(Protocol):
    """An executor of an op list."""

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one cannot be rewritten.

        Args:
            block: Entries.
            start: The offset of the first entry.
            prefix: The bytes that the new keys must begin with; only used by executors that check them.
        """
        ...


@attrs.frozen
class PlainExecutor:
    """An executor of an op list in plain Python."""

    program: Program
    _registers: list[int] = attrs.field(init=False, eq=False, repr=False)

    @_registers.default
    def _make_registers(self) -> list[int]:
        return [0] * self.program.registers

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        capacity, code = self.program.capacity(len(block) - start), self.program.code
        while True:
            target, result, registers = bytearray(capacity), [0, 0, 0, 0], self._registers
            free = capacity - self.program.fixed
            status = interpret(
                block, start, len(block), len(block), code, self.program.constants, target, free, registers, result
            )
            stop, size, entries, keys = result
            if status != FULL or entries:
                return Rewritten(status, bytes(target[:size]), stop, entries, keys)
            capacity *= 2


def make_executor(name: ExecutorName, program: Program) -> Executor:
    """Return an executor of an op list; `name` is any but `objects`, which uses no op list."""
    if name is ExecutorName.NUMBA:
        from .numba_executor import NumbaExecutor

        return NumbaExecutor(program)
    return PlainExecutor(program)
