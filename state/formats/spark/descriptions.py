"""What a checkpoint of Spark describes: operators and their stores, without what they are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ....compat.description import Computation, JobDescription, OperatorDescription
from ....compat.queries.description import describe_query_operator

if TYPE_CHECKING:
    from .reader import SparkCheckpoint, SparkOperator


def describe(checkpoint: SparkCheckpoint) -> JobDescription:
    """Return the stateful operators of a checkpoint, with types and without what stands in them."""
    last = checkpoint.log.last
    sources = () if last is None else tuple(source.name for source in last.sources)
    settings = {} if last is None else last.settings
    operators = tuple(map(describe_operator, checkpoint.operators))
    return JobDescription(f"Spark checkpoint {checkpoint.place}", operators, sources=sources, settings=settings)


def describe_operator(operator: SparkOperator) -> OperatorDescription:
    """Return the description of an operator, which is known by its kind and number, as Spark counts them.

    Its states are all stores but those that follow from others; a query goes on from those that are not forgotten.
    """
    schemas, unreadable = {}, ""
    for store in operator.stores:
        if store.schema is None:
            unreadable = f"{store.name}: {store.unsupported or 'its types are not read by this release'}"
        elif store not in operator.forgotten:
            schemas[store.name] = store.schema
    computation = Computation(operator.number, operator.kind, schemas, modes=operator.facts.modes)
    states = (store.description for store in operator.stores if not store.is_index)
    return attrs.evolve(
        describe_query_operator(computation, unreadable),
        name=operator.facts.name,
        states=tuple(one for one in states if one is not None),
        parallelism=max((store.partitions for store in operator.stores), default=0),
    )
