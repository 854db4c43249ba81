"""TTL turned on and off at the command line: what a check, a dry run and a run say."""

from __future__ import annotations

import pytest

from stateshift import Job, ListStateDescriptor, Operator, Savepoint, SavepointWriter, TtlValue, ValueStateDescriptor

JOBS = """
from datetime import timedelta
from stateshift import Job, ListStateDescriptor, Operator, ValueStateDescriptor

def job(**ttl):
    states = [ValueStateDescriptor("count", int, **ttl), ListStateDescriptor("pages", str, **ttl)]
    return Job([Operator("visits", key=int, states=states)])

on, off, told = job(time_to_live=True), job(), job(former_time_to_live=timedelta(days=1))
"""
AT = ("--reference-time", "2026-06-15T02:00:00+02:00")
NOW, DAY = 1_781_481_600_000, 86_400_000


@pytest.fixture
def stamped(job_folder):
    (job_folder / "ttl_jobs.py").write_text(JOBS)
    states = [
        ValueStateDescriptor("count", int, time_to_live=True),
        ListStateDescriptor("pages", str, time_to_live=True),
    ]
    with SavepointWriter(job_folder / "stamped", Job([Operator("visits", key=int, states=states)])) as writer:
        for key, stamp in ((1, NOW), (2, NOW - DAY)):
            writer.put("visits", "count", key, TtlValue(stamp, key))
            writer.put("visits", "pages", key, [TtlValue(stamp, "/"), TtlValue(NOW - DAY, "/help")])
    return job_folder / "stamped"


def test_a_check_reports_that_the_length_is_not_stored_and_how_to_declare_it_state_5(run, stamped):
    without, told = (run("check", stamped, "--job", f"ttl_jobs:{job}") for job in ("off", "told"))

    assert (4, 4) == (without.status, told.status)
    assert "so none counts as expired  [STATE-5] unverified" in without.stdout
    assert "former_time_to_live=timedelta(…) of the descriptor" in without.stdout
    assert "what has expired, 1 day after its last access, is left out and counted  [STATE-5]" in told.stdout


def test_a_dry_run_shows_the_reference_time_and_what_becomes_of_stamps_state_5(run, stamped, tmp_path):
    ran = run("migrate", stamped, tmp_path / "new", "--job", "ttl_jobs:told", *AT, "--dry-run")

    assert (0, "") == (ran.status, ran.stderr)
    assert "reference time: 2026-06-15T00:00:00.000Z\n" in ran.stdout
    assert 2 == ran.stdout.count("    values that expired after 1 day are dropped\n")


def test_a_run_counts_what_had_expired_and_another_one_stamps_what_is_left_state_4_and_5(run, stamped, tmp_path):
    off = run("migrate", stamped, tmp_path / "off", "--job", "ttl_jobs:told", *AT)
    on = run("migrate", tmp_path / "off", tmp_path / "on", "--job", "ttl_jobs:on", *AT, "--json")

    assert (0, 0) == (off.status, on.status), off.stderr + on.stderr
    assert "  visits    count  value  converted     2        1        1\n" in off.stdout
    assert "  3 list elements had expired, including those of lists that were dropped entirely\n" in off.stdout
    assert "  reference time 2026-06-15T00:00:00.000Z, for new time stamps and for expiry\n" in off.stdout
    assert "2026-06-15T00:00:00.000Z" == on.data["plan"]["reference_time"]
    assert [0, 0] == [state["dropped"] + state["dropped_elements"] for state in on.data["states"]]
    operator = Savepoint.open(tmp_path / "on").operator("visits")
    left = {
        name: {entry.key: entry.value for entry in operator.state(name).read_entries()} for name in ("count", "pages")
    }
    assert {"count": {1: TtlValue(NOW, 1)}, "pages": {1: [TtlValue(NOW, "/")]}} == left


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-06-15T00:00:00", "has no time zone"),
        ("yesterday", "'yesterday' is not a valid time"),
        ("", "'' is not a valid time"),
    ],
)
def test_an_invalid_reference_time_is_wrong_usage(run, stamped, tmp_path, text, problem):
    ran = run("migrate", stamped, tmp_path / "new", "--job", "ttl_jobs:told", "--reference-time", text)

    assert 2 == ran.status
    assert problem in ran.stderr
    assert "2026-01-31T12:00:00Z" in ran.stderr
