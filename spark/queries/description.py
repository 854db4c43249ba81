"""`describe`: the stateful operators of a streaming query that was not started, and those of a checkpoint beside them.

query = describe(spark.readStream.….groupBy("k").agg(sum("n")))
query.operators[0].stores["default"].value      # the types that Spark would write
query.operators[0].columns["default"]           # {"key.k": "k", "value.sum": "sum(n)"}: what stands in them

A checkpoint has the types alone: what stands in the columns is known of a query, and of a recording of one.
"""

from __future__ import annotations

from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.queries.columns import group_of
from ...compat.queries.kinds import JOIN, LIMIT
from ...compat.queries.options import without_credentials
from ...compat.queries.plan_text import Detail, details_in, unmarked
from ...serializers.errors import UnsupportedFormat
from ...serializers.spark_rows.spark_types import numbered, parse_struct, schema_text
from ...state.formats.spark.reader import SparkCheckpoint
from ...state.formats.spark.schema_files import StoreSchema
from .inputs import Input, input_data, input_of
from .planning import UnstartedQuery, planned

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.queries.plan_operators import Column, PlannedOperator
    from ...state.formats.spark.logs import PlannedBatch
    from ...state.formats.spark.reader import SparkOperator
    from .planning import Planned


@attrs.frozen
class QueryOperator:
    """A stateful operator of a query, or of a checkpoint.

    Attributes:
        number: Its number in the query; Spark counts stateful operators from 0.
        kind: The kind of the operator, as a query's author calls it.
        stores: The types of its stores, by name.
        unreadable: Why the types of a store are not known, or "".
        columns: What stands in the columns of a store, by `key.NAME` or `value.NAME`; of a checkpoint nothing.
        facts: What else decides what the operator keeps, by a name for people: filters, a time-out.
        unseen: What the plan does not show: the code of functions.
        is_planned: Whether columns and facts are known.
        modes: The time mode and the output mode of transformWithState.
        details: What decides what stands in columns, or which rows there are, and is not in the texts: the code of
            functions, by what uses it.
    """

    number: int
    kind: str
    stores: Mapping[str, StoreSchema]
    unreadable: str = ""
    columns: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    facts: Mapping[str, str] = attrs.field(factory=dict)
    unseen: tuple[str, ...] = ()
    is_planned: bool = False
    modes: Mapping[str, str] = attrs.field(factory=dict)
    details: Mapping[str, tuple[Detail, ...]] = attrs.field(factory=dict)

    @property
    def title(self) -> str:
        """The operator in messages."""
        return f"{self.number} ({self.kind})"

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the keys of its first store, by which operators of one kind are told apart."""
        for _, schema in sorted(self.stores.items()):
            return tuple((field.name, field.type.describe()) for field in schema.key.fields)
        return ()


@attrs.frozen
class QueryDescription:
    """The stateful operators of a streaming query.

    Attributes:
        origin: Where the description comes from, in words.
        operators: The operators, by number.
        sources: The streaming sources, in the order of Spark's offsets; of a checkpoint their numbers or names.
        settings: The settings under which the query is planned.
        spark: The version of Spark that planned it; "" of a checkpoint.
        inputs: What the query reads, with all that decides its rows; None: it was recorded by a release that did not
            look at it, nor at the code of functions, and that counted a source that stands twice once.
    """

    origin: str
    operators: tuple[QueryOperator, ...]
    sources: tuple[str, ...] = ()
    settings: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    spark: str = ""
    inputs: tuple[Input, ...] | None = None


def describe(
    query: DataFrame | DataStreamWriter,
    *,
    checkpoint: str | os.PathLike[str] = "",
    output_mode: str = "",
) -> QueryDescription:
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


def describe_under(query: UnstartedQuery, batch: PlannedBatch | None, origin: str = "query") -> QueryDescription:
    """Return the stateful operators of a query under the settings that a batch pins; see `describe`."""
    with planned(query, None if batch is None else batch.settings) as plan:
        return describe_planned(plan, origin)


def describe_planned(plan: Planned, origin: str) -> QueryDescription:
    """Return the stateful operators of a planned query; see `describe`."""
    operators = tuple(starmap(_operator, _paired(plan.state.operators, plan.query.operators)))
    return QueryDescription(origin, operators, plan.query.sources, plan.settings, plan.spark, plan.query.inputs)


def describe_stored(checkpoint: SparkCheckpoint) -> QueryDescription:
    """Return the stateful operators of a checkpoint, with types and without what stands in them."""
    last = checkpoint.log.last
    sources = () if last is None else tuple(source.name for source in last.sources)
    settings = {} if last is None else last.settings
    return QueryDescription(
        f"Spark checkpoint {checkpoint.place}", tuple(map(_stored, checkpoint.operators)), sources, settings
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
            advice="compare two checkpoints instead: stateshift diff spark:OLD spark:NEW",
        )
    return zip(found, left, strict=True)


def _stored(operator: SparkOperator) -> QueryOperator:
    schemas, unreadable = {}, ""
    for store in (one for one in operator.stores if one not in operator.forgotten):
        if store.schema is None:
            unreadable = f"{store.name}: {store.unsupported or 'its types are not read by this release'}"
        else:
            schemas[store.name] = store.schema
    return QueryOperator(operator.number, operator.kind, schemas, unreadable, modes=operator.facts.modes)


def _operator(operator: SparkOperator, plan: PlannedOperator) -> QueryOperator:
    stored, unseen = _stored(operator), plan.unseen
    for schema in stored.stores.values():
        if plan.values and len(schema.value.fields) - len(plan.values) not in {0, len(plan.keys)}:
            plan, unseen = attrs.evolve(plan, values=()), (*unseen, "what each aggregate is computed from")
    marked = {name: _columns(name, schema, plan) for name, schema in stored.stores.items()}
    return attrs.evolve(
        stored,
        columns={name: {path: unmarked(text) for path, text in texts.items()} for name, texts in marked.items()},
        facts={unmarked(name): unmarked(text) for name, text in plan.facts.items()},
        unseen=unseen,
        is_planned=True,
        details={name: details for name, details in _details(marked, plan) if details},
    )


def _details(
    columns: Mapping[str, Mapping[str, str]], plan: PlannedOperator
) -> Iterator[tuple[str, tuple[Detail, ...]]]:
    """Yield the details of each text of an operator, by what it is the text of."""
    texts = {path: text for of in columns.values() for path, text in of.items()}
    for name, text in {**texts, **plan.facts, "function": plan.function}.items():
        yield unmarked(name), tuple(one for one in details_in(text) if one.kind != "column")


def _columns(store: str, schema: StoreSchema, plan: PlannedOperator) -> dict[str, str]:
    """Return what stands in the columns of a store, as far as the plan says it."""
    values = schema.value.names
    known = _texts_by_name(plan.keys)
    found = {f"key.{name}": known[name] for name in group_of(schema.key, plan.kind).names if name in known}
    found |= {f"value.{name}": known[name] for name in values if name in known}
    if plan.values:  # format 1 and sessions have the keys in front of them
        of_values = values[len(values) - len(plan.values) :]
        found |= {f"value.{name}": text for name, text in zip(of_values, plan.values, strict=True)}
    if plan.kind == JOIN:
        of_side = _texts_by_name(plan.sides[1 if store.startswith("right") else 0])
        found |= {f"value.{name}": of_side[name] for name in values if name in of_side}
    return found


def _texts_by_name(columns: tuple[Column, ...]) -> dict[str, str]:
    """Return what columns are computed from, by names that are as those of a type's fields: each once."""
    seen = Counter[str]()
    found = {}
    for column in columns:
        seen[column.name] += 1
        found[numbered(column.name, seen[column.name])] = column.text
    return found


def to_data(query: QueryDescription) -> dict[str, Any]:
    """Return a description as plain data."""
    return {
        "spark": query.spark,
        "sources": list(query.sources),
        "settings": dict(query.settings),
        "operators": [_operator_data(one) for one in query.operators],
        **({} if query.inputs is None else {"inputs": list(map(input_data, query.inputs))}),
    }


def _operator_data(operator: QueryOperator) -> dict[str, Any]:
    return {
        "number": operator.number,
        "kind": operator.kind,
        "unreadable": operator.unreadable,
        "stores": {
            name: {"key": schema_text(schema.key), "value": schema_text(schema.value)}
            for name, schema in operator.stores.items()
        },
        "columns": {name: dict(texts) for name, texts in operator.columns.items()},
        "facts": dict(operator.facts),
        "unseen": list(operator.unseen),
        "modes": dict(operator.modes),
        "details": {
            name: [[one.kind, one.name, one.value, one.unread] for one in details]
            for name, details in operator.details.items()
        },
    }


def from_data(data: dict[str, Any], origin: str) -> QueryDescription:
    """Return the description that `to_data` returned as data.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is no such data.
    """
    operators = tuple(
        QueryOperator(
            int(one["number"]),
            str(one["kind"]),
            {
                str(name): StoreSchema(parse_struct(schema["key"]), parse_struct(schema["value"]))
                for name, schema in one["stores"].items()
            },
            str(one["unreadable"]),
            {str(name): _texts(texts) for name, texts in one["columns"].items()},
            _texts(one["facts"]),
            tuple(map(str, one["unseen"])),
            is_planned=True,
            modes=_texts(one.get("modes", {})),
            details={str(name): tuple(map(_detail, details)) for name, details in one.get("details", {}).items()},
        )
        for one in data["operators"]
    )
    sources = tuple(without_credentials(str(one)) for one in data["sources"])
    inputs = tuple(map(input_of, data["inputs"])) if "inputs" in data else None
    return QueryDescription(origin, operators, sources, _texts(data["settings"]), str(data["spark"]), inputs)


def _detail(said: list[Any]) -> Detail:
    detail = Detail(*map(str, said))
    if detail.kind == "seed":
        int(detail.value)
    elif detail.kind not in {"function", "type"}:
        raise ValueError(f"{detail.kind!r} is no kind of a detail")
    return detail


def _texts(said: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in said.items()}
