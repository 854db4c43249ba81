"""Queries of Spark at the gate: levels, overrides and losses are those of jobs."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from stateshift.compat.gate.levels import Level, Levels, Override, Revision, judge
from stateshift.compat.gate.losses import Guard
from stateshift.compat.policy import Policy
from stateshift.compat.queries.description import from_data
from stateshift.serializers.compatibility import Flag

TODAY = dt.date(2026, 1, 1)
DEFAULT, OPERATOR = "aggregation 0/default", "aggregation 0/<operator>"


def schema(*names):
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


def query(facts=(), **values):
    """`query(sum="sum(n)")`: an aggregation by `k`, with what its columns are computed from."""
    computed = {"key.k": "k", **{f"value.{name}": text for name, text in values.items()}}
    stores = {"default": {"key": schema("k"), "value": schema(*values)}}
    operator = {
        "number": 0, "kind": "aggregation", "unreadable": "", "stores": stores, "columns": {"default": computed},
        "facts": dict(facts), "unseen": [],
    }  # fmt: skip
    return from_data(
        {"spark": "4.3.0", "sources": [], "settings": {}, "inputs": [], "operators": [operator]}, "a query"
    )


def gated(old, new, level=Level.BACKWARD, *, allow=(), accept=(), policy=None, **more):
    guard = Guard(allow, policy or Policy(), accept)
    report = judge([Revision("clicks.json", old)], new, Levels(level), today=TODAY, guard=guard, **more)
    return report, {state.name: state for state in report.states}


SUM, OTHER, BOTH = query(sum="sum(n)"), query(sum="sum(w)"), query(sum="sum(n)", max="max(n)")


def test_an_unchanged_query_passes_in_both_directions():
    report, states = gated(SUM, query(sum="sum(n)"), Level.FULL)

    assert report.passes
    assert not any(state.is_migrated for state in states.values())


def test_another_column_needs_a_migration_which_strict_refuses():
    report, states = gated(SUM, OTHER)
    strict, of_strict = gated(SUM, OTHER, strict=True)
    accepted, of_accepted = gated(SUM, OTHER, strict=True, accept=("SPK-10",))

    assert (True, True) == (report.passes, states[DEFAULT].is_migrated)
    assert not strict.passes
    assert [("SPK-10", True)] == [(one.against[0].rule, one.is_of_gate) for one in of_strict[DEFAULT].failures]
    assert (True, False) == (accepted.passes, of_accepted[DEFAULT].is_migrated)


def test_a_column_that_is_dropped_is_a_loss_until_it_is_allowed_by_its_name():
    report, states = gated(BOTH, SUM)
    allowed, of_allowed = gated(BOTH, SUM, allow=["drops:$.value.max"])

    assert not report.passes
    (failure,) = states[DEFAULT].failures
    assert failure.loses
    assert "--allow drops:$.value.max" in str(failure.against[0].ways_out[-1]).replace("'", "")
    assert (True, True) == (allowed.passes, of_allowed[DEFAULT].is_migrated)


@pytest.mark.parametrize(("expires", "passes"), [(TODAY, True), (TODAY - dt.timedelta(1), False)])
def test_other_rows_are_refused_unless_an_override_accepts_them_for_a_while(expires, passes):
    old, new = query({"filters": "(n > 0)"}, sum="sum(n)"), query({"filters": "(n > 1)"}, sum="sum(n)")

    report, states = gated(old, new, overrides=[Override(OPERATOR, "SPK-13", "meant", expires)])

    assert passes is report.passes
    assert passes is bool(states[OPERATOR].overridden)
    assert gated(old, new, Level.NONE)[0].passes


def test_a_level_asks_for_the_way_back():
    report, states = gated(SUM, BOTH, Level.FULL, strict=True)

    assert not report.passes
    assert {"backward", "forward"} == {str(one.direction) for one in states[DEFAULT].failures}


def test_a_flag_may_be_forbidden():
    report, _ = gated(BOTH, SUM, allow=["drops:$.value.max"], policy=Policy([Flag.DROPS]))

    assert not report.passes
