"""The smallest change that each rule is about, with real runs: the random tests come to most of them only by chance."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from a_few import a_few
from evolution import runs
from evolution.beginnings import contents_of
from evolution.declared import Declared
from evolution.shapes import (
    NOTHING,
    EnumOf,
    Field,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    Stamped,
    TupleOf,
    with_ttl,
)
from evolution.takeover import Takeover
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import Verdict

BYTE, INT, LONG, TEXT, BYTES, SEALED, OPENED = map(Leaf, ("byte", "int", "long", "string", "bytes", "sealed", "opened"))
MOMENT, MILLIS, DATE, LOCAL = map(Leaf, ("instant", "javadate", "localdate", "localdatetime"))
A_STRING, A_LONG = ("str", "new"), ("int", 7)


def enum(symbols, name="shop.Status", **more):
    return EnumOf(name, tuple(symbols), **more)


def record(*fields, name="shop.Order", **more):
    return RecordOf(name, tuple(fields), **more)


def row(*columns, stored=()):
    return RowOf(tuple(columns), stored)


def field(name, shape=INT, default=NOTHING, **more):
    return Field(name, shape, default=default, **more)


def base(*fields, subclass=None, **more):
    """A record with a subclass of its own; its values are of either."""
    return record(*fields, subclasses=(subclass or click(),), **more)


def click(name="shop.Click", **more):
    return record(field("u"), name=name, **more)


CASES = [  # rule, stored type, new type
    ("PRIM-2", INT, LONG),
    ("PRIM-3", LONG, INT),
    ("PRIM-4", INT, TEXT),
    ("TEXT-1", TEXT, BYTES),
    ("TEXT-2", BYTES, TEXT),
    ("TIME-2", MILLIS, MOMENT),
    ("TIME-3", MOMENT, MILLIS),
    ("TIME-4", LOCAL, MOMENT),
    ("TIME-5", DATE, LOCAL),
    ("FAM-4", MOMENT, Leaf("sqltimestamp")),
    ("OPT-1", TupleOf((INT,)), TupleOf((Maybe(INT),))),
    ("OPT-2", TupleOf((Maybe(INT),)), TupleOf((INT,))),
    (
        "OPT-3",
        record(field("a", Maybe(ListOf(INT))), java="acme.A"),
        record(field("a", Maybe(ListOf(INT))), aliases=("acme.A",)),
    ),
    ("ENUM-2", enum("AB"), enum("CAB")),
    ("ENUM-3", enum("AB"), enum("BA")),
    ("ENUM-4", enum("AB"), enum("A")),
    ("ENUM-5", enum("AB"), enum("A", default="A")),
    ("ENUM-6", enum("AB"), enum("AC", renamed=(("C", ("B",)),))),
    ("ENUM-6", enum("AB"), enum("C", renamed=(("C", ("A", "B")),))),
    ("ENUM-7", enum("AB"), enum("AB", "shop.State", aliases=("shop.Status",))),
    ("ENUM-7", enum("AB"), enum("AB", "shop.State")),
    ("ENUM-8", enum("AB"), TEXT),
    ("LIST-2", SetOf(LONG), SetOf(Leaf("double"))),
    ("LIST-3", ListOf(INT), SetOf(INT)),
    ("MAP-3", MapOf(INT, TEXT), MapOf(LONG, TEXT)),
    ("MAP-4", MapOf(INT, TEXT), ListOf(INT)),
    ("TUP-3", TupleOf((INT,)), TupleOf((INT, INT))),
    ("REC-2", record(field("a")), record(field("a"), field("b", TEXT, A_STRING))),
    ("REC-3", record(field("a")), record(field("a"), field("b", TEXT))),
    ("REC-4", record(field("a"), field("b")), record(field("b"))),
    ("REC-6", record(field("a"), field("b")), record(field("c", aliases=("a",)), field("b"))),
    (
        "REC-6",
        record(field("a"), field("b"), java="acme.A"),
        record(field("c", aliases=("a",)), field("b"), java="acme.A"),
    ),
    ("REC-10", record(field("a", Maybe(LONG))), record(field("a", LONG, on_none=A_LONG))),
    (
        "REC-10",
        record(field("a", Maybe(LONG)), java="acme.A"),
        record(field("a", LONG, on_none=A_LONG), java="acme.A"),
    ),
    ("REC-11", record(field("a")), record(field("a"), name="store.Order", aliases=("shop.Order",))),
    ("REC-11", record(field("a")), record(field("a"), name="store.Order")),
    ("REC-14", base(field("a")), base(field("a"), subclass=click("shop.Sale", aliases=("shop.Click",)))),
    ("REC-14", base(field("a")), base(field("a"), subclass=click("shop.Sale"))),
    ("REC-14", base(field("a")), base(field("a"), subclass=click(is_registered=False))),
    ("REC-14", base(field("a")), base(field("a", LONG), subclass=click(is_registered=False))),
    (
        "REC-14",
        TupleOf((base(field("a")), INT)),
        TupleOf((base(field("a"), subclass=click(is_registered=False)), LONG)),
    ),
    ("TEST-1", base(field("a", SEALED)), base(field("a", OPENED))),
    ("REC-16", record(field("a")), record(field("a"), field("b", TEXT, A_STRING), retired=("b",))),
    ("FAM-4", record(field("a"), field("b", TEXT)), row(field("b", TEXT), field("a"))),
    ("FAM-2", record(field("a")), EnumOf("shop.Status", ("A",))),
    ("ROW-2", row(field("a"), field("b")), row(field("b"), field("a"), stored="ab")),
    ("ROW-3", row(field("a")), row(field("b", TEXT, A_STRING), field("a"))),
    ("ROW-3", row(field("a")), row(field("a"), field("b", TEXT))),
    ("ROW-4", row(field("a"), field("b")), row(field("b"))),
    ("ROW-5", row(field("")), row(field(""), field(""))),
    ("READ-4", TupleOf((SEALED, INT)), TupleOf((SEALED, LONG))),
    ("TEST-1", record(field("a", SEALED), field("b", BYTE)), record(field("a", OPENED), field("b", LONG))),
]


@pytest.mark.parametrize("kind", a_few(["value", "list", "map", "split", "broadcast"], of=2))
@pytest.mark.parametrize(("rule", "old", "new"), CASES, ids=[f"{rule}-{at}" for at, (rule, _, _) in enumerate(CASES)])
def test_what_a_rule_says_is_what_happens(kind, rule, old, new):
    if kind in {"map", "broadcast"}:
        old, new = MapOf(TEXT, old), MapOf(TEXT, new)
    elif kind not in {"value", "reducing"}:
        old, new = ListOf(old), ListOf(new)

    assert rule in verdict_and_rules(kind, old, new)


@pytest.mark.parametrize("kind", runs.KEYED)
@pytest.mark.parametrize("rule", ["STATE-4", "STATE-5"])
def test_time_to_live_goes_on_and_off_while_types_change(kind, rule):
    stamped = {"list": (ListOf(Stamped(INT)), ListOf(LONG)), "map": (MapOf(TEXT, Stamped(INT)), MapOf(TEXT, LONG))}
    old, new = stamped.get(kind, (Stamped(INT), LONG))
    if rule == "STATE-4":
        old, new = with_ttl(kind, old, has=False), with_ttl(kind, new, has=True)

    assert {rule, "PRIM-2"} <= verdict_and_rules(kind, old, new)


@settings(deadline=None, max_examples=1, database=None)
@given(st.just(("record", frozenset({("a", A_LONG), ("b", A_LONG)}))))
def test_an_order_that_a_rename_left_in_the_bytes_is_kept_rec_5(item):
    was, renamed = record(field("a"), field("b")), record(field("c", aliases=("a",)), field("b"))
    with tempfile.TemporaryDirectory() as place:
        state = runs.write(Path(place) / "v1", "value", Declared.of(was), {1: item})
        state = Takeover.of(state, renamed).start(Path(place) / "v2", {})
        takeover = Takeover.of(state, record(field("b"), field("c")))

        takeover.run(Path(place) / "v3")

    assert {("$", "REC-5")} == takeover.answer.findings


def verdict_and_rules(kind, old, new):
    found = set()

    @settings(deadline=None, max_examples=2, derandomize=True, database=None)
    @given(st.data())
    def runs_as_it_says(data):
        with tempfile.TemporaryDirectory() as place:
            contents = data.draw(contents_of(kind, old))
            takeover = Takeover.of(runs.write(Path(place) / "v1", kind, Declared.of(old), contents), new)
            takeover.run(Path(place) / "v2")
            found.update(rule for _, rule in takeover.answer.findings)
            found.add(Verdict(takeover.answer.verdict))

    runs_as_it_says()
    return found
