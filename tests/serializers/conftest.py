"""What tests of serializers may ask for, besides the words of `asking`: another reader of Avro, and states of Flink."""

from __future__ import annotations

import io

import fastavro
import pytest
from serializer_fixtures import ask, copied, migrate, module, read, rules, stored, write  # noqa: F401 - the fixtures of this folder

from stateshift import Savepoint


def read_by_fastavro(old, new, value):
    target = io.BytesIO()
    writer, reader = fastavro.parse_schema(old), fastavro.parse_schema(new)
    fastavro.schemaless_writer(target, writer, value)
    target.seek(0)
    return fastavro.schemaless_reader(target, writer, reader)


@pytest.fixture(scope="session")
def by_fastavro():
    """`by_fastavro(old, new, value)`: written by fastavro under one schema and read under another."""
    return read_by_fastavro


@pytest.fixture(scope="session")
def stored_states(savepoint_of):
    """`stored_states("hashmap-zoo-p1-m128", "2.3")`: the states of a savepoint that Flink wrote, by name."""

    def states(name, version):
        operators = Savepoint.open(savepoint_of(name, version=version)).operators
        return {state.name: state for operator in operators for state in operator.states}

    return states
