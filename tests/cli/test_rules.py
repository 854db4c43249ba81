"""`stateshift rules`: the rule book at the command line."""

from __future__ import annotations

import pytest

from stateshift.compat.rules import rule_book


def test_a_rule_is_reported_with_its_verdict_and_reason(run):
    ran = run("rules", "rec-4")

    assert 0 == ran.status
    assert [
        "REC-4  Records",
        "  change           a field removed",
        "  verdict          requires_migration",
        "  migration        the stored value is read and left out; `drops:PATH`",
        "  why              Its bytes are between those of other fields.",
    ] == ran.stdout.splitlines()


def test_letters_alone_mean_the_family_and_nothing_means_all(run):
    def told(*arguments):
        return [rule["identifier"] for rule in run("rules", *arguments, "--json").data["rules"]]

    assert ["OPT-1", "OPT-2", "OPT-3", "OPT-4", "OPT-5", "TUP-3"] == told("TUP-3", "OPT")
    assert list(rule_book()) == told()


@pytest.mark.parametrize("given", ["drops", "DROPS", "drops:$.name"])
def test_a_flag_is_reported_as_it_stands_in_a_finding(run, given):
    ran = run("rules", given)

    assert 0 == ran.status
    assert "drops  a flag" == ran.stdout.splitlines()[0]
    assert "  rules            REC-4" in ran.stdout
    assert "  to refuse it     --forbid drops" == ran.stdout.splitlines()[-1]
    assert [["drops"], []] == [
        [one["name"] for one in run("rules", given, "--json").data["flags"]],
        run("rules", given, "--json").data["rules"],
    ]


def test_no_line_is_wider_than_a_terminal(run):
    lines = run("rules").stdout.splitlines()

    assert [] == [line for line in lines if len(line) > 80]


@pytest.mark.parametrize(
    ("given", "advice"),
    [("RECC-4", "did you mean REC-4?"), ("losy", "did you mean lossy?"), ("77", "families: AV, COMP")],
)
def test_a_rule_that_is_not_there_is_a_usage_error(run, given, advice):
    ran = run("rules", given)

    assert (2, "") == (ran.status, ran.stdout)
    assert advice in ran.stderr
