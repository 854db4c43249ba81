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
from ...state.savepoint.metadata import operator_id_of_uid
from .serializers import SparkRowSerializer

if TYPE_CHECKING:
    from .reader import SparkCheckpoint, SparkOperator


def describe(checkpoint: SparkCheckpoint) -> JobDescription:
    """Return the description of a checkpoint. An operator is known by its kind and number, as Spark counts them."""
    operators = tuple(map(_operator, checkpoint.operators))
    return JobDescription(f"Spark checkpoint {checkpoint.place}", operators)


def _operator(operator: SparkOperator) -> OperatorDescription:
    uid = f"{operator.kind} {operator.number}"
    states, unreadable = [], ""
    for store in operator.stores:
        if store.schema is None:
            unreadable = f"{store.name}: {store.unsupported}"
            continue
        snapshot = SparkRowSerializer.of_entries(store.schema).snapshot_configuration()
        states.append(StateDescription(store.name, StateKind.VALUE, SerializerDescription(snapshot)))
    return OperatorDescription(
        operator_id=operator_id_of_uid(uid).hex(),
        uid=uid,
        name=operator.facts.name,
        states=tuple(states),
        parallelism=max((store.partitions for store in operator.stores), default=0),
        unreadable=unreadable,
    )
