"""Each canonical savepoint of a fixture, read to values and rewritten from them, is restored by real Flink.

What was restored where stands in a table at the end of the run.
"""

from __future__ import annotations

import re

import pytest
from copying_values import copy_by_value

from stateshift import Compression, Savepoint, Target
from stateshift.state.formats.flink.keyed_stream import read_stream_header
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.savepoint.states import keyed_handles

PLACES = [("hashmap", None), ("rocksdb", 3)]


def pytest_generate_tests(metafunc):
    """Ask for `fixture_2_3` or `fixture_1_20` to run once for each."""
    root = metafunc.config.rootpath / "tests" / "fixtures"
    for argument, version in (("fixture_2_3", "2.3"), ("fixture_1_20", "1.20")):
        if argument in metafunc.fixturenames:
            names = [path.name for path in sorted((root / f"flink-{version}").iterdir()) if path.is_dir()]
            metafunc.parametrize(argument, [name for name in names if "-native-" not in name])


def class_version(name):
    """Which version of `fx.evo.Account` the job has that a fixture is of."""
    found = re.search(r"account-v(\d)", name)
    return found[1] if found else "1"


def is_compressed(savepoint):
    """Whether the header of the keyed streams says so; they are the same throughout a savepoint."""
    handles = [handle for operator in savepoint.operators for handle in keyed_handles(operator.stored)]
    compressed = set()
    for handle in handles:
        with open_stream(handle.stream, savepoint.folder) as source:
            compressed.add(read_stream_header(source, handle).compressed)
    assert len(compressed) <= 1
    return True in compressed


@pytest.fixture(scope="module")
def anew(savepoint_of, tmp_path_factory):
    """`again(name, version)`: the rewritten savepoint, made once."""
    done = {}

    def written(name, version):
        if (name, version) not in done:
            target = tmp_path_factory.mktemp("anew") / "savepoint"
            source = Savepoint.open(savepoint_of(name, version=version))
            restore_target = Target.FLINK_1_20 if version == "1.20" else Target.FLINK_2_3
            compression = Compression.SNAPPY if is_compressed(source) else Compression.NONE
            done[name, version] = copy_by_value(source, target, restore_target=restore_target, compression=compression)
            assert is_compressed(source) is is_compressed(done[name, version]) is ("snappy" in name)
        return done[name, version]

    return written


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
def test_flink_2_3_restores_what_was_rewritten(
    flink_restore, same_contents, expected_of, anew, restorations, fixture_2_3, backend, parallelism
):
    new = anew(fixture_2_3, "2.3")

    restored = flink_restore(new.place, backend=backend, parallelism=parallelism, evo=class_version(fixture_2_3))

    assert same_contents(expected_of(fixture_2_3), restored) == []
    restorations.append((fixture_2_3, "2.3", "2.3", backend, parallelism))


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
def test_flink_1_20_restores_what_was_rewritten(
    flink_restore, same_contents, expected_of, anew, restorations, fixture_1_20, backend, parallelism
):
    new = anew(fixture_1_20, "1.20")

    restored = flink_restore(new.place, backend=backend, parallelism=parallelism, release="1.20")

    assert 4 == new.metadata.version
    assert same_contents(expected_of(fixture_1_20, version="1.20"), restored) == []
    restorations.append((fixture_1_20, "1.20", "1.20", backend, parallelism))
