"""Short helpers for tests of serializers: bytes and back, stored snapshots, and questions to the rules.

Fixtures for several folders of tests; a conftest takes them over by importing them.
"""

from __future__ import annotations

import sys
import types

import pytest

from stateshift import DataInputView, DataOutputView
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes


def write_values(serializer, *values):
    target = DataOutputView()
    for value in values:
        serializer.serialize(value, target)
    return target.getvalue()


def read_value(serializer, data):
    source = DataInputView(data)
    value = serializer.deserialize(source)
    assert 0 == source.remaining()
    return value


def copy_value(serializer, data):
    source, target = DataInputView(data), DataOutputView()
    serializer.copy_bytes(source, target)
    assert 0 == source.remaining()
    return target.getvalue()


def stored_snapshot(serializer):
    return snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))


def ask_about(new, old):
    return new.ensure_compatibility(stored_snapshot(old))


def migrate_value(new, old, value):
    result = ask_about(new, old)
    assert result.is_migration_required()
    found = read_value(stored_snapshot(old).restore_serializer(), write_values(old, value))
    return read_value(new, write_values(new, found if result.conversion is None else result.conversion(found)))


def rules_of(result):
    return [(finding.path, finding.rule) for finding in result.findings if finding.rule != "OPT-5"]


@pytest.fixture(scope="session")
def write():
    """`write(serializer, *values)`: their bytes."""
    return write_values


@pytest.fixture(scope="session")
def read():
    """`read(serializer, data)`: the one value that the bytes are."""
    return read_value


@pytest.fixture(scope="session")
def copied():
    """`copied(serializer, data)`: what `copy_bytes` makes of the bytes of one value."""
    return copy_value


@pytest.fixture(scope="session")
def stored():
    """`stored(serializer)`: its snapshot after a write and a read."""
    return stored_snapshot


@pytest.fixture(scope="session")
def ask():
    """`ask(new, old)`: what a new serializer says to the stored snapshot of an old one."""
    return ask_about


@pytest.fixture(scope="session")
def migrate():
    """`migrate(new, old, value)`: write with the old one, read by its snapshot, convert, and write with the new."""
    return migrate_value


@pytest.fixture(scope="session")
def rules():
    """`rules(result)`: path and rule of each finding, without remarks that a snapshot says nothing of nulls (OPT-5)."""
    return rules_of


@pytest.fixture
def module(monkeypatch):
    """`module(source, name="shop")`: a user's module as it is from then on; a second one is its next version."""

    def put(source, name="shop"):
        made = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, made)
        exec(source, vars(made))  # noqa: S102 - our own text
        return made

    return put
