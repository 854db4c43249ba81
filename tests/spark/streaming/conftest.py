"""Backends of slots, the end of those that a test leaves open, and queries on Spark."""

from __future__ import annotations

import pytest
from streaming_batches import BACKENDS, close_slots, divided
from streaming_queries import Query

from stateshift.spark.streaming.carriers import APPLY_IN_PANDAS, TRANSFORM


@pytest.fixture(params=[*sorted(BACKENDS), "divided"])
def backend(request, monkeypatch):
    return divided(monkeypatch) if request.param == "divided" else BACKENDS[request.param]


@pytest.fixture(autouse=True)
def _no_slots():
    yield
    close_slots()


@pytest.fixture
def query(spark, tmp_path):
    """`query("user string, amount long")`: a query on the session of all tests."""

    def make(columns, **options):
        return Query(spark, tmp_path, columns, **options)

    yield make
    for running in spark.streams.active:
        running.stop()


@pytest.fixture(params=[APPLY_IN_PANDAS, pytest.param(TRANSFORM, marks=pytest.mark.slow)])
def carrier(request):
    return request.param
