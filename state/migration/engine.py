"""Who carries out the tasks of a run: this process, or Spark where that is done sooner, its start included."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .rekey_task import READING_BYTES, RekeyTask
from .tasks import CopyTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tasks import Task

SPARK_START_S = 6.0
"""How long it takes, about, until the first task runs on Spark: a JVM, a context, a Python worker."""


class Engine(enum.StrEnum):
    """Who carries out tasks."""

    PROCESS = "process"
    SPARK = "spark"


def seconds_on_spark(seconds: float, cores: int) -> float:
    """Tell how long tasks take on Spark, about, with its start.

    Args:
        seconds: How long they take one after the other.
        cores: How many run at a time.
    """
    return SPARK_START_S + seconds / max(cores, 1)


def choose_engine(tasks: Sequence[Task], seconds: float, cores: int, *, with_spark: bool = False) -> Engine:
    """Choose who carries out a run: who is done first.

    Where keys are written anew, Spark also sorts what this process would have to hold.

    Args:
        tasks: All of them.
        seconds: About how long they take one after the other.
        cores: How many would run at a time on Spark.
        with_spark: Whether Spark is named. Where files are only to be copied, it is not started for that either.
    """
    if all(isinstance(task, CopyTask) for task in tasks):
        return Engine.PROCESS
    held_bytes = sum(task.size_bytes for task in tasks if isinstance(task, RekeyTask))
    is_sooner = seconds <= seconds_on_spark(seconds, cores) and held_bytes <= READING_BYTES
    return Engine.PROCESS if is_sooner and not with_spark else Engine.SPARK
