"""What a check cannot know is refused until a person says it: which state a name means, and what was done already."""

from __future__ import annotations

import pytest

from stateshift import Job, Operator, Row, Savepoint, SavepointWriter, ValueStateDescriptor, row_of

START, REFUSE, LOOK = 0, 1, 4
OTHER_NAME = """
from accounts_v1 import Account
from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor

job = Job([
    Operator("account-state", key=int, states=[
        ValueStateDescriptor("account", Account), ListStateDescriptor("accounts", Account),
        MapStateDescriptor("account-by-name", str, Account), ValueStateDescriptor("versionfree", int),
    ]),
    Operator("UID", list_states=[ListStateDescriptor("pending", Account)]),
])
"""


@pytest.fixture
def check(run, savepoint_of, example_jobs, monkeypatch):
    """`check(uid, …)`: of a job in which a state is misspelt, and the second operator has this uid."""
    monkeypatch.syspath_prepend(str(example_jobs))

    def asked(uid, *options):
        (example_jobs / "misspelt.py").write_text(OTHER_NAME.replace("UID", uid), encoding="utf-8")
        return run("check", savepoint_of("rocksdb-account-v1"), "--job", "misspelt:job", *options)

    return asked


class TestNames:
    """State that is not taken over, and state that starts empty (STATE-7)."""

    UID = "account-state-lists"

    def test_a_misspelt_state_is_refused_and_both_sides_are_counted(self, check):
        ran = check(self.UID)

        assert REFUSE == ran.status
        assert "; 1 stored state is not taken; 1 state starts empty\n" in ran.stdout
        assert "although the stored state 'version-free', which is like it, is not taken  [STATE-7]" in ran.stdout
        assert "--rename-state version-free=versionfree; or if it is meant to start empty: --allow-empty" in ran.stdout

    def test_suggestions_are_made_for_each_side(self, check):
        empty = ("--allow-empty", "account-state/versionfree")

        assert LOOK == check(self.UID, *empty).status
        assert START == check(self.UID, *empty, "--allow-non-restored-state").status
        renamed = check(self.UID, "--rename-state", "version-free=versionfree")
        assert LOOK == renamed.status
        assert renamed.stdout.startswith("migrate: 1 of 7 states")

    def test_a_misspelt_uid_is_refused_with_the_likely_one(self, check):
        ran = check("account-lists", "--rename-state", "version-free=versionfree")

        assert REFUSE == ran.status
        assert "--rename-uid account-state-lists=account-lists" in ran.stdout


def test_columns_are_put_in_their_new_order_once(run, job_folder, monkeypatch, tmp_path):
    """STATE-8: types do not show the order of columns; the lineage shows that it was changed."""
    monkeypatch.syspath_prepend(str(job_folder))
    (job_folder / "ordered.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor, row_of\n"
        'columns = row_of({"b": int, "a": int}, stored=("a", "b"))\n'
        'job = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", columns)])])\n',
        encoding="utf-8",
    )
    before = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", row_of({"a": int, "b": int}))])])
    with SavepointWriter(tmp_path / "old", before) as writer:
        writer.put("o", "s", 1, Row(1, 2))
    job, new = ("--job", "ordered:job"), tmp_path / "new"

    assert REFUSE == run("check", tmp_path / "old", *job).status
    assert REFUSE == run("migrate", tmp_path / "old", new, *job).status
    assert LOOK == run("check", tmp_path / "old", *job, "--convert", "s").status
    assert START == run("migrate", tmp_path / "old", new, *job, "--convert", "s").status

    (entry,) = Savepoint.open(new).operator("o").state("s").read_entries()
    assert [2, 1] == list(entry.value)
    for options in ((), ("--convert", "s")):
        ran = run("check", new, *job, *options)
        assert REFUSE == ran.status, options
        assert "in their new order already, according to the lineage of the savepoint  [STATE-8]" in ran.stdout
