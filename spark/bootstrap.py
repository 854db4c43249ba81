"""Creation of a savepoint from DataFrames: the initial state of a job that starts with a history.

    bootstrap("s3://bucket/first", job, [StateSource("accounts", "account", totals, key_by="person")])

This is the public module, which can be imported without pyspark. The implementation is in `bootstrap_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..compat.targets import Target
from ..state.columnar.bootstrap import StateColumns
from .sessions import DEFAULT_MASTER, require_libraries

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ..state.columnar.bootstrap import BootstrapReport
    from ..state.job import Job
    from ..state.progress import Progress


@attrs.frozen
class StateSource(StateColumns):
    """A state and the DataFrame that it is created from; the other attributes are those of `StateColumns`.

    Attributes:
        data: The rows.
    """

    data: DataFrame = attrs.field(repr=False)


def bootstrap(
    target: str | os.PathLike[str],
    job: Job,
    sources: StateSource | Iterable[StateSource] | Callable[[SparkSession], Iterable[StateSource]],
    *,
    session: SparkSession | None = None,
    master: str = DEFAULT_MASTER,
    py_files: Iterable[str | Path] = (),
    max_parallelism: int | None = None,
    parallelism: int | None = None,
    position: Any = None,
    restore_target: Target = Target.ANY,
    progress: Callable[[Progress], None] | None = None,
) -> BootstrapReport:
    """Write a new savepoint in `target`, with state created from rows.

    Args:
        target: A folder that is empty or does not exist. Leftovers of a dead run are removed.
        job: The operators and states. States without a source start empty.
        sources: The sources of the states; or a function that returns them, and takes the session.
        session: The session for such a function; by default the running one, else one for `master` that is stopped at
            the end of the call. DataFrames already have a session, which is used.
        master: The master of a session that is started by this call.
        py_files: Further `.py`, `.zip`, `.egg` or `.whl` files for the workers.
        max_parallelism: The number of key groups; a Flink job that sets its own must have the same. By default that of
            the job, or 128.
        parallelism: The number of subtasks of each operator; by default one for every 64 MiB of its state.
        position: The end of the history, for the switch to live data: an offset, a watermark, a query; anything that
            JSON can represent. It is stored in `_stateshift.json`.
        restore_target: `Target.FLINK` refuses what Flink could not restore; `FLINK_1_20` writes as that release does.
        progress: A function that is called regularly with the progress so far.

    Returns:
        A report of what was written.

    Raises:
        StateNotFound: The job does not have the operator or keyed state of a source.
        DeclarationError: A column is missing or of the wrong type, or a source is incomplete.
        IncompatibleState: Flink could not restore an operator, although `restore_target` requires it.
        TargetExists: The target is not empty, or another run is writing to it.
        ValueNotConvertible: There is a null key, a value that does not fit, or a second row for a key that allows only
            one.
        LibraryNotFound: pyspark or numpy is not installed.
        NoSpaceLeft: The target, or the folder in which Spark sorts, has too little space.
        MigrationFailed: The written data differs from the encoded data, or the engine failed.
    """
    require_libraries("bootstrap", "pyspark", "numpy")
    from .bootstrap_run import write_from_rows

    return write_from_rows(
        target,
        job,
        sources,
        session=session,
        master=master,
        py_files=py_files,
        max_parallelism=max_parallelism,
        parallelism=parallelism,
        position=position,
        restore_target=restore_target,
        progress=progress,
    )
