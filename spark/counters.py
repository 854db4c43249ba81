"""Entries and bytes that runs have read, as Spark accumulators: in its metrics, for its metrics pages and any sink.

    http://DRIVER:4040/metrics/json/    <application>.driver.AccumulatorSource.stateshift.entries

The driver counts when streams are finished. The page of a stage lists other accumulators: those that its tasks update
in Java. A task in Python cannot update them; Spark has one unnamed accumulator for the updates of all Python tasks.
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
"""Entries and bytes read for finished streams, in all runs of an application."""

_accumulators: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()


def counted(context: SparkContext, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return a progress function that counts the steps of a run, and passes them on to `tell`.

    Args:
        context: The context with the accumulators, which add up all its runs.
        tell: The next progress function; each step has the totals so far.
    """
    before = dict.fromkeys((ENTRIES, BYTES), 0)

    def count(step: Progress) -> None:
        with suppress(Exception):  # a platform may hide its JVM; the run goes on
            accumulators = accumulators_of(context)
            for name, done in ((ENTRIES, step.entries), (BYTES, step.bytes_done)):
                accumulators[name].add(done - before[name])
                before[name] = done
        tell(step)

    return count


def accumulators_of(context: SparkContext) -> dict[str, Any]:
    """Return the accumulators of an application by name; they are registered once."""
    if context not in _accumulators:
        java, jvm = context._jsc.sc(), cast("Any", context._jvm)  # noqa: SLF001 - there is no other way
        made = {name: java.longAccumulator(name) for name in (ENTRIES, BYTES)}
        source = getattr(jvm.org.apache.spark.metrics.source, "LongAccumulatorSource$")
        getattr(source, "MODULE$").register(java, jvm.PythonUtils.toScalaMap(made))
        _accumulators[context] = made
    return _accumulators[context]
