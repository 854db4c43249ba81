"""How the user's own modules (the job, converters, fallback readers) reach the workers of a session.

An installed module is there already. Others travel by value, inside what is sent to a task; files named by `--py-files`
are handed out by Spark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..serializers.errors import StateShiftError
from .session import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from pyspark.sql import SparkSession

_KINDS = (".py", ".zip", ".egg", ".whl")
_FIND = """
import importlib.util, json, sys
def find(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return [place for place in (spec.origin, *(spec.submodule_search_locations or ())) if place]
print(json.dumps({name: find(name) for name in sys.argv[1:]}))
"""


def ship_modules(
    session: SparkSession,
    modules: Iterable[ModuleType],
    py_files: Iterable[str | Path] = (),
) -> tuple[str, ...]:
    """Make modules usable in the tasks of a session.

    A module that a fresh interpreter would not find is sent by value, together with every loaded module that was found
    in the same folder: a job imports the helpers beside it. Later changes of a loaded module are not seen.

    Args:
        session: Whose workers are meant.
        modules: Modules that tasks will use.
        py_files: `.py`, `.zip`, `.egg` or `.whl` files to hand out.

    Returns:
        The top-level modules that travel by value.

    Raises:
        StateShiftError: A file is missing or of another kind.
    """
    return send_by_value(modules, hand_out(session, py_files))


def send_by_value(modules: Iterable[ModuleType], handed_out: set[Path]) -> tuple[str, ...]:
    """Let modules, and those beside them, travel by value; as `ship_modules`.

    Args:
        modules: Modules that tasks will use.
        handed_out: Files that the workers have, of `hand_out`.
    """
    from pyspark import cloudpickle  # pyspark pickles with its own copy, and that has its own register

    folders = {folder for module in modules if (folder := _folder(_top(module))) is not None} - handed_out
    beside = [module for name, module in list(sys.modules.items()) if "." not in name and _folder(module) in folders]
    shipped = [module for module in _not_installed(beside) if _file(module) not in handed_out]
    for module in shipped:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return tuple(sorted(module.__name__ for module in shipped))


def hand_out(session: SparkSession, files: Iterable[str | Path]) -> set[Path]:
    """Give files to all workers of a session.

    Raises:
        StateShiftError: A file is missing or of another kind.
    """
    return {_hand_out(session, Path(file)) for file in files}


def _hand_out(session: SparkSession, file: Path) -> Path:
    if not file.is_file() or file.suffix not in _KINDS:
        what = f"{file} cannot be handed to the workers: not a file of kind {', '.join(_KINDS)}"
        raise StateShiftError(
            what, advice="name a module file, or a zip file of modules", written="Nothing was written."
        )
    if file.suffix == ".whl":
        # Spark puts a .zip on the workers' path, but not a .whl, which is the same thing.
        copy = scratch_folder() / f"{file.stem}.zip"
        shutil.copyfile(file, copy)
        session.sparkContext.addPyFile(str(copy))  # workers fetch it later: it stays for the life of the process
    else:
        session.sparkContext.addPyFile(str(file))
    return file.resolve()


def _top(module: ModuleType) -> ModuleType:
    return sys.modules[module.__name__.partition(".")[0]]


def _file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if name else None


def _folder(module: ModuleType) -> Path | None:
    """Folder (or zip file) on the path in which a top-level module was found; None where nothing is to be sent."""
    if (
        module.__name__ == "__main__" or module.__name__ in sys.stdlib_module_names
    ):  # the script is always sent by value
        return None
    paths = list(getattr(module, "__path__", ()))
    if paths:
        return Path(paths[0]).resolve().parent
    file = _file(module)
    return None if file is None else file.parent


def _not_installed(modules: list[ModuleType]) -> list[ModuleType]:
    """Leave out what a worker finds by itself: a fresh interpreter is asked where it would import each from."""
    names = [module.__name__ for module in modules]
    if not names:
        return []
    answer = subprocess.run([sys.executable, "-P", "-c", _FIND, *names], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    found = {
        name: {str(Path(place).resolve()) for place in places} for name, places in json.loads(answer.stdout).items()
    }
    return [module for module in modules if not _places(module) & found[module.__name__]]


def _places(module: ModuleType) -> set[str]:
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return {str(Path(file).resolve()) for file in files if file}
