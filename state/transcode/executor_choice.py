"""The choice of the executor: op lists in machine code if its start-up time pays off, else objects.

The code that opens a plan or a reader chooses once and passes the choice on. Small state is processed as objects,
without even loading numpy. Machine code that is not in the cache of this machine takes seconds to compile: that is done
only for plans with enough state, and never for a reader. `stateshift warm-up` compiles it beforehand. The environment
variable `STATESHIFT_EXECUTOR` names the executor for everything.
"""

from __future__ import annotations

import enum
import hashlib
import os
import platform
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...compat import key_hashes
from ...serializers.errors import DeclarationError

_CACHE_VARIABLE = "NUMBA_CACHE_DIR"
_HERE = Path(__file__).parent
_NAMED_DIGITS = 12
REWRITE = "numba_kernels.rewrite"
"""The function that takes by far the longest to compile; if it is cached, machine code counts as ready."""


def is_compiled(name: str = REWRITE) -> bool:
    """Whether the machine code of a function is cached on this machine."""
    return (code_folder() / f"{name}.nbi").exists()


def code_folder() -> Path:
    """Return the folder of machine code: below `NUMBA_CACHE_DIR`, else beside the package, else in the user's cache.

    Code that lies beside the package, as in an image, is also used by processes that may not write there.
    """
    name = _folder_name()
    if told := os.environ.get(_CACHE_VARIABLE):
        return Path(told) / name
    beside, own = _HERE / "__pycache__" / name, _users_folder() / "stateshift" / name
    may_write = os.access(_HERE / "__pycache__" if (_HERE / "__pycache__").exists() else _HERE, os.W_OK)
    return beside if may_write or (beside / f"{REWRITE}.nbi").exists() else own


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


@lru_cache(maxsize=1)
def _folder_name() -> str:
    """Return a folder name that differs for everything that makes machine code incompatible."""
    whole = hashlib.sha256(f"{_numba()} {sys.implementation.cache_tag} {_processor()}".encode())
    for file in (Path(key_hashes.__file__), *sorted(_HERE.glob("*.py"))) if _HERE.is_dir() else ():
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return f"stateshift-{whole.hexdigest()[:_NAMED_DIGITS]}"


def _numba() -> str:
    """Return the file with the version of numba: `importlib.metadata` takes long to import."""
    spec = find_spec("numba")
    return "" if spec is None or spec.origin is None else Path(spec.origin).with_name("_version.py").read_text()


def _processor() -> str:
    """Return the kind of processor: the constant lines of the first one in `/proc/cpuinfo` on Linux."""
    told = Path("/proc/cpuinfo")
    if not told.exists():
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "model", "flags", "Features", "CPU part")
    first = told.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    return " ".join([platform.machine(), *(line for line in first if line.startswith(wanted))])


VARIABLE = "STATESHIFT_EXECUTOR"
LOADING_BYTES = 1 << 18
"""From this size on loading machine code pays: it takes a tenth of a second, in which objects process about this."""
COMPILING_S = 20.0
"""The approximate time to compile the machine code."""
COMPILING_BYTES = 48 << 20
"""From this size on compiling pays: it takes 16 s of a processor, and objects 0.2 to 0.65 s per MB, most often 0.35."""
TIMES_SLOWER = 400
"""The approximate speed-up of machine code over objects: 270 in map state, 400 with two numbers, 460 with Avro."""
_AUTO, _NUMBA_MODULE = "auto", f"{__package__}.numba_kernels"


class ExecutorName(enum.StrEnum):
    """The names of the executors."""

    NUMBA = "numba"
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
        return ExecutorName.OBJECTS
    if is_compiled():
        pays = size_bytes >= LOADING_BYTES or _NUMBA_MODULE in sys.modules
    else:
        pays = compiles and size_bytes >= COMPILING_BYTES
    return ExecutorName.NUMBA if pays else ExecutorName.OBJECTS


def must_compile(executor: ExecutorName) -> bool:
    """Whether the chosen executor must first compile machine code."""
    return executor is ExecutorName.NUMBA and not is_compiled()


def lacks_numba(executor: ExecutorName, size_bytes: int) -> bool:
    """Whether objects were chosen for state of this size only because numba is not installed."""
    is_asked_for = _executor_named(os.environ.get(VARIABLE) or _AUTO) is not None
    return executor is ExecutorName.OBJECTS and size_bytes >= LOADING_BYTES and not is_asked_for and not has_numba()


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
