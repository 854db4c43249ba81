"""The way back on the command line: what a check promises, what the gate asks, and what `migrate --downgrade` does."""

from __future__ import annotations

import importlib
import shutil
import sys

import pytest

from stateshift import SavepointWriter

START, REFUSE = 0, 1

VERSION = """
import attrs
from stateshift import *

@record(java_class="shop.Visit")
@attrs.frozen
class Visit:
    page: str
    FIELDS

job = Job([Operator("site", key=str, states=[ValueStateDescriptor("last", Visit)])])
"""


@pytest.fixture
def version(job_folder, monkeypatch):
    """`version("times: Int32")`: the job `visits:job` has a class with this field."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(fields):
        (job_folder / "visits.py").write_text(VERSION.replace("FIELDS", fields), encoding="utf-8")
        sys.modules.pop("visits", None)  # `job_folder` forgets the last one
        importlib.invalidate_caches()
        return importlib.import_module("visits")

    monkeypatch.syspath_prepend(str(job_folder))
    return write


@pytest.fixture
def written(version):
    """`written(place, fields, **values)`: a savepoint of the job with that class."""

    def write(place, fields, **values):
        module = version(fields)
        with SavepointWriter(place, module.job) as writer:
            writer.put("site", "last", "ada", module.Visit("/home", **values))
        return place

    return write


class TestNulls:
    """A field that is `int` in the old class may be null in the new one: no byte changes, and Flink fails on one."""

    OLD, NEW = "times: Int32", "times: Int32 | None"
    LINE = "$.times  optional<int> -> int  a null may be"

    def test_check_reports_it_of_a_savepoint(self, run, version, written):
        place = written("sp", self.OLD, times=3)
        version(self.NEW)
        ran = run("check", place, "--job", "visits:job")

        assert START == ran.status
        assert f"way back: as it is, but {self.LINE} written here" in ran.stdout
        assert "the old job can use what the new one writes, except as flagged above" in ran.stdout
        assert "as far as the stored types show" in ran.stdout
        assert ["may_fail_per_value"] == [
            flag
            for finding in run("check", place, "--job", "visits:job", "--json").data["operators"][0]["states"][0][
                "way_back"
            ]["findings"]
            for flag in finding["flags"]
        ]

    def test_the_gate_refuses_it_at_level_full(self, run, version):
        version(self.OLD)
        run("snapshot", "--job", "visits:job", "-m", "One")
        version(self.NEW)
        gate = ("check", "--job", "visits:job", "--against", "1", "--allow-drift")
        ran = run(*gate, "--level", "FULL")

        assert (REFUSE, True) == (ran.status, f"    {self.LINE} stored here" in ran.stdout)
        assert "--allow 'may_fail_per_value:$.times'" in ran.stdout
        assert START == run(*gate, "--level", "FULL", "--allow", "may_fail_per_value:$.times").status
        assert START == run(*gate).status

    def test_the_gate_refuses_it_on_the_way_there_too(self, run, version):
        version(self.NEW)
        run("snapshot", "--job", "visits:job", "-m", "One")
        version(self.OLD)

        assert REFUSE == run("check", "--job", "visits:job", "--against", "1").status

    def test_a_migration_back_reports_it(self, run, version, written):
        version(self.OLD)
        run("snapshot", "--job", "visits:job", "-m", "One")
        place = written("sp", self.NEW, times=None)
        ran = run("migrate", place, "back", "--downgrade", "1")

        assert START == ran.status
        assert "on the way back to 1, this is lost or may fail:" in ran.stdout
        assert "site/last: $.times" in ran.stdout
        assert "may_fail_per_value" in ran.stdout


class TestRequiredFields:
    """A history knows that all fields are required, also of a class whose snapshot does not say so."""

    OLD, NEW = "times: Int32", ""

    @pytest.fixture(autouse=True)
    def _recorded(self, run, version):
        version(self.OLD)
        run("snapshot", "--job", "visits:job", "-m", "One")

    def test_full_refuses_that_one_is_removed(self, run, version):
        version(self.NEW)
        ran = run("check", "--job", "visits:job", "--against", "1", "--level", "FULL", "--allow", "drops:$.times")

        assert REFUSE == ran.status
        assert "forward: 0001_one could not take the state back" in ran.stdout
        assert "$.times  (none) -> int  the field is new and has no default" in ran.stdout

    def test_a_migration_back_fills_no_zero(self, run, written):
        ran = run("migrate", written("sp", self.NEW), "back", "--downgrade", "1")

        assert REFUSE == ran.status
        assert "REC-3" in ran.stderr

    def test_a_check_of_a_savepoint_promises_what_a_migration_back_does(self, run, version, written):
        place = written("sp", self.OLD, times=3)
        version(self.NEW)
        check = ("check", place, "--job", "visits:job", "--allow-migration")
        ran = run(*check)

        assert "way back: none; $.times  (none) -> int" in ran.stdout
        assert "to revision 0001_one, according to all that it declares" in ran.stdout
        assert ("refuse", "revision 0001_one") == tuple(
            run(*check, "--json").data[key] for key in ("way_back", "way_back_to")
        )

    def test_a_plan_promises_the_same_and_is_carried_out_without_its_history(self, run, version, written):
        place = written("sp", self.OLD, times=3)
        version(self.NEW)
        plan = ("plan", place, "--job", "visits:job", "--no-count")
        ran = run(*plan, "-o", "plan.json")

        assert (
            "the old job on the result: refuse; it cannot use all of it, according to all that revision 0001_one"
            in ran.stdout
        )
        assert "    site/last: $.times  (none) -> int  the field is new and has no default" in ran.stdout
        told = run(*plan, "--json").data["rollback"]
        assert ("migrate", "refuse") == (told["old_job_on_result"], told["recorded"]["old_job_on_result"])

        shutil.rmtree("state_history")
        ran = run(*plan)
        assert "it can use it after a migration back, as far as the stored types show" in ran.stdout
        assert START == run("migrate", place, "new", "--plan", "plan.json").status

    def test_without_a_history_it_says_what_it_does_not_know(self, run, version, written):
        place = written("sp", self.OLD, times=3)
        version(self.NEW)
        shutil.rmtree("state_history")
        ran = run("check", place, "--job", "visits:job", "--allow-migration")

        assert "way back: after migrate --downgrade, which fills $.times with a default" in ran.stdout
        assert "as far as the stored types show; defaults and aliases of the old code are in its history" in ran.stdout


def test_a_migration_back_lists_what_it_drops_and_fills(run, version, written):
    version('referrer: str = ""')
    run("snapshot", "--job", "visits:job", "-m", "One")
    place = written("sp", 'country: str = ""', country="NZ")

    for target, options in (("back", []), ("other", ["--dry-run"])):
        ran = run("migrate", place, target, "--downgrade", "1", *options)
        assert START == ran.status, ran.stderr
        assert "site/last: $.country  string -> (gone)" in ran.stdout
        assert "drops:$.country" in ran.stdout
        assert "site/last: $.referrer  (none) -> " in ran.stdout
