"""What a checkpoint of Spark describes for `compat`: its operators, and the types of their stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.description import (
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
)
from ...serializers.spark_rows.spark_types import SparkField, SparkType
from ...state.formats.flink.metadata import operator_id_of_uid
from ...state.formats.spark.schema_files import StoreSchema
from .serializers import SparkRowSerializer

if TYPE_CHECKING:
    from ...state.formats.spark.reader import SparkCheckpoint, SparkOperator


def describe(checkpoint: SparkCheckpoint) -> JobDescription:
    """Return the description of a checkpoint. An operator is known by its kind and number, as Spark counts them."""
    operators = tuple(map(_operator, checkpoint.operators))
    return JobDescription(f"Spark checkpoint {checkpoint.place}", operators)


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


def _operator(operator: SparkOperator) -> OperatorDescription:
    uid = f"{operator.kind} {operator.number}"
    states, unreadable = [], ""
    for store in operator.stores:
        if store.is_index:  # it follows from the other states
            continue
        if store.schema is None:
            unreadable = f"{store.name}: {store.unsupported}"
            continue
        snapshot = SparkRowSerializer.of_entries(_whole(store.kind, store.schema)).snapshot_configuration()
        states.append(StateDescription(store.name, StateKind.VALUE, SerializerDescription(snapshot)))
    return OperatorDescription(
        operator_id=operator_id_of_uid(uid).hex(),
        uid=uid,
        name=operator.facts.name,
        states=tuple(states),
        parallelism=max((store.partitions for store in operator.stores), default=0),
        unreadable=unreadable,
    )
