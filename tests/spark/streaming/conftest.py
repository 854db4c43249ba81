"""Backends of slots, and the end of those that a test leaves open."""

from __future__ import annotations

from functools import partial

import pytest

from stateshift import EmbeddedRocksDBStateBackend, HashMapStateBackend
from stateshift.spark.streaming import slot_runs
from stateshift.state.backends.configuration import Configuration

INCREMENTAL = Configuration.of({"execution.checkpointing.incremental": True}, environment={})
BACKENDS = {
    "hashmap": HashMapStateBackend,
    "rocksdb": partial(EmbeddedRocksDBStateBackend, configuration=INCREMENTAL),
}


@pytest.fixture(params=sorted(BACKENDS))
def backend(request):
    return BACKENDS[request.param]


@pytest.fixture(autouse=True)
def _no_slots():
    yield
    for _, task in slot_runs._LIVE.values():
        task.close()
    slot_runs._LIVE.clear()
