"""Entries and bytes of runs as accumulators of Spark, which its metrics tell: beside its pages, and in any sink.

    http://DRIVER:4040/metrics/json/    <application>.driver.AccumulatorSource.stateshift.entries

The driver counts, as streams are finished. The page of a stage lists other accumulators: those that its tasks count
into in Java. A task in Python cannot; Spark has one accumulator, without a name, for whatever all of them send.
Source: Spark's `LongAccumulatorSource`; `DAGScheduler.updateAccumulators`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from ..state.progress import Progress

ENTRIES, BYTES = "stateshift.entries", "stateshift.bytes"
"""Entries and bytes that were read for finished streams, of all runs in an application."""

_accumulators: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()


def counted(context: SparkContext, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Count what the steps of a run tell, on their way to `tell`.

    Args:
        context: Whose accumulators count: they go on from run to run.
        tell: Takes the steps, each with all that is done so far.
    """
    before = dict.fromkeys((ENTRIES, BYTES), 0)

    def count(step: Progress) -> None:
        with suppress(Exception):  # a platform may keep its JVM to itself; the run goes on
            accumulators = accumulators_of(context)
            for name, done in ((ENTRIES, step.entries), (BYTES, step.bytes_done)):
                accumulators[name].add(done - before[name])
                before[name] = done
        tell(step)

    return count


def accumulators_of(context: SparkContext) -> dict[str, Any]:
    """Give the accumulators of an application by name; registered once."""
    if context not in _accumulators:
        java, jvm = context._jsc.sc(), cast("Any", context._jvm)  # noqa: SLF001 - there is no other way
        made = {name: java.longAccumulator(name) for name in (ENTRIES, BYTES)}
        source = getattr(jvm.org.apache.spark.metrics.source, "LongAccumulatorSource$")
        getattr(source, "MODULE$").register(java, jvm.PythonUtils.toScalaMap(made))
        _accumulators[context] = made
    return _accumulators[context]
