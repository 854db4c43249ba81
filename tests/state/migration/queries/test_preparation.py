"""The plan of a checkpoint's migration: what it asks for, and what it says."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from drawn_queries import Column, Kept, Operator, Query
from written_checkpoints import Settings, entries_of, write_checkpoint

from stateshift.compat.queries.changes import FieldChanges
from stateshift.compat.queries.kinds import TRANSFORM
from stateshift.serializers.errors import IncompatibleState
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries.preparation import Known, NewSide, Said, prepare_copy

KEY = ("key", (Column("k", "k", "string"),))
NUMBER, STRUCT = Column("n", "", "long"), Column("s", "", "", (Column("x", "", "long"),))


def variable(name, kind="value", value=(NUMBER,), **more):
    step = {"value": "", "map": "{}"}[kind]
    keys = () if kind == "value" else ((f"{name}{{key}}", (Column("a", "", "string"), Column("b", "", "string"))),)
    return Kept(name, kind, (KEY, *keys, (f"{name}{step}", value)), **more)


@pytest.fixture
def planned(tmp_path):
    """`planned(old, new, changes, times)`: the plan for the variables of a processor; `times` are by the new name."""

    def run(old, new, changes, times=()):
        query = Query(((Operator(TRANSFORM, (old,)), Operator(TRANSFORM, (new,))),), True, (0,))
        settings = Settings.draw(query, Random(0))  # noqa: S311 - it draws tests
        entries = [{old.name: entries_of(old)}]
        opened = SparkCheckpoint.open(write_checkpoint(tmp_path / "old", query.old, settings, entries))
        state = SparkCheckpoint.open(write_checkpoint(tmp_path / "new", query.new, settings))
        _, was, now = query.descriptions()
        facts = {f"time to live of {name}": text for name, text in dict(times).items()}
        now = now.computing(lambda one: attrs.evolve(one, facts={**one.facts, **facts}))
        said = Said({0: changes})
        return prepare_copy(opened, NewSide(state, now, is_planned=True, known=Known(was)), said)

    return run


def test_another_time_to_live_of_a_renamed_variable_is_asked_for(planned):
    old, new, renames = variable("count", expires=True), variable("total", expires=True), {"total": "count"}

    assert planned(old, new, FieldChanges(renames)).operators[0].stores[0].was.name == "count"
    with pytest.raises(IncompatibleState, match=r"time to live of total>  1000 ms -> 9000 ms .*SPK-12"):
        planned(old, new, FieldChanges(renames), {"total": "9000 ms"})
    later = planned(old, new, FieldChanges(renames, ttls={"total": "+8000"}), {"total": "9000 ms"})
    assert later.operators[0].stores[0].deadlines.later_ms == 8000


def test_no_rule_is_asked_for_values_that_none_merges(planned):
    old = variable("seen", "map", (STRUCT, NUMBER))
    new = attrs.evolve(old, parts=(KEY, ("seen{key}", old.parts[1][1][:1]), old.parts[2]))

    with pytest.raises(IncompatibleState) as caught:
        planned(old, new, FieldChanges(merges={"seen{}.s": "max"}))
    (told,) = planned(old, new, FieldChanges(merges={"seen{}.n": "max"})).operators[0].stores[0].findings[1:]

    assert 'seen{}.n": "RULE' in str(caught.value)
    assert "seen{}.s  no rule merges its type" in str(caught.value)
    assert told.reason.startswith("keys may become equal, and no rule merges seen{}.s")
