"""Rows that cannot be state: the error that the encoder sends on says what, where and what to do."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from stateshift import Int32, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor
from stateshift.state.bootstrap.rows import RowEncoder
from stateshift.state.bootstrap.sources import StateColumns, resolve

JOB = Job(
    [
        Operator(
            "o",
            key=str,
            states=[
                ValueStateDescriptor("number", Int32),
                ValueStateDescriptor("names", list[str]),
                ListStateDescriptor("list", int),
                MapStateDescriptor("map", str, Int32),
                MapStateDescriptor("maybe", str, Int32, nullable_values=True),
                MapStateDescriptor("lists", str, list[Int32]),
            ],
        )
    ]
)
ROWS = pa.table({"key": ["a"], "item": ["x"], "number": [1 << 40], "numbers": [[1, 1 << 40]]})


def text(_):
    return "x"


@pytest.fixture
def error_of():
    def find(state, **arguments):
        [source] = resolve(JOB, [(StateColumns("o", state, key_by="key", **arguments), ROWS.schema)])
        encoder = RowEncoder(source, 128, lambda _: lambda *values: values)
        [found] = encoder.encode(ROWS.to_batches())
        return pickle.loads(found.column("error")[0].as_py())

    return find


@pytest.mark.parametrize(
    ("state", "value", "path"),
    [("map", "number", "${}"), ("maybe", "number", "${}"), ("lists", "numbers", "${}[]")],
)
def test_a_number_in_a_map_that_does_not_fit_is_placed_in_the_map(error_of, state, value, path):
    error = error_of(state, user_key="item", value=value)

    assert "does not fit an int" in error.what
    assert {"operator": "o", "state": state, "key": "'a'", "path": path} == error.where
    assert "leave such rows out, or declare a type that holds them" == error.advice


@pytest.mark.parametrize(
    ("state", "arguments", "wanted"),
    [
        ("number", {"value": text}, "int"),
        ("number", {"aggregate": text}, "int"),
        ("names", {"value": lambda _: 5}, "list<string>"),
        ("list", {"value": text, "order_by": "item"}, "long"),
        ("list", {"aggregate": text}, "list<long>"),
        ("map", {"value": text, "user_key": "item"}, "int"),
        ("map", {"aggregate": text}, "map<string, int>"),
        ("map", {"aggregate": lambda _: {"x": "y"}}, "map<string, int>"),
    ],
)
def test_a_function_that_gives_something_else_is_told_what_to_give(error_of, state, arguments, wanted):
    error = error_of(state, **arguments)

    function = arguments.get("value") or arguments["aggregate"]
    assert error.advice == f"let {function.__qualname__} give a value of {wanted}, or None where there is to be none"
    assert "'a'" == error.where["key"]
