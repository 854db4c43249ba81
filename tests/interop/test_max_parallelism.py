"""Real Flink takes over the max parallelism of a savepoint, and refuses another one that a job sets (ROLE-6)."""

from __future__ import annotations

import pytest

from stateshift import (
    Decision,
    Job,
    ListStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    Target,
    ValueStateDescriptor,
    check,
)
from stateshift.state.testing import migrate_in_process

KEYS = range(300)
TARGETS = {"2.3": Target.FLINK_2_3, "1.20": Target.FLINK_1_20}


def operators(*uids):
    return [Operator(uid, key=int, states=[ValueStateDescriptor("v", int)]) for uid in uids]


@pytest.fixture
def written(tmp_path):
    def write(number, *uids, release="2.3"):
        place = tmp_path / f"{number}-{'-'.join(uids)}"
        target = TARGETS[release]
        with SavepointWriter(place, Job(operators(*uids)), max_parallelism=number, restore_target=target) as writer:
            for uid in uids:
                for key in KEYS:
                    writer.put(uid, "v", key, key)
        return place

    return write


def found(restored):
    """How many keys Flink sees and finds, by uid; or the last cause."""
    if restored["status"] != "restored":
        return restored["causes"][-1]
    lost = any("LOST" in line for line in restored["warnings"])
    return {one["uid"]: len(one["keyed"]["v"]["entries"]) for one in restored["operators"]} | ({"": 0} if lost else {})


@pytest.mark.parametrize("release", ["2.3", "1.20"])
@pytest.mark.parametrize(("number", "ours"), [(128, 1000), (1000, 128)])
def test_flink_refuses_what_the_check_refuses_and_starts_otherwise(written, flink_restore, number, ours, release):
    place = written(number, "a", release=release)
    stored = Savepoint.open(place).describe()

    for sets, decision in ((ours, Decision.REFUSE), (number, Decision.START), (None, Decision.START)):
        report = check(stored, Job(operators("a"), max_parallelism=sets).describe())
        restored = flink_restore(place, parallelism=2, max_parallelism=sets or 0, release=release)

        assert decision is report.decision
        assert ("restored" if decision is Decision.START else "failed") == restored["status"]
        if decision is Decision.REFUSE:
            assert f"max parallelism {number} to new program with max parallelism {ours}" in found(restored)
        elif release == "2.3":  # before, savepoints had no uids
            assert {"a": len(KEYS)} == found(restored)


def test_flink_refuses_another_number_for_an_operator_without_keys(tmp_path, flink_restore):
    job = Job([Operator("a", list_states=[ListStateDescriptor("l", int)])], max_parallelism=64)
    with SavepointWriter(tmp_path / "savepoint", job):
        pass

    assert "failed" == flink_restore(tmp_path / "savepoint", max_parallelism=128)["status"]
    assert "restored" == flink_restore(tmp_path / "savepoint", max_parallelism=0)["status"]


def test_operators_that_are_chained_together_need_the_same_number(written, flink_restore, tmp_path):
    """The number of one operator alone is changed, which a check flags; Flink restores it, and keys are gone."""
    place = written(128, "a", "b")
    migrate_in_process(
        Savepoint.open(place),
        tmp_path / "apart",
        None,
        MigrationOptions(repartition=Repartition(max_parallelism={"b": 64})),
    )
    migrate_in_process(
        Savepoint.open(place), tmp_path / "same", None, MigrationOptions(repartition=Repartition(max_parallelism=64))
    )
    flags = [
        str(flag)
        for _, _, finding in check(
            Savepoint.open(place).describe(),
            Job(operators("a", "b")).describe(),
            repartition=Repartition(max_parallelism={"b": 64}),
        ).findings()
        for flag in finding.flags
    ]

    all_keys = {"a": len(KEYS), "b": len(KEYS)}
    assert ["unverified"] == flags
    assert all_keys == found(flink_restore(tmp_path / "apart", max_parallelism=0))
    assert all_keys == found(flink_restore(tmp_path / "same", max_parallelism=0, chained=True))
    assert all_keys != found(flink_restore(tmp_path / "apart", max_parallelism=0, chained=True))
