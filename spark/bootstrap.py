"""Creation of a savepoint from DataFrames: the initial state of a job that starts with a history.

    bootstrap("s3://bucket/first", job, [StateSource("accounts", "account", totals, key_by="person")])

This module can be imported without pyspark. What Spark does is in `bootstrap_run`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.targets import Target
from ..serializers.errors import DeclarationError
from ..state.columnar.bootstrap import BootstrapReport, StateColumns
from ..state.job import Job, key_groups_of
from ..state.key_groups import key_group_range
from ..state.publication.publish import Destination, all_or_nothing, check_target
from ..state.publication.runs import names_of
from ..state.savepoint.new_streams import check_job
from ..state.storage.files import Folder
from .connect import refuse_connect
from .frames import arrow_schema
from .interrupts import interrupts_kept
from .sessions import DEFAULT_MASTER, own_session, require_libraries

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

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
    from ..state.columnar.new_savepoint import NewSavepoint, check_position, report_states, unknown_to_flink
    from ..state.columnar.row_sources import resolve
    from .bootstrap_run import BootstrapRun

    started = time.monotonic()
    folder, key_groups = Folder.at(target), _key_groups(job, max_parallelism, parallelism)
    check_position(position)
    check_job(job, restore_target)
    check_target(folder)
    with ExitStack() as until_published:
        if session is not None:
            refuse_connect(session, "making a savepoint from rows")
        given = _given(sources, lambda: session or until_published.enter_context(own_session(master)))
        resolved = resolve(job, [(source, arrow_schema(source.data.schema)) for source in given])
        names = names_of(operator.id for operator in job.operators)
        claim = until_published.enter_context(all_or_nothing(Destination(folder, names)))
        folder = claim.folder
        new = NewSavepoint(job, resolved, key_groups, parallelism, restore_target, position)
        run = BootstrapRun(new, folder, progress or (lambda _: None))
        with interrupts_kept():
            operators, results, encoded = run.carry_out([source.data for source in given], py_files)
        claim.require()
        lineage = new.publish(folder, operators, results, encoded)
    return BootstrapReport(
        target=folder.place,
        states=report_states(job, resolved, lineage),
        parallelism={operator.title: operator.parallelism for operator in operators.values()},
        max_parallelism=key_groups,
        bytes_written=sum(result.stored.size for result in results),
        position=position,
        seconds=time.monotonic() - started,
        unknown_to_flink=unknown_to_flink(job),
    )


def _key_groups(job: Job, max_parallelism: int | None, parallelism: int | None) -> int:
    """Return the number of key groups; raises `DeclarationError` if there is none, or fewer than subtasks."""
    if not isinstance(job, Job):
        raise DeclarationError(f"the job is a {type(job).__name__}, not a Job", advice="pass the Job itself")
    key_groups = key_groups_of(job, max_parallelism)
    key_group_range(0, parallelism or 1, key_groups)
    return key_groups


def _given(
    sources: StateSource | Iterable[StateSource] | Callable[[SparkSession], Iterable[StateSource]],
    session: Callable[[], SparkSession],
) -> list[StateSource]:
    made = sources(session()) if callable(sources) else sources
    given: list[StateSource] = [made] if isinstance(made, StateSource) else list(made)
    for source in given:
        _check_frame(source)
        refuse_connect(source.data.sparkSession, "making a savepoint from rows")
    if not given:
        raise DeclarationError("no sources were given", advice="pass a StateSource for each state to fill")
    if any(source.data.sparkSession.sparkContext is not given[0].data.sparkSession.sparkContext for source in given):
        raise DeclarationError(
            "the DataFrames belong to different Spark applications", advice="create them in one application"
        )
    return given


def _check_frame(source: StateSource) -> None:
    if not hasattr(source.data, "sparkSession"):
        raise DeclarationError(
            f"the rows are a {type(source.data).__module__}.{type(source.data).__name__}, not a Spark DataFrame",
            advice="convert it: spark.createDataFrame(…) takes pandas and Arrow tables",
            operator=source.operator,
            state=source.state,
        )
