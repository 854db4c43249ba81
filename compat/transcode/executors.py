"""Who carries out op lists: machine code where numba is installed, else plain Python; to the same bytes.

Little state is done in plain Python before numba is even loaded. Machine code that this machine has not compiled yet
takes longer to compile than little state takes without: until there is so much that it pays, plain Python does the
work. `stateshift warm-up` compiles it beforehand. The environment variable
`STATESHIFT_EXECUTOR` names who is to do all, or `objects`, to use no op list.
"""

from __future__ import annotations

import enum
import os
import sys
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ...serializers.errors import DeclarationError
from .interpreter import FULL, interpret
from .kept_code import is_compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .framed import Survey
    from .program import Program

VARIABLE = "STATESHIFT_EXECUTOR"
LITTLE_BYTES = 1 << 20
"""Less is gone through in plain Python."""
COMPILING_BYTES = 32 << 20
"""From here on it pays to compile machine code first: plain Python takes a second for each MB, or half of one."""
COMPILING_S = 35.0
"""How long that takes, about."""
_NUMBA_MODULE = f"{__package__}.numba_kernels"


class ExecutorName(enum.StrEnum):
    """Who rewrites blocks."""

    AUTO = "auto"
    NUMBA = "numba"
    PLAIN = "plain"
    OBJECTS = "objects"


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


@attrs.define
class EventualExecutor:
    """Carries out an op list in plain Python, and by machine code once that pays."""

    program: Program
    _made: Executor = attrs.field(init=False)

    @_made.default
    def _make_plain(self) -> Executor:
        return PlainExecutor(self.program)

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        if isinstance(self._made, PlainExecutor) and paying(len(block) - start) is ExecutorName.NUMBA:
            self._made = make_executor(ExecutorName.NUMBA, self.program)
        return self._made.rewrite(block, start, prefix)


@attrs.define
class _Passed:
    """How much this process has gone through, and will in all where that is known: machine code takes a while to load.

    What goes through it is found, converted and looked at, and counts each time.
    """

    size_bytes: int = 0
    expected_bytes: int = 0

    @property
    def ahead_bytes(self) -> int:
        """How much there is to go through; as much as there was, where it is not known."""
        return self.expected_bytes or self.size_bytes // 3


_passed = _Passed()


def paying(size_bytes: int) -> ExecutorName:
    """Tell who is to go through some bytes: of those that are installed and wanted, the fastest that pays.

    Args:
        size_bytes: To go through; with what this process was asked for before, it decides.
    """
    name = chosen_executor()
    if name is not ExecutorName.AUTO:
        return name
    _passed.size_bytes += size_bytes
    if _NUMBA_MODULE in sys.modules:
        return ExecutorName.NUMBA
    if _passed.size_bytes < LITTLE_BYTES:
        return ExecutorName.PLAIN
    return ExecutorName.NUMBA if pays_to_load(_passed.ahead_bytes) else ExecutorName.PLAIN


def pays_to_load(size_bytes: int) -> bool:
    """Whether machine code pays for so many bytes: it is kept on this machine, or they take longer than to compile."""
    return has_module(ExecutorName.NUMBA) and (size_bytes >= COMPILING_BYTES or is_compiled())


def compiles(size_bytes: int) -> bool:
    """Whether to go through so many bytes begins with compiling machine code."""
    wanted = chosen_executor()
    is_wanted = wanted is ExecutorName.NUMBA or (wanted is ExecutorName.AUTO and pays_to_load(size_bytes))
    return is_wanted and size_bytes >= LITTLE_BYTES and not is_compiled()


def expect(size_bytes: int) -> None:
    """Tell that this process will go through so many bytes in all: so it is known early whether machine code pays."""
    _passed.size_bytes += size_bytes
    _passed.expected_bytes += size_bytes


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Go through bytes without compiling anything for them, however many are expected."""
    before, _passed.expected_bytes = _passed.expected_bytes, 1
    try:
        yield
    finally:
        _passed.expected_bytes = before


@contextmanager
def nothing_loaded() -> Iterator[None]:
    """Go through bytes without loading anything for them, however many they are: another process does the work."""
    before, _passed.size_bytes = _passed.size_bytes, -sys.maxsize
    try:
        yield
    finally:
        _passed.size_bytes = before


def machine_code(size_bytes: int) -> Any:
    """Give the module of machine code, where that is who is to go through some bytes; else None."""
    return load_machine_code() if paying(size_bytes) is ExecutorName.NUMBA else None


@lru_cache(maxsize=1)
def load_machine_code() -> Any:
    """Give the module of machine code; numba must be there."""
    return import_module(_NUMBA_MODULE)


@lru_cache(maxsize=4)
def has_module(name: str) -> bool:
    """Whether a module is installed."""
    return find_spec(name) is not None


def chosen_executor() -> ExecutorName:
    """Tell who is to rewrite blocks, as the environment says.

    Raises:
        DeclarationError: The environment names none, or one that is not installed.
    """
    return _executor_named(os.environ.get(VARIABLE) or ExecutorName.AUTO)


@lru_cache(maxsize=8)
def _executor_named(named: str) -> ExecutorName:
    if named not in set(ExecutorName):
        raise DeclarationError(
            f"{VARIABLE} is {named!r}, and names no executor", advice=f"name one of {', '.join(ExecutorName)}"
        )
    if named == ExecutorName.NUMBA and not has_module(named):
        raise DeclarationError(
            f"{VARIABLE} asks for {named}, which is not installed", advice="pip install 'stateshift[fast]'"
        )
    return ExecutorName(named)


def make_executor(name: ExecutorName, program: Program) -> Executor:
    """Make who carries out an op list; any but `objects`, which carries out none."""
    if name is ExecutorName.NUMBA:
        from .numba_executor import NumbaExecutor

        return NumbaExecutor(program)
    return EventualExecutor(program) if name is ExecutorName.AUTO else PlainExecutor(program)
