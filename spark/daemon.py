"""The process from which Spark forks its Python workers, with what large runs need loaded beforehand.

Machine code and its compiler take 130 MB, of which the workers then share all, and half a second, which is then spent
once and not by each of them. Source: Spark, `PythonWorkerFactory`.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from ..state.transcode.choice import has_numba

SETTINGS = {"spark.python.daemon.module": __name__}
"""Those of a session whose workers are to be forked from it."""


def prefer_installed() -> None:
    """Import PySpark and py4j as they are installed; Spark puts the same ones first, zipped, without compiled code.

    From there every start compiles them. An archive of another installation stays where it is.
    """
    for archive in [Path(entry) for entry in sys.path if entry.endswith(".zip")]:
        package = archive.parents[2] if archive.parts[-3:-1] == ("python", "lib") else archive
        name = archive.name.partition("-")[0].removesuffix(".zip")
        if package.name == "pyspark" and (package.parent / name / "__init__.py").exists():
            sys.path.remove(str(archive))
            if str(package.parent) not in sys.path:
                sys.path.append(str(package.parent))


def load() -> None:
    """Load what workers need to rewrite state, where it is installed."""
    import pyarrow.fs  # noqa: F401 - each task opens files by it
    import pyspark.worker  # noqa: F401 - who runs tasks

    from ..state.migration import run_task as performing  # noqa: F401 - what each task does
    from . import scheduling  # noqa: F401 - who asks for it

    if has_numba():
        from ..state.transcode.numba_executor import load_compiled

        load_compiled()
    sys.path_importer_cache.clear()  # each worker would read its archives again, once for each package in them
    gc.collect()
    gc.freeze()  # a collection would write to pages that are shared


if __name__ == "__main__":
    prefer_installed()

    from pyspark.daemon import manager

    load()
    manager()
