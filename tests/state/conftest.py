"""Tests that ask for `canonical` or `native_heap` run once for each such savepoint that real Flink wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateshift.state.savepoint.files import Folder
from stateshift.state.savepoint.handles import KeyedHandle
from stateshift.state.savepoint.metadata import read_metadata
from stateshift.state.savepoint.sources import open_stream

FIXTURES = Path(__file__).parents[1] / "fixtures"


def pytest_generate_tests(metafunc):
    for name, native in (("canonical", False), ("native_heap", True)):
        if name in metafunc.fixturenames:
            found = [
                folder
                for folder in sorted(FIXTURES.glob("flink-*/*/savepoint"))
                if ("-native-" in folder.parent.name) == native
            ]
            assert found
            ids = [f"{folder.parents[1].name}/{folder.parent.name}" for folder in found]
            metafunc.parametrize(name, found, ids=ids)


@pytest.fixture
def streams_of():
    """`streams_of(folder)`: operator, handle and open source of every state stream."""

    def streams(folder):
        place = Folder.at(folder)
        for operator in read_metadata(place.read("_metadata")).operators:
            for subtask in operator.subtasks:
                for handle in (subtask.managed_keyed, subtask.managed_operator):
                    if handle is not None:
                        with open_stream(handle.stream, place) as source:
                            yield operator, subtask, handle, source

    return streams


@pytest.fixture
def keyed_streams_of(streams_of):
    """`keyed_streams_of(folder)`: the keyed ones of `streams_of`."""
    return lambda folder: (found for found in streams_of(folder) if isinstance(found[2], KeyedHandle))


@pytest.fixture
def operator_streams_of(streams_of):
    """`operator_streams_of(folder)`: the others of `streams_of`."""
    return lambda folder: (found for found in streams_of(folder) if not isinstance(found[2], KeyedHandle))
