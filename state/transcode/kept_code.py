"""The folder of cached machine code, and whether the code is there: found out without loading numba.

A folder holds the code for one hash of the sources, version of numba and Python, and kind of processor. A file in it is
therefore always valid, whichever process wrote it: files in an image may be read-only and have other times.
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
"""The function that takes by far the longest to compile; if it is cached, machine code counts as ready."""


def is_compiled(name: str = REWRITE) -> bool:
    """Whether the machine code of a function is cached on this machine."""
    return (folder() / f"{name}.nbi").exists()


def folder() -> Path:
    """Return the folder of machine code: below `NUMBA_CACHE_DIR`, else beside the package, else in the user's cache.

    Code that lies beside the package, as in an image, is also used by processes that may not write there.
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
    """Return a folder name that differs for everything that makes machine code incompatible."""
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
    """Return the kind of processor: the constant lines of the first one in `/proc/cpuinfo` on Linux."""
    told = Path("/proc/cpuinfo")
    if not told.exists():
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "model", "flags", "Features", "CPU part")
    first = told.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    return " ".join([platform.machine(), *(line for line in first if line.startswith(wanted))])
