"""Savepoints of real PyFlink are read: keys, lists and maps of the bytes that its coders made, timers."""

import json
import struct
from collections import defaultdict
from runpy import run_path

import pytest

from stateshift import Decision, MigrationOptions, Repartition, Savepoint, check
from stateshift.compat.description import StateKind
from stateshift.state.entry_keys import decode
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.state_kinds import entry_key_format
from stateshift.state.key_groups import key_group, key_hasher
from stateshift.state.savepoint.job_source import job_source
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.storage.files import Folder
from stateshift.state.testing import migrate_in_process

BACKENDS = ("hashmap", "rocksdb", "rocksdb-native")
NUMBERS = ("count", "n", "sum")


@pytest.fixture(params=BACKENDS)
def fixture(request, root):
    return root / "tests/fixtures/pyflink-2.3" / request.param


def long(data):
    return struct.unpack(">q", data)[0]


def texts(data):
    """Yield the texts in bytes, each with its length: what is added between two flushes is one array of bytes."""
    while data:
        size = 4 + struct.unpack(">i", data[:4])[0]
        assert size <= len(data)
        yield data[4:size].decode()
        data = data[size:]


def found_in(place):
    """Give what a savepoint holds of each key: numbers, texts, maps, timers."""
    (operator,) = (one for one in Savepoint.open(place).operators if one.stored.has_state)
    of_key = defaultdict(lambda: {"numbers": {}, "texts": [], "counts": {}, "timers": []})
    for state in operator.states:
        if state.kind is StateKind.TIMERS:
            for timer in state.read_timers():
                of_key[timer.key[0]]["timers"].append(timer.timestamp)
            continue
        name = state.name.removeprefix("python-state-")
        for entry in state.read_entries():
            found = of_key[entry.key[0]]
            if name in NUMBERS:
                found["numbers"][name] = long(entry.value[0])
            elif name == "events":
                found["texts"] = [one for data in entry.value for one in texts(data)]
            elif state.kind is StateKind.MAP:
                found["counts"] = {one: long(value) for key, value in entry.value.items() for one in texts(key)}
    return dict(of_key)


def expected_in(place):
    told = json.loads((place / "expected.json").read_text("utf-8"))["entries"]
    return {
        one["key"]: {
            "numbers": {name: one["values"][name] for name in NUMBERS},
            "texts": one["lists"]["events"],
            "counts": dict(one["maps"]["counts_map"]["$map"]),
            "timers": one["timers"],
        }
        for one in told
    }


def test_what_the_function_kept_is_read(fixture):
    assert expected_in(fixture) == found_in(fixture / "savepoint")


def test_it_stays_through_a_migration_to_more_subtasks(fixture, tmp_path):
    stored = Savepoint.open(fixture / "savepoint")
    migrate_in_process(stored, tmp_path / "ours", None, MigrationOptions(parallelism=3))

    assert expected_in(fixture) == found_in(tmp_path / "ours")


def require_places(place):
    """Assert that each key is where its hash says; keys are rows of one column, which Flink hashes by `RowUtils`."""
    (operator,) = (one for one in Savepoint.open(place).operators if one.stored.has_state)
    hashed, most = key_hasher(operator.key.restore_serializer()), operator.stored.max_parallelism
    looked_at = 0
    for handle in keyed_handles(operator.stored):
        with open_keyed(handle, Folder.at(str(place)), most) as reader:
            for block in reader.blocks():
                split = entry_key_format(
                    reader.header.states[block.state_id], operator.key.restore_serializer(), most
                ).split
                for data, _ in block.items():  # noqa: PERF102 - a block is no dict
                    key = decode(operator.key.restore_serializer(), split(data).key)
                    assert key_group(hashed(key), most) == split(data).key_group == block.key_group
                    looked_at += 1
    assert looked_at > 20
    return most


def test_its_keys_are_where_their_hash_says(fixture):
    assert require_places(fixture / "savepoint") == 128


def test_its_keys_get_other_key_groups(fixture, tmp_path):
    options = MigrationOptions(repartition=Repartition(max_parallelism=64), parallelism=2)
    migrate_in_process(Savepoint.open(fixture / "savepoint"), tmp_path / "ours", None, options)

    assert expected_in(fixture) == found_in(tmp_path / "ours")
    assert 64 == require_places(tmp_path / "ours")


def test_the_job_that_it_implies_can_start_from_it(fixture, tmp_path):
    stored = Savepoint.open(fixture / "savepoint")
    place = tmp_path / "implied.py"
    place.write_text(job_source(stored), encoding="utf-8")

    report = check(stored.describe(), run_path(str(place))["job"].describe())

    assert (Decision.START, []) == (
        report.decision,
        [one.uid for one in report.operators if one.uid != "account-state"],
    )
