"""What a first version of a job has, and what later versions make of it, drawn at random."""

from __future__ import annotations

from evolution.runs import KEYED, KINDS
from evolution.shapes import ListOf, MapOf, stripped
from evolution.steps import hashed, shapes, steps
from evolution.values import values_of
from hypothesis import strategies as st


@st.composite
def beginnings(draw):
    """Draw what a first version of a job has: (kind of state, type, contents, whether it has TTL)."""
    kind = draw(st.sampled_from(KINDS))
    shape = draw(shapes)
    ttl = kind in KEYED and draw(st.integers(0, 3)) == 0
    if kind in {"value", "reducing"}:
        shape = stripped(shape)[0]
    elif kind in {"map", "broadcast"}:
        shape = MapOf(draw(hashed), shape)
    else:
        shape = ListOf(shape)
    return kind, shape, draw(contents_of(kind, shape)), ttl


@st.composite
def contents_of(draw, kind, shape):
    values = values_of(shape, least=int(kind not in {"value", "reducing"}))
    places = st.just([0]) if kind == "broadcast" else st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
    return {place: draw(values) for place in draw(places)}  # a state without a value has no entry


@st.composite
def evolutions(draw, kind, shape, longest=2):
    """Draw a chain of changes: (their names, the type after all of them)."""
    names = []
    for _ in range(draw(st.integers(1, longest))):
        name, shape = draw(steps(shape, keeps_root=kind not in {"value", "reducing"}))
        names.append(name)
    return names, shape
