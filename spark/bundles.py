"""Runs tasks on a session of any kind, in bundles: each bundle is one task of Spark.

tasks -> bundles -> a function that yields pickled answers, on the workers -> all answers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .connect import SLOTS, collect_answers, is_connect
from .jobs import run_in_group, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .sessions import Driver


class Sized(Protocol):
    """Work of a known size."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        ...


def slots_of(spark: Driver) -> int:
    """Return the number of tasks that a session runs at a time."""
    return SLOTS if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def bundled(tasks: Sequence[Sized], slots: int) -> list[list[int]]:
    """Distribute tasks, the largest first, to one bundle per slot: few large bundles cost Spark the least."""
    bundles: list[list[int]] = [[] for _ in range(min(slots, len(tasks)))]
    sizes = [0] * len(bundles)
    for index in sorted(range(len(tasks)), key=lambda index: -tasks[index].size_bytes):
        smallest = sizes.index(min(sizes))
        bundles[smallest].append(index)
        sizes[smallest] += tasks[index].size_bytes + 1
    return bundles


def run_bundles(
    spark: Driver,
    work: Callable[[Iterable[list[int]]], Iterator[bytes]],
    bundles: list[list[int]],
    look: Callable[[int], None],
    description: str,
    told: Callable[[Exception], Exception],
    **where: Any,
) -> list[bytes]:
    """Run bundles, and return all answers.

    Args:
        spark: The session.
        work: A function that runs bundles in a worker, and yields answers.
        bundles: The bundles: the indices of their tasks.
        look: A function that is called regularly with the number of finished bundles, which Spark Connect does not
            report: there it is 0. An error in it ends the work.
        description: The description of the job on Spark's pages.
        told: A function that returns the error to raise for an error of Spark.
        where: The location, for the error on an ended JVM.
    """
    if not is_connect(spark):
        context = spark.sparkContext
        return run_in_group(
            context,
            lambda: context.parallelize(bundles, len(bundles)).mapPartitions(work).collect(),
            lambda group: look(tasks_of(context, group)[0]),
            description,
            told,
            **where,
        )
    try:
        return collect_answers(spark, work, bundles, lambda: look(0))
    except Exception as error:
        failure = told(error)
        if failure is error:
            raise
        raise failure from error
