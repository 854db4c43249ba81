"""Make a savepoint from DataFrames: state for a job that starts with a history.

    bootstrap("s3://bucket/first", job, [StateSource("accounts", "account", totals, key_by="person")])

What users import; it is there without pyspark. How it is done is told in `bootstrapping`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..compat.targets import Target
from ..state.bootstrap.state_columns import StateColumns
from .session import DEFAULT_MASTER, require_libraries

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ..state.bootstrap.report import BootstrapReport
    from ..state.job import Job
    from ..state.progress import Progress


@attrs.frozen
class StateSource(StateColumns):
    """A state and the DataFrame that it is made from; the other attributes are those of `StateColumns`.

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
    max_parallelism: int = 128,
    parallelism: int | None = None,
    position: Any = None,
    restore_target: Target = Target.ANY,
    progress: Callable[[Progress], None] | None = None,
) -> BootstrapReport:
    """Write a new savepoint in `target`, whose state is made from rows.

    Args:
        target: A folder that is empty or not there. What a run that died has left in it is cleared.
        job: Operators and states. Those without a source start empty.
        sources: Where states come from; or a function that makes them, and gets the session.
        session: The session of such a function; by default the one that runs, else one for `master` that ends with the
            call. DataFrames have a session already, and it is used.
        master: Where Spark runs, where it does not run yet.
        py_files: Further `.py`, `.zip`, `.egg` or `.whl` files for the workers.
        max_parallelism: Number of key groups; a Flink job must have the same.
        parallelism: Subtasks of each operator; by default one for every 64 MiB of its state.
        position: How far the history goes, for the hand-over to live data: an offset, a watermark, a query; anything
            that JSON can hold. It is kept in `_stateshift.json`.
        restore_target: `Target.FLINK` refuses what Flink could not restore; `FLINK_1_20` writes as that release does.
        progress: Is called now and then with what is done.

    Returns:
        What was done.

    Raises:
        StateNotFound: The job has no such operator or keyed state.
        DeclarationError: A column is missing or of the wrong type, or a source says too little.
        IncompatibleState: Flink could not restore an operator, and it is to.
        TargetExists: The target is taken, or another run is at work there.
        ValueNotConvertible: A null key, two rows for one key where one is allowed, a value that does not fit.
        LibraryNotFound: pyspark or numpy is not installed.
        NoSpaceLeft: The target, or the folder in which Spark sorts, has too little room.
        MigrationFailed: What was written is not what was encoded, or the engine failed.
    """
    require_libraries("bootstrap", "pyspark", "numpy")
    from .bootstrapping import write_from_rows

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
