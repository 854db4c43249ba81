"""Real Flink restores what we migrate, also where it refuses the change itself."""

from __future__ import annotations

import importlib
import sys

import pytest

from stateshift import Savepoint, migrate

SOURCES = ["rocksdb-account-v1", "hashmap-account-v1"]
PLACES = [("hashmap", 1), ("hashmap", 3), ("rocksdb", 1), ("rocksdb", 3)]


@pytest.fixture(scope="module")
def migrated(root, spark, savepoint_of, tmp_path_factory):
    """Migrate a savepoint to a version of the accounts job, once."""
    sys.path.insert(0, str(root / "examples"))
    done = {}

    def to(name, version, flink="2.3"):
        place = (name, version, flink)
        if place not in done:
            job = importlib.import_module(f"accounts_v{version}").job
            target = tmp_path_factory.mktemp("migrated") / "savepoint"
            migrate(savepoint_of(name, version=flink), target, job, session=spark)
            done[place] = target
        return done[place]

    yield to
    sys.path.remove(str(root / "examples"))


def renamed(contents):
    """`name` is now `title`, in every account."""
    if isinstance(contents, dict):
        if "$pojo" in contents:
            fields = contents["$pojo"]["fields"]
            fields = {"title" if name == "name" else name: value for name, value in fields.items()}
            return {"$pojo": {**contents["$pojo"], "fields": fields}}
        return {key: renamed(value) for key, value in contents.items()}
    return [renamed(item) for item in contents] if isinstance(contents, list) else contents


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", SOURCES)
def test_version_2_is_what_flink_itself_makes_of_it(
    flink_restore, same_contents, expected_of, migrated, name, backend, parallelism
):
    restored = flink_restore(migrated(name, 2), scenario="account", evo=2, backend=backend, parallelism=parallelism)

    assert same_contents(expected_of(name, file="flink-migrated-to-v2.json"), restored) == []


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", SOURCES)
def test_version_3_restores_though_flink_refuses_the_change(
    flink_restore, same_contents, expected_of, migrated, name, backend, parallelism
):
    restored = flink_restore(migrated(name, 3), scenario="account", evo=3, backend=backend, parallelism=parallelism)

    assert same_contents(expected_of(name, file="flink-migrated-to-v2.json"), restored) == []


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", SOURCES)
def test_version_4_keeps_the_values_of_a_field_that_was_renamed(
    flink_restore, same_contents, expected_of, migrated, name, backend, parallelism
):
    restored = flink_restore(migrated(name, 4), scenario="account", evo=4, backend=backend, parallelism=parallelism)

    assert same_contents(renamed(expected_of(name)), restored) == []


def test_a_savepoint_of_flink_1_20_is_migrated_and_restored_in_2_3(flink_restore, same_contents, expected_of, migrated):
    restored = flink_restore(migrated("hashmap-account-v1", 3, "1.20"), scenario="account", evo=3)

    assert same_contents(expected_of("hashmap-account-v1", file="flink-migrated-to-v2.json"), restored) == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_probe_in_place_of_python_classes_restores_as_they_do(
    flink_restore, same_contents, expected_of, savepoint_of, spark, tmp_path, backend
):
    probe = Savepoint.open(savepoint_of("hashmap-account-v3")).describe().as_probe()
    migrate(savepoint_of("hashmap-account-v1"), tmp_path / "savepoint", probe, session=spark)

    restored = flink_restore(tmp_path / "savepoint", scenario="account", evo=3, backend=backend)

    assert same_contents(expected_of("hashmap-account-v1", file="flink-migrated-to-v2.json"), restored) == []
