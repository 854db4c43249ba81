"""What every test may ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.fixture(scope="session")
def spark():
    """The one session of a test run; four attempts a task, as the default master gives them."""
    from stateshift.spark.session import session

    running = session("local[2,4]", app_name="stateshift tests")
    yield running
    running.stop()
