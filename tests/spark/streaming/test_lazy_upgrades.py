"""State of a query that is migrated lazily: right at any moment, across further upgrades and the death of slots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import attrs
import pyarrow as pa
import pytest
from click.testing import CliRunner
from lazy_lives import Life
from streaming_batches import BACKENDS

from stateshift import (
    DeclarationError,
    Field,
    Job,
    KeyedProcessFunction,
    Operator,
    Savepoint,
    ValueStateDescriptor,
    record,
)
from stateshift.cli import main
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.backends.restore_check import RestoreRefused
from stateshift.state.streaming import slot


@attrs.frozen
class Visit:
    user: str
    amount: int


@attrs.frozen
class First:
    total: int


@record(aliases=[f"{__name__}.First"])
@attrs.frozen
class Second:
    amount: Annotated[int, Field(aliases=["total"])]
    visits: int = 7


@record(aliases=[f"{__name__}.First", f"{__name__}.Second"])
@attrs.frozen
class Third:
    """Its field was renamed twice: the first name is not known any more, and a default would hide that."""

    sum: Annotated[int, Field(aliases=["amount"])] = -1
    visits: int = 9


class Accounts(KeyedProcessFunction):
    def __init__(self, account, name):
        self.account, self.name = account, name

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("account", self.account))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[str]:
        before = self.state.value()
        total = (0 if before is None else getattr(before, self.name)) + value.amount
        after = self.account(total) if before is None else attrs.evolve(before, **{self.name: total})
        self.state.update(after)
        yield repr(after)


VERSIONS = {1: (First, "total"), 2: (Second, "amount"), 3: (Third, "sum")}


Other = record(aliases=[f"{__name__}.First"])(
    attrs.make_class(
        "Second",
        {
            "amount": attrs.field(type=Annotated[int, Field(aliases=["total"])]),
            "visits": attrs.field(default=8, type=int),
        },
        frozen=True,
        class_body={"__module__": __name__},
    )
)


def job_of(account, state="account"):
    return Job([Operator("operator", key=str, states=[ValueStateDescriptor(state, account)])])


job_1, job_2, job_3, job_other = map(job_of, (First, Second, Third, Other))
job_wallet = job_of(Second, "wallet")


def visits(*users):
    return [{"user": user, "amount": 1} for user in users]


class Visits(Life):
    """A query that keeps an account for each user."""

    def __init__(self, place, backend):
        functions = {version: Accounts(*of) for version, of in VERSIONS.items()}
        schema = {"user": pa.string(), "amount": pa.int64()}
        super().__init__(place, backend, functions, schema=schema, key=("user",), element=Visit)

    def batch(self, *users):
        return sorted(row["value"] for row in self.engine.batch(visits(*users)))

    @property
    def tables(self):
        return sorted(
            state.name
            for state in Savepoint.open(self.place).operator("operator").states
            if "account" in state.name
        )  # fmt: skip


@pytest.fixture
def life(tmp_path, backend):
    return Visits(tmp_path, backend)


@pytest.fixture
def slowly(monkeypatch):
    """What nobody touches stays as it is."""
    monkeypatch.setattr(slot, "MIGRATED_PER_BATCH", 0)


USERS = tuple(f"user {number}" for number in range(6))


@pytest.fixture
def midway(life, request):
    """The state in the middle of a lazy upgrade to the second class: the value of one user has been migrated."""
    request.getfixturevalue("slowly")
    life.start(1)
    life.batch(*USERS)
    life.start(2, "lazy")
    life.batch(USERS[0])
    return life


@pytest.mark.usefixtures("slowly")
def test_values_are_migrated_when_they_are_written(life):
    life.start(1)
    life.batch(*USERS)
    with pytest.raises(RestoreRefused, match='or "lazy"'):
        life.start(2)
    life.start(2, "lazy")
    assert ["Second(amount=2, visits=7)"] == life.batch(USERS[0])
    life.start(2)
    assert ["Second(amount=2, visits=7)", "Second(amount=3, visits=7)"] == life.batch(USERS[0], USERS[1])
    if life.backend is not BACKENDS["hashmap"]:
        assert 2 == life.engine.directory.last_epoch.number
        assert ["account", "stateshift/lazy-2/account"] == life.tables
        operator = Savepoint.open(life.place).operator("operator")
        table = next(state for state in operator.states if state.name == "account")
        assert set(USERS[2:]) == {entry.key for entry in table.read_entries()}
        assert set(USERS) == {entry.key for entry in operator.state("account").read_entries()}


def test_a_second_upgrade_knows_what_the_first_one_would_have_done(midway):
    """A direct way from the first to the third class would drop the total, and take another default."""
    if midway.backend is not BACKENDS["hashmap"]:
        with pytest.raises(DeclarationError, match="the lazy migration to those before is not over"):
            midway.start(3)
    midway.start(3, "lazy")
    assert ["Third(sum=2, visits=7)", "Third(sum=3, visits=7)"] == midway.batch(USERS[0], USERS[1])
    midway.start(3)
    assert ["Third(sum=2, visits=7)", "Third(sum=3, visits=7)"] == midway.batch(USERS[1], USERS[2])


@pytest.mark.parametrize("slots", [1, 2])
def test_it_ends_by_itself_and_the_table_has_its_name_again(life, slots):
    life.start(1, slots=slots)
    life.batch(*USERS)
    life.start(2, "lazy", slots=slots)
    for _ in range(2):
        life.batch(USERS[0])
        life.engine.new_process()
    life.start(2)
    life.batch(USERS[0])
    life.start(2)

    assert ["account"] == life.tables
    assert {} == life.engine.directory.last_epoch.lazy
    assert ["Second(amount=2, visits=7)", "Second(amount=5, visits=7)"] == life.batch(USERS[0], USERS[1])


def test_migrate_finishes_what_is_left(midway):
    midway.start(2, "migrate")
    assert ["Second(amount=2, visits=7)", "Second(amount=3, visits=7)"] == midway.batch(USERS[0], USERS[1])
    midway.start(3, "migrate")
    assert ["Third(sum=2, visits=7)", "Third(sum=4, visits=7)"] == midway.batch(USERS[0], USERS[2])


def test_other_slots_in_the_middle_of_it(midway):
    midway.start(2, slots=3)
    assert ["Second(amount=2, visits=7)", "Second(amount=3, visits=7)"] == midway.batch(USERS[0], USERS[1])
    midway.start(3, "lazy", slots=1)
    assert ["Third(sum=2, visits=7)", "Third(sum=4, visits=7)"] == midway.batch(USERS[0], USERS[2])


@pytest.mark.slow
@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("how", ["lazy", "migrate"])
def test_of_5_000_users_each_has_its_value_through_two_upgrades_and_other_numbers_of_slots(life, how):
    users = [f"user {number}" for number in range(5000)]
    total = dict.fromkeys(users, 0)

    def batch(shown, *some):
        for user in some:
            total[user] += 1
        assert sorted(shown.format(total[user]) for user in some) == life.batch(*some)

    life.start(1)
    batch("First(total={})", *users)
    life.start(2, "lazy")
    batch("Second(amount={}, visits=7)", *users[::10])
    life.start(2, slots=3)
    batch("Second(amount={}, visits=7)", *users[5::20])
    life.start(3, how, slots=2)
    batch("Third(sum={}, visits=7)", *users[::15])
    life.start(3)
    batch("Third(sum={}, visits=7)", *users)


@pytest.mark.slow
@pytest.mark.usefixtures("slowly")
def test_commands_on_5_000_users_of_which_a_tenth_was_touched(life, tmp_path):
    """Every value is right, or the command refuses; the query then goes on as before."""
    users = [f"user {number}" for number in range(5000)]
    expected = {user: (2 if number % 10 == 0 else 1, 7) for number, user in enumerate(users)}
    is_half = life.backend is not BACKENDS["hashmap"]
    life.start(1, slots=3)
    life.batch(*users)
    life.start(2, "lazy", slots=3)
    life.batch(*users[::10])

    def ran(*arguments):
        found = CliRunner().invoke(main, [str(one) for one in arguments])
        return found.exit_code, found.stdout

    def values(place, state="account"):
        read = Savepoint.open(place).operator("operator").state(state).read_entries()
        return {entry.key: (entry.value["amount"], entry.value["visits"]) for entry in read}

    job, place = ["--job", f"{__name__}:job_2"], life.place
    assert (4 if is_half else 0) == ran("check", place, *job)[0]
    assert not is_half or ran("check", place, "--job", f"{__name__}:job_3")[0] == 1
    assert not is_half or ran("migrate", place, tmp_path / "no", "--job", f"{__name__}:job_1")[0] == 1
    assert 0 == ran("verify", place, "--values")[0]
    assert len(users) == len(ran("export", place, "--state", "account")[1].splitlines())
    changes = {"done": [], "one": ["--parallelism", "1"], "groups": ["--repartition", "--max-parallelism", "64"]}
    for name, more in changes.items():
        assert 0 == ran("migrate", place, tmp_path / name, *job, *more)[0]
        assert 0 == ran("verify", tmp_path / name, "--values")[0]
        assert expected == values(tmp_path / name)
    renamed = ["--job", f"{__name__}:job_wallet", "--rename-state", "account=wallet"]
    assert 0 == ran("migrate", place, tmp_path / "wallet", *renamed)[0]
    assert expected == values(tmp_path / "wallet", "wallet")
    assert sorted(f"Second(amount={expected[user][0] + 1}, visits=7)" for user in users) == life.batch(*users)


def test_the_way_back_is_refused_where_it_loses_something_unless_that_is_accepted(midway):
    for how in ("migrate", "lazy"):
        with pytest.raises(RestoreRefused, match=r"drops:\$\.visits"):
            midway.start(1, how)


def test_a_savepoint_in_the_middle_of_it_is_refused(midway, tmp_path):
    if midway.backend is not BACKENDS["hashmap"]:
        with pytest.raises(DeclarationError, match="the lazy migration of 'account' is not over"):
            take_savepoint(midway.place, tmp_path / "savepoint")


def test_commands_read_the_state_in_the_middle_of_it(midway, tmp_path):
    place = str(midway.place)

    def ran(*arguments):
        found = CliRunner().invoke(main, [str(one) for one in arguments])
        assert found.exit_code == 0, found.output
        return found.stdout

    shown = ran("inspect", place)
    lines = map(json.loads, ran("export", place).splitlines())
    rows = [(row["key"], row.get("lazy_version")) for row in lines if row["state"] == "account"]
    tagged = json.loads(ran("export", place, "--format", "tagged"))["operators"][0]["keyed"]["account"]
    inspected = json.loads(ran("inspect", place, "--state", "account", "--json"))["operators"][0]["states"]
    assert sorted(USERS) == sorted(key for key, _ in rows) == sorted(key for key, _ in tagged["entries"])
    if midway.backend is not BACKENDS["hashmap"]:
        assert "account is migrated lazily: 5 entries are left" in shown
        assert "version 2 of a lazy migration" in shown
        assert [(USERS[0], 2)] == [row for row in rows if row[1] != 1]
        assert {"1": 5, "2": 1} == tagged["lazy_versions"]
        assert [("account", 1, 5), ("account", 2, 1)] == [
            (state["name"], state["lazy_version"], state["entries"]) for state in inspected
        ]
    else:
        assert "lazy" not in shown
        assert ["account"] == [state["name"] for state in inspected]
        assert "lazy_versions" not in tagged
    assert "stateshift/lazy" not in shown
    ran("verify", place)
    ran("diff", place, place)
    ran("snapshot", place, "-o", tmp_path / "types.json")
    ran("migrate", place, tmp_path / "copy")
    ran("verify", tmp_path / "copy")
    ran("migrate", place, tmp_path / "renamed", "--rename-state", "account=wallet")
    named = {state.name for state in Savepoint.open(tmp_path / "renamed").operator("operator").states}
    assert not any(name.endswith("account") for name in named)
    ran("migrate", place, tmp_path / "done", "--job", f"{__name__}:job_2")
    ran("verify", tmp_path / "done", "--values")
    assert ["account"] == [
        state.name for state in Savepoint.open(tmp_path / "done").operator("operator").states if "account" in state.name
    ]
    read = Savepoint.open(tmp_path / "done").operator("operator").state("account").read_entries()
    assert {user: (2 if user == USERS[0] else 1, 7) for user in USERS} == {
        entry.key: (entry.value["amount"], entry.value["visits"]) for entry in read
    }


@pytest.mark.parametrize("job", ["job_3", "job_other", "job_1"])
def test_commands_refuse_other_types_in_the_middle_of_it(midway, job):
    """Also those that differ in a default alone, which only the record of the query knows."""
    found = CliRunner().invoke(main, ["check", str(midway.place), "--job", f"{__name__}:{job}"])
    if midway.backend is not BACKENDS["hashmap"]:
        assert (1, True) == (found.exit_code, "the lazy migration of 'account' is not over" in found.output)
    else:
        assert found.exit_code in {0, 1, 4}


@pytest.mark.parametrize("how", ["migrate", "lazy"])
def test_a_start_after_a_batch_that_woke_one_slot_only(life, how):
    life.start(1)
    life.batch(*USERS)
    life.start(2, how)
    life.engine.batch([], only=[life.engine.directory.last_epoch.groups[0]])
    with pytest.raises(DeclarationError, match="some slots have not run"):
        life.start(2, slots=3)
    life.start(2)
    assert ["Second(amount=2, visits=7)"] * len(USERS) == life.batch(*USERS)
