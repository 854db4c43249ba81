"""The run of a program on Spark: its parts are put together, and its query is run to the end of its input."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision
from ...serializers.errors import SavepointNotFound
from ...serializers.hints import serializer_for
from ...serializers.registry import registry
from ...state.backends.configuration import options as known_options
from ...state.backends.restore_check import RestoreRefused
from ...state.environment.environment import Elements
from ...state.environment.execution import JobExecutionResult, refuse_unclaimed
from ...state.environment.graph import Partition
from ...state.environment.streams import ANY
from ...state.formats.spark.commit_log import last_planned
from ...state.publication.publish import check_target
from ...state.runtime.checkpointed import DEFAULT_STATE
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from ...state.streaming.slot import OperatorSpec
from ...state.streaming.source import SourceSpec
from ..connect import refuse_connect
from ..streaming.job import StreamJob
from ..streaming.query_plan import DEFAULT_KEY_GROUPS, Input, Work
from ..streaming.savepoints import take_savepoint
from ..streaming.sources import source_frame
from ..streaming.upgrade import is_key_refused
from ..user_modules import shipped
from ..worker import Settings as WorkerSettings
from ..worker import dumped
from .shape import Role, Shape
from .sinks import Sinks
from .steps import ROWS, Out, Step, Steps, Way
from .wire import AT, Collection, ResultRows, RowPlan, RowReader, SourceRows, with_begun

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...state.environment.graph import Edge, Transformation
    from ...state.environment.settings import Settings
    from ...state.migration.options import MigrationOptions
    from .shape import Place

_FOR_EVER = timedelta(days=3650)
_MOST_ROWS = 100_000
"""How many elements of a source a batch has at most."""
_KEY_ADVICE = (
    "keep the type of the keys: key_by(…, key_type=…); if PyFlink wrote the savepoint, run the program once without"
    ' Spark, by execute(savepoint="FOLDER", on_incompatible="migrate"), and start from that savepoint'
)
_STATE, _SPARK, _SINKS = "state", "spark", "sinks"


def run_on_spark(
    last: Iterable[Transformation],
    settings: Settings,
    session: Any,
    checkpoint: str | os.PathLike[str],
    savepoint: str,
    on_incompatible: str,
    options: MigrationOptions,
) -> JobExecutionResult:
    """Run a program on Spark to the end of its input; see `StreamExecutionEnvironment.execute`.

    Args:
        last: The transformations that the program ends with.
        settings: What holds for the run.
        session: The session of Spark.
        checkpoint: The folder of the checkpoint.
        savepoint: Where a savepoint is written at the end; "": none is.
        on_incompatible: What happens where state needs a migration.
        options: The options of the check and the migration.
    """
    start = monotonic()
    refuse_connect(session, "a program")
    shape = Shape(last, settings)
    folder = Folder.at(checkpoint)
    if savepoint:
        check_target(Folder.at(savepoint))
    begins = _savepoint(settings, folder)
    if begins is not None:
        refuse_unclaimed(begins, shape.uids.values(), settings)
    query = Query(shape, session, folder)
    with Sinks(shape, folder.folder(_SINKS), begins) as sinks:
        query.run(sinks, on_incompatible, options, ends_time=not savepoint)
        if savepoint:
            query.take_savepoint(savepoint)
        sinks.finish()
    return JobExecutionResult(query.job.token, round((monotonic() - start) * 1000), savepoint, folder.place)


def _savepoint(settings: Settings, folder: Folder) -> Savepoint | None:
    """Return the savepoint that the program starts from; None: there is none, or the query has begun and it is gone."""
    if not settings.savepoint:
        return None
    try:
        return Savepoint.open(settings.savepoint)
    except SavepointNotFound:
        if last_planned(folder.folder(_SPARK)) is None:
            raise
        return None


class Query:
    """The query of a program.

    Args:
        shape: The program.
        session: The session of Spark.
        folder: The folder of the checkpoint.
    """

    def __init__(self, shape: Shape, session: SparkSession, folder: Folder) -> None:
        self._shape, self._spark, self._checkpoint = shape, session, folder.folder(_SPARK)
        self._state = folder.folder(_STATE)
        values = shape.settings.configuration.values
        done = {key: value for key, value in values.items() if known_options()[key].effect == "done"}
        self.job = StreamJob(
            self._state.place,
            self._checkpoint.place,
            slots=shape.slots,
            max_parallelism=shape.max_parallelism,
            configuration=done,
        )
        given = self.job.plan
        self._plan = RowPlan(given.run, given.backend, given.output_mode, given.blob_bytes)
        self._own = tuple((kind, serializer_for(kind)) for kind in registry.python_types())
        self._frames: dict[Transformation, DataFrame] = {}
        for one in shape.of(Role.SOURCE):
            self._frames[one] = self._source(one)
        *inputs, sinks = shape.places
        for one in shape.of(Role.OPERATOR):
            self._frames[one] = self._operator(one, [place for place in inputs if place.operator is one])
        ends = [self._behind(origin, sinks) for origin in self._ends(sinks)]
        self._results = reduce(type(ends[0]).unionByName, ends)

    def _ends(self, sinks: Place) -> list[Transformation]:
        """Return what the query ends with: what sinks take elements of, and what nothing does."""
        taken = {origin for place in self._shape.places[:-1] for origin in self._shape.origins(place)}
        return list(dict.fromkeys([*self._shape.origins(sinks), *(one for one in self._frames if one not in taken)]))

    def _source(self, one: Transformation) -> DataFrame:
        job, uid = self.job, self._shape.uids[one]
        function = Collection(one.body.elements, one.name) if isinstance(one.body, Elements) else one.body
        spec = SourceSpec(uid, b"", job.max_parallelism or DEFAULT_KEY_GROUPS, _MOST_ROWS, has_times=True)
        job.sources[uid], job.functions[uid] = spec, function
        rows, wait_s = SourceRows(ANY), _FOR_EVER.total_seconds()
        return source_frame(self._spark, with_begun(function), spec, job.plan.run, rows, AT, wait_s)

    def _operator(self, one: Transformation, places: list[Place]) -> DataFrame:
        shape, job = self._shape, self.job
        key = None if one.key_type is None else serializer_for(one.key_type)
        inputs = [self._input(place, key) for place in places]
        ranks = [min((shape.rank(origin) for origin in shape.origins(place)), default=0) for place in places]
        plan = job.plan = attrs.evolve(self._plan, order=tuple(sorted(range(len(ranks)), key=ranks.__getitem__)))
        readers = tuple(
            RowReader(ANY, ("value",), one.key, one.key_columns, AT if one.spec.delay_ms is not None else "")
            for one in inputs
        )
        used = [edge for place in shape.places for edge in self._entries(one, place)]
        writer = ResultRows(ANY, tags=frozenset(None if edge.tag is None else edge.tag.tag_id for edge in used))
        settings = WorkerSettings.of(self._spark)
        with shipped(self._spark, (one.body, settings.additions, self._own)):
            spec = OperatorSpec(
                shape.uids[one],
                dumped(one.body),
                key,
                tuple(given.spec for given in inputs),
                plan.backend,
                in_order=False,
                is_timed=True,
            )
        return job.add_work(inputs, Work(spec, readers, writer, settings, self._own, one.body))

    def _input(self, place: Place, key: Any) -> Input:
        has_keys = key is not None and any(edge.partition is Partition.KEYED for edge in place.edges)
        to_all = any(edge.partition is Partition.BROADCAST for edge in place.edges)
        spec = attrs.evolve(self._shape.specs[place], has_keys=has_keys)
        frames = [self._behind(origin, place) for origin in self._shape.origins(place)]
        df = reduce(type(frames[0]).unionByName, frames)
        at = AT if spec.delay_ms is not None else ""
        return Input(df, None, at, spec, key if has_keys else None, ("key",) if has_keys else (), to_all)

    def _entries(self, origin: Transformation, place: Place) -> list[Edge]:
        """Return the edges by which elements leave a source or operator for a place."""
        steps = self._shape.steps(origin, place)
        edges = [*place.edges, *(edge for step in steps for edge in step.inputs[0])]
        return [edge for edge in edges if edge.origin is origin]

    def _behind(self, origin: Transformation, place: Place) -> DataFrame:
        """Return the elements of a source or operator behind the steps to a place."""
        shape, steps = self._shape, self._shape.steps(origin, place)
        numbers = {one: number for number, one in enumerate(steps)}

        def ways(one: Transformation) -> tuple[Way, ...]:
            to_steps = [(edge, numbers[step], 0) for step in steps for edge in step.inputs[0] if edge.origin is one]
            outs = [(edge, None, number) for number, edge in enumerate(place.edges) if edge.origin is one]
            return tuple(_way(one, edge, step, out) for edge, step, out in (*to_steps, *outs))

        made = tuple(Step(attrs.evolve(one, inputs=((),), key_type=None), shape.uids[one], ways(one)) for one in steps)
        outs = tuple(_out(shape, place, number) for number in range(len(place.edges)))
        settings = WorkerSettings.of(self._spark)
        work = Steps(self.job.plan.run, settings, self._own, origin.title, ways(origin), made, outs)
        with shipped(self._spark, (work,)):
            return self._frames[origin].mapInArrow(work, ROWS)

    # The run

    def run(self, sinks: Sinks, on_incompatible: str, options: MigrationOptions, *, ends_time: bool) -> None:
        """Run the query to the end of its input.

        Args:
            sinks: The sinks.
            on_incompatible: What happens where state needs a migration.
            options: The options of the check and the migration.
            ends_time: Whether event time ends then.
        """
        from pyspark.errors import StreamingQueryException

        try:
            query = self.job.start(
                self._writer(sinks),
                on_incompatible=on_incompatible,
                options=options,
                available_now=True,
                from_savepoint=self._shape.settings.savepoint or None,
                allow_non_restored_state=bool(self._shape.settings.savepoint),  # `refuse_unclaimed` has looked
            )
            query.awaitTermination()
            if ends_time and self.job.operators:
                self.job.drain(self._writer(sinks))
        except RestoreRefused as error:
            if error.report.decision is not Decision.REFUSE:
                error.advice = 'pass on_incompatible="migrate" to execute: the state is migrated before the start'
            elif is_key_refused(error):
                error.advice = _KEY_ADVICE
            raise
        except StreamingQueryException:
            if sinks.error is not None:
                raise sinks.error from None
            raise

    def _writer(self, sinks: Sinks) -> DataStreamWriter:
        return self._results.writeStream.foreachBatch(sinks.take)

    def take_savepoint(self, target: str) -> None:
        """Write the state as a savepoint, without how far collections were read: a program gets them all again."""
        collections = [one for one in self._shape.of(Role.SOURCE) if isinstance(one.body, Elements)]
        drop = tuple(f"{self._shape.uids[one]}/{DEFAULT_STATE}" for one in collections)
        take_savepoint(self._state.place, target, session=self._spark, drop=drop)


def _way(one: Transformation, edge: Edge, step: int | None, out: int) -> Way:
    if edge.tag is None:
        return Way(None, one.output_type, step, out)
    return Way(edge.tag.tag_id, edge.tag.type_info, step, out)


def _out(shape: Shape, place: Place, number: int) -> Out:
    edge = place.edges[number]
    if place.operator is None:
        return Out(shape.sink_of(number).title)
    is_keyed = edge.partition is Partition.KEYED and place.operator.key_type is not None
    key = serializer_for(place.operator.key_type) if is_keyed else None
    return Out(place.operator.title, key, edge.selector if is_keyed else None)
