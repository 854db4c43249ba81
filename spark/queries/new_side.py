"""The new side of a migration: a checkpoint that the new query wrote, or the query itself, planned and not started."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError
from ...state.formats.spark.reader import SparkCheckpoint
from ...state.migration.queries.preparation import NewSide
from .check import what_is_known
from .description import describe_planned
from .planning import UnstartedQuery, planned

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.description import JobDescription


@contextmanager
def new_side(
    old: SparkCheckpoint,
    like: str | os.PathLike[str] | None,
    query: DataFrame | DataStreamWriter | None,
    was: DataFrame | DataStreamWriter | JobDescription | None = None,
) -> Iterator[NewSide]:
    """Open the new side; its files are there within the `with` block.

    A query is planned under the settings that the old checkpoint pins; `was` is the one that wrote it, if that is said.

    Raises:
        DeclarationError: Neither side is given, or both are.
    """
    if (like is None) is (query is None):
        raise DeclarationError.before_writing(
            "the new types come from one of query= and like=",
            advice="name the new query (query=df or its writer before start()), or a checkpoint that it wrote"
            " (like=place)",
        )
    if query is None:
        assert like is not None  # noqa: S101 - checked above
        probe = SparkCheckpoint.open(like)
        yield NewSide(probe, probe.describe(), is_planned=False)
        return
    last = old.log.last
    with planned(UnstartedQuery.of(query), None if last is None else last.settings) as plan:
        described = describe_planned(plan, "the new query")
        yield NewSide(plan.state, described, is_planned=True, known=what_is_known(old, was))
