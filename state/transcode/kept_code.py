"""Where machine code is kept once it is compiled, and whether it is there: told without loading numba.

A folder holds the code of these very sources, of one version of numba and of Python, and of one kind of processor. So
a file that is there is of use, whoever made it and when: files in an image may be read only, and have other times.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...compat import key_hashes

_VARIABLE = "NUMBA_CACHE_DIR"
_HERE = Path(__file__).parent
_NAMED_DIGITS = 12
REWRITE = "numba_kernels.rewrite"
"""The function that takes longest to compile, by far; where it is kept, machine code is ready."""


def is_compiled(name: str = REWRITE) -> bool:
    """Whether a function need not be compiled any more on this machine."""
    return (folder() / f"{name}.nbi").exists()


def folder() -> Path:
    """Return where machine code is kept: where numba is told to keep it, else beside the package, else at the user's.

    What lies beside the package, as in an image, is used by those who may not write there, too.
    """
    name = _name()
    if told := os.environ.get(_VARIABLE):
        return Path(told) / name
    beside, own = _HERE / "__pycache__" / name, _users_folder() / "stateshift" / name
    may_write = os.access(_HERE / "__pycache__" if (_HERE / "__pycache__").exists() else _HERE, os.W_OK)
    return beside if may_write or (beside / f"{REWRITE}.nbi").exists() else own


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


@lru_cache(maxsize=1)
def _name() -> str:
    """Tell apart what cannot use each other's machine code."""
    whole = hashlib.sha256(f"{_numba()} {sys.implementation.cache_tag} {_processor()}".encode())
    for file in (Path(key_hashes.__file__), *sorted(_HERE.glob("*.py"))) if _HERE.is_dir() else ():
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return f"stateshift-{whole.hexdigest()[:_NAMED_DIGITS]}"


def _numba() -> str:
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """Name the kind of processor: what Linux says of the first one, without what changes."""
    told = Path("/proc/cpuinfo")
    if not told.exists():
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "model", "flags", "Features", "CPU part")
    first = told.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    return " ".join([platform.machine(), *(line for line in first if line.startswith(wanted))])
