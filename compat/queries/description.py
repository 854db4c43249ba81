"""What a streaming query keeps: its stateful operators, the types of their stores, and what it computes them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.spark_rows.spark_types import StoreSchema, parse_struct, schema_text
from .inputs import Input, input_data, input_of
from .options import without_credentials
from .plan_text import Detail

if TYPE_CHECKING:
    from collections.abc import Mapping


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
