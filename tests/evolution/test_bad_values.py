"""Values that do not fit, in every kind of state: they end the run, or lie aside while all others arrive (RUN-4)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from evolution import profiles, runs
from evolution.beginnings import contents_of, lives
from evolution.declared import Declared
from evolution.shapes import Field, Leaf, ListOf, MapOf, Maybe, RecordOf, RowOf, SetOf, TupleOf, with_ttl
from evolution.takeover import Outcome, Takeover
from hypothesis import given, settings
from hypothesis import strategies as st

LONG, TEXT, BYTES, FLOAT = map(Leaf, ("long", "string", "bytes", "float"))


def record(number, text):
    return RecordOf("shop.Order", (Field("a", number), Field("b", text)), java="acme.Order")


def row(number):
    return RowOf((Field("", number),))


KEYS = [(LONG, LONG), (LONG, FLOAT), (BYTES, TEXT), (TEXT, BYTES)]
CHANGES = [  # of types that may not fit, or may become one
    *KEYS[2:],
    (record(Maybe(LONG), BYTES), record(LONG, TEXT)),
    (MapOf(BYTES, LONG), MapOf(TEXT, Leaf("double"))),
    (MapOf(TEXT, Maybe(LONG)), MapOf(TEXT, FLOAT)),
    (TupleOf((BYTES, LONG)), TupleOf((TEXT, LONG))),
    (SetOf(LONG), SetOf(FLOAT)),
]


def test_a_run_ends_at_what_does_not_fit_or_puts_it_aside_run_4():
    outcomes = set()

    @profiles.shorter
    @given(st.sampled_from(runs.KINDS), st.sampled_from(CHANGES), st.sampled_from(KEYS), st.data())
    def holds(kind, change, keys, data):
        old, new = change
        if kind in {"map", "broadcast"}:
            old, new = MapOf(keys[0], old), MapOf(keys[1], new)
        elif kind not in {"value", "reducing"}:
            old, new = ListOf(old), ListOf(new)
        if kind in runs.KEYED and data.draw(st.booleans()):
            old, new = with_ttl(kind, old, has=True), with_ttl(kind, new, has=data.draw(st.booleans()))
        with tempfile.TemporaryDirectory() as place:
            contents = data.draw(contents_of(kind, old))
            state = runs.write(Path(place) / "v1", kind, Declared.of(old), contents)
            takeover = Takeover.of(state, new, data.draw(lives))
            takeover.run(Path(place) / "v2")
            outcomes.add(takeover.outcome)

    holds()

    assert {Outcome.STOP, Outcome.MIGRATE} == outcomes


BIG = 2**63 - 2
TWINS = ("set", frozenset({("int", BIG), ("int", BIG + 1)}))
"""Two longs that are one float."""
SEALED = record(Maybe(Leaf("sealed")), BYTES)
A_NULL = ("record", frozenset({("a", None), ("b", ("bytes", b""))}))


def of_entries(*pairs):
    return {0: ("map", frozenset(pairs))}


@pytest.mark.parametrize(
    ("kind", "old", "new", "contents"),
    [
        (kind, MapOf(BYTES, SetOf(LONG)), MapOf(TEXT, SetOf(FLOAT)), of_entries((("bytes", b"\xff"), TWINS)))
        for kind in ("map", "broadcast")
    ]
    + [
        (
            "broadcast",
            MapOf(LONG, SEALED),
            MapOf(LONG, record(Leaf("opened"), BYTES)),
            of_entries((("int", 0), A_NULL)),
        ),
        (
            "map",
            MapOf(BYTES, Maybe(LONG)),
            MapOf(TEXT, LONG),
            of_entries((("bytes", b""), None), (("bytes", b"a"), ("int", 1))),
        ),
        (
            "map",
            MapOf(BYTES, record(Maybe(LONG), BYTES)),
            MapOf(TEXT, record(LONG, BYTES)),
            of_entries((("bytes", b"a"), A_NULL)),
        ),
        (
            "map",
            MapOf(BYTES, row(Maybe(LONG))),
            MapOf(TEXT, row(LONG)),
            of_entries((("bytes", b"a"), ("row", "INSERT", (None,)))),
        ),
        (
            "broadcast",
            MapOf(BYTES, row(Maybe(LONG))),
            MapOf(TEXT, row(LONG)),
            of_entries((("bytes", b"a"), ("row", "INSERT", (None,)))),
        ),
        (
            "map",
            MapOf(row(Maybe(LONG)), LONG),
            MapOf(row(LONG), Leaf("double")),
            of_entries((("row", "INSERT", (None,)), ("int", 1))),
        ),
    ],
    ids=[
        "two faults in an entry",
        "two faults in an entry of a broadcast map",
        "only a fallback finds the end",
        "a null beside a new key",
        "a null in a field beside a new key",
        "a null in a column beside a new key",
        "a null in a column beside a new key of a broadcast map",
        "a null in a column of a key beside a new value",
    ],
)
def test_what_the_random_runs_met_once(kind, old, new, contents):
    @settings(profiles.profile, max_examples=1)
    @given(st.none())
    def holds(_):
        with tempfile.TemporaryDirectory() as place:
            state = runs.write(Path(place) / "v1", kind, Declared.of(old), contents)
            takeover = Takeover.of(state, new)

            takeover.run(Path(place) / "v2")

            assert Outcome.STOP is takeover.outcome

    holds()
