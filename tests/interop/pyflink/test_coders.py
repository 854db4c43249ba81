"""Our coders beside those of real PyFlink, slow and fast: the same bytes of the same values, and the same back."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib.util
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateshift import Instant, Row
from stateshift.compat.testing.strategies import values_of
from stateshift.pyflink.common import RowKind, Types
from stateshift.serializers.pickled.serializers import PickleSerializer
from stateshift.serializers.pyflink import coder_for
from stateshift.serializers.pyflink.coders import CoderTimestampSerializer
from stateshift.serializers.pyflink.contents import PyFlinkElements
from stateshift.serializers.views import DataInputView, DataOutputView


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VALUES = _module(Path(__file__).parent / "coder_values.py")
CLASSES = {"Instant": Instant, "Row": Row, "RowKind": RowKind}
EXAMPLES = Path(__file__).parents[2] / "serializers" / "pyflink" / "coders.json"
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - in no time zone
NAMES = {"names": ["id", "a name", "f2", "f3", "f4", "f5", "f6"]}
SEVEN = [["LONG"], ["STRING"], ["BOOLEAN"], ["DOUBLE"], ["INT"], ["SQL_DATE"], ["LIST", ["STRING"]]]
TYPES = [
    ["STRING"], ["CHAR"], ["BYTE"], ["BOOLEAN"], ["SHORT"], ["INT"], ["LONG"], ["FLOAT"], ["DOUBLE"], ["BIG_INT"],
    ["BIG_DEC"], ["INSTANT"], ["SQL_DATE"], ["SQL_TIME"], ["SQL_TIMESTAMP"],
    ["PRIMITIVE_ARRAY", ["BYTE"]], ["PRIMITIVE_ARRAY", ["INT"]], ["PRIMITIVE_ARRAY", ["LONG"]],
    ["PRIMITIVE_ARRAY", ["DOUBLE"]], ["PRIMITIVE_ARRAY", ["BOOLEAN"]], ["PRIMITIVE_ARRAY", ["CHAR"]],
    ["BASIC_ARRAY", ["INT"]], ["BASIC_ARRAY", ["STRING"]], ["OBJECT_ARRAY", ["TUPLE", [["STRING"], ["LONG"]]]],
    ["LIST", ["SHORT"]], ["LIST", ["BIG_DEC"]], ["LIST", ["LIST", ["STRING"]]],
    ["MAP", ["STRING"], ["LONG"]], ["MAP", ["LONG"], ["LIST", ["SQL_TIME"]]],
    ["TUPLE", [["STRING"]]], ["TUPLE", [["INT"], ["BIG_INT"], ["INSTANT"], ["FLOAT"]]],
    ["ROW", []], ["ROW", [["LONG"]]], ["ROW", SEVEN[:6]], ["ROW", SEVEN], ["ROW_NAMED", NAMES, SEVEN],
    ["ROW", [["ROW", [["STRING"], ["INT"]]], ["MAP", ["STRING"], ["ROW", [["BIG_DEC"]]]]]],
    ["ROW", [["BOOLEAN"]] * 17],
]  # fmt: skip
each_type = pytest.mark.parametrize("spelled", TYPES, ids=json.dumps)
OWN = {
    # The compiled coder reads other times before 1970, and from 2038 on: see below.
    CoderTimestampSerializer: st.integers(0, (1 << 31) * 1000 - 1).map(lambda ms: EPOCH + dt.timedelta(milliseconds=ms))
}


def written(coder, value):
    target = DataOutputView()
    coder.serialize(value, target)
    return target.getvalue()


def read(coder, data):
    source = DataInputView(data)
    value = coder.deserialize(source)
    assert 0 == source.remaining()
    return value


@each_type
def test_values_have_the_bytes_that_pyflink_writes_and_reads(ask_coders, spelled):
    coder = coder_for(VALUES.type_of(Types, spelled))

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values_of(coder, own=OWN))
    def compare(value):
        data = written(coder, value)
        answers = ask_coders(type=spelled, value=VALUES.told(value), bytes=data.hex())

        assert {data.hex()} == {answer["bytes"] for answer in answers.values()}
        assert [VALUES.told(read(coder, data))] * 2 == [answer["value"] for answer in answers.values()]

    compare()


@st.composite
def pickled(draw):
    scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False) | st.dates()
    return draw(st.lists(scalars, max_size=4) | st.dictionaries(st.text(max_size=3), scalars, max_size=3) | scalars)


def test_pickles_are_opened_on_both_sides(ask_coders):
    """Bytes of pickles depend on which parts of a value are one object, so that values are compared."""
    coder = coder_for(Types.PICKLED_BYTE_ARRAY())
    assert isinstance(coder, PickleSerializer)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(pickled())
    def compare(value):
        data, told = written(coder, value), VALUES.told(value)
        answers = ask_coders(type=["PICKLED_BYTE_ARRAY"], value=told, bytes=data.hex())

        assert [told] * 2 == [answer["value"] for answer in answers.values()]
        assert {told_of(coder, answer["bytes"]) for answer in answers.values()} == {json.dumps(told)}

    compare()


def told_of(coder, data):
    return json.dumps(VALUES.told(read(coder, bytes.fromhex(data))))


def test_a_null_instant_is_two_least_numbers(ask_coders):
    coder = coder_for(Types.INSTANT())
    answers = ask_coders(type=["INSTANT"], value=None, bytes=written(coder, None).hex())

    assert {written(coder, None).hex()} == {answer["bytes"] for answer in answers.values()}
    assert [None, None] == [answer["value"] for answer in answers.values()]


def test_elements_are_what_one_coder_writes_after_the_other(ask_coders):
    coder = coder_for(Types.STRING())
    parts = [ask_coders(type=["STRING"], value=value)["fast"]["bytes"] for value in ("a", "bc")]
    data = bytes.fromhex("".join(parts))

    assert ["a", "bc"] == read(PyFlinkElements(coder), len(data).to_bytes(4, "big") + data)


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        (["BYTE"], 128), (["SHORT"], -32769), (["INT"], 1 << 31), (["BIG_INT"], 1 << 63), (["STRING"], "\ud800"),
        (["STRING"], None), (["TUPLE", [["STRING"], ["LONG"]]], ("a", None)), (["SQL_DATE"], None),
    ],
)  # fmt: skip
def test_what_pyflink_refuses_is_refused(ask_coders, spelled, value):
    answers = ask_coders(type=spelled, value=VALUES.told(value))

    assert all("(" in answer["bytes"] for answer in answers.values()), "the repr of an error"
    with pytest.raises(Exception, match=r"is not|not fit|neither|surrogate"):
        written(coder_for(VALUES.type_of(Types, spelled)), value)


TIMES = [  # a time, what both coders write of it, and what each reads of our bytes: the right time, or another one
    ("1969-12-31 23:59:59.500000", 500, "1969-12-31 23:59:59.500000", "ValueError"),
    ("1969-12-31 23:59:58.000000", -2000, "1969-12-31 23:59:58", "1969-12-31 23:59:58"),
    ("2038-01-19 03:14:08.000000", 1000 << 31, "2038-01-19 03:14:08", "1901-12-13 20:45:52"),
]


@pytest.mark.parametrize(("text", "millis", "slow", "fast"), TIMES)
def test_times_of_which_pyflink_itself_makes_others(ask_coders, text, millis, slow, fast):
    coder, value = coder_for(Types.SQL_TIMESTAMP()), dt.datetime.fromisoformat(text)
    data = written(coder, value)
    answers = ask_coders(type=["SQL_TIMESTAMP"], value=VALUES.told(value), bytes=data.hex())

    assert value == read(coder, data)
    wrote = {int.from_bytes(bytes.fromhex(answer["bytes"]), "big", signed=True) for answer in answers.values()}
    assert {millis} == wrote
    assert slow in str(answers["slow"]["value"])
    assert fast in str(answers["fast"]["value"])


CHOSEN = {
    "STRING": ["", "a", "é\u20ac\U0001f600\0"], "CHAR": ["x"], "BYTE": [-128, 5], "BOOLEAN": [True, False],
    "SHORT": [-1, 32767], "INT": [-(2**31), 7], "LONG": [2**63 - 1, -2], "FLOAT": [1.5, -0.0, math.inf],
    "DOUBLE": [0.1, -1e300], "BIG_INT": [-(2**63)], "INSTANT": [Instant(-1, 999_999_999)],
    "BIG_DEC": [decimal.Decimal(text) for text in ("1.50", "-0", "1E+30", "NaN", "1E-7")],
    "SQL_DATE": [dt.date(1, 1, 1), dt.date(1969, 12, 31)], "SQL_TIME": [dt.time(23, 59, 59, 999_000)],
    "SQL_TIMESTAMP": [EPOCH, dt.datetime(2024, 2, 29, 12, 0, 0, 1000)],  # noqa: DTZ001 - in no time zone
}  # fmt: skip
COMPOSED = [
    (["PRIMITIVE_ARRAY", ["BYTE"]], b"\0\xff"), (["PRIMITIVE_ARRAY", ["INT"]], [1, -1]),
    (["PRIMITIVE_ARRAY", ["CHAR"]], ["a", "é"]), (["BASIC_ARRAY", ["STRING"]], ["a", None]),
    (["LIST", ["LONG"]], [1, None]), (["MAP", ["STRING"], ["LONG"]], {"a": 1, "b": None}),
    (["TUPLE", [["STRING"], ["INSTANT"]]], ("a", None)), (["ROW", []], Row()),
    (["ROW_NAMED", NAMES, SEVEN], Row(1, "a", None, 0.5, None, dt.date(2024, 1, 1), ["x", None])),
    (["ROW", [["LONG"]]], Row.of_kind(RowKind.UPDATE_BEFORE, 1)), (["ROW", [["LONG"]]], Row.of_kind(RowKind.DELETE, 1)),
    (["ROW", [["ROW", [["STRING"], ["INT"]]]]], Row(Row.of_kind(RowKind.UPDATE_AFTER, "a", None))),
    (["PICKLED_BYTE_ARRAY"], [1, "a", None]),
]  # fmt: skip


def test_the_examples_of_the_unit_tests_are_what_pyflink_writes(ask_coders):
    """With STATESHIFT_RECORD=1 they are written again."""
    found = []
    for spelled, value in [*(([word], value) for word, all_ in CHOSEN.items() for value in all_), *COMPOSED]:
        told = VALUES.told(value)
        (data,) = {answer["bytes"] for answer in ask_coders(type=spelled, value=told).values()}
        found.append({"type": spelled, "value": told, "bytes": data})
    if os.environ.get("STATESHIFT_RECORD"):
        EXAMPLES.write_text(
            "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n]\n", encoding="utf-8"
        )
    assert json.loads(EXAMPLES.read_text(encoding="utf-8")) == found
