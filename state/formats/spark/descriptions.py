"""What a checkpoint of Spark describes: operators and their stores, without what they are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....compat.description import Computation, JobDescription, OperatorDescription, operator_id_of_uid
from ....compat.queries.description import describe_query_operator

if TYPE_CHECKING:
    from .reader import SparkCheckpoint, SparkOperator


def describe(checkpoint: SparkCheckpoint) -> JobDescription:
    """Return the description of a checkpoint. An operator is known by its kind and number, as Spark counts them."""
    operators = tuple(map(describe_operator, checkpoint.operators))
    return JobDescription(f"Spark checkpoint {checkpoint.place}", operators)


def describe_operator(operator: SparkOperator) -> OperatorDescription:
    """Return the description of an operator; stores that follow from others are left out."""
    uid = f"{operator.kind} {operator.number}"
    states, unreadable = [], ""
    for store in (one for one in operator.stores if not one.is_index):
        if store.description is None:
            unreadable = f"{store.name}: {store.unsupported}"
        else:
            states.append(store.description)
    return OperatorDescription(
        operator_id=operator_id_of_uid(uid).hex(),
        uid=uid,
        name=operator.facts.name,
        states=tuple(states),
        parallelism=max((store.partitions for store in operator.stores), default=0),
        unreadable=unreadable,
    )


def describe_stored(checkpoint: SparkCheckpoint) -> JobDescription:
    """Return the stateful operators of a checkpoint, with types and without what stands in them."""
    last = checkpoint.log.last
    sources = () if last is None else tuple(source.name for source in last.sources)
    settings = {} if last is None else last.settings
    operators = tuple(map(stored_operator, checkpoint.operators))
    return JobDescription(f"Spark checkpoint {checkpoint.place}", operators, sources=sources, settings=settings)


def stored_operator(operator: SparkOperator) -> OperatorDescription:
    """Return an operator of a checkpoint as those of a query are described, without what it computes."""
    schemas, unreadable = {}, ""
    for store in (one for one in operator.stores if one not in operator.forgotten):
        if store.schema is None:
            unreadable = f"{store.name}: {store.unsupported or 'its types are not read by this release'}"
        else:
            schemas[store.name] = store.schema
    computation = Computation(operator.number, operator.kind, schemas, modes=operator.facts.modes)
    return describe_query_operator(computation, unreadable)
