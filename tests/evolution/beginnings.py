"""What a first version of a job has, and what later versions make of it, drawn at random."""

from __future__ import annotations

from datetime import timedelta

from evolution import runs
from evolution.answers import REFUSE, Misdeclared, fresh
from evolution.avro_shapes import avro_schemas
from evolution.declared import Declared
from evolution.runs import KEYED, KINDS, judge_state
from evolution.shapes import ListOf, MapOf, has_ttl, stripped, with_ttl
from evolution.shipped import held_by
from evolution.steps import hashed, shapes, steps, weighted
from hypothesis import strategies as st

lives = st.sampled_from([None, timedelta(seconds=15), timedelta(days=1)])
"""For how long values lived, if that is declared."""


@st.composite
def beginnings(draw):
    """Draw what a first version of a job has: (kind of state, type, contents)."""
    kind = draw(st.sampled_from(KINDS))
    shape = draw(weighted((12, shapes), (2, avro_schemas())))
    if kind in {"value", "reducing"}:
        shape = stripped(shape)[0]
    elif kind in {"map", "broadcast"}:
        shape = MapOf(draw(hashed), shape)
    else:
        shape = ListOf(shape)
    if kind in KEYED:
        shape = with_ttl(kind, shape, has=draw(st.integers(0, 3)) == 0)
    return kind, shape, draw(contents_of(kind, shape))


@st.composite
def contents_of(draw, kind, shape):
    """Draw values of a state by key or subtask; a state without a value has no entry, and no list or map is empty."""
    declared = Declared.of(shape)
    state = runs.descriptor(kind, shape, runs.hints_of(kind, declared))
    is_one = kind in {"value", "reducing"}
    values = held_by(state.state_serializer(), declared).filter(
        lambda value: value is not None and (is_one or len(value[1]) > 0)
    )
    places = st.just([0]) if kind == "broadcast" else st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
    return {place: draw(values) for place in draw(places)}


@st.composite
def changes(draw, kind, shape):
    """Draw one change of a state, as (what it is called, its new type)."""
    if kind in KEYED and draw(st.integers(0, 11)) == 11:
        return "time to live", with_ttl(kind, shape, has=not has_ttl(kind, shape))
    name, new = draw(steps(shape, keeps_root=kind not in {"value", "reducing"}))
    return name, with_ttl(kind, new, has=has_ttl(kind, shape)) if kind in KEYED else new


@st.composite
def evolutions(draw, kind, shape, longest=4):
    """Draw a chain of changes: (their names, the type after all of them)."""
    names, first = [], shape
    for _ in range(draw(st.integers(1, longest))):
        name, changed = draw(changes(kind, shape))
        if _is_refused(kind, first, changed) and draw(st.booleans()):
            name, changed = draw(changes(kind, shape))  # most changes of jobs are not refused
        names, shape = [*names, name], changed
    return names, shape


def _is_refused(kind, old, new):
    try:
        return judge_state(kind, fresh(old), new).verdict == REFUSE
    except Misdeclared:
        return True
