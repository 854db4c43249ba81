"""The process from which Spark forks its Python workers, with the modules for large runs already loaded.

Compiled machine code and its compiler take 130 MB, which the workers then share, and half a second, which is then spent
once instead of in each worker. Source: Spark, `PythonWorkerFactory`.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from ..state.transcode.executor_choice import has_numba


def prefer_installed() -> None:
    """Import PySpark and py4j from their installation; Spark puts zip archives of them first, without compiled code.

    Every start would compile the modules in an archive again. Archives of another installation stay on the path.
    """
    for archive in [Path(entry) for entry in sys.path if entry.endswith(".zip")]:
        package = archive.parents[2] if archive.parts[-3:-1] == ("python", "lib") else archive
        name = archive.name.partition("-")[0].removesuffix(".zip")
        if package.name == "pyspark" and (package.parent / name / "__init__.py").exists():
            sys.path.remove(str(archive))
            if str(package.parent) not in sys.path:
                sys.path.append(str(package.parent))


def load() -> None:
    """Load the installed modules that workers need to rewrite state."""
    import pyarrow.fs  # noqa: F401 - each task opens files with it
    import pyspark.worker  # noqa: F401 - it runs the tasks

    from ..state.migration import run_task as performing  # noqa: F401 - the work of each task
    from . import runner as scheduling  # noqa: F401 - it calls that work

    if has_numba():
        from ..state.transcode.numba_executor import load_compiled

        load_compiled()
    sys.path_importer_cache.clear()  # or each worker would read its archives again, once per package in them
    gc.collect()
    gc.freeze()  # a collection would write to shared pages


if __name__ == "__main__":
    prefer_installed()

    from pyspark.daemon import manager

    load()
    manager()
