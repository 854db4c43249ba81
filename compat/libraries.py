"""The library that a module belongs to (the standard library, or an installed one), or none for the user's modules.

A library has a name and a version. A library in editable mode is installed elsewhere, and counts as the user's.
"""

from __future__ import annotations

import functools
import importlib.util
import site
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_NAMES = {"attr": "attrs"}  # the package name in all code that attrs generates
_PACKAGE = __name__.partition(".")[0]


def is_of_package(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == _PACKAGE


@functools.cache
def library_of(module: str) -> str:
    """Return the distribution that a module comes from, with its version; "" for a user's module."""
    top = module.partition(".")[0]
    if is_of_package(module):
        return f"{_PACKAGE} {sys.modules[_PACKAGE].__version__}"  # already imported, since it imports this module
    if top in sys.stdlib_module_names or top == "builtins":
        return "" if top == "__main__" else "python"
    if not any(place.is_relative_to(folder) for place in _places(top) for folder in _library_folders()):
        return ""
    for folder in _library_folders():
        for info in folder.glob(f"{_NAMES.get(top, top)}-*.dist-info"):
            return " ".join(info.stem.rsplit("-", 1))
    from importlib import metadata  # importing it is slow, and so is searching all distributions

    found = [one for one in metadata.distributions() if _has(one, top)]
    return ", ".join(sorted(f"{one.name} {one.version}" for one in found))


def _has(distribution: Distribution, top: str) -> bool:
    """Whether a distribution installed a top-level module; Python's own table of all modules takes half a second."""
    files = "\n" + (distribution.read_text("RECORD") or "")
    return f"\n{top}/" in files or f"\n{top}." in files


@functools.cache
def _library_folders() -> tuple[Path, ...]:
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib")} | set(site.getsitepackages())
    return tuple(Path(path).resolve() for path in [*paths, site.getusersitepackages()] if path)


def _places(top: str) -> list[Path]:
    """Return the file or folders of a top-level module, without importing it."""
    module, spec = sys.modules.get(top), None
    if module is None:
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(top)
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    if spec is not None:
        files = [spec.origin, *(spec.submodule_search_locations or ())]
    return [Path(file).resolve() for file in files if file]
