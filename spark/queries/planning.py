"""The plan of a streaming query that was not started, and the schemas that Spark would write for it.

Spark plans a batch of a streaming query as `IncrementalExecution`; `explain()` makes one, too. Here it is made as for
the first batch of a query whose checkpoint is a new folder: planning that batch writes the metadata and the schemas of
its state stores there, and nothing else. No source is read, no query is started, and no sink is touched.

This module knows the internals of Spark: what differs between its releases is in `RELEASES`, and others are refused.
Source: notes on Spark, and Spark 4.0 to 4.3.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs

from ...compat.queries.kinds import TRANSFORM
from ...compat.queries.plan_operators import Buffers, read_plan, text_of_table
from ...compat.queries.plan_text import parse_plan
from ...serializers.errors import DeclarationError, StateShiftError, UnsupportedFormat, shown
from ...serializers.ways_out import WayOut
from ...state.formats.spark.reader import SparkCheckpoint
from .functions import functions_of
from .inputs import read_inputs
from .java import items_of, kind_of, private, within
from .processors import UNSEEN, times_to_live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.queries.plan_operators import PlannedOperator, PlannedQuery

_STREAMING = "org.apache.spark.sql.execution.streaming"
_MOMENT_US = 946_684_800_000_000  # the year 2000


@attrs.frozen
class _Moment:
    """The current time, as Spark's rule takes it when it makes it a constant.

    Attributes:
        time: The moment as a literal.
        zone: The time zone of the session as a literal.
        instant: The moment as Java has it.
        table: Makes an empty table.
    """

    time: Any
    zone: Any
    instant: Any
    table: Callable[[], Any]


@attrs.frozen
class Release:
    """What differs between releases of Spark for the planner of a query.

    Attributes:
        checkpoints: The package of what an offset log says, below that of streaming.
        runtime: The package of the planner, below that of streaming.
        defaults: The number of the planner's last arguments, which have defaults.
        moment: The arguments of the rule for the present time.
        writes_when_told: Whether the metadata and the schemas of state stores are written by a call of its own; else
            planning writes them.
    """

    checkpoints: str
    runtime: str
    defaults: int
    moment: Callable[[_Moment], tuple[Any, ...]]
    writes_when_told: bool = False


def _before_4_3(at: _Moment) -> tuple[Any, ...]:
    return (at.table(), _MOMENT_US, 0, at.time, at.zone, at.table(), at.instant)


RELEASES: Mapping[str, Release] = {
    "4.0": Release(
        "", "", 3, lambda at: (at.table(), _MOMENT_US, at.time, at.zone, at.table(), at.instant),
    ),
    "4.1": Release("checkpointing", "runtime", 4, _before_4_3),
    "4.2": Release("checkpointing", "runtime", 4, _before_4_3),
    "4.3": Release(
        "checkpointing", "runtime", 5,
        lambda at: (at.table(), _MOMENT_US, 0, at.time, at.table(), at.instant, at.zone, at.table(), at.table()),
        writes_when_told=True,
    ),
}  # fmt: skip
"""The releases of Spark with which queries are planned."""
_FIRST_DEFAULT = 12
_ALWAYS = {
    "spark.sql.adaptive.enabled": "false",  # as every streaming query has it
    "spark.sql.cbo.enabled": "false",
    "spark.sql.optimizer.inSetConversionThreshold": "1000000000",  # a set of constants has no text
}
_SHUFFLE, _PARTITIONS = "spark.sql.shuffle.partitions", "spark.sql.streaming.internal.stateStore.partitions"
_ZONE = "spark.sql.session.timeZone"
_PYTHON = ".expressions.PythonUD"
_ASYNC = "asyncProgressTrackingEnabled"
_PRESENT = re.compile(r"expressions\.(?:Current(?:BatchTimestamp|Date|Time|Timestamp)|LocalTimestamp|Now)\b")
_TRACE = "Traceback (most recent call last):"
_RAISED = re.compile(r"[\w.]+(?::|$)")
_MISSING = re.compile(r"No module named '([^']+)'")
_WATERMARK = re.compile(r"EventTimeWatermark ([0-9a-f-]{36}), .*, (.*)")


@attrs.frozen
class Planned:
    """A planned query.

    Attributes:
        query: Its stateful operators and its sources.
        state: What Spark would write of its state: a checkpoint without a batch.
        settings: The settings under which it was planned, as an offset log pins them.
        spark: The version of Spark that planned it.
    """

    query: PlannedQuery
    state: SparkCheckpoint
    settings: Mapping[str, str]
    spark: str


@attrs.frozen
class UnstartedQuery:
    """A streaming query that was not started: a DataFrame, and what its writer says.

    Attributes:
        frame: The DataFrame.
        output_mode: `append`, `update` or `complete`.
        checkpoint: The place of its checkpoint, or "".
    """

    frame: DataFrame = attrs.field(repr=False)
    output_mode: str
    checkpoint: str = ""

    @classmethod
    def of(cls, query: DataFrame | DataStreamWriter, *, output_mode: str = "") -> UnstartedQuery:
        """Return the query that a streaming DataFrame or its writer is.

        Raises:
            DeclarationError: It is another object, or not a streaming DataFrame.
            UnsupportedFormat: The release of Spark is none of `RELEASES`, or the query does not run in batches.
        """
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        frame, mode, checkpoint = cast("Any", query), output_mode or "append", ""
        if isinstance(query, DataStreamWriter):
            writer = cast("Any", query)
            frame = writer._df  # noqa: SLF001 - there is no public way
            said = private(writer._jwrite, "outputMode")  # noqa: SLF001
            mode = output_mode or str(said.toString()).lower()
            place = private(writer._jwrite, "extraOptions").get("checkpointLocation")  # noqa: SLF001
            checkpoint = str(place.get()) if place.isDefined() else ""
            _require_batches(writer._jwrite)  # noqa: SLF001
        if not hasattr(frame, "_jdf"):
            raise DeclarationError(
                f"{shown(query)} is neither a streaming DataFrame of Spark nor a writer of one",
                advice="return the DataFrame, or df.writeStream with its options, before start(); Spark Connect has no"
                " plan that could be read",
            )
        if not frame.isStreaming:
            raise DeclarationError(
                "the DataFrame is not a streaming one", advice="build it on spark.readStream, and do not start it"
            )
        release_of(frame.sparkSession.version)  # before a checkpoint is read
        return cls(frame, mode, checkpoint)


def _with_times(
    operators: Iterable[PlannedOperator], times: Iterator[dict[str, str] | None]
) -> Iterator[PlannedOperator]:
    """Yield the operators, with the times to live of each transformWithState."""
    for operator in operators:
        declared = next(times, None) if operator.kind == TRANSFORM else {}
        unseen = (*operator.unseen, UNSEEN) if declared is None else operator.unseen
        yield attrs.evolve(operator, facts={**operator.facts, **(declared or {})}, unseen=unseen)


def _require_batches(writer: Any) -> None:
    """Refuse writers whose query does not run in batches, each committed before the next.

    Raises:
        UnsupportedFormat: It is one.
    """
    trigger = kind_of(private(writer, "trigger"))
    mode = {"RealTimeTrigger": "in real-time mode", "ContinuousTrigger": "continuously"}.get(trigger, "")
    has_async = private(writer, "extraOptions").get(_ASYNC)
    if has_async.isDefined() and str(has_async.get()).lower() == "true":
        mode = mode or "with asynchronous progress"
    if mode:
        raise UnsupportedFormat(
            f"the query runs {mode}: Spark plans it in another way than one that runs in batches, and this release does"
            " not describe it",
            advice="run it in batches (trigger processingTime or availableNow, without asyncProgressTrackingEnabled)",
            written="Nothing was started.",
        )


@contextmanager
def planned(query: UnstartedQuery, settings: Mapping[str, str] | None = None) -> Iterator[Planned]:
    """Plan a query; what Spark would write of its state is there within the `with` block.

    Args:
        query: The query.
        settings: The settings that a checkpoint pins; None: those of the session.

    Raises:
        UnsupportedFormat: The release of Spark is none of `RELEASES`, or it printed a plan of an unknown form.
        StateShiftError: Spark does not plan the query; its reason is in the message.
    """
    release = release_of(query.frame.sparkSession.version)
    folder = Path(tempfile.mkdtemp(prefix="stateshift-plan-"))
    try:
        execution, pinned = _execution(query, settings, folder, release)
        optimized = execution.optimizedPlan()
        shown_plan = _said(execution.executedPlan) and optimized.toString()
        if release.writes_when_told:
            execution.writeRecordedStateMetadata()
        logical = cast("Any", query.frame)._jdf.logicalPlan()  # noqa: SLF001
        analyzed, as_json = str(logical.toJSON()), str(optimized.toJSON())
        plan = read_plan(
            parse_plan(as_json),
            parse_plan(analyzed),
            aggregates=dict(_aggregates(optimized)),
            delays=dict(_WATERMARK.findall(shown_plan)),
            functions=functions_of(optimized) if _PYTHON in as_json else {},
            is_complete=query.output_mode == "complete",
            asks_the_time=_PRESENT.search(analyzed) is not None,
        )
        zone = {_ZONE: str(query.frame.sparkSession.conf.get(_ZONE))}
        plan = attrs.evolve(
            plan,
            operators=tuple(_with_times(plan.operators, times_to_live(optimized))),
            inputs=read_inputs(logical, optimized, plan.used(), zone, text_of_table),
        )
        yield Planned(plan, SparkCheckpoint.open(folder), pinned, query.frame.sparkSession.version)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def release_of(version: str) -> Release:
    """Return what is known of a release of Spark.

    Raises:
        UnsupportedFormat: Nothing is.
    """
    release = RELEASES.get(".".join(version.split(".")[:2]))
    if release is None:
        raise UnsupportedFormat(
            f"queries are planned with Spark {', '.join(RELEASES)}; this is Spark {version}",
            advice=(
                "run the check with one of these",
                WayOut("compare two checkpoints:", command="stateshift diff spark:OLD spark:NEW"),
            ),
            written="Nothing was started.",
        )
    return release


def _execution(
    query: UnstartedQuery, settings: Mapping[str, str] | None, folder: Path, release: Release
) -> tuple[Any, dict[str, str]]:
    """Return Spark's planner of a first batch, and the settings that it uses."""
    java: Any = query.frame.sparkSession
    jvm: Any = java._jvm  # noqa: SLF001 - the planner has no public name
    checkpoints, runtime = (
        getattr(jvm, f"{_STREAMING}.{name}".rstrip(".")) for name in (release.checkpoints, release.runtime)
    )
    session = java._jsparkSession.cloneSession()  # noqa: SLF001
    for name, value in _ALWAYS.items():
        session.conf().set(name, value)
    metadata_of = checkpoints.OffsetSeqMetadata
    if settings is None:
        session.conf().set(_PARTITIONS, session.conf().get(_SHUFFLE))
        metadata = metadata_of.apply(0, 0, session.conf())
    else:
        metadata = metadata_of.apply(json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": dict(settings)}))
        metadata_of.setSessionConf(metadata, session.sessionState().conf())
    text = str(metadata.json())
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text(f"v1\n{text}\n-\n", encoding="utf-8")
    (folder / "metadata").write_text('{"id":"planned"}', encoding="utf-8")
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, query.output_mode.capitalize())()
    new_id = jvm.java.util.UUID.randomUUID
    made_by = runtime.IncrementalExecution
    defaults = range(_FIRST_DEFAULT, _FIRST_DEFAULT + release.defaults)
    rest = [getattr(made_by, f"$lessinit$greater$default${at}")() for at in defaults]
    execution = made_by(
        session, _at_one_moment(jvm, query.frame, release), mode, (folder / "state").as_uri(), new_id(), new_id(), 0,
        getattr(getattr(jvm.scala, "None$"), "MODULE$"), metadata, runtime.WatermarkPropagator.noop(), True,  # noqa: FBT003
        *rest,
    )  # fmt: skip
    return execution, dict(json.loads(text)["conf"])


def _at_one_moment(jvm: Any, frame: Any, release: Release) -> Any:
    """Return the logical plan of a DataFrame with a fixed current time, which Spark would make a constant.

    This is what `ComputeCurrentTime` does, with another moment.
    """
    catalyst, types, table = (
        jvm.org.apache.spark.sql.catalyst,
        jvm.org.apache.spark.sql.types,
        jvm.scala.collection.mutable.HashMap,
    )
    time_zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    time, zone = (
        catalyst.expressions.Literal.create(value, getattr(getattr(types, kind), "MODULE$"))
        for value, kind in ((_MOMENT_US, "TimestampType$"), (time_zone, "StringType$"))
    )
    instant = jvm.java.time.Instant.ofEpochSecond(_MOMENT_US // 1_000_000)
    rule = getattr(catalyst.optimizer, "ComputeCurrentTime$$anonfun$apply$8")
    arguments = release.moment(_Moment(time, zone, instant, table))
    return frame._jdf.logicalPlan().transformDownWithSubqueries(rule(*arguments))  # noqa: SLF001 - as above


def _said(plan: Any) -> Any:
    """Call Spark's planner; return what it returns.

    Raises:
        StateShiftError: It refuses the query.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return plan()
    except Py4JJavaError as error:
        raise _worker_failed(str(error.java_exception.toString())) from error
    except PySparkException as error:
        raise StateShiftError(
            f"Spark does not plan the query: {str(error).splitlines()[0]}",
            advice="see whether df.explain() and a start with a new checkpoint work",
            written="Nothing was started.",
        ) from error


def _worker_failed(told: str) -> StateShiftError:
    """Return the error for a failure of the worker in which Spark calls a processor's `init` while it plans."""
    first, _, trace = told.partition(_TRACE)
    raised = [line for line in trace.splitlines() if _RAISED.match(line)]
    why = raised[-1].partition(" SQLSTATE: ")[0] if raised else first.splitlines()[0]
    missing = _MISSING.search(why)
    advice = (
        f"add the folder of {missing[1]!r} to the path of Spark's workers, before the session starts: "
        "PYTHONPATH=FOLDER, or .config('spark.executorEnv.PYTHONPATH', 'FOLDER'); or install it"
        if missing
        else "see whether a start with a new checkpoint works"
    )
    return StateShiftError(
        f"Spark does not plan the query: it calls `init` of a processor in a Python worker, which failed: {why}",
        advice=advice,
        written="Nothing was started.",
    )


def _aggregates(plan: Any) -> Iterator[tuple[int, Buffers]]:
    """Yield the buffers of each aggregate, by the id of its result."""
    for node in (one for one in within(plan) if kind_of(one) == "Aggregate"):
        for one in (part for listed in items_of(node.aggregateExpressions()) for part in within(listed)):
            if kind_of(one) == "AggregateExpression":
                yield one.resultId().id(), _buffers(one.aggregateFunction())


def _buffers(function: Any) -> Buffers:
    """Return the buffers of an aggregate, with the types that the types in the state do not show."""
    kind, made, inputs = kind_of(function), function.aggBufferAttributes(), [*items_of(function.children())]
    if inputs and kind_of(inputs[0]) == "UnscaledValue":
        return Buffers(made.size(), kind, str(inputs[0].child().dataType().catalogString()))
    is_bytes = made.size() == 1 and made.apply(0).dataType().catalogString() == "binary"
    types = ", ".join(str(one.dataType().catalogString()) for one in inputs) if is_bytes else ""
    return Buffers(made.size(), kind, types)
