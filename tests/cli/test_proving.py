"""`--prove flink` on the command line; real Flink is asked in tests/interop/test_proven.py."""

from __future__ import annotations

import json

import pytest

from stateshift import Savepoint
from stateshift.cli.failures import Status
from stateshift.state.progress import Progress
from stateshift.state.proof.installation import FlinkInstallation
from stateshift.state.proof.proof import Proof
from stateshift.state.savepoint.verify import Check, Outcome


@pytest.fixture
def account_v1(savepoint_of):
    return savepoint_of("rocksdb-account-v1")


@pytest.fixture
def proving(monkeypatch):
    """`proving(Outcome.OK)`: Flink is at hand, and a proof has that outcome."""
    asked = []

    def make(outcome):
        def prove(savepoint, flink, *, sample, progress):
            progress(Progress("starting Flink", 0, 1))
            asked.append((savepoint.place, flink, sample))
            proven = outcome is Outcome.OK
            facts = {
                "by": "flink",
                "flink": "2.3.0",
                "created": "2026-01-01T00:00:00+00:00",
                "proven": proven,
                "failed": [],
            }
            return Proof((Check("flink", outcome, "what Flink says"),), facts)

        monkeypatch.setattr(FlinkInstallation, "find", lambda place, jars: (place, tuple(jars)))
        monkeypatch.setattr("stateshift.state.proof.proof.prove", prove)
        return asked

    return make


def test_a_migration_is_proven_at_its_end(run, account_v1, tmp_path, proving):
    asked = proving(Outcome.OK)
    target = tmp_path / "target"

    ran = run(
        "migrate", account_v1, target, "--parallelism", "2", "--prove", "flink",
        "--flink-home", "flink", "--job-jar", "job.jar", "--prove-sample", "5%", "--json",
    )  # fmt: skip

    assert Status.DONE == ran.status
    assert [(str(target), ("flink", ("job.jar",)), 0.05)] == asked
    answer = json.loads(ran.stdout)
    assert answer["proof"]["proven"]
    assert ["flink"] == [check["name"] for check in answer["verified"]["checks"]][-1:]
    assert answer["proof"] == Savepoint.open(target).lineage.proof
    shown = run("inspect", target).stdout
    assert "proven by Flink 2.3.0 at 2026-01-01T00:00:00+00:00" in shown


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNPROVEN])
def test_what_is_not_proven_is_a_refusal(run, account_v1, proving, outcome):
    proving(outcome)

    ran = run("verify", account_v1, "--prove", "flink")

    assert Status.REFUSED == ran.status
    assert "what Flink says" in ran.stdout


def test_flink_is_not_asked_about_a_damaged_savepoint(run, account_v1, tmp_path, proving):
    """So a value that was changed after the migration is found by its digest."""
    asked = proving(Outcome.OK)
    target = tmp_path / "target"
    run("migrate", account_v1, target, "--parallelism", "2")
    lineage = target / "_stateshift.json"
    facts = json.loads(lineage.read_bytes())
    facts["files"]["_metadata"]["xxh128"] = "0" * 32
    lineage.write_text(json.dumps(facts), encoding="utf-8")

    ran = run("verify", target, "--prove", "flink")

    assert Status.REFUSED == ran.status
    assert "Flink was not asked, since a check before it failed" in ran.stdout
    assert [] == asked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prove-sample", "1%"], "belong to --prove flink"),
        (["--prove", "flink", "--prove-sample", "0%"], "is not a part of the key groups"),
        (["--prove", "flink", "--prove-sample", "1"], "is not a part of the key groups"),
        (["--prove", "spark"], "is not 'flink'"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, account_v1, arguments, words):
    ran = run("verify", account_v1, *arguments)

    assert Status.USAGE == ran.status
    assert words in ran.stderr


def test_a_dry_run_has_nothing_to_prove(run, account_v1, tmp_path, proving):
    proving(Outcome.OK)

    ran = run("migrate", account_v1, tmp_path / "no", "--parallelism", "2", "--dry-run", "--prove", "flink")

    assert Status.USAGE == ran.status
    assert "neither a dry run" in ran.stderr


def test_without_flink_nothing_is_read(run, account_v1, tmp_path):
    ran = run("verify", account_v1, "--prove", "flink", "--flink-home", tmp_path)

    assert Status.USAGE == ran.status
    assert "no Flink was found" in ran.stderr
    assert f"the place that was given: no flink-dist-*.jar in {tmp_path}" in ran.stderr
