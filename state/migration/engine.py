"""The choice of the engine that runs the tasks: this process, or Spark if it finishes sooner, its start included."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ..runner import READING_BYTES
from .tasks import CopyTask, RekeyTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tasks import Task

SPARK_START_S = 6.0
"""The approximate time until the first task runs on Spark: a JVM, a context, a Python worker."""


class Engine(enum.StrEnum):
    """The engines that run tasks."""

    PROCESS = "process"
    SPARK = "spark"


def seconds_on_spark(seconds: float, cores: int, longest: float = 0.0) -> float:
    """Return the approximate time that tasks take on Spark, including its start.

    Args:
        seconds: The time of the tasks one after the other.
        cores: The number of tasks that run at a time.
        longest: The time of the longest task, which one core runs.
    """
    return SPARK_START_S + max(seconds / max(cores, 1), longest)


def choose_engine(
    tasks: Sequence[Task], seconds: float, cores: int, longest: float = 0.0, *, with_spark: bool = False
) -> Engine:
    """Return the engine that finishes a run first.

    Spark is also chosen if keys are rewritten and this process would have to hold too much state.

    Args:
        tasks: All tasks.
        seconds: The approximate time of the tasks one after the other.
        cores: The number of tasks that would run at a time on Spark; 0: there is no Spark.
        longest: The approximate time of the longest task that Spark does not divide.
        with_spark: Whether Spark is requested. It is not started even then if files are only copied.
    """
    if not cores or all(isinstance(task, CopyTask) for task in tasks):
        return Engine.PROCESS
    held_bytes = sum(task.size_bytes for task in tasks if isinstance(task, RekeyTask))
    is_sooner = seconds <= seconds_on_spark(seconds, cores, longest) and held_bytes <= READING_BYTES
    return Engine.PROCESS if is_sooner and not with_spark else Engine.SPARK
