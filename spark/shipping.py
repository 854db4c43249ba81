"""Shipping of user modules (the job, converters, fallback readers) to the workers of a session.

Installed modules are there already. Others are sent by value, inside what is sent to a task; files named by
`--py-files` are distributed by Spark.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..serializers.errors import StateShiftError
from .connect import is_connect
from .session import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from .session import Driver

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
        session: The session of the workers.
        modules: The modules that tasks will use.
        py_files: The `.py`, `.zip`, `.egg` or `.whl` files to distribute.

    Returns:
        The top-level modules that are sent by value.

    Raises:
        StateShiftError: A file is missing or of another type.
    """
    return send_by_value(modules, hand_out(session, py_files))


def send_by_value(modules: Iterable[ModuleType], handed_out: set[Path]) -> tuple[str, ...]:
    """Send modules, and those beside them, by value; as `ship_modules`.

    Args:
        modules: The modules that tasks will use.
        handed_out: The files that the workers have, from `hand_out`.
    """
    from pyspark import cloudpickle  # pyspark pickles with its own copy, which has its own registry

    folders = {folder for module in modules if (folder := _folder(_top(module))) is not None} - handed_out
    beside = [module for name, module in list(sys.modules.items()) if "." not in name and _folder(module) in folders]
    shipped = [module for module in _not_installed(beside) if _file(module) not in handed_out]
    for module in shipped:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return tuple(sorted(module.__name__ for module in shipped))


def hand_out(session: Driver, files: Iterable[str | Path]) -> set[Path]:
    """Distribute files to all workers of a session.

    Raises:
        StateShiftError: A file is missing or of another type.
    """
    return {_hand_out(session, Path(file)) for file in files}


def _hand_out(session: Driver, file: Path) -> Path:
    if not file.is_file() or file.suffix not in _KINDS:
        what = f"{file} cannot be sent to the workers: it is not a file of kind {', '.join(_KINDS)}"
        raise StateShiftError(
            what, advice="name a module file, or a zip file of modules", written="Nothing was written."
        )
    if file.suffix == ".whl":
        # Spark puts a .zip on the workers' path, but not a .whl, which has the same format.
        copy = scratch_folder() / f"{file.stem}.zip"
        shutil.copyfile(file, copy)
        _give_to_workers(session, copy)  # workers fetch it later: it stays until the process ends
    else:
        _give_to_workers(session, file)
    return file.resolve()


def _give_to_workers(session: Any, file: Path) -> None:
    if is_connect(session):
        session.addArtifacts(str(file), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(file))


def _top(module: ModuleType) -> ModuleType:
    return sys.modules[module.__name__.partition(".")[0]]


def _file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if name else None


def _folder(module: ModuleType) -> Path | None:
    """Return the folder (or zip file) on the path with a top-level module; None if it need not be sent."""
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
    """Return the modules that a worker does not find by itself; a fresh interpreter is asked where they are."""
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


@contextmanager
def shipped(spark: Driver, work: object, py_files: Iterable[str | Path] = ()) -> Iterator[None]:
    """Send the modules that the work refers to by value, until the `with` block ends.

    Modules sent by value may refer to further modules, so the search is repeated until it finds nothing new.
    """
    from pyspark import cloudpickle

    before, seen = cloudpickle.list_registry_pickle_by_value(), set[str]()  # type: ignore[no-untyped-call]
    try:
        handed_out = hand_out(spark, py_files)
        while new := modules_of(work) - seen:
            send_by_value([sys.modules[name] for name in sorted(new) if name in sys.modules], handed_out)
            seen |= new
        yield
    finally:
        for name in cloudpickle.list_registry_pickle_by_value() - before:  # type: ignore[no-untyped-call]
            cloudpickle.unregister_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def modules_of(work: object) -> set[str]:
    """Return the names of the modules that the tasks refer to, found by pickling them as Spark will."""
    from pyspark.cloudpickle import CloudPickler

    names: set[str] = set()

    class Collector(CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, ModuleType):
                names.add(obj.__name__)
            elif isinstance(obj, type | FunctionType | BuiltinFunctionType):
                names.add(obj.__module__ or "")
            return super().reducer_override(obj)  # type: ignore[no-untyped-call]  # pyspark ships it untyped

    Collector(io.BytesIO()).dump(work)  # type: ignore[no-untyped-call]
    package = __name__.partition(".")[0]
    return {name for name in names if name and name.partition(".")[0] not in {package, "builtins", "__main__"}}
