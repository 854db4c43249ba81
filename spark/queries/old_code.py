"""The query that wrote a checkpoint, as `--was` names it: its old code, or the description that a repository keeps.

The old code most often is the same file in another checkout. So it is loaded apart from the new code, with its own
modules beside it, and nothing of it is left when the new code is loaded.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ...compat.gate.recorded_queries import SUFFIX, read_query
from ...compat.libraries import library_of
from ...serializers.errors import JobNotFound
from .check import load_query
from .description import describe_under
from .gate import settings_kept
from .planning import UnstartedQuery

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from importlib.machinery import ModuleSpec

    from pyspark.sql import SparkSession

    from ...compat.description import JobDescription
    from ...state.formats.spark.logs import PlannedBatch

_FILE = ".py"


def describe_old(place: str, new: str, spark: SparkSession, batch: PlannedBatch | None) -> JobDescription:
    """Return the query that `--was` names.

    Args:
        place: `module:function`, `file.py:function`, or a file of `state_history/queries`.
        new: The new query, as `module:function` or `file.py:function`.
        spark: The session; settings that the function changes are set back.
        batch: The last batch of the checkpoint, under whose settings Spark plans.

    Raises:
        JobNotFound, UserCodeFailed, DeclarationError: As `load_query`; or there is no such file.
        CorruptFile: The description was edited, or is none.
        UnsupportedFormat: A later release wrote it; or Spark's release or the plan is not known.
    """
    if place.endswith(SUFFIX):
        if not Path(place).is_file():
            raise JobNotFound(f"there is no file {place}", advice="check the path: it starts in the current folder")
        return read_query(Path(place).read_bytes(), place)
    with settings_kept(spark), _apart(place, new) as found:
        return describe_under(UnstartedQuery.of(load_query(found, spark)), batch, "the old code")


@contextmanager
def _apart(place: str, new: str) -> Iterator[str]:
    """Find modules of the old code within the `with` block, and yield its place as it is to be loaded.

    Where both are named by module, they are of one folder, and share their modules.
    """
    (module, _, function), new_module = place.rpartition(":"), new.rpartition(":")[0]
    if not {Path(one).suffix for one in (module, new_module)} & {_FILE}:
        yield place
        return
    here = Path.cwd()
    folders = [here]
    if module.endswith(_FILE):
        file, tail = Path(module).resolve(), _tail(new_module, here)
        folders = [file.parent]
        if file.parts[-len(tail.parts) :] == tail.parts:  # the same file, elsewhere: there it has the same name
            root = file.parents[len(tail.parts) - 1]
            folders = [root] if root == file.parent else [file.parent, root]
            if not new_module.endswith(_FILE):
                folders, place = [root], f"{new_module}:{function}"
    searched, before = sys.path[:], dict(sys.modules)
    _forget(top for top in _tops() if _found(top, folders) is not None)
    sys.path[:0] = map(str, folders)
    try:
        yield place
    finally:
        sys.path[:] = searched
        loaded = [top for top in _tops() if sys.modules.get(top) is not before.get(top)]
        _forget(top for top in loaded if _found(top, folders) is not None or _found(top, searched) is None)
        sys.modules.update(before)


def _tops() -> set[str]:
    return {name.partition(".")[0] for name in sys.modules} - {"__main__"}


def _found(top: str, folders: Collection[str | Path]) -> ModuleSpec | None:
    return PathFinder.find_spec(top, [str(one) for one in folders])


def _forget(tops: Iterable[str]) -> None:
    """Remove modules of users from `sys.modules`, so that the next import loads them again; libraries stay."""
    forgotten = {top for top in tops if not library_of(top)}
    for name in [one for one in sys.modules if one.partition(".")[0] in forgotten]:
        del sys.modules[name]


def _tail(module: str, here: Path) -> Path:
    """Return the file of a module from the folder in which it is searched."""
    if not module.endswith(_FILE):
        return Path(*module.split(".")).with_suffix(_FILE)
    file = Path(module).resolve()
    return file.relative_to(here) if file.is_relative_to(here) else Path(file.name)
