"""Backends of slots, and the end of those that a test leaves open."""

from __future__ import annotations

import pytest
from streaming_batches import BACKENDS, close_slots


@pytest.fixture(params=sorted(BACKENDS))
def backend(request):
    return BACKENDS[request.param]


@pytest.fixture(autouse=True)
def _no_slots():
    yield
    close_slots()
