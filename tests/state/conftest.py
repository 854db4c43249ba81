"""Tests that ask for `canonical` or `native_heap` run once for each such savepoint that real Flink wrote."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import cloudpickle
import pytest
from live_backends import _closed_backends  # noqa: F401 - a fixture

from stateshift import Savepoint, Target, check, load_job
from stateshift.compat.description import operator_id_of_uid
from stateshift.compat.planner import plan
from stateshift.state.formats.flink.handles import KeyedHandle
from stateshift.state.formats.flink.metadata import read_metadata
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import publish_result, split
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.json_encoding import tagged_operator
from stateshift.state.storage.files import Folder

FIXTURES = Path(__file__).parents[1] / "fixtures"


def pytest_generate_tests(metafunc):
    for name, native in (("canonical", False), ("native_heap", True)):
        if name in metafunc.fixturenames:
            found = [
                folder
                for folder in sorted(FIXTURES.glob("flink-*/*/savepoint"))
                if not folder.parents[1].name.endswith("-native")  # those have databases
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


def by_key_only(value):
    """The same without the content of values that only Kryo reads."""
    if isinstance(value, dict):
        return {name: "" if name == "$opaque" else by_key_only(item) for name, item in value.items()}
    return [by_key_only(item) for item in value] if isinstance(value, list) else value


def rooms_of(operators):
    """The operators of expected.json or of an export, by id, as both have them: without types and names."""
    found = {}
    for operator in operators:
        operator_id = operator.get("operator_id") or operator_id_of_uid(operator["uid"]).hex()
        keyed = {
            name: {part: state[part] for part in ("kind", "ttl", "entries") if part in state}
            for name, state in operator.get("keyed", {}).items()
        }
        lists = {
            name: {part: state[part] for part in ("mode", "subtasks")}
            for name, state in operator.get("operator", {}).items()
        }
        timers = {time: rows for time, rows in operator.get("timers", {}).items() if rows}
        rooms = {"keyed": keyed, "timers": timers, "operator": lists, "broadcast": operator.get("broadcast")}
        rooms = {room: by_key_only(content) for room, content in rooms.items() if content}
        if rooms:
            found[operator_id] = rooms
    return found


@pytest.fixture(scope="session")
def by_room():
    """`by_room(operators)`: the operators of expected.json in the shape of `contents`."""
    return rooms_of


@pytest.fixture(scope="session")
def without_kinds():
    """`without_kinds(rooms)`: what the states hold; real Flink reports no kinds of what it has restored."""

    def strip(rooms):
        hidden = {"kind", "ttl"}
        return {
            operator_id: {
                room: {name: {part: s[part] for part in s if part not in hidden} for name, s in states.items()}
                for room, states in by_room.items()
                if room != "broadcast"
            }
            for operator_id, by_room in rooms.items()
        }

    return strip


@pytest.fixture(scope="session")
def flink_read():
    """`flink_read(folder)`: what the job of a fixture read back itself, by operator id, room and state."""

    def read(folder, file="expected.json"):
        return rooms_of(json.loads((Path(folder).parent / file).read_text(encoding="utf-8"))["operators"])

    return read


@pytest.fixture(scope="session")
def contents():
    """`contents(savepoint)`: all that can be read of it, in the same shape."""

    def read(savepoint):
        savepoint = savepoint if isinstance(savepoint, Savepoint) else Savepoint.open(savepoint)
        return rooms_of(
            tagged_operator(operator, [state for state in operator.states if not state.unsupported])
            for operator in savepoint.operators
        )

    return read


@pytest.fixture(scope="session")
def migrate():
    """`migrate(source, target, job)`: a migration without an engine; takes what `reshape` takes; gives the result."""

    def run(
        source, target, job, *, restore_target=Target.ANY, trust=False, reverse=False, reference_time=None, **shape
    ):
        savepoint, folder = Savepoint.open(source), Folder.at(target)
        old = savepoint.describe(trust_stored_serializers=trust)
        migration = plan(check(old, job.describe(), target=restore_target), reference_time=reference_time)
        migration = reshape(savepoint, migration, **shape)
        tasks = split(savepoint, migration)
        folder.create()
        # as workers get them, and in any order
        shipped = cloudpickle.loads(cloudpickle.dumps(tasks))
        results = [perform(task, savepoint.folder, folder) for task in (reversed(shipped) if reverse else shipped)]
        publish_result(savepoint, migration, tasks, results, folder)
        return Savepoint.open(target)

    return run


@pytest.fixture(scope="session")
def accounts():
    """`accounts(3)`: the job of examples/accounts_v3.py."""
    examples = str(FIXTURES.parents[1] / "examples")

    def job(version):
        sys.path.insert(0, examples)
        try:
            return load_job(f"accounts_v{version}:job")
        finally:
            sys.path.remove(examples)

    return job


@pytest.fixture
def files_of_two_megabytes():
    """No file grows beyond that."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
