"""One class that changed lies in many states: people are told of it once, with the places, and programs of each."""

from __future__ import annotations

import pytest

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
    def test_a_check_lists_each_state_and_tells_the_change_once(self, run, savepoint_of):
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

    def test_so_does_a_difference(self, run):
        asked = ("diff", "accounts_v1:job", "accounts_v2:job")
        short, whole = run(*asked), run(*asked, "--all")

        assert (1, 4) == tuple(ran.stdout.count(".obsolete  ") for ran in (short, whole))
        assert f"\n    the same at 3 other places: {OTHERS}\n" in short.stdout


def test_very_many_places_take_few_lines(run, job_folder):
    for name, field in (("one", ""), ("two", "note: str = ''")):
        (job_folder / f"wide_{name}.py").write_text(WIDE.format(field), encoding="utf-8")
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
