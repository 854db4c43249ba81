"""`--repartition`, `--max-parallelism` and `--merge`: of a check, a plan and a migration."""

from __future__ import annotations

import json

import pytest

from stateshift import Int32, Job, Operator, SavepointWriter, ValueStateDescriptor

OLD = Job([Operator("orders", key=int, states=[ValueStateDescriptor("total", int)])])
NEW = """
from stateshift import Job, Operator, ValueStateDescriptor
states = [ValueStateDescriptor("total", int)]
job = Job([Operator("orders", key=str, key_converter=str, states=states)])
bare = Job([Operator("orders", key=str, states=states)])
def both(first, second): return first + second
nothing = 7
"""


@pytest.fixture
def orders(job_folder):
    """A savepoint in a folder with jobs next to it; both by name, as a person types them."""
    (job_folder / "keys_job.py").write_text(NEW, encoding="utf-8")
    with SavepointWriter(job_folder / "sp", OLD) as writer:
        for key in range(20):
            writer.put("orders", "total", key, key)
    return "sp"


def test_a_check_says_refuse_without_the_option_and_migrate_with_it(run, orders):
    refused = run("check", orders, "--job", "keys_job:job")
    accepted = run("check", orders, "--job", "keys_job:job", "--repartition", "--max-parallelism", "1000")

    assert (1, 4) == (refused.status, accepted.status)
    assert "rekey the operator: stateshift migrate --repartition" in refused.stdout
    assert "  key  long: migrate (requires_migration; converter: builtins.str)" in accepted.stdout
    command = "stateshift migrate sp NEW_SAVEPOINT --job keys_job:job --repartition --max-parallelism 1000"
    assert f"next: {command}\n" in accepted.stdout


def test_a_key_without_rule_and_function_is_reported_with_advice(run, orders):
    ran = run("check", orders, "--job", "keys_job:bare", "--repartition")

    assert 1 == ran.status
    assert "declare a key_converter of the operator, and migrate with --repartition" in ran.stdout


def test_json_shows_the_reader_and_the_converter_of_keys(run, orders):
    ran = run("check", orders, "--job", "keys_job:job", "--repartition", "--max-parallelism", "orders=9", "--json")

    (operator,) = ran.data["operators"]
    assert (9, "snapshot", "builtins.str") == (
        operator["max_parallelism"], operator["key"]["reader"], operator["key"]["converter"],
    )  # fmt: skip


def test_a_dry_run_shows_the_keys_and_tries_one(run, orders):
    ran = run("migrate", orders, "new", "--job", "keys_job:job", "--repartition", "--merge", "total=keys_job:both",
              "--max-parallelism", "1000", "--dry-run")  # fmt: skip

    assert (0, "") == (ran.status, ran.stderr)
    assert "; max parallelism 128 -> 1000" in ran.stdout
    assert "  key  long -> string: every entry and timer is placed again\n" in ran.stdout
    assert "    $<key>  two keys that become one are merged: total by keys_job:both\n" in ran.stdout
    assert "tried: one entry each of total" in ran.stdout


def test_a_plan_file_holds_what_is_wanted_of_keys_and_a_run_takes_it(run, orders, job_folder):
    wanted = ("--repartition", "--max-parallelism", "1000", "--merge", "total=keys_job:both")
    planned = run("plan", orders, "--job", "keys_job:job", *wanted, "-o", "plan.json")

    assert 0 == planned.status
    assert "1 copied under new keys" in planned.stdout
    assert "max parallelism 128 -> 1000" in planned.stdout
    options = json.loads((job_folder / "plan.json").read_text(encoding="utf-8"))["options"]
    assert {"max_parallelism": {"*": 1000}, "merge": {"total": "keys_job:both"}} == options["repartition"]
    assert 0 == run("migrate", orders, "new", "--plan", "plan.json", "--dry-run").status
    other = run("migrate", orders, "new", "--plan", "plan.json", "--dry-run", "--repartition")
    assert (2, True) == (other.status, "--repartition differs from the plan" in other.stderr)


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--max-parallelism", "9"], 2, "--max-parallelism requires --repartition, which rewrites keys"),
        (["--merge", "total=operator:add"], 2, "--merge requires --repartition"),
        (["--repartition"], 2, "specify the new types: --job"),
        (["--repartition", "--max-parallelism", "many"], 2, "'many' is not a number of key groups"),
        (["--repartition", "--max-parallelism", "0"], 2, "max parallelism 0 is not possible"),
        (["--repartition", "--max-parallelism", "9=9=9"], 2, "no operator has the uid or id '9=9'; there are: orders"),
        (
            ["--repartition", "--max-parallelism", "9", "--merge", "total"],
            2,
            "not of the form STATE=MODULE:FUNCTION",
        ),
        (["--repartition", "--max-parallelism", "9", "--merge", "totals=operator:add"], 2, "no state 'totals'"),
        (["--repartition", "--max-parallelism", "9", "--merge", "total=keys_job:nothing"], 2, "no function 'nothing'"),
        (["--repartition", "--max-parallelism", "9", "--merge", "total=lost_module:add"], 2, "'lost_module' cannot be"),
    ],
)
def test_what_cannot_be_meant_is_reported(run, orders, options, status, words):
    ran = run("migrate", orders, "new", *options)

    assert (status, True) == (ran.status, words in ran.stderr), ran.stderr


def test_a_number_of_key_groups_alone_needs_no_job(run, orders):
    ran = run("migrate", orders, "new", "--repartition", "--max-parallelism", "1000", "--dry-run")

    assert 0 == ran.status
    assert "; max parallelism 128 -> 1000" in ran.stdout
    assert "  key  long: every entry and timer is placed again\n" in ran.stdout


def test_a_widened_key_needs_no_function(run, job_folder):
    with SavepointWriter(job_folder / "narrow", Job([Operator("orders", key=Int32)])):
        pass
    (job_folder / "wide.py").write_text("from stateshift import *\njob = Job([Operator('orders', key=int)])\n")

    assert 0 == run("check", "narrow", "--job", "wide:job", "--repartition").status
