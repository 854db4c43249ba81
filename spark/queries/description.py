"""`describe`: the stateful operators of a streaming query that was not started, and those of a checkpoint beside them.

query = describe(spark.readStream.….groupBy("k").agg(sum("n")))
query.computations[0].stores["default"].value      # the types that Spark would write
query.computations[0].columns["default"]           # {"key.k": "k", "value.sum": "sum(n)"}: what stands in them

A checkpoint has the types alone: what stands in the columns is known of a query, and of a recording of one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ...compat.description import JobDescription
from ...compat.queries.columns import group_of
from ...compat.queries.description import describe_query_operator
from ...compat.queries.kinds import JOIN, LIMIT
from ...compat.queries.plan_text import Detail, details_in, unmarked
from ...serializers.errors import UnsupportedFormat
from ...serializers.spark_rows.pairing import KEY, VALUE
from ...serializers.spark_rows.spark_types import StoreSchema, numbered
from ...serializers.ways_out import WayOut
from ...state.formats.spark.reader import SparkCheckpoint
from .planning import UnstartedQuery, planned

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.description import OperatorDescription
    from ...compat.queries.plan_operators import Column, PlannedOperator
    from ...state.formats.spark.logs import PlannedBatch
    from ...state.formats.spark.reader import SparkOperator
    from .planning import Planned


def describe(
    query: DataFrame | DataStreamWriter,
    *,
    checkpoint: str | os.PathLike[str] = "",
    output_mode: str = "",
) -> JobDescription:
    """Return the stateful operators of a streaming query that was not started.

    Spark plans the query as for its first batch. Nothing is started, and no source is read; of transformWithState Spark
    calls `init`, in a process of its own.

    Args:
        query: A streaming DataFrame, or a writer of one before `start()`.
        checkpoint: A checkpoint, whose pinned settings Spark takes for the plan; by default those of the session.
        output_mode: `append`, `update` or `complete`; by default that of the writer, and `append` for a DataFrame.

    Raises:
        DeclarationError: The query is neither, or no streaming one.
        UnsupportedFormat: Queries are not planned with this release of Spark, or the plan has an operator that is not
            known.
        StateShiftError: Spark does not plan the query.
    """
    unstarted = UnstartedQuery.of(query, output_mode=output_mode)
    return describe_under(unstarted, SparkCheckpoint.open(checkpoint).log.last if checkpoint else None)


def describe_under(query: UnstartedQuery, batch: PlannedBatch | None, origin: str = "query") -> JobDescription:
    """Return the stateful operators of a query under the settings that a batch pins; see `describe`."""
    with planned(query, None if batch is None else batch.settings) as plan:
        return describe_planned(plan, origin)


def describe_planned(plan: Planned, origin: str) -> JobDescription:
    """Return the stateful operators of a planned query; see `describe`."""
    found = _paired(plan.state.operators, plan.query.operators)
    return JobDescription(
        origin,
        tuple(_operator(one, of, origin) for one, of in found),
        sources=plan.query.sources,
        settings=plan.settings,
        spark=plan.spark,
        inputs=plan.query.inputs,
    )


def _paired(
    found: tuple[SparkOperator, ...], listed: tuple[PlannedOperator, ...]
) -> Iterator[tuple[SparkOperator, PlannedOperator]]:
    """Pair what Spark wrote of each operator with what the plan says of it: both are in the order of Spark's numbers.

    Raises:
        UnsupportedFormat: They are not the same operators.
    """
    has_limit = any(one.kind == LIMIT for one in found)
    left = [one for one in listed if has_limit or one.kind != LIMIT]  # outside of append a limit keeps nothing
    if len(left) != len(found) or any(not one.kind.startswith(of.kind) for one, of in zip(found, left, strict=True)):
        ours, theirs = (", ".join(one.kind for one in side) or "none" for side in (left, found))
        raise UnsupportedFormat(
            f"the plan has stateful operators that are not known: Spark counts {theirs}; the plan was read as {ours}",
            advice=WayOut("compare two checkpoints instead:", command="stateshift diff spark:OLD spark:NEW"),
        )
    return zip(found, left, strict=True)


def _operator(operator: SparkOperator, plan: PlannedOperator, origin: str) -> OperatorDescription:
    described, unseen = operator.description, plan.unseen
    stored = described.computation
    assert stored is not None  # noqa: S101 - it is of a query
    for schema in stored.stores.values():
        if plan.values and len(schema.value.fields) - len(plan.values) not in {0, len(plan.keys)}:
            plan, unseen = attrs.evolve(plan, values=()), (*unseen, "what each aggregate is computed from")
    marked = {name: _columns(name, schema, plan) for name, schema in stored.stores.items()}
    computation = attrs.evolve(
        stored,
        columns={name: {path: unmarked(text) for path, text in texts.items()} for name, texts in marked.items()},
        facts={unmarked(name): unmarked(text) for name, text in plan.facts.items()},
        unseen=unseen,
        source=origin,
        details={name: details for name, details in _details(marked, plan) if details},
    )
    return describe_query_operator(computation, described.unreadable)


def _details(
    columns: Mapping[str, Mapping[str, str]], plan: PlannedOperator
) -> Iterator[tuple[str, tuple[Detail, ...]]]:
    """Yield the details of each text of an operator, by what it is the text of."""
    texts = {path: text for of in columns.values() for path, text in of.items()}
    for name, text in {**texts, **plan.facts, "function": plan.function}.items():
        yield unmarked(name), tuple(one for one in details_in(text) if one.kind != "column")


def _columns(store: str, schema: StoreSchema, plan: PlannedOperator) -> dict[str, str]:
    """Return what the columns of a store are computed from, as far as the plan shows it."""
    values = schema.value.names
    known = _texts_by_name(plan.keys)
    found: dict[str, str] = {
        KEY.then(name): known[name] for name in group_of(schema.key, plan.kind).names if name in known
    }
    found |= {VALUE.then(name): known[name] for name in values if name in known}
    if plan.values:  # format 1 and sessions have the keys in front of them
        of_values = values[len(values) - len(plan.values) :]
        found |= {VALUE.then(name): text for name, text in zip(of_values, plan.values, strict=True)}
    if plan.kind == JOIN:
        of_side = _texts_by_name(plan.sides[1 if store.startswith("right") else 0])
        found |= {VALUE.then(name): of_side[name] for name in values if name in of_side}
    return found


def _texts_by_name(columns: tuple[Column, ...]) -> dict[str, str]:
    """Return what columns are computed from, by names that are unique as those of a type's fields are."""
    seen = Counter[str]()
    found = {}
    for column in columns:
        seen[column.name] += 1
        found[numbered(column.name, seen[column.name])] = column.text
    return found
