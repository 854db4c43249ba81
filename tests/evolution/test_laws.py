"""Laws of chains: over a version between, or past it, the same values arrive, and the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from evolution import profiles, runs
from evolution.beginnings import beginnings, changes
from evolution.declared import Declared
from evolution.shapes import Avro, EnumOf, RecordOf, RowOf, has_ttl, spots
from evolution.takeover import Outcome, Takeover
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from stateshift import Int32

GOES_ON = {Outcome.START, Outcome.MIGRATE}


def fields_in(shape):
    """All fields of records, columns of rows, and fields of Avro schemas."""
    nodes = [node for node, _, _ in spots(shape)]
    return [
        field
        for node in nodes
        if isinstance(node, RecordOf | RowOf | Avro)
        for field in (node.columns if isinstance(node, RowOf) else node.fields)
    ]


def names_in(shape):
    """The names by which parts of a type are known: fields, columns and symbols."""
    symbols = {symbol for node, _, _ in spots(shape) if isinstance(node, EnumOf) for symbol in node.symbols}
    return symbols | {field.name for field in fields_in(shape)}


def former_names_in(shape):
    """The names by which parts of a type were known."""
    enums = [node for node, _, _ in spots(shape) if isinstance(node, EnumOf)]
    symbols = {former for node in enums for _, formers in node.renamed for former in formers}
    return symbols | {former for field in fields_in(shape) for former in getattr(field, "aliases", ())}


def defaults_in(shape):
    """What absent fields become, by name."""
    return {(field.name, field.default) for field in fields_in(shape)}


@pytest.mark.slow
@profiles.shorter
@given(beginnings(), st.data())
def test_over_a_version_between_arrives_what_arrives_past_it(beginning, data):
    """Wherever both ways are allowed and no data is lost; a name that was gone does not come back (REC-16)."""
    kind, first, contents = beginning
    one, second = data.draw(changes(kind, first))
    two, last = data.draw(changes(kind, second))
    note(f"{one} then {two}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        state = runs.write(folder / "v1", kind, Declared.of(first), contents)
        past = Takeover.of(state, last)
        between = Takeover.of(state, second)
        assume(past.outcome in GOES_ON and between.outcome in GOES_ON)
        assume(not past.answer.loses and not between.answer.loses)
        assume(has_ttl(kind, second) or not (has_ttl(kind, first) and has_ttl(kind, last)))  # stamps are lost
        assume(not (names_in(first) & names_in(last)) - names_in(second))
        assume(not former_names_in(second) & names_in(last))
        assume(defaults_in(second) <= defaults_in(first) | defaults_in(last))
        after = Takeover.of(between.run(folder / "v2"), last)
        assume(after.outcome in GOES_ON and not after.answer.loses)
        event(f"{between.outcome.value}, {after.outcome.value}; past it: {past.outcome.value}")

        by_way, at_once = after.run(folder / "v3"), past.run(folder / "v3-at-once")

        assert after.becomes == past.becomes
        if runs.labels(by_way) == runs.labels(at_once):
            event("the same bytes")
            assert runs.entries(by_way) == runs.entries(at_once)


@settings(profiles.profile, max_examples=profiles.profile.max_examples // 8)
@given(beginnings(), st.data())
def test_a_changed_kind_or_key_is_refused_whatever_the_types_become_state_1_role_2(beginning, data):
    kind, shape, contents = beginning
    with tempfile.TemporaryDirectory() as place:
        state = runs.write(Path(place) / "v1", kind, Declared.of(shape), contents)
        before = runs.digest(state.folder)
        declared = Declared.of(shape)
        other = data.draw(st.sampled_from([one for one in runs.KINDS if one != kind]))
        parts = [str, *runs.hints_of(kind, declared)][-2 if other in {"map", "broadcast"} else -1 :]
        changed = runs.job_of(other, runs.descriptor(other, None, parts))
        key = data.draw(st.sampled_from([str, Int32, tuple[int]]))
        rekeyed = runs.program(kind, declared, key=key)

        # The state next to it is keyed, so that a changed key concerns an operator with list state, too.
        assert {"STATE-1"} == runs.refused_by(state, changed, Path(place) / "v2")
        assert "ROLE-2" in runs.refused_by(state, rekeyed, Path(place) / "v2")
        assert before == runs.digest(state.folder)
