"""What a restart accepts, migrates and refuses; other numbers of slots; lost and foreign checkpoints and state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from streaming_accounts import accounts_module
from streaming_queries import BY_CARRIER

from stateshift import (
    DeclarationError,
    KeyedProcessFunction,
    MigrationOptions,
    Savepoint,
    SavepointNotFound,
    TargetExists,
    ValueStateDescriptor,
)
from stateshift.compat.edits import Edits
from stateshift.spark import rewind
from stateshift.spark.streaming.carriers import TRANSFORM
from stateshift.spark.streaming.job import StreamJob
from stateshift.state.backends.restore_check import RestoreRefused
from stateshift.state.formats.spark.commit_log import NOTE

COLUMNS = "user string, amount long"


@pytest.fixture
def accounts(load):
    """`accounts(1)`: the query of a version of the class; version 2 has one more field."""
    modules = {}

    def version(number):
        field = {1: "", 2: 'currency: str = "EUR"', 3: "number: int"}[number]
        name = f"accounts_{number}"
        if number not in modules:
            modules[number] = load(name, **{name: accounts_module(["accounts_1"], [field] if field else [])})
        return lambda job, query: job.stream(query.frame()).key_by("user").process(
            modules[number].Accounts(), uid="accounts", output_type=tuple[str, str]
        )  # fmt: skip

    return version


BATCHES = [[("ann", 1), ("bob", 2)], [("ann", 3), ("cy", 4)], [("ann", 5), ("bob", 6), ("dan", 7)]]


@pytest.mark.slow
@BY_CARRIER
def test_a_class_with_one_more_field_is_refused_and_then_migrated(query, carrier, accounts, tmp_path):
    live, whole = query(COLUMNS, carrier=carrier), query(COLUMNS, carrier=carrier)
    whole.place = tmp_path / "whole"
    for number, rows in enumerate(BATCHES):
        whole.feed(*rows)
        live.feed(*rows)
        if number == 1:
            live.run(accounts(1))
    with pytest.raises(RestoreRefused, match="before that is migrated"):
        live.run(accounts(2))
    refused = live.results()
    live.run(accounts(2), on_incompatible="migrate")
    whole.run(accounts(2))

    assert refused == [
        ("ann", "Account(total=1, visits=1)"),
        ("ann", "Account(total=4, visits=2)"),
        ("bob", "Account(total=2, visits=1)"),
        ("cy", "Account(total=4, visits=1)"),
    ]
    since = [row for row in live.results() if row not in refused]
    assert since == [
        ("ann", "Account(total=9, visits=3, currency='EUR')"),
        ("bob", "Account(total=8, visits=2, currency='EUR')"),
        ("dan", "Account(total=7, visits=1, currency='EUR')"),
    ]
    assert set(since) < set(whole.results())
    assert live.directory.last_epoch.number == 2
    live.feed(("cy", 1))
    live.run(accounts(2))
    assert ("cy", "Account(total=5, visits=2, currency='EUR')") in live.results()


@pytest.mark.slow
def test_a_state_that_was_renamed_is_found_with_the_option_that_says_so(query, load):
    live = query(COLUMNS)
    source = accounts_module(["accounts_1"])
    old = load("accounts_1", accounts_1=source)
    new = load("accounts_r", accounts_r=source.replace('("account", ', '("accounts", '))

    def build(module):
        return lambda job, query: job.stream(query.frame()).key_by("user").process(
            module.Accounts(), uid="accounts", output_type=tuple[str, str]
        )  # fmt: skip

    live.feed(("ann", 1))
    live.run(build(old))
    live.feed(("ann", 2))
    options = MigrationOptions(edits=Edits(rename_states=(("account", "accounts"),)))
    with pytest.raises(RestoreRefused, match="the query cannot go on from its state in") as refused:
        live.run(build(new), on_incompatible="migrate")
    assert 'options=MigrationOptions(edits=parse_edits(rename_states=["account=accounts"]))' in str(refused.value)
    assert 'options=MigrationOptions(policy=Policy(allow_empty=["accounts/accounts"]))' in str(refused.value)
    assert "MigrationOptions()" not in str(refused.value)
    assert not set(str(refused.value).split()) & {"--rename-state", "--allow-empty", "program", "savepoint"}
    with pytest.raises(DeclarationError, match="by a migration"):
        live.run(build(new), options=options)
    live.run(build(new), options=options, on_incompatible="migrate")

    assert [("ann", "Account(total=1, visits=1)"), ("ann", "Account(total=3, visits=2)")] == live.results()


@pytest.mark.slow
def test_an_upgrade_without_new_rows_is_committed(query, accounts):
    live = query(COLUMNS)
    live.feed(("ann", 1), ("bob", 2))
    live.run(accounts(1))
    live.run(accounts(2), on_incompatible="migrate")
    upgraded = live.directory.last_epoch.number
    live.run(accounts(2))
    live.run(accounts(2), on_incompatible="migrate")

    assert upgraded == live.directory.last_epoch.number
    assert 2 == len(live.results())


def test_a_type_that_cannot_be_read_is_refused_whatever_is_asked_for(query, accounts, facts_of):
    live = query(COLUMNS)
    live.feed(*BATCHES[0])
    live.run(accounts(1))
    before = facts_of(live.place / "state")

    with pytest.raises(RestoreRefused, match="number"):
        live.run(accounts(3), on_incompatible="migrate")
    assert {path: data for path, (_, data) in before.items()} == {
        path: data for path, (_, data) in facts_of(live.place / "state").items()
    }


@pytest.mark.slow
@BY_CARRIER
def test_another_number_of_slots_and_back(query, carrier, accounts):
    live = query(COLUMNS, carrier=carrier)
    users = [f"user {number}" for number in range(20)]
    for slots in (2, 3, 2, 2):
        live.feed(*((user, 1) for user in users))
        live.run(accounts(1), slots=slots)

    expected = [(user, f"Account(total={count}, visits={count})") for user in users for count in (1, 2, 3, 4)]
    assert sorted(expected) == live.results()
    assert (3, 2) == (live.directory.last_epoch.number, live.directory.last_epoch.slots)


@pytest.fixture
def started(query, accounts):
    """A query that has run."""
    live = query(COLUMNS)
    live.feed(*BATCHES[0])
    live.run(accounts(1))
    live.feed(*BATCHES[1])
    return live


class Unopened(KeyedProcessFunction):
    """Asks for what is not there, or for a state of a type that is none."""

    def __init__(self, ask):
        self.ask = ask

    def open(self, runtime_context):
        self.ask(runtime_context)

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda context: context.get_state(ValueStateDescriptor("total", object())), "'accounts' cannot be opened"),
        (lambda context: context.get_stat("total"), "'accounts' cannot be opened: AttributeError: .*get_stat"),
    ],
    ids=["a type that is none", "a method that is not there"],
)
def test_a_function_that_cannot_be_opened_is_refused_before_anything_is_written(query, ask, words):
    live = query(COLUMNS)
    live.feed(*BATCHES[0])
    with pytest.raises(DeclarationError, match=words):
        live.run(lambda job, query: job.stream(query.frame()).key_by("user").process(Unopened(ask), uid="accounts"))
    assert ["in"] == [path.name for path in live.place.iterdir()]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda writer: writer.option("checkpointLocation", "/elsewhere"), "the writer has the checkpoint /elsewhere"),
        (lambda writer: writer.outputMode("complete"), "the writer has the output mode 'complete'"),
    ],
    ids=["checkpoint", "output mode"],
)
def test_what_the_job_sets_on_a_writer_is_not_replaced_silently(query, accounts, own, words):
    live = query(COLUMNS)
    job = live.job()
    writer = own(live.writer(accounts(1)(job, live)))
    with pytest.raises(DeclarationError, match=words):
        job.start(writer, available_now=True)
    assert not (live.place / "state").exists()
    assert not (live.place / "checkpoint").exists()


@pytest.mark.slow
def test_a_second_query_or_a_copy_is_refused_while_one_runs(started, accounts, tmp_path):
    job = started.job()
    running = started.start(job, accounts(1)(job, started))
    with pytest.raises(TargetExists, match=r"the query with the state in .*/state is running(?s:.*)stop it first"):
        started.run(accounts(1))
    with pytest.raises(TargetExists, match="is running"):
        rewind(started.place / "state", tmp_path / "copy", tmp_path / "copy-checkpoint")
    running.stop()
    assert not (tmp_path / "copy").exists()


def test_a_new_checkpoint_over_old_state_is_refused(started, accounts):
    shutil.rmtree(started.place / "checkpoint")
    with pytest.raises(DeclarationError, match=r"has no state of a query like this\n.*with a new state directory"):
        started.run(accounts(1))


@pytest.mark.slow
def test_a_checkpoint_without_its_state_is_refused(started, accounts):
    (started.place / "state").rename(started.place / "gone")
    with pytest.raises(DeclarationError, match=r"has batches, but there is no state in .*\n.*pass the state directory"):
        started.run(accounts(1))
    assert not (started.place / "state").exists()
    (started.place / "gone").rename(started.place / "state")
    started.run(accounts(1))
    assert len(started.results()) == 4


def test_the_checkpoint_is_no_savepoint_but_says_where_its_state_is(started):
    with pytest.raises(SavepointNotFound, match=r"a query whose state is in .*/state: name that folder"):
        Savepoint.open(started.place / "checkpoint")
    (started.place / "checkpoint" / NOTE).unlink()
    with pytest.raises(SavepointNotFound, match=r"take spark:/.*/checkpoint"):
        Savepoint.open(started.place / "checkpoint")


@pytest.mark.slow
def test_a_copy_of_the_checkpoint_is_refused(started, accounts):
    shutil.copytree(started.place / "checkpoint", started.place / "copy")
    job = StreamJob(started.place / "state", started.place / "copy")
    with pytest.raises(DeclarationError, match=r"is a copy of .*/checkpoint, which the state in .* is of"):
        started.start(job, accounts(1)(job, started))


@pytest.mark.slow
def test_a_checkpoint_that_was_replaced_is_refused(started, accounts, query, tmp_path):
    other = query(COLUMNS)
    other.place = tmp_path / "other"
    other.feed(*BATCHES[0])
    other.run(accounts(1))
    shutil.rmtree(started.place / "checkpoint")
    shutil.copytree(other.place / "checkpoint", started.place / "checkpoint")
    with pytest.raises(DeclarationError, match="has the state of another query"):
        started.run(accounts(1))


def test_another_carrier_is_refused(started, accounts):
    with pytest.raises(DeclarationError, match=r"ran with the carrier 'apply_in_pandas.*\n.*without a carrier"):
        started.run(accounts(1), carrier=TRANSFORM)


@pytest.mark.slow
def test_state_and_checkpoint_that_were_moved_go_on(started, accounts):
    moved = started.place / "moved"
    moved.mkdir()
    for name in ("state", "checkpoint"):
        (started.place / name).rename(moved / name)
    started.state, started.checkpoint = str(moved / "state"), str(moved / "checkpoint")
    with pytest.raises(SavepointNotFound, match="start the query once from there"):
        Savepoint.open(moved / "state")
    started.run(accounts(1))
    started.feed(*BATCHES[2])
    started.run(accounts(1), slots=3)  # what was written before they were moved is needed, too

    totals = {entry.key: entry.value.total for entry in accounts_in(started)}
    assert totals == {"ann": 9, "bob": 8, "cy": 4, "dan": 7}


def accounts_in(query):
    return Savepoint.open(query.state).operator("accounts").state("account").read_entries()


@pytest.mark.slow
def test_a_copy_of_the_state_is_refused(started, accounts):
    shutil.copytree(started.place / "state", started.place / "copy")
    job = StreamJob(started.place / "copy", started.place / "checkpoint")
    with pytest.raises(DeclarationError, match=r"state in .*/copy is a copy of that in .*/state"):
        started.start(job, accounts(1)(job, started))
