"""Backends of slots, and the end of those that a test leaves open."""

from __future__ import annotations

import pytest
from streaming_batches import BACKENDS, close_slots, divided


@pytest.fixture(params=[*sorted(BACKENDS), "divided"])
def backend(request, monkeypatch):
    return divided(monkeypatch) if request.param == "divided" else BACKENDS[request.param]


@pytest.fixture(autouse=True)
def _no_slots():
    yield
    close_slots()
