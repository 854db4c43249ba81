"""The types that fit stored bytes: what wrote them is among these, and nothing is opened to find it."""

import os
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import DataOutputView, Row
from stateshift.pyflink.common import Types
from stateshift.serializers.pyflink.coder_hints import coder_for
from stateshift.serializers.pyflink.likely_types import likely_types, pickled_names

LONG, STRING = Types.LONG(), Types.STRING()


def stored(hint, *values):
    return [bytes_of(coder_for(hint), value) for value in values]


def bytes_of(coder, value):
    target = DataOutputView()
    coder.serialize(value, target)
    return target.getvalue()


def of(source):
    return coder_for(eval(source, {"Types": Types}))  # noqa: S307 - the source was made here


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("Types.LONG()", [1, 5, -7]),
        ("Types.DOUBLE()", [0.5, 1.25]),
        ("Types.INT()", [1, 70_000]),
        ("Types.FLOAT()", [0.5, 1.25]),
        ("Types.BOOLEAN()", [True, False]),
        ("Types.BIG_DEC()", [Decimal("0.10"), Decimal("12.5")]),
        ("Types.STRING()", ["Ada", "Lovelace"]),
        ("Types.LIST(Types.STRING())", [["a", None], ["b"]]),
        ("Types.MAP(Types.STRING(), Types.LONG())", [{"a": 1}, {"b": None, "c": 5}]),
        ("Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))", [{"a": [1]}, {"bee": [2, 3]}]),
        ("Types.TUPLE([Types.STRING(), Types.INT()])", [("a", 5), ("bee", 9)]),
        ("Types.ROW([Types.LONG(), Types.STRING()])", [Row(1, None), Row(2, "two")]),
    ],
)
def test_the_likeliest_type_is_what_wrote_the_bytes(source, values):
    found = likely_types(stored(eval(source), *values))  # noqa: S307 - written above

    assert source == found[0].source
    assert found[0].looks_right


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=5))
def test_numbers_are_those_of_every_type_of_their_width(numbers):
    samples = stored(LONG, *numbers)
    found = likely_types(samples)

    assert "Types.LONG()" in {one.source for one in found}
    for one in found:
        assert one.coder == of(one.source)


def test_elements_one_after_the_other():
    samples = [b"".join(stored(STRING, "a", "bee")), b"".join(stored(STRING, "sea"))]

    assert "Types.STRING()" == likely_types(samples, many=True)[0].source
    assert [] == [one.source for one in likely_types(samples) if one.looks_right]


def test_a_column_that_is_always_null_is_said():
    (found, *_) = likely_types(stored(Types.ROW([LONG, Types.DOUBLE()]), Row(1, None), Row(2, None)))

    assert (2,) == found.unseen


def test_bytes_of_no_known_type():
    assert ["Types.TUPLE([Types.BYTE(), Types.SHORT()])"] == [one.source for one in likely_types([b"\xff\x01\x02"])]
    assert [] == likely_types([b"\xff" * 3, b"", b"\x00" * 7])


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("opened",)


def test_pickles_are_told_by_their_opcodes_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"first": Hostile(), "second": Decimal(1)}, protocol=4)
    found = likely_types(stored(bytes, data, data))

    assert ["bytes"] == [one.source for one in found]
    assert ("posix.mkdir", "decimal.Decimal") == pickled_names(data)
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("data", [b"", b".", b"\x80\x04", b"\x80\x04K\x01.more.", b"\x80\x04\xff.", b"\x80\x04K."])
def test_what_is_not_exactly_one_pickle(data):
    assert pickled_names(data) is None
