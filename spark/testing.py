"""A Spark session in tests: one for the whole run. A pytest plugin; pyspark is not loaded before a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

MASTER = "local[2,4]"
"""Two cores, and four attempts a task, as the default master gives them."""


@pytest.fixture(scope="session")
def stateshift_spark() -> Iterator[SparkSession]:
    """The session that all tests share; one that runs already is taken, and left running."""
    from pyspark.sql import SparkSession

    from .session import session

    was_there = SparkSession.getActiveSession() is not None
    running = session(MASTER, app_name="stateshift tests")
    yield running
    if not was_there:
        running.stop()
