"""Runs of migrations (harness cases, section K; those on Spark and of the tools lie next to what they are about)."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from harness.migrating import entries_of, job_of, keyed_entries, migrated, written

from stateshift import (
    BigInt,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    TtlValue,
    ValueStateDescriptor,
    Verdict,
    check,
    load_job,
    migrate,
    serializer_for,
)
from stateshift.compat.report import Status
from stateshift.compat.testing import V1, V2
from stateshift.state.key_groups import key_group, key_hasher, prefix_size
from stateshift.state.migration.planning import NewTypes, make_plan
from stateshift.state.savepoint.verify import verify

COUNTS = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", BigInt)])])
AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
NOW, DAY_MS = int(AT.timestamp() * 1000), 86_400_000


@pytest.fixture
def accounts(root, monkeypatch):
    """`accounts(3)`: the job of examples/accounts_v3.py."""
    monkeypatch.syspath_prepend(str(root / "examples"))
    return lambda version: load_job(f"accounts_v{version}:job")


def facts_of(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path(folder).iterdir()}


@pytest.mark.slow
def test_publish_is_atomic(tmp_path):
    """K02: killed at each step that writes, and the target is no savepoint or the whole one."""
    entries = {key: key for key in range(1500)}
    written(tmp_path / "old", job_of(ValueStateDescriptor("s", V1())), "s", entries, parallelism=2)
    before = facts_of(tmp_path / "old")
    script = Path(__file__).parent / "killed_at_each_step.py"

    ran = subprocess.run(
        [sys.executable, script, tmp_path / "old", tmp_path], capture_output=True, text=True, check=False
    )
    last, status = ran.stdout.split()
    is_published = [(tmp_path / str(step) / "_metadata").exists() for step in range(1, int(last) + 1)]

    assert ("", "0") == (ran.stderr, status)
    assert len(is_published) > 10
    assert sorted(is_published) == is_published, "what is published stays"
    assert not is_published[-3]
    assert is_published[-1]
    whole = {name: data for name, (_, data) in facts_of(tmp_path / "whole").items() if name != "_stateshift.json"}
    for step, published in enumerate(is_published, 1):
        if published:
            left = facts_of(tmp_path / str(step))
            assert facts_of(tmp_path / "whole").keys() == left.keys()
            assert whole == {name: left[name][1] for name in whole}
            assert verify(Savepoint.open(tmp_path / str(step))).ok
    again = migrated(tmp_path / "old", tmp_path / "1", job_of(ValueStateDescriptor("s", V2())))
    assert entries == entries_of(again, "s")
    assert before == facts_of(tmp_path / "old")


def per_group(savepoint):
    return {place: len(entries) for place, entries in keyed_entries(savepoint).items()}


def test_counts_and_checksums(tmp_path):
    """K03, RUN-2: read is written and dropped, of the state and in each key group; the checksum is that of the keys."""
    stamped = {key: TtlValue(NOW - (2 * DAY_MS if key % 3 == 0 else 5), key) for key in range(300)}
    old = written(tmp_path / "old", job_of(ValueStateDescriptor("s", V1(), time_to_live=True)), "s", stamped)
    bare = job_of(ValueStateDescriptor("s", V2(), former_time_to_live=dt.timedelta(days=1)))
    at = MigrationOptions(reference_time=AT)
    found = migrated(old.place, tmp_path / "new", bare, at)
    spread = migrated(old.place, tmp_path / "spread", bare, MigrationOptions(reference_time=AT, parallelism=7))
    fewer = written(tmp_path / "fewer", job_of(ValueStateDescriptor("s", V1())), "s", {1: 1, 2: 2})
    one_less = migrated(fewer.place, tmp_path / "less", job_of(ValueStateDescriptor("s", V2())))

    (count,), (again,), (other,) = (each.lineage.states for each in (found, spread, one_less))
    hash_of = key_hasher(serializer_for(int))
    expired = Counter(("s", key_group(hash_of(key), 128)) for key in stamped if key % 3 == 0)
    assert (300, 200, 100) == (count.read, count.written, count.dropped)
    assert per_group(old) == {place: per_group(found).get(place, 0) + expired[place] for place in per_group(old)}
    assert count.keys
    assert count.keys == again.keys != other.keys


@pytest.mark.parametrize("name", ["rocksdb-long-p2-m200-files", "hashmap-long-p2-m128-snappy"])
@pytest.mark.parametrize("parallelism", [None, 3])
def test_key_groups_preserved(savepoint_of, tmp_path, name, parallelism):
    """K04: all entries keep their keys and key groups, and that of a key is the one it hashes to."""
    old = Savepoint.open(savepoint_of(name))
    found = migrated(old.place, tmp_path / "new", COUNTS, MigrationOptions(parallelism=parallelism))

    keys_before, keys_after = (
        {place: sorted(key for key, _ in entries) for place, entries in keyed_entries(each, uid="keyed-op").items()}
        for each in (old, found)
    )
    groups = found.operator("keyed-op").max_parallelism
    prefix, hash_of = prefix_size(groups), key_hasher(serializer_for(int))
    counted = [(group, key) for (state, group), keys in keys_after.items() if state == "count" for key in keys]
    assert keys_before == keys_after
    assert counted
    for group, key in counted:
        number = int.from_bytes(key[prefix : prefix + 8], "big", signed=True)
        assert group == int.from_bytes(key[:prefix], "big") == key_group(hash_of(number), groups)


def test_dry_run_changes_nothing_and_predicts(savepoint_copy, accounts, tmp_path):
    """K07, READ-5: a plan shows the counts and readers of the run."""
    source, job = savepoint_copy("rocksdb-account-v1"), accounts(3)
    before = facts_of(source)
    planned = make_plan(Savepoint.open(source), job, MigrationOptions(), NewTypes())
    report = migrate(source, tmp_path / "new", job, dry_run=True)
    assert not (tmp_path / "new").exists()
    found = migrated(source, tmp_path / "new", job)

    predicted = {
        (operator["operator_id"], state["name"]): (state["entries"], [piece["reader"] for piece in state["rewrites"]])
        for operator in planned.operators
        for state in operator["states"]
    }
    plans = {
        (operator["operator_id"], state["name"]): [piece["reader"] for piece in state["rewrites"]]
        for operator in found.lineage.plan["operators"]
        for state in operator["states"]
    }
    real = {
        (count.operator_id, count.state): (count.read, plans.get((count.operator_id, count.state), []))
        for count in found.lineage.states
    }
    assert predicted == real
    assert {place for place, tried in report.tried.items() if tried} == {place for place, (_, by) in real.items() if by}
    assert before == facts_of(source)


def test_lineage_chain(tmp_path):
    """K09, RUN-6: the history shows both migrations, with plans and the flags that were accepted."""
    jobs = [
        job_of(ValueStateDescriptor("text", text), ValueStateDescriptor("number", number))
        for text, number in ((bytes, int), (str, int), (str, float))
    ]
    written(tmp_path / "0", jobs[0], "text", {1: b"a"})
    for step in (1, 2):
        migrated(tmp_path / str(step - 1), tmp_path / str(step), jobs[step])
    third = migrated(tmp_path / "2", tmp_path / "3", jobs[2]).lineage

    def flags(plan):
        states = [state for operator in plan["operators"] for state in operator["states"]]
        return {state["name"]: [flag["flag"] for flag in state["flags"]] for state in states if state["flags"]}

    assert [None, str(tmp_path / "0"), str(tmp_path / "1")] == [
        (past["source"] or {}).get("place") for past in third.history
    ]
    assert [{"text": ["may_fail_per_value"]}, {"number": ["lossy"]}] == [
        flags(past["plan"]) for past in third.history if past["plan"]
    ]
    assert str(tmp_path / "2") == third.source["place"]


def check_again(found, job):
    report = check(found.describe(), job.describe())
    verdicts = [state.result.verdict for _, state in report.states() if state.status is Status.MATCHED]
    assert verdicts
    assert {Verdict.COMPATIBLE} == set(verdicts)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("name", ["rocksdb-account-v1", "hashmap-account-v1"])
def test_migrate_then_check(savepoint_of, accounts, tmp_path, name, version):
    """K10: after a migration of what Flink wrote, each state is compatible as it is."""
    check_again(migrated(savepoint_of(name), tmp_path / "new", accounts(version)), accounts(version))


def test_migrate_then_check_of_every_kind_of_state(tmp_path):
    was, becomes = (
        job_of(
            ValueStateDescriptor("value", serializer, time_to_live=has_ttl),
            ListStateDescriptor("list", serializer),
            MapStateDescriptor("map", str, serializer),
            list_states=[ListStateDescriptor("split", serializer)],
            broadcast_states=[MapStateDescriptor("broadcast", serializer, serializer)],
        )
        for serializer, has_ttl in ((V1(), False), (V2(), True))
    )
    written(tmp_path / "old", was, "map", {1: {"a": 1}, 2: {"b": 2}})

    check_again(migrated(tmp_path / "old", tmp_path / "new", becomes), becomes)
