"""The choice of the executor of op lists: machine code if its start-up time pays off, else plain Python.

The code that opens a plan or a reader chooses once and passes the choice on. Small state is processed in plain Python,
without even loading numba. Machine code that is not in the cache of this machine takes seconds to compile: that is done
only for plans with enough state, and never for a reader. `stateshift warm-up` compiles it beforehand. The environment
variable `STATESHIFT_EXECUTOR` names the executor for everything; `objects` means that no op list is used.
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
"""From this size on loading numba pays: it takes half a second, in which plain Python processes less than this."""
COMPILING_S = 20.0
"""The approximate time to compile the machine code."""
COMPILING_BYTES = 128 << 20
"""From this size on compiling pays: plain Python takes 0.15 to 0.45 s per MB, here about twice the compile time."""
TIMES_SLOWER = 400
"""The approximate speed-up of machine code over plain Python: 150 with long lists, 550 with two numbers."""
_AUTO, _NUMBA_MODULE = "auto", f"{__package__}.numba_kernels"


class ExecutorName(enum.StrEnum):
    """The names of the executors."""

    NUMBA = "numba"
    PLAIN = "plain"
    OBJECTS = "objects"


def choose_executor(size_bytes: int, *, compiles: bool = False) -> ExecutorName:
    """Choose the executor that the environment names, else the one that finishes first, its loading time included.

    Args:
        size_bytes: The size of all state to be processed.
        compiles: Whether machine code may be compiled if there is enough state to make it pay.

    Raises:
        DeclarationError: The environment names no known executor, or one that is not installed.
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
    """Whether the chosen executor must first compile machine code."""
    return executor is ExecutorName.NUMBA and not is_compiled()


def lacks_numba(executor: ExecutorName, size_bytes: int) -> bool:
    """Whether plain Python was chosen for state of this size only because numba is not installed."""
    return executor is ExecutorName.PLAIN and size_bytes >= LOADING_BYTES and not has_numba()


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


@lru_cache(maxsize=1)
def load_machine_code() -> Any:
    """Return the module of machine code; numba must be installed."""
    return import_module(_NUMBA_MODULE)


@lru_cache(maxsize=8)
def _executor_named(named: str) -> ExecutorName | None:
    if named == _AUTO:
        return None
    if named not in set(ExecutorName):
        raise DeclarationError(
            f"{VARIABLE} is {named!r}, which is not an executor",
            advice=f"use one of {', '.join((_AUTO, *ExecutorName))}",
        )
    if named == ExecutorName.NUMBA and not has_numba():
        raise DeclarationError(
            f"{VARIABLE} requests {named}, which is not installed", advice="pip install 'stateshift[spark]'"
        )
    return ExecutorName(named)
