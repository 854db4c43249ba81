"""One class that changed lies in many states: it is printed once, with the places, and is in the JSON for each."""

from __future__ import annotations

import sys

import pytest

from stateshift import SavepointWriter, load_job

OTHERS = "account-state/account-by-name (${}), account-state/accounts ($[]), account-state-lists/pending ($[])"
PROBLEM = "the field is gone; its stored value is dropped"
WIDE = """
import attrs
from stateshift import Job, ListStateDescriptor, Operator, ValueStateDescriptor, record

@record(java_class="shop.Order")
@attrs.frozen
class Order:
    number: int
    {}

def operator(at):
    states = [ValueStateDescriptor("last", Order), ListStateDescriptor("all", Order)]
    return Operator(f"op-{{at}}", key=int, states=states)

job = Job([operator(at) for at in range(60)])
"""


@pytest.mark.usefixtures("example_jobs")
class TestFourPlaces:
    def test_a_check_lists_each_state_and_shows_the_change_once(self, run, savepoint_of):
        asked = ("check", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v2:job")
        short, whole, data = run(*asked), run(*asked, "--all"), run(*asked, "--json").data

        assert (2, 4) == tuple(ran.stdout.count(PROBLEM) for ran in (short, whole))  # of a map's values more is said
        for state, root in (("accounts", "$[]"), ("pending", "$[]")):
            title = next(line for line in short.stdout.splitlines() if line.startswith(f"  {state}  "))
            assert f"{title}\n    the same as at account-state/account, in {root}\n" in short.stdout
            assert title in whole.stdout
        assert 4 == sum(
            finding["rule"] == "REC-4"
            for operator in data["operators"]
            for state in operator["states"]
            for finding in state["findings"]
        )

    def test_so_does_a_plan(self, run, savepoint_of):
        ran = run("plan", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v2:job", "--no-count")

        assert 2 == ran.stdout.count(PROBLEM)
        for title in ("accounts  list", "pending  split_list"):
            assert f"\n  {title}\n    the same as at account-state/account, in $[]\n" in ran.stdout

    def test_so_does_the_gate(self, run):
        run("snapshot", "--job", "accounts_v1:job", "-m", "One")
        asked = ("check", "--job", "accounts_v2:job", "--against", "1")
        short, whole = run(*asked), run(*asked, "--all")

        assert (1, 4) == tuple(ran.stdout.count("was it renamed to 'email'?") for ran in (short, whole))
        assert f"\n  the same at 3 other places: {OTHERS}\n" in short.stdout
        assert "the same at" not in whole.stdout

    def test_so_does_a_migration_back(self, run, savepoint_of, tmp_path):
        run("snapshot", "--job", "accounts_v1:job", "-m", "One")
        run("migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", "--job", "accounts_v2:job")
        ran = run("migrate", tmp_path / "new", tmp_path / "back", "--downgrade", "1")

        _, _, lost = ran.stdout.partition("on the way back to 1, this is lost or may fail:\n")
        assert "    account-state/account: $.score  double -> (gone)" in lost
        assert 1 == lost.count(".score  double -> (gone)")
        assert f"      the same at 3 other places: {OTHERS}\n" in lost

    def test_so_does_a_difference(self, run):
        asked = ("diff", "accounts_v1:job", "accounts_v2:job")
        short, whole = run(*asked), run(*asked, "--all")

        assert (1, 4) == tuple(ran.stdout.count(".obsolete  ") for ran in (short, whole))
        assert f"\n    the same at 3 other places: {OTHERS}\n" in short.stdout


@pytest.fixture
def _two_versions(job_folder, monkeypatch):
    monkeypatch.syspath_prepend(str(job_folder))
    for name, field in (("one", ""), ("two", "note: str = ''")):
        (job_folder / f"wide_{name}.py").write_text(WIDE.format(field), encoding="utf-8")


@pytest.mark.usefixtures("_two_versions")
def test_of_very_many_dropped_fields_the_rest_is_counted(run, tmp_path):
    job = load_job("wide_two:job")
    with SavepointWriter(tmp_path / "old", job) as writer:
        for operator in job.operators:
            writer.put(operator.uid, "last", 1, sys.modules["wide_two"].Order(1, "x"))
    ran = run("migrate", tmp_path / "old", tmp_path / "new", "--job", "wide_one:job")

    assert 20 == ran.stdout.count("  dropped fields: $")
    assert "  dropped fields of 100 other states, listed with --json\n" in ran.stdout


@pytest.mark.usefixtures("_two_versions")
def test_very_many_places_take_few_lines(run):
    run("snapshot", "--job", "wide_one:job", "-m", "One")

    for asked in (
        ("diff", "wide_one:job", "wide_two:job"),
        ("check", "--job", "wide_two:job", "--against", "1", "--allow-drift"),
    ):
        short, whole = run(*asked), run(*asked, "--all")

        assert len(short.stdout.splitlines()) < 16
        assert "the same at 119 other places: " in short.stdout
        assert " and 114 more (--all lists them)" in short.stdout
        assert len(whole.stdout.splitlines()) > 300
    assert "for op-0/all, op-0/last, " in short.stdout
    assert short.stdout.endswith(" and 100 more (--json lists them)\n")
