"""What every test may ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings

from stateshift.serializers.pojo import PojoField, PojoSerializerSnapshot
from stateshift.state.savepoint.blocks import Block
from stateshift.state.savepoint.handles import InlineHandle
from stateshift.state.savepoint.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.savepoint.metadata import read_metadata, write_metadata
from stateshift.state.savepoint.sources import InlineBytes

# Machines of CI are slow and shared: how long a draw takes says nothing about the code.
settings.register_profile("stateshift", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stateshift")

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[1]


class _RootIsAFolder:
    """The root has an `__init__.py`, which pytest would import a second time, under the name of the checkout."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path, parent):
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config):
    config.pluginmanager.register(_RootIsAFolder())


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def savepoint_of():
    """`savepoint_of("rocksdb-account-v1")`: folder of a savepoint that Flink wrote (`version=` 2.3 or 1.20)."""

    def find(name, *, version="2.3"):
        folder = FIXTURES / f"flink-{version}" / name / "savepoint"
        assert folder.is_dir(), f"no such fixture: {folder}"
        return folder

    return find


@pytest.fixture(scope="session")
def expected_of(savepoint_of):
    """`expected_of("rocksdb-account-v1")`: what its job read back; `file=` names another file beside it."""

    def read(name, *, version="2.3", file="expected.json"):
        return json.loads((savepoint_of(name, version=version).parent / file).read_text(encoding="utf-8"))

    return read


@pytest.fixture
def savepoint_copy(savepoint_of, tmp_path):
    """`savepoint_copy("rocksdb-account-v1")`: a copy that a test may damage."""

    def copy(name, *, version="2.3"):
        return Path(shutil.copytree(savepoint_of(name, version=version), tmp_path / "copies" / name))

    return copy


@pytest.fixture
def kryo_in_pojo(savepoint_copy):
    """A savepoint of Flink whose Kryo values, those of state `thing`, were put into a field of a POJO: `$.inner`."""
    folder = savepoint_copy("hashmap-kryo")
    metadata = read_metadata((folder / "_metadata").read_bytes())
    operators = tuple(_with_kryo_in_pojo(operator) for operator in metadata.operators)
    (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
    return folder


def _with_kryo_in_pojo(operator):
    if operator.uid != "keyed-op":
        return operator
    (subtask,) = operator.subtasks
    handle = subtask.managed_keyed
    reader = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle)
    thing = reader.header.state_id("thing")
    states = list(reader.header.states)
    field = PojoField("inner", "fx.Order", states[thing].value)
    states[thing] = states[thing].with_snapshots(VALUE_SERIALIZER=PojoSerializerSnapshot("fx.Order", (field,)))
    blocks = (
        Block.of(block.key_group, thing, [(key, b"\2\0" + value) for key, value in block.items()])
        if block.state_id == thing
        else block
        for block in reader.blocks()
    )
    header = attrs.evolve(reader.header, states=tuple(states))
    data, offsets = write_keyed_stream(header, handle.key_groups, blocks)
    new = attrs.evolve(handle, offsets=offsets, stream=InlineHandle("stream", data))
    return attrs.evolve(operator, subtasks=(attrs.evolve(subtask, managed_keyed=new),))


@pytest.fixture(scope="session")
def spark():
    """The one session of a test run; four attempts a task, as the default master gives them."""
    from stateshift.spark.session import session

    running = session("local[2,4]", app_name="stateshift tests")
    yield running
    running.stop()
