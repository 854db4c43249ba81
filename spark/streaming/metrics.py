"""The metrics of an operator, in the progress of its query: `progress.observedMetrics[uid]`.

Each slot that runs returns its metrics with its results, and Spark sums them up on their way (`DataFrame.observe`), so
they cost no pass over the rows. A task that fails is not counted. Where Spark computes a batch twice, as `foreachBatch`
does with two actions, it counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...state.streaming.measures import SlotMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_SQL = {"int": "bigint", "float": "double"}
_SUMS = {one.name: kind for one in attrs.fields(SlotMetrics) if (kind := _SQL.get(str(one.type)))}
"""The figures that are summed over the slots."""

_KIND = (
    ", ".join(f"{name} {kind}" for name, kind in _SUMS.items())
    + ", watermark_ms bigint, own array<struct<name: string, how: string, value: bigint>>"
)
_OWN = """
transform(array(flatten(collect_list(metrics.own))), own -> map_from_entries(
    transform(array_distinct(transform(own, one -> struct(one.name, one.how))), metric -> struct(
        metric.name,
        CASE metric.how
            WHEN 'sum' THEN aggregate(own, 0L, (sum, one) -> if(one.name = metric.name, sum + one.value, sum))
            WHEN 'min' THEN array_min(transform(filter(own, one -> one.name = metric.name), one -> one.value))
            ELSE array_max(transform(filter(own, one -> one.name = metric.name), one -> one.value))
        END
    ))
))[0]
"""
"""The figures of the function's metrics by name: those of all slots, joined as each figure says."""


def measured(packed: DataFrame, uid: str) -> DataFrame:
    """Return packed results without their metrics, which become those of an operator in the progress of the query.

    Args:
        packed: Packed results, with the metrics of each slot.
        uid: The uid of the operator.
    """
    from pyspark.sql import functions

    read = packed.withColumn("metrics", functions.from_json("metrics", _KIND))
    sums = [functions.expr(f"coalesce(sum(metrics.{name}), 0)").alias(name) for name in _SUMS]
    return read.observe(
        uid,
        functions.count("metrics").alias("slots"),
        *sums,
        functions.min("metrics.watermark_ms").alias("watermark_ms"),
        functions.expr(_OWN).alias("metrics"),
    ).drop("metrics")


def observed(results: DataFrame) -> Iterator[str]:
    """Yield the names of the observed metrics in a query, one for each time that the operator occurs in it."""
    plans: list[Any] = [results._jdf.queryExecution().analyzed()]  # noqa: SLF001 - only Java has the plan
    while plans:
        plan = plans.pop()
        if plan.nodeName() == "CollectMetrics":
            yield plan.name()
        children = plan.children()
        plans += [children.apply(index) for index in range(children.size())]
