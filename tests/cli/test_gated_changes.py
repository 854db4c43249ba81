"""A gate owner's repository: ten changes of a job, held against the branch that they are to go into.

Those that lose something are refused, with the place, the rule and the way out; the others are accepted, with what has
to be run before deployment.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

ACCEPT, REFUSE, USAGE, DRIFT = 0, 1, 2, 5

JOB = """
from typing import Annotated

import attrs
from stateshift import *


@record(java_class="shop.Visit")
@attrs.frozen
class Visit:
    page: str
    times: Int32


@attrs.frozen
class Order:
    id: int
    price: Int32
    note: str = ""
    coupon: str | None = None


job = Job([
    Operator("shop", key=str, states=[
        ValueStateDescriptor("open", Order),
        MapStateDescriptor("parts", str, Int32),
        ValueStateDescriptor("last", row_of({"net": int, "tax": int})),
        ValueStateDescriptor("visit", Visit),
    ]),
])
"""

# What is changed, by a name; then the state, the path and the rule that refuse it, and a way out.
REFUSED = {
    "a field is renamed without an alias": (
        ("note: str", "remark: str"), "shop/open", "$.note", "REC-4", "Field(aliases=['note']) there",
    ),
    "a field is removed": (
        ("    coupon: str | None = None\n", ""), "shop/open", "$.coupon", "REC-4", "--allow 'drops:$.coupon'",
    ),
    "a state is removed": (
        ('        MapStateDescriptor("parts", str, Int32),\n', ""),
        "shop/parts", "$<state>", "STATE-9", "--allow drops:shop/parts",
    ),
    "a state is renamed": (
        ('"parts"', '"pieces"'), "shop/parts", "$<state>", "STATE-9", "--rename-state shop/parts=pieces",
    ),
    "a number becomes one with fewer digits": (
        ("price: Int32", "price: Float32"), "shop/open", "$.price", "PRIM-2", "--allow 'lossy:$.price'",
    ),
    "an operator gets another uid": (
        ('Operator("shop"', 'Operator("store"'), "shop/open", "$<state>", "STATE-9", "--rename-uid shop=store",
    ),
    "columns of one type are swapped": (
        ('{"net": int, "tax": int}', '{"tax": int, "net": int}'),
        "shop/last", "$", "ROW-6", "row_of(…, stored=(…))",
    ),
    "a field of a Java class may be null": (
        ("times: Int32", "times: Int32 | None"), "shop/visit", "$.times", "REC-17", "give up the way back",
    ),
}  # fmt: skip

ACCEPTED = {
    "a field is added": (("    note: str", "    more: int = 0\n    note: str"), "stateshift migrate"),
    "a field is renamed with an alias": (("price: Int32", 'cost: Annotated[Int32, Field(aliases=["price"])]'), ""),
    "a number is widened": (('("parts", str, Int32)', '("parts", str, int)'), "stateshift migrate"),
    "a state is added": (("states=[\n", 'states=[ValueStateDescriptor("new", bool),\n'), "nothing to run"),
}


@pytest.fixture
def repository(run, job_folder, monkeypatch):
    """A repository whose branch `main` has one revision, and `pr`, checked out, the same so far."""
    # Bytecode of the first job would be taken for that of a change of the same length within the same second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=job_folder, check=True, capture_output=True)

    (job_folder / "orders.py").write_text(JOB, encoding="utf-8")
    run("snapshot", "--job", "orders:job", "-m", "What runs")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("checkout", "-q", "-b", "pr")
    return job_folder


@pytest.fixture
def changed(repository, run, monkeypatch):
    """`changed((before, after))`: the answer of the gate to a job in which a text is another one."""

    def ask(change, *options):
        before, after = change
        assert before in JOB
        (repository / "orders.py").write_text(JOB.replace(before, after), encoding="utf-8")
        monkeypatch.delitem(sys.modules, "orders", raising=False)
        importlib.invalidate_caches()
        return run("check", "--job", "orders:job", "--against", "main", *options)

    return ask


def block(text, state):
    """What is said of a state."""
    found = re.search(rf"(?ms)^{re.escape(state)}: (.*?)(?=^\S|\Z)", text)
    return found[1] if found else ""


@pytest.mark.parametrize("name", REFUSED)
def test_what_loses_data_is_refused_with_the_place_the_rule_and_the_way_out(changed, name):
    change, state, path, rule, way = REFUSED[name]
    ran = changed(change, "--level", "FULL")

    told = block(ran.stdout, state)
    assert REFUSE == ran.status, ran.stdout + ran.stderr
    assert told.startswith("refuse"), ran.stdout
    assert re.search(rf"(?m)^    {re.escape(path)}  .*\[{rule}\]", told), told
    assert way in told
    assert ran.stdout.splitlines()[-1].startswith("not accepted")


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_loses_nothing_is_accepted_with_what_has_to_be_run(changed, name):
    change, words = ACCEPTED[name]
    ran = changed(change)

    assert DRIFT == ran.status, ran.stdout + ran.stderr
    assert ran.stdout.startswith("accept: ")
    assert ran.stdout.splitlines()[-1].startswith("accepted: nothing is lost; before deployment: ")
    assert words in ran.stdout.splitlines()[-1]


class TestAllowed:
    """By an option, by the project, and by an override with a reason."""

    REMOVED = ("    coupon: str | None = None\n", "")
    LINE = "accepted: drops:$.coupon of shop/open; before deployment: stateshift migrate SAVEPOINT NEW_SAVEPOINT --job"

    @pytest.mark.parametrize("name", ["drops:$.coupon", "shop/open=drops:$.coupon"])
    def test_by_an_option(self, changed, name):
        ran = changed(self.REMOVED, "--allow", name, "--allow-drift")

        assert ACCEPT == ran.status
        assert f"; allowed: {name}" in ran.stdout
        assert "drops:$.coupon of shop/open; before deployment: stateshift migrate" in ran.stdout

    def test_by_the_project(self, changed, repository):
        (repository / "pyproject.toml").write_text('[tool.stateshift]\nallow = ["drops:$.coupon"]\n')
        ran = changed(self.REMOVED, "--allow-drift")

        assert ACCEPT == ran.status
        assert ran.stdout.splitlines()[-1].startswith(self.LINE)

    def test_by_an_override_with_a_reason(self, changed, repository):
        facts = 'state = "shop/open"\nrule = "REC-4"\nreason = "never used"\nexpires = 2999-12-31\n'
        (repository / "pyproject.toml").write_text(f"[[tool.stateshift.overrides]]\n{facts}")
        ran = changed(self.REMOVED, "--allow-drift")

        assert ACCEPT == ran.status
        assert "accepted until 2999-12-31: REC-4, never used" in ran.stdout
        assert "accepted: REC-4 of shop/open; before deployment: stateshift migrate" in ran.stdout

    def test_a_state_that_is_gone_by_an_override_with_a_reason(self, changed, repository):
        facts = 'state = "shop/parts"\nrule = "STATE-9"\nreason = "never used"\nexpires = 2999-12-31\n'
        (repository / "pyproject.toml").write_text(f"[[tool.stateshift.overrides]]\n{facts}")
        ran = changed(REFUSED["a state is removed"][0], "--allow-drift")

        assert ACCEPT == ran.status
        assert "accepted: STATE-9 of shop/parts; before deployment: " in ran.stdout
        assert " --drop shop/parts; for shop/parts" in ran.stdout

    @pytest.mark.parametrize("level", ["NONE", "FORWARD"])
    def test_what_the_level_allows_is_still_reported_as_lost(self, changed, level):
        ran = changed(("price: Int32", "price: Float32"), "--level", "NONE", "--allow-drift")
        removed = changed(self.REMOVED, "--level", level, "--allow-drift")

        assert (ACCEPT, ACCEPT) == (ran.status, removed.status), removed.stdout
        assert "accepted: lossy:$.price of shop/open, at level NONE; " in ran.stdout
        assert f"accepted: drops:$.coupon of shop/open, at level {level}; " in removed.stdout

    def test_of_another_field_or_state_it_is_refused_all_the_same(self, changed):
        for name in ("drops:$.note", "shop/parts=drops:$.coupon", "lossy:$.coupon"):
            ran = changed(self.REMOVED, "--allow", name)

            assert REFUSE == ran.status
            assert f"--allow {name!r} is not needed" in ran.stderr or f"--allow {name} is not needed" in ran.stderr

    def test_what_is_no_loss_is_a_wrong_usage(self, changed):
        ran = changed(self.REMOVED, "--allow", "$.coupon")

        assert USAGE == ran.status
        assert "'$.coupon' is not the name of a loss" in ran.stderr

    def test_allowing_a_field_to_be_dropped_answers_whether_it_was_renamed(self, changed):
        ran = changed(("note: str", "remark: str"), "--allow", "drops:$.note", "--allow-drift")

        assert ACCEPT == ran.status

    @pytest.mark.parametrize("name", ["drops:shop/parts", "drops:shop"])
    def test_a_state_that_may_go_is_to_be_dropped_before_the_job_is_deployed(self, changed, name):
        ran = changed(REFUSED["a state is removed"][0], "--allow", name, "--allow-drift")

        assert ACCEPT == ran.status
        assert "--job orders:job --drop shop/parts; for shop/parts" in ran.stdout.splitlines()[-1]

    @pytest.mark.parametrize(
        ("name", "option"),
        [
            ("an operator gets another uid", ("--rename-uid", "shop=store")),
            ("a state is renamed", ("--rename-state", "parts=pieces")),
            ("a state is removed", ("--drop", "parts")),
        ],
    )
    def test_what_a_migration_renames_or_drops_is_said_to_the_gate_as_to_it(self, changed, name, option):
        ran = changed(REFUSED[name][0], *option, "--allow-drift")

        assert ACCEPT == ran.status, ran.stdout
        assert " ".join(option) in ran.stdout.splitlines()[-1]


class TestForms:
    """What is printed as lines is also in the JSON."""

    REMOVED = TestAllowed.REMOVED

    def test_json_shows_what_is_lost_what_is_accepted_and_what_migrates(self, changed):
        refused = changed(self.REMOVED, "--json")
        accepted = changed(self.REMOVED, "--json", "--allow", "drops:$.coupon")

        (state,) = (one for one in refused.data["states"] if not one["passes"])
        (failure,) = state["failures"]
        assert ("open", True, ["$.coupon"]) == (
            state["state"], failure["loses"], [one["path"] for one in failure["against"]],
        )  # fmt: skip
        assert (["drops:$.coupon of shop/open"], ["shop/open"]) == (
            accepted.data["accepted"], accepted.data["migrates"],
        )  # fmt: skip
        assert accepted.data["closing"].startswith("accepted: ")

    @pytest.mark.parametrize(
        ("form", "refused", "accepted"),
        [
            ("sarif", '"level": "error"', '"level": "note"'),
            ("junit", "<failure", "<system-out>it must be migrated before the job can start; allowed: drops:$.coupon"),
            ("github", "::error ", "::notice "),
        ],
    )
    def test_so_do_the_forms_of_ci(self, changed, form, refused, accepted):
        ran = changed(self.REMOVED, "--format", form)
        allowed = changed(self.REMOVED, "--format", form, "--allow", "drops:$.coupon", "--allow-drift")

        assert (True, True) == (refused in ran.stdout, "REC-4" in ran.stdout)
        assert (False, True, True) == (
            refused in allowed.stdout, accepted in allowed.stdout, "REC-4" in allowed.stdout,
        )  # fmt: skip
        assert "accepted: drops:$.coupon of shop/open" in allowed.stderr


@pytest.mark.parametrize("flag", ["drops", "all"])
def test_what_is_forbidden_is_refused_whatever_is_allowed(changed, flag):
    ran = changed(TestAllowed.REMOVED, "--allow", "drops:$.coupon", "--forbid", flag)

    assert REFUSE == ran.status
    assert "drops:$.coupon (forbidden)" in ran.stdout


def test_the_history_answers_what_a_savepoint_leaves_open(changed):
    """Flink does not say which fields may be null; the recorded class does, so there is no doubt (REC-17)."""
    ran = changed(("    times: Int32", "    times: Int32\n    more: int = 0"), "--level", "FULL")

    assert DRIFT == ran.status
    assert ["$.more", "$.more"] == re.findall(r"(?m)^    (\S+)  ", block(ran.stdout, "shop/visit"))


def test_what_has_not_changed_is_not_reported(changed):
    ran = changed(("", ""))

    assert (ACCEPT, []) == (ran.status, re.findall(r"(?m)^shop/.*", ran.stdout))
