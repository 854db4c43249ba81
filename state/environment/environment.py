"""`StreamExecutionEnvironment`: where a program begins, and how it is run."""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ...serializers.errors import DeclarationError, shown
from ...serializers.hints import serializer_for
from ...serializers.rows.values import Row
from ..backends.restore_check import RESTORING
from ..runtime.files import FileSource
from ..runtime.sources import SourceFunction
from .execution import JobExecutionResult, LocalRun
from .files import FileLines
from .graph import Edge, Transformation
from .settings import Settings
from .streams import DataStream, type_of
from .typed import passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import Enum

    from ..job import Job
    from ..migration.options import MigrationOptions
    from ..runtime.sources import SourceContext
    from ..runtime.watermarks import WatermarkStrategy


class Elements(SourceFunction):
    """Emits the elements of a collection. It has no state: a program that is restored gets them all again, as in Flink.

    Args:
        elements: The elements.
        is_ordered: Whether the collection had an order.
    """

    def __init__(self, elements: list[Any], *, is_ordered: bool = True) -> None:
        self.elements, self.is_ordered = elements, is_ordered

    def __deepcopy__(self, _: Any) -> Elements:
        return self

    def run(self, ctx: SourceContext) -> None:
        collect = ctx.collect
        for element in self.elements:
            collect(element)

    def cancel(self) -> None:
        """Do nothing: a local run ends a source at its next element."""


class CheckpointConfig:
    """Settings of checkpoints. A checkpoint is taken between two elements, so most have no effect, with a warning.

    Args:
        env: The environment.
    """

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env

    def _set(self, key: str, value: Any) -> Self:
        self._env.configure({f"execution.checkpointing.{key}": value})
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return self._env.settings.checkpoint_ms is not None

    def get_checkpoint_interval(self) -> int:
        """Return how often, in milliseconds; -1: never."""
        return self._env.get_checkpoint_interval()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> Self:
        """Set how often, in milliseconds."""
        return self._set("interval", f"{checkpoint_interval} ms")

    def set_checkpointing_mode(self, checkpointing_mode: Enum) -> Self:
        """Have no effect, with a warning."""
        return self._set("mode", checkpointing_mode.name)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> Self:
        """Have no effect, with a warning."""
        return self._set("timeout", checkpoint_timeout)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> Self:
        """Have no effect, with a warning."""
        return self._set("min-pause", min_pause_between_checkpoints)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> Self:
        """Have no effect, with a warning."""
        return self._set("max-concurrent-checkpoints", max_concurrent_checkpoints)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> Self:
        """Have no effect, with a warning: a checkpoint that fails ends the run."""
        return self._set("tolerable-failed-checkpoints", tolerable_checkpoint_failure_number)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - as in PyFlink
        """Have no effect, with a warning."""
        return self._set("unaligned.enabled", enabled)

    def disable_unaligned_checkpoints(self) -> Self:
        """Have no effect, with a warning."""
        return self.enable_unaligned_checkpoints(enabled=False)


class ExecutionConfig:
    """Further settings of an environment.

    Args:
        env: The environment.
    """

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env

    def set_auto_watermark_interval(self, interval: int) -> Self:
        """Set how often watermarks are made, in milliseconds; 0: at the end of the input only."""
        self._env.configure({"pipeline.auto-watermark-interval": f"{interval} ms"})
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return how often watermarks are made, in milliseconds."""
        return self._env.settings.auto_watermark_ms


class StreamExecutionEnvironment:
    """Runs stream programs in this process: for development, tests and small data.

    There is one thread and no network, whatever the parallelism. Bounded input ends with a watermark that fires all
    timers of event time and all windows of event time; pending timers of processing time do not fire, as in Flink.

    Attributes:
        settings: What holds for a run.
        on_spark: Runs a program on Spark, which this package does not know; `stateshift.pyflink` sets it.
    """

    on_spark: ClassVar[Callable[..., JobExecutionResult] | None] = None

    def __init__(self) -> None:
        self.settings = Settings.of_places()
        self._pending: list[Transformation] = []

    @staticmethod
    def get_execution_environment(configuration: Any = None) -> StreamExecutionEnvironment:
        """Return a new environment.

        Args:
            configuration: A `Configuration`, a dict of values by Flink's keys, or the path of a file like Flink's
                `config.yaml`. Such a file in the folder that FLINK_CONF_DIR names is read anyway; this wins.

        Raises:
            DeclarationError: A key is unknown or refused, or a value does not have the type of its key.
        """
        env = StreamExecutionEnvironment()
        return env if configuration is None else env.configure(configuration)

    # Settings

    def configure(self, configuration: Any) -> Self:
        """Set values by Flink's keys; arguments and errors as of `get_execution_environment`."""
        self.settings = self.settings.updated(configuration)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of operators that set none; by default 1."""
        return self.configure({"parallelism.default": parallelism})

    def get_parallelism(self) -> int:
        """Return the number of subtasks of operators that set none."""
        return self.settings.parallelism

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that set none; by default of the savepoint, or 128 and more."""
        return self.configure({"pipeline.max-parallelism": max_parallelism})

    def get_max_parallelism(self) -> int | None:
        """Return the number of key groups that is set; None: none is."""
        return self.settings.max_parallelism

    def set_runtime_mode(self, execution_mode: Enum) -> Self:
        """Set whether all input is there before the first result: `RuntimeExecutionMode.BATCH`.

        Then there are no watermarks before the end, and keyed `reduce` has one result for a key. Flink sorts the
        elements, too; here they stay in their order.

        Raises:
            DeclarationError: It is AUTOMATIC, or there are operators already.
        """
        if self._pending:
            raise DeclarationError("the mode is set after the first operators", advice="set it before")
        return self.configure({"execution.runtime-mode": execution_mode.name})

    @property
    def is_batch(self) -> bool:
        """Whether the mode is BATCH."""
        return self.settings.is_batch

    def get_config(self) -> ExecutionConfig:
        """Return further settings."""
        return ExecutionConfig(self)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints."""
        return CheckpointConfig(self)

    def enable_checkpointing(self, interval: int, mode: Any = None) -> Self:
        """Have a checkpoint taken between two elements when so much time has passed, and one at the end.

        Args:
            interval: The time in milliseconds.
            mode: Has no effect: nothing is on its way when a checkpoint is taken.
        """
        return self.configure({"execution.checkpointing.interval": f"{interval} ms"})

    def get_checkpoint_interval(self) -> int:
        """Return that time; -1: no checkpoints are taken."""
        found = self.settings.checkpoint_ms
        return -1 if found is None else found

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Do nothing: `execute` says where a savepoint is written."""
        return self

    def disable_operator_chaining(self) -> Self:
        """Do nothing: operators are not chained."""
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Do nothing: there are no buffers."""
        return self

    # Sources

    def from_collection(self, collection: Iterable[Any], type_info: Any = None) -> DataStream:
        """Return the elements of a collection as a stream.

        Args:
            collection: The elements.
            type_info: Their type; for that of a row they may be tuples. None: they have none.

        Raises:
            ValueNotConvertible: An element does not fit the type.
        """
        elements, typed = list(collection), type_of(type_info)
        if typed is not None:
            of_rows = serializer_for(typed).snapshot_configuration().kind == "row"
            rows = (Row._of(one) if of_rows and isinstance(one, tuple | list) else one for one in elements)  # noqa: SLF001
            elements = list(map(passing(typed), rows))
        body = Elements(elements, is_ordered=not isinstance(collection, AbstractSet))
        made = Transformation(body, "Collection Source")
        return DataStream(self, self.added(made)._edges, typed)  # noqa: SLF001 - its own package

    def from_source(
        self, source: Any, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> DataStream:
        """Return what a source emits as a stream.

        Args:
            source: A `FileSource`, whose elements are lines; or a `SourceFunction`, which PyFlink does not take.
            watermark_strategy: The time stamps and watermarks of the elements.
            source_name: The name of the source.
            type_info: The type of the elements; None: they have none, and those of files are strings.

        Raises:
            DeclarationError: It is another source, or new files are to be looked for without an end.
        """
        if isinstance(source, FileSource):
            source, type_info = FileLines(source), str if type_info is None else type_info
        stream = self.add_source(source, source_name, type_info)
        if watermark_strategy.max_out_of_orderness is None and watermark_strategy.timestamp_assigner is None:
            return stream
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    def add_source(
        self, source_func: SourceFunction, source_name: str = "Custom Source", type_info: Any = None
    ) -> DataStream:
        """Return what a source function emits as a stream.

        It runs in this thread until it returns, or until `execute_and_collect` has what it wants. Its state is part of
        checkpoints, which are taken when it leaves the checkpoint lock.

        Args:
            source_func: The function.
            source_name: The name of the source.
            type_info: The type of the elements; None: they have none.

        Raises:
            DeclarationError: It is another one.
        """
        if not isinstance(source_func, SourceFunction):
            raise DeclarationError(
                f"{shown(source_func)} is no source that runs here", advice="use a FileSource or a SourceFunction"
            )
        return self.added(Transformation(source_func, source_name, output_type=type_of(type_info)))

    def added(self, transformation: Transformation) -> DataStream:
        """Return the results of a new transformation, which the next `execute` runs."""
        self._pending.append(transformation)
        return DataStream(self, (Edge(transformation),), transformation.output_type)

    # Runs

    def execute(
        self,
        job_name: str | None = None,
        *,
        savepoint: str | os.PathLike[str] | None = None,
        on_incompatible: str = "refuse",
        options: MigrationOptions = RESTORING,
        spark: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> JobExecutionResult:
        """Run all that was declared since the last run, to the end of its input: in this process, or on Spark.

        Args:
            job_name: The name of the job.
            savepoint: A folder for a savepoint, which is taken when all input was read. Then event time does not end:
                timers and windows stay in the savepoint, for a program that goes on from it (Flink's stop without
                `--drain`). None: none, and event time ends.
            on_incompatible: What happens where state of `execution.savepoint.path` needs a migration: "refuse"; or
                "migrate", into a new folder beside it.
            options: The options of the check and the migration.
            spark: A session of Spark, which runs the program. Sources run beside it, functions in its workers, and
                sinks in this process. A batch that fails leaves no trace in state, and its results come again.
                What a `FileSink` writes is there once. Another sink gets a batch once, unless this process dies, or the
                sink fails, in the midst of it: then the whole batch comes again. None: it is run in this process.
            checkpoint: With `spark`: the folder of Spark's checkpoint and of the state. A program that was run with it
                before goes on from there, also where it died: with what its sources have further. Its elements are not
                read again, and `execution.savepoint.path` counts at its first run alone.

        Raises:
            RestoreRefused: The functions cannot go on from the state, or not without a migration; nothing was run.
            DeclarationError: The program cannot be run as it is declared; or Spark cannot carry it.
            TargetExists: The folder of the savepoint is not empty.
            StreamingQueryException: A function failed on Spark; it begins with what the function raised.
        """
        for name, given in (("savepoint", savepoint), ("checkpoint", checkpoint)):
            if not isinstance(given, str | os.PathLike | None):
                raise DeclarationError(f"the {name} is {shown(given)}, not a folder", advice="name one, or None")
        target = "" if savepoint is None else str(savepoint)
        if (spark is None) != (checkpoint is None):
            raise DeclarationError(
                "a program on Spark needs a folder for its checkpoint"
                if checkpoint is None
                else f"the checkpoint {checkpoint} is one of Spark, and no session is given",
                advice='execute(spark=session, checkpoint="FOLDER")'
                + ("" if checkpoint is None else "; local checkpoints are in execution.checkpointing.dir"),
            )
        if spark is None:
            return self.run(lambda: False, target, on_incompatible, options)
        if self.on_spark is None:
            raise DeclarationError(
                "this environment knows no Spark", advice="import it from stateshift.pyflink.datastream"
            )
        return self.on_spark(self._taken(), self.settings, spark, checkpoint, target, on_incompatible, options)

    def declared_job(self) -> Job:
        """Return the keyed states that the program declares, as PyFlink keeps them: what `--job` of a program means.

        Functions are opened, and nothing is run.

        Raises:
            DeclarationError: An operator with state has no uid.
        """
        from .declared import declared_job

        return declared_job(self._pending)

    def run(
        self,
        is_enough: Callable[[], bool],
        savepoint: str = "",
        on_incompatible: str = "refuse",
        options: MigrationOptions = RESTORING,
    ) -> JobExecutionResult:
        """As `execute`, until there is enough; streams call it."""
        try:
            return LocalRun(self._taken(), self.settings, on_incompatible, options, is_enough).run(savepoint)
        except Exception as error:
            error.with_traceback(_shortened(error.__traceback__))
            raise

    def _taken(self) -> list[Transformation]:
        """Return what was declared since the last run, and forget it."""
        last, self._pending = self._pending, []
        if not last:
            raise DeclarationError("there is nothing to run: no operator was declared since the last run")
        return last


_PACKAGE = __name__.partition(".")[0] + "."


def _shortened(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package, as there are a dozen for each operator, but for the last.

    So a program's own frames are seen, and where the error was raised.
    """
    frames = []
    while trace is not None:
        if trace.tb_next is None or not trace.tb_frame.f_globals["__name__"].startswith(_PACKAGE):
            frames.append(trace)
        trace = trace.tb_next
    following = None
    for one in reversed(frames):
        following = TracebackType(following, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return following
