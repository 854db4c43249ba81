"""Shipping of user modules (the job, converters, fallback readers) to the workers of a session.

Modules in the library folders of the interpreter are there already, as stateshift itself. Others are sent by value,
inside what is sent to a task; files named by `--py-files` are distributed by Spark. Where only this process may have a
module (PYTHONPATH, an editable install, `--py-files` of spark-submit), a worker is asked whether it has the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import site
import subprocess
import sys
import sysconfig
from contextlib import contextmanager, suppress
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..serializers.errors import StateShiftError
from .connect import is_connect
from .sessions import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .sessions import Driver

_KINDS = (".py", ".zip", ".egg", ".whl")
_ON_WORKERS = sys.stdlib_module_names | {"__main__", "pyspark", "py4j", __name__.partition(".")[0]}
"""Modules that are not sent: a worker runs with them, and cloudpickle always sends the script by value."""
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


def send_by_value(
    modules: Iterable[ModuleType], handed_out: set[Path], session: Driver | None = None
) -> tuple[str, ...]:
    """Send modules to workers by value, if these do not have them, and return the names of those that are sent.

    Every loaded module that was found in the same folder is sent with them: a job imports the helpers beside it. Later
    changes of a loaded module are not seen.

    Args:
        modules: The modules that tasks will use.
        handed_out: The files that the workers have, from `hand_out`.
        session: The session of the workers. None: they cannot be asked, and a folder on PYTHONPATH is taken for one of
            theirs only if packages are installed in it.
    """
    from pyspark import cloudpickle  # pyspark pickles with its own copy, which has its own registry

    folders = {folder for module in modules if (folder := _folder(_top(module))) is not None} - handed_out
    beside = [module for name, module in list(sys.modules.items()) if "." not in name and _folder(module) in folders]
    shipped = [module for module in _not_installed(beside, session) if _file(module) not in handed_out]
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
        raise StateShiftError.before_writing(what, advice="name a module file, or a zip file of modules")
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
    if module.__name__ in _ON_WORKERS:
        return None
    paths = list(getattr(module, "__path__", ()))
    if paths:
        return Path(paths[0]).resolve().parent
    file = _file(module)
    return None if file is None else file.parent


def _not_installed(modules: list[ModuleType], session: Driver | None) -> list[ModuleType]:
    """Return the modules that a worker does not find by itself."""
    found, libraries = _found_afresh(modules), _libraries()
    elsewhere, unsure = [], []
    for module in modules:
        places = _places(module) & found.get(module.__name__, set())
        if not places:
            elsewhere.append(module)
        elif not any(Path(place).is_relative_to(folder) for place in places for folder in libraries):
            unsure.append(module)
    there = _on_a_worker(session, unsure) if session else {one.__name__ for one in unsure if _has_packages(one)}
    return elsewhere + [module for module in unsure if module.__name__ not in there]


def _found_afresh(modules: list[ModuleType]) -> dict[str, set[str]]:
    """Return where a fresh interpreter finds modules: without what this process has added to its path."""
    if not modules:
        return {}
    command = [sys.executable, "-P", "-c", _FIND, *(module.__name__ for module in modules)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    found = json.loads(answer.stdout)
    return {name: {str(Path(place).resolve()) for place in places} for name, places in found.items()}


def _libraries() -> set[Path]:
    """Return the folders into which packages are installed for all programs of this interpreter."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    return {Path(folder).resolve() for folder in folders if Path(folder).name.endswith("-packages")}


def _has_packages(module: ModuleType) -> bool:
    """Whether packages are installed beside a module."""
    folder = _folder(module)
    return folder is not None and next(folder.glob("*.dist-info"), None) is not None


_answers: WeakKeyDictionary[Driver, dict[frozenset[tuple[str, str]], bool]] = WeakKeyDictionary()


def _on_a_worker(session: Driver, modules: list[ModuleType]) -> set[str]:
    """Return the names of the modules that a worker has with the same contents; an answer holds for the session."""
    known = _answers.setdefault(session, {})
    asked = {module.__name__: _digests(module) for module in modules}
    if new := {name: digests for name, digests in asked.items() if digests not in known}:
        there: list[str] = []
        with suppress(Exception):  # the work that follows tells what is wrong with the workers
            there = _in_a_task(session, _search(new))
        known |= {digests: name in there for name, digests in new.items()}
    return {name for name, digests in asked.items() if known[digests]}


def _in_a_task(session: Any, search: Callable[[], list[str]]) -> list[str]:
    """Return what a function returns in a task."""

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield from (pa.RecordBatch.from_pydict({"name": pa.array(search(), pa.string())}) for _ in batches)

    if is_connect(session):
        return [row[0] for row in session.range(0, 1, 1, 1).mapInArrow(rows, "name string").collect()]
    found: list[str] = session.sparkContext.parallelize([None], 1).mapPartitions(lambda _: search()).collect()
    return found


def _digests(module: ModuleType) -> frozenset[tuple[str, str]]:
    """Return the loaded files of a module, by their paths below the folder on the path, with their digests."""
    top, found = _folder(module), set[tuple[str, str]]()
    for name, one in list(sys.modules.items()):
        file = _file(one) if name.partition(".")[0] == module.__name__ else None
        if file is not None and top is not None and file.is_relative_to(top):
            with suppress(OSError, AttributeError):  # what cannot be read is not compared
                data = one.__loader__.get_data(one.__file__)  # type: ignore[union-attr]
                found.add((str(file.relative_to(top)), hashlib.sha256(data).hexdigest()))
    return frozenset(found)


def _search(wanted: dict[str, frozenset[tuple[str, str]]]) -> Callable[[], list[str]]:
    """Return a function that gives the names of those modules that its process has with the same contents.

    It is sent by value, so it works where a worker has nothing but Python.
    """

    def has(name: str, digests: frozenset[tuple[str, str]]) -> bool:
        from hashlib import sha256
        from importlib.util import find_spec
        from os.path import dirname, join  # a file in an archive is no path

        spec = find_spec(name)
        if spec is None or spec.origin is None or not digests:
            return False
        top = dirname(dirname(spec.origin) if spec.submodule_search_locations else spec.origin)  # noqa: PTH120
        read: Any = spec.loader.get_data  # type: ignore[union-attr]
        return all(sha256(read(join(top, file))).hexdigest() == digest for file, digest in digests)  # noqa: PTH118

    def search() -> list[str]:
        there = []
        for name, digests in wanted.items():
            with suppress(Exception):  # a file that is not there, or another kind of loader
                if has(name, digests):
                    there.append(name)
        return there

    return search


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
            send_by_value([sys.modules[name] for name in sorted(new) if name in sys.modules], handed_out, spark)
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
