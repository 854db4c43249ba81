"""Rows that cannot be state: the error that the encoder sends on says what, where and what to do."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from stateshift import (
    DeclarationError,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ValueStateDescriptor,
)
from stateshift.state.columnar.bootstrap import StateColumns
from stateshift.state.columnar.row_sources import resolve
from stateshift.state.columnar.rows import RowEncoder
from stateshift.state.formats.flink.entries import read_separated

JOB = Job(
    [
        Operator(
            "o",
            key=str,
            states=[
                ValueStateDescriptor("number", Int32),
                ValueStateDescriptor("names", list[str]),
                ListStateDescriptor("list", int),
                ListStateDescriptor("small list", Int32),
                ListStateDescriptor("texts", str),
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
    assert "remove such rows, or declare a type that can hold them" == error.advice


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
def test_a_function_that_returns_something_else_is_reported_with_the_expected_type(error_of, state, arguments, wanted):
    error = error_of(state, **arguments)

    function = arguments.get("value") or arguments["aggregate"]
    assert error.advice == f"let {function.__qualname__} return a value of {wanted}, or None for no value"
    assert "'a'" == error.where["key"]


def test_an_array_without_an_order_is_a_whole_list_and_an_empty_one_is_no_entry():
    lists = [["a", "ż,", ""], [], ["b"], [""], ["x" * 300] * 3]
    rows = pa.table({"key": ["k0", "k1", "k2", "k3", "k4"], "value": lists}).slice(1)
    [source] = resolve(JOB, [(StateColumns("o", "texts", key_by="key", value="value"), rows.schema)])
    [found] = RowEncoder(source, 128, lambda _: None).encode(rows.to_batches())

    assert [None] * 3 == found.column("error").to_pylist()
    values = found.column("value").to_pylist()
    assert [one for one in lists[1:] if one] == [list(read_separated(source.item, data)) for data in values]
    assert [b"k2", b"k3", b"k4"] == [key[2:4] for key in found.column("key").to_pylist()]


@pytest.mark.parametrize(
    ("state", "value", "path"), [("number", "item", "$"), ("names", "item", "$"), ("names", "numbers", "$[]")]
)
def test_a_column_of_another_type_is_reported_with_the_path_to_it(state, value, path):
    with pytest.raises(DeclarationError, match="is declared") as raised:
        resolve(JOB, [(StateColumns("o", state, key_by="key", value=value), ROWS.schema)])

    assert path == raised.value.where["path"]


def test_of_several_columns_that_do_not_fit_each_field_is_named():
    job = Job([Operator("o", key=str, states=[ValueStateDescriptor("pair", tuple[Int32, Int32])])])
    rows = pa.table({"key": ["a"], "pair": [{"f0": "x", "f1": True}]})

    with pytest.raises(DeclarationError, match=r"columns do not fit \$\(0\), \$\(1\):") as raised:
        resolve(job, [(StateColumns("o", "pair", key_by="key", value="pair"), rows.schema)])

    assert 2 <= raised.value.what.count("is declared")


@pytest.mark.parametrize(
    ("lists", "what", "path"),
    [
        ([[1], [], [2, 1 << 40]], "does not fit an int", "$[]"),
        ([[1], [2], [3, None]], "there is a null", "$[]"),
        ([[1], [2], None], "there is a null in the column 'value'", None),
    ],
)
def test_what_is_wrong_in_a_whole_list_is_reported_with_its_key(lists, what, path):
    rows = pa.table({"key": ["a", "b", "c"], "value": lists})
    [source] = resolve(JOB, [(StateColumns("o", "small list", key_by="key", value="value"), rows.schema)])
    [found] = RowEncoder(source, 128, lambda _: None).encode(rows.to_batches())

    error = pickle.loads(found.column("error")[0].as_py())
    assert what in error.what
    assert ("'c'", path) == (error.where["key"], error.where.get("path"))
