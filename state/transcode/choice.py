"""Which executor carries out op lists, chosen once: machine code where it is worth its start, else plain Python.

Whoever opens a plan or a reader chooses, and passes the choice on. Little state is done in plain Python, and numba
is not even loaded. Machine code that this machine has not compiled yet takes longer to compile than some state takes
without: it is compiled for a plan of so much state that it pays, and never for a reader. `stateshift warm-up` compiles
it beforehand. The environment variable `STATESHIFT_EXECUTOR` names who is to do all, or `objects`, to use no op list.
"""

from __future__ import annotations

import enum
import os
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...serializers.errors import DeclarationError
from .kept_code import is_compiled

VARIABLE = "STATESHIFT_EXECUTOR"
LOADING_BYTES = 1 << 20
"""Less is gone through in plain Python, by the time in which numba is loaded: half a second."""
COMPILING_S = 20.0
"""How long it takes to compile machine code, about."""
COMPILING_BYTES = 128 << 20
"""From here on that pays: plain Python takes 0.15 to 0.45 seconds for each MB, and for these twice as long."""
TIMES_SLOWER = 400
"""How many times as long as machine code plain Python takes, about: 150 with long lists, 550 with two numbers."""
_AUTO, _NUMBA_MODULE = "auto", f"{__package__}.numba_kernels"


class ExecutorName(enum.StrEnum):
    """Who rewrites blocks."""

    NUMBA = "numba"
    PLAIN = "plain"
    OBJECTS = "objects"


def choose_executor(size_bytes: int, *, compiles: bool = False) -> ExecutorName:
    """Choose who goes through some bytes: as the environment says, else who is done first, what it loads included.

    Args:
        size_bytes: Of all that is to be gone through.
        compiles: Whether machine code may be compiled for it, where there is so much that it pays.

    Raises:
        DeclarationError: The environment names none, or one that is not installed.
    """
    wanted = _executor_named(os.environ.get(VARIABLE) or _AUTO)
    if wanted is not None:
        return wanted
    if not has_numba():
        return ExecutorName.PLAIN
    if is_compiled():
        pays = size_bytes >= LOADING_BYTES or _NUMBA_MODULE in sys.modules
    else:
        pays = compiles and size_bytes >= COMPILING_BYTES
    return ExecutorName.NUMBA if pays else ExecutorName.PLAIN


def must_compile(executor: ExecutorName) -> bool:
    """Whether who was chosen begins with compiling machine code."""
    return executor is ExecutorName.NUMBA and not is_compiled()


def lacks_numba(executor: ExecutorName, size_bytes: int) -> bool:
    """Whether plain Python was chosen for some bytes only because numba is not installed."""
    return executor is ExecutorName.PLAIN and size_bytes >= LOADING_BYTES and not has_numba()


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


@lru_cache(maxsize=1)
def load_machine_code() -> Any:
    """Return the module of machine code; numba must be there."""
    return import_module(_NUMBA_MODULE)


@lru_cache(maxsize=8)
def _executor_named(named: str) -> ExecutorName | None:
    if named == _AUTO:
        return None
    if named not in set(ExecutorName):
        raise DeclarationError(
            f"{VARIABLE} is {named!r}, and names no executor",
            advice=f"name one of {', '.join((_AUTO, *ExecutorName))}",
        )
    if named == ExecutorName.NUMBA and not has_numba():
        raise DeclarationError(
            f"{VARIABLE} asks for {named}, which is not installed", advice="pip install 'stateshift[spark]'"
        )
    return ExecutorName(named)
