"""What a query describes for `compat`: operators, their stores, and what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.spark_rows.serializers import SparkRowSerializer
from ...serializers.spark_rows.spark_types import SparkField, SparkType, StoreSchema
from ..description import (
    Computation,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
    operator_id_of_uid,
)
from .kinds import OF_VARIABLES
from .store_pairs import Variable

if TYPE_CHECKING:
    from .description import QueryOperator


def describe_operator(operator: QueryOperator, source: str) -> OperatorDescription:
    """Return the description of an operator of a query, with what it computes as far as that is known.

    Args:
        operator: The operator.
        source: From where that is known, in words.
    """
    is_of_variables = operator.kind in OF_VARIABLES
    states = tuple(
        describe_store(name, Variable.of(name, operator.stores).kind if is_of_variables else "value", schema)
        for name, schema in operator.stores.items()
        if not (is_of_variables and name.startswith("$"))  # they follow from the others
    )
    is_known = operator.is_planned
    computation = Computation(
        operator.number, operator.kind, operator.columns, operator.facts, source if is_known else ""
    )
    uid = f"{operator.kind} {operator.number}"
    operator_id = operator_id_of_uid(uid).hex()
    return OperatorDescription(operator_id, uid, states=states, unreadable=operator.unreadable, computation=computation)


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
