"""A pytest plugin with one Spark session for a whole test run; pyspark is loaded when a test requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from .queries.gate import QueryChecks

MASTER = "local[2,4]"
"""Two cores, and four attempts per task, as with the default master."""

CONF = {"spark.sql.shuffle.partitions": "2"}
"""One for each core: with Spark's 200, each batch of a streaming query has hundreds of tasks."""


@pytest.fixture(scope="session")
def stateshift_spark() -> Iterator[SparkSession]:
    """Yield the session that all tests share; a running one is reused, and not stopped."""
    from pyspark.sql import SparkSession

    from .sessions import session

    was_there = SparkSession.getActiveSession() is not None
    running = session(MASTER, app_name="stateshift tests", conf=CONF)
    yield running
    if not was_there:
        running.stop()


@pytest.fixture(scope="session")
def stateshift_queries(stateshift_spark: SparkSession, pytestconfig: pytest.Config) -> QueryChecks:
    """Compare the queries that `[tool.stateshift]` lists with their descriptions; a test calls `assert_start()`."""
    from .queries.gate import QueryGate

    return QueryGate.find(pytestconfig.rootpath).check(stateshift_spark)
