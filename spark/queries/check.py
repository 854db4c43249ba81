"""`check_query`: the verdict on a streaming query that was not started, against the checkpoint it would go on from.

report = check_query("/data/checkpoints/clicks", build_query(spark))
report.decision      # start, migrate or refuse

Nothing is started and nothing is written.
"""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import JobDescription
from ...compat.policy import ACCEPT_ALL, Policy
from ...compat.queries.verdict import difference, judge
from ...serializers.errors import DeclarationError, JobNotFound, StateShiftError, UserCodeFailed
from ...serializers.wording import shell_word
from ...state.formats.spark.reader import SparkCheckpoint
from ...state.formats.spark.recording import find_recording
from ...state.job import import_user_module, told_of, users_code
from ...state.migration.queries.preparation import Known
from ..connect import is_connect
from .description import describe_under
from .planning import UnstartedQuery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.report import CheckReport

_STARTED = "the function started the query, which a check must not do"


def check_query(
    checkpoint: str | os.PathLike[str],
    query: DataFrame | DataStreamWriter,
    *,
    was: DataFrame | DataStreamWriter | None = None,
    accept: tuple[str, ...] = (),
    policy: Policy = ACCEPT_ALL,
    origin: str = "the query",
) -> CheckReport:
    """Compare a streaming query with the checkpoint that it would go on from.

    What stands in the columns of the state is known from `was`, else from a recording (`stateshift.spark.start`), else
    not: then the report says what the checkpoint does not show.

    Args:
        checkpoint: The place of the checkpoint: a path, or a URI of any store.
        query: The new query: a streaming DataFrame, or its writer before `start()`.
        was: The query that wrote the checkpoint, from the old code.
        accept: Rules whose findings are accepted: SPK-10, SPK-12, SPK-13, SPK-15; `SPK-21:NAME` for a function.
        policy: Flags that are refused.
        origin: The new query in messages.

    Returns:
        The report, as of any check.

    Raises:
        SavepointNotFound: There is no checkpoint.
        CorruptFile: The checkpoint is damaged.
        UnsupportedFormat: A newer Spark wrote it, or queries are not planned with this release of Spark.
        DeclarationError: A query is no streaming one, or `was` did not write the checkpoint.
        StateShiftError: Spark does not plan a query.
    """
    unstarted = UnstartedQuery.of(query)
    opened = SparkCheckpoint.open(checkpoint)
    new = describe_under(unstarted, opened.log.last, origin)
    return compare(opened, new, was=was, accept=accept, policy=policy)


def compare(
    checkpoint: SparkCheckpoint,
    new: JobDescription,
    *,
    was: DataFrame | DataStreamWriter | None = None,
    known: Known | None = None,
    accept: tuple[str, ...] = (),
    policy: Policy = ACCEPT_ALL,
    said: str = "--query MODULE:FUNCTION",
) -> CheckReport:
    """Compare a query that is already described with a checkpoint; see `check_query`.

    `said` are the options that name both queries, for commands in ways out; `known` is what `what_is_known` returned,
    if that was asked before.
    """
    stored = checkpoint.describe()
    if checkpoint.log.committed is None:  # there is no state yet, whatever is planned
        return judge(*(attrs.evolve(one, operators=(), sources=()) for one in (stored, new)))
    known = known or what_is_known(checkpoint, was)
    places = (shell_word(f"spark:{checkpoint.place}{end}") for end in ("", "-migrated"))
    return judge(
        stored, new, known=known.query, accept=accept, policy=policy, gap=known.gap,
        command=f"stateshift migrate {' '.join(places)} {said}",
    )  # fmt: skip


def what_is_known(checkpoint: SparkCheckpoint, was: DataFrame | DataStreamWriter | JobDescription | None) -> Known:
    """Return what is known of the query that wrote a checkpoint: from the old code, else from a recording."""
    if isinstance(was, JobDescription):
        return Known(was)
    if was is not None:
        return Known(describe_under(UnstartedQuery.of(was), checkpoint.log.last, "the old code"))
    recording, stored = find_recording(checkpoint), checkpoint.describe()
    if recording is None or difference(stored, recording.query):  # a checkpoint that was rewritten since
        return Known()
    gap = "" if recording.is_whole else f"{recording.query.origin} ends there, and it is not known what ran since"
    return Known(recording.query, gap)


def load_query(place: str, spark: SparkSession) -> DataFrame | DataStreamWriter:
    """Return the query that the function at `module:function` builds, without starting it.

    The function is called without arguments, or with the session if it has one parameter without a default.

    Raises:
        JobNotFound: The module is not there, or has no such function.
        UserCodeFailed: The module cannot be imported, or the function fails.
        DeclarationError: The function started the query.
    """
    module_name, _, name = place.rpartition(":")
    if not module_name or not name:
        raise JobNotFound(
            f"{place!r} does not name a query", advice="write module:function, such as clicks:build_query"
        )
    with users_code():
        return _loaded_query(module_name, name, place, spark)


def _loaded_query(module_name: str, name: str, place: str, spark: SparkSession) -> DataFrame | DataStreamWriter:
    module = import_user_module(module_name)
    made: Any = getattr(module, name, None)
    if made is None:
        raise JobNotFound(f"{module_name} has no attribute {name!r}", advice="name the function that builds the query")
    if not callable(made):
        return made  # type: ignore[no-any-return]
    try:
        needed = [one for one in inspect.signature(made).parameters.values() if one.default is one.empty]
        with _never_started(), _found_by_workers(module, spark):
            return made(spark) if needed else made()  # type: ignore[no-any-return]
    except StateShiftError:
        raise
    except Exception as error:
        raise UserCodeFailed(
            f"{place} was called to build the query, and failed: {told_of(error)}",
            advice="name a function, without parameters or with the session as the only one, that returns the"
            " streaming DataFrame or its writer",
        ) from error


@contextmanager
def _never_started() -> Iterator[None]:
    """Refuse every start of a streaming query within the `with` block."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    def refuse(*_: Any, **__: Any) -> Any:
        raise DeclarationError(
            _STARTED,
            advice="let it return the DataFrame, or its writer before start(), and start it elsewhere",
            written="Nothing was started.",
        )

    own = {name: getattr(DataStreamWriter, name) for name in ("start", "toTable")}
    for name in own:
        setattr(DataStreamWriter, name, refuse)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(DataStreamWriter, name, function)


@contextmanager
def _found_by_workers(module: ModuleType, spark: SparkSession) -> Iterator[None]:
    """Send functions of the `with` block to workers that find the modules which this process finds.

    Spark calls a processor's `init` in a worker while it plans, and a class of a module travels by name.
    """
    if is_connect(spark):
        yield
        return
    variables = spark.sparkContext.environment  # each function is sent with a copy of them
    name, file = "PYTHONPATH", getattr(module, "__file__", None)
    before = variables.get(name)
    own = [str(Path(file).absolute().parent)] if file else []  # it may have been imported by its path
    places = [*(str(Path(one).absolute()) for one in sys.path), *own, *([before] if before else [])]
    variables[name] = os.pathsep.join(places)
    try:
        yield
    finally:
        if before is None:
            variables.pop(name)
        else:
            variables[name] = before
