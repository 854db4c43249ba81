"""States dropped and renamed, operators renamed: by name, on a savepoint of Flink."""

import sys

import pytest

from stateshift import (
    Decision,
    DeclarationError,
    Job,
    ListStateDescriptor,
    Operator,
    Savepoint,
    StateNotFound,
    ValueStateDescriptor,
    check,
    parse_edits,
)
from stateshift.compat.plan_data import to_data
from stateshift.compat.planner import plan
from stateshift.compat.report import Status
from stateshift.state.migration.run import publish_result, split, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder


@pytest.fixture
def accounts(root, monkeypatch):
    """The example job, by version of its class."""
    monkeypatch.syspath_prepend(str(root / "examples"))

    def job(version):
        __import__(f"accounts_v{version}")
        return sys.modules[f"accounts_v{version}"].job

    return job


@pytest.fixture
def edited(savepoint_of, tmp_path):
    """Migrate the account savepoint with edits, in this process."""

    def run(job, **edits):
        source = Savepoint.open(savepoint_of("rocksdb-account-v1"))
        report = check(parse_edits(**edits).apply(source.describe()), job.describe())
        migration = plan(report)
        target = Folder.at(tmp_path / "edited")
        target.create()
        try_out(source, migration)
        tasks = split(source, migration)
        results = [perform(task, source.folder, target) for task in tasks]
        publish_result(source, migration, tasks, results, target)
        return source, report, Savepoint.open(target.place)

    return run


def contents(savepoint, operator, state):
    return sorted((entry.key, repr(entry.value)) for entry in savepoint.operator(operator).state(state).read_entries())


def test_a_dropped_state_is_gone_and_its_entries_are_counted(edited, accounts):
    _, report, result = edited(accounts(3), drop=["version-free"])

    assert Status.DROPPED in {state.status for _, state in report.states()}
    assert "version-free" not in {state.name for state in result.operator("account-state").states}
    (count,) = (count for count in result.lineage.states if count.state == "version-free")
    assert (10, 0, 10, "drop") == (count.read, count.written, count.dropped, count.action)
    assert verify(result).ok


def test_a_dropped_operator_list_is_gone_too(edited, accounts):
    _, _, result = edited(accounts(1), drop=["account-state-lists/pending"])

    assert () == result.operator("account-state-lists").states
    assert verify(result).ok


def test_a_renamed_state_keeps_its_entries(edited):
    job = Job([Operator("account-state", key=int, states=[ValueStateDescriptor("visits", int)])])

    source, report, result = edited(job, rename_states=["version-free=visits"])

    assert Decision.MIGRATE == report.decision
    assert contents(source, "account-state", "version-free") == contents(result, "account-state", "visits")
    assert Decision.START == check(result.describe(), job.describe()).decision
    assert verify(result).ok


def test_a_renamed_state_is_migrated_at_once(edited, accounts):
    account = accounts(3).operators[0].states[0].value_serializer
    job = Job(
        [
            Operator("account-state", key=int, states=[ValueStateDescriptor("customer", account)]),
            Operator("account-state-lists", list_states=[ListStateDescriptor("waiting", account)]),
        ]
    )

    _, _, result = edited(job, rename_states=["account=customer", "pending=waiting"])

    assert ["double", "long"] == [
        field.describe()
        for field in result.operator("account-state").state("customer").description.value.snapshot.stored_fields()
        if field.name in {"score", "visits"}
    ]
    assert 10 == result.operator("account-state-lists").state("waiting").measure().entries
    assert Decision.START == check(result.describe(), job.describe()).decision


def test_a_renamed_operator_is_found_under_its_new_uid(edited):
    job = Job([Operator("accounts", key=int, states=[ValueStateDescriptor("version-free", int)])])

    source, _, result = edited(job, rename_uids=["account-state=accounts"])

    assert contents(source, "account-state", "version-free") == contents(result, "accounts", "version-free")
    assert "accounts" == result.operator("accounts").uid
    assert Decision.START == check(result.describe(), job.describe()).decision
    assert verify(result).ok


def test_edits_are_reported_in_the_lineage(edited, accounts):
    _, _, result = edited(accounts(3), drop=["version-free"], rename_uids=["account-state-lists=lists"])

    operators = {operator["uid"]: operator for operator in result.lineage.plan["operators"]}
    assert {"drop", "convert", "copy"} == {state["action"] for state in operators["account-state"]["states"]}
    assert operators["lists"]["new_operator_id"] is not None


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"drop": ["nothing"]}, "there is no state 'nothing'; there are: account-state/"),
        ({"rename_states": ["nothing=x"]}, "there is no state 'nothing'"),
        ({"rename_uids": ["nothing=x"]}, "no operator has the uid or id 'nothing'"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(savepoint_of, edits, message):
    stored = Savepoint.open(savepoint_of("rocksdb-account-v1")).describe()

    with pytest.raises(StateNotFound, match=message):
        parse_edits(**edits).apply(stored)


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"rename_states": ["account=accounts"]}, "cannot be renamed to 'accounts'"),
        ({"rename_uids": ["account-state=account-state-lists"]}, "cannot be renamed to 'account-state-lists'"),
        ({"rename_states": ["account"]}, "is not of the form OLD=NEW"),
    ],
)
def test_a_name_that_is_taken_is_refused(savepoint_of, edits, message):
    stored = Savepoint.open(savepoint_of("rocksdb-account-v1")).describe()

    with pytest.raises(DeclarationError, match=message):
        parse_edits(**edits).apply(stored)


def test_a_plan_with_edits_is_data(savepoint_of):
    source = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    job = Job([Operator("account-state", key=int, states=[ValueStateDescriptor("visits", int)])])
    migration = plan(check(parse_edits(rename_states=["version-free=visits"]).apply(source.describe()), job.describe()))

    states = {state["name"]: state for operator in to_data(migration)["operators"] for state in operator["states"]}

    assert ("relabel", "visits") == (states["version-free"]["action"], states["version-free"]["new_name"])
