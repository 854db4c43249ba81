"""The process from which Spark forks its Python workers, with what large runs need loaded beforehand.

Machine code and its compiler take 130 MB, of which the workers then share all, and half a second, which is then spent
once and not by each of them. Source: Spark, `PythonWorkerFactory`.
"""

from __future__ import annotations

import gc

from ..compat.transcode.executors import machine_code

SETTINGS = {"spark.python.daemon.module": __name__}
"""Of a session whose workers are to be forked from it."""
_MUCH_BYTES = 1 << 30


def load() -> None:
    """Load what workers need to rewrite state, where it is installed."""
    import pyarrow.fs  # noqa: F401 - each task opens files by it

    from ..state.migration import performing  # noqa: F401 - what each task does

    if machine_code(_MUCH_BYTES) is not None:
        from ..compat.transcode.numba_executor import load_compiled

        load_compiled()
    gc.collect()
    gc.freeze()  # a collection would write to pages that are shared


if __name__ == "__main__":
    from pyspark.daemon import manager

    load()
    manager()
