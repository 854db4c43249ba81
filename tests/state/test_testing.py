"""Savepoints in a user's tests: built from values, migrated in the process of the test."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stateshift import (
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    StateNotFound,
    ValueStateDescriptor,
)
from stateshift.state.testing import migrate_in_process, write_savepoint


def job(number):
    return Job(
        [
            Operator(
                "shop",
                key=str,
                states=[ValueStateDescriptor("total", number), MapStateDescriptor("stock", str, number)],
                list_states=[ListStateDescriptor("seen", number)],
                broadcast_states=[MapStateDescriptor("prices", str, number)],
            )
        ]
    )


CONTENTS = {
    "shop/total": {"ada": 1, "bob": 2},
    "shop/stock": {"ada": {"pens": 3}},
    "shop/seen": [4, 5],
    "shop/prices": {"pens": 6},
}


def held(savepoint):
    operator = savepoint.operator("shop")
    keyed = {name: {e.key: e.value for e in operator.state(name).read_entries()} for name in ("total", "stock")}
    listed, ([prices], *_) = operator.state("seen").read_elements(), operator.state("prices").read_elements()
    return keyed | {"seen": sorted(element for part in listed for element in part), "prices": prices}


WHAT_IS_HELD = {name.partition("/")[2]: held for name, held in CONTENTS.items()}


def test_all_rooms_are_written_and_migrated(tmp_path):
    before = write_savepoint(tmp_path / "before", job(Int32), CONTENTS, parallelism=2, max_parallelism=8)
    after = migrate_in_process(before, tmp_path / "after", job(int))

    assert WHAT_IS_HELD == held(before) == held(after)
    assert "long" == after.operator("shop").state("total").description.describe()


def test_options_are_those_of_a_migration(tmp_path):
    before = write_savepoint(tmp_path / "before", job(int), CONTENTS)
    after = migrate_in_process(before, tmp_path / "after", options=MigrationOptions(parallelism=3))

    assert 3 == after.operator("shop").parallelism
    assert WHAT_IS_HELD == held(after)


def test_a_state_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(StateNotFound, match="'orders'"):
        write_savepoint(tmp_path / "before", job(int), {"shop/orders": {"ada": 1}})


def test_what_a_check_refuses_is_refused(tmp_path):
    before = write_savepoint(tmp_path / "before", job(int), CONTENTS)
    with pytest.raises(IncompatibleState):
        migrate_in_process(before, tmp_path / "after", job(Int32))

    assert not (tmp_path / "after").exists()


USERS_TEST = """
from stateshift import Int32, Job, Operator, ValueStateDescriptor

def job(number):
    return Job([Operator("shop", key=str, states=[ValueStateDescriptor("total", number)])])

def test_totals_survive(savepoint_builder, migrate_here):
    before = savepoint_builder(job(Int32), {"shop/total": {"ada": 1}})
    after = migrate_here(before, job(int))
    assert [1] == [entry.value for entry in after.operator("shop").state("total").read_entries()]
    assert before.place != after.place != migrate_here(before, job(int)).place
"""


def test_the_fixtures_are_there_for_a_user(tmp_path):
    (tmp_path / "test_totals.py").write_text(USERS_TEST)
    plugin = "stateshift.state.testing"
    options = ["-p", plugin] if plugin not in _installed() else []
    command = [sys.executable, "-m", "pytest", "-q", *options, "test_totals.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


def _installed():
    from importlib.metadata import entry_points

    return {point.value for point in entry_points(group="pytest11")}
