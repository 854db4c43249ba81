"""What a streaming query describes: its stateful operators, their stores, and what they compute; also as plain data."""

from __future__ import annotations

from typing import Any

import attrs

from ...serializers.spark_rows.serializers import SparkRowSerializer
from ...serializers.spark_rows.spark_types import SparkField, SparkType, StoreSchema, parse_struct, schema_text
from ..description import (
    Computation,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
    operator_id_of_uid,
)
from ..plain_data import fields_of
from .inputs import input_data, input_of
from .kinds import OF_VARIABLES
from .options import without_credentials
from .plan_text import Detail
from .store_pairs import Variable


def describe_query_operator(of: Computation, unreadable: str = "") -> OperatorDescription:
    """Return the description of an operator of a query.

    Args:
        of: What it computes, as far as that is known, and the types of its stores.
        unreadable: Why the types of a store are not known, or "".
    """
    is_of_variables = of.kind in OF_VARIABLES
    states = tuple(
        describe_store(name, Variable.of(name, of.stores).kind if is_of_variables else "value", schema)
        for name, schema in of.stores.items()
        if not (is_of_variables and name.startswith("$"))  # they follow from the others
    )
    uid = f"{of.kind} {of.number}"
    operator_id = operator_id_of_uid(uid).hex()
    return OperatorDescription(operator_id, uid, states=states, unreadable=unreadable, computation=of)


def describe_store(name: str, kind: str, schema: StoreSchema) -> StateDescription:
    """Return the description of a store: the types of a key and of all that it has."""
    snapshot = SparkRowSerializer.of_entries(_whole(kind, schema)).snapshot_configuration()
    return StateDescription(name, StateKind.VALUE, SerializerDescription(snapshot))


def _whole(kind: str, schema: StoreSchema) -> StoreSchema:
    """Return the types of a key and of all that it has: a list is an array of its elements, a map a map.

    So a variable of one kind differs from one of another kind, which Spark refuses, too.
    """
    if kind == "list":
        return StoreSchema(schema.key, SparkType("array", (SparkField("element", schema.value),)))
    if kind == "map" and len(schema.key.fields) == 2:  # the grouping key, and the user's
        key, user_key = schema.key.fields
        entry = SparkField("key", user_key.type, is_nullable=False), SparkField("value", schema.value)
        return StoreSchema(key.type, SparkType("map", entry))
    return schema


def to_data(query: JobDescription) -> dict[str, Any]:
    """Return a description as plain data."""
    return {
        **fields_of(query, "spark sources settings"),
        "operators": [_operator_data(one) for one in query.operators],
        **({} if query.inputs is None else {"inputs": list(map(input_data, query.inputs))}),
    }


def _operator_data(operator: OperatorDescription) -> dict[str, Any]:
    of = operator.computation
    assert of is not None  # noqa: S101 - it is of a query
    return {
        **fields_of(of, "number kind"),
        "unreadable": operator.unreadable,
        "stores": {
            name: {"key": schema_text(schema.key), "value": schema_text(schema.value)}
            for name, schema in of.stores.items()
        },
        **fields_of(of, "columns facts unseen modes"),
        "details": {name: [list(attrs.astuple(one)) for one in details] for name, details in of.details.items()},
    }


def from_data(data: dict[str, Any], origin: str) -> JobDescription:
    """Return the description that `to_data` returned as data.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is no such data.
    """
    sources = tuple(without_credentials(str(one)) for one in data["sources"])
    return JobDescription(
        origin,
        tuple(_operator_of(one, origin) for one in data["operators"]),
        sources=sources,
        settings=_texts(data["settings"]),
        spark=str(data["spark"]),
        inputs=tuple(map(input_of, data["inputs"])) if "inputs" in data else None,
    )


def _operator_of(data: dict[str, Any], origin: str) -> OperatorDescription:
    computation = Computation(
        int(data["number"]),
        str(data["kind"]),
        {
            str(name): StoreSchema(parse_struct(schema["key"]), parse_struct(schema["value"]))
            for name, schema in data["stores"].items()
        },
        {str(name): _texts(texts) for name, texts in data["columns"].items()},
        _texts(data["facts"]),
        tuple(map(str, data["unseen"])),
        origin,
        _texts(data.get("modes", {})),
        {str(name): tuple(map(_detail, details)) for name, details in data.get("details", {}).items()},
    )
    return describe_query_operator(computation, str(data["unreadable"]))


def _detail(said: list[Any]) -> Detail:
    detail = Detail(*map(str, said))
    if detail.kind == "seed":
        int(detail.value)
    elif detail.kind not in {"function", "type"}:
        raise ValueError(f"{detail.kind!r} is no kind of a detail")
    return detail


def _texts(said: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in said.items()}
