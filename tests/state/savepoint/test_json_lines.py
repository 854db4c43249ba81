"""Rows of JSON whose values are texts: the same as those made at once, whatever is on disk in between."""

from __future__ import annotations

import errno
import json
import tempfile
from itertools import count
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    Array,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    NoSpaceLeft,
    Operator,
    StorageFailed,
    ValueStateDescriptor,
)
from stateshift.serializers.wording import json_text
from stateshift.state.savepoint import json_lines, long_texts
from stateshift.state.savepoint.json_encoding import tagged_rows
from stateshift.state.savepoint.json_lines import json_rows
from stateshift.state.savepoint.long_texts import SortedLines, held
from stateshift.state.testing import write_savepoint

TEXTS = st.text(max_size=5) | st.sampled_from(["\x7f", "{", "\t\n", "a", "a ", "\U0001f600"])
NUMBERS = st.integers(-(2**40), 2**40)
DESCRIPTORS = [
    (MapStateDescriptor("s", str, int), st.dictionaries(TEXTS, NUMBERS, min_size=1)),
    (MapStateDescriptor("s", int, float | None), st.dictionaries(NUMBERS, st.floats() | st.none(), min_size=1)),
    (MapStateDescriptor("s", str, bytes), st.dictionaries(TEXTS, st.binary(max_size=3), min_size=1)),
    (ListStateDescriptor("s", str), st.lists(TEXTS, min_size=1)),
    (ValueStateDescriptor("s", list[int]), st.lists(NUMBERS)),
    (ValueStateDescriptor("s", list[str] | None), st.lists(TEXTS)),
    (ValueStateDescriptor("s", Array[Int32]), st.lists(st.integers(0, 9))),
    (ValueStateDescriptor("s", Array[str | None]), st.lists(TEXTS | st.none())),
    (ValueStateDescriptor("s", Array[Int32 | None]), st.lists(st.integers(0, 9) | st.none())),
    (ValueStateDescriptor("s", list[list[int]]), st.lists(st.lists(NUMBERS))),
    (ValueStateDescriptor("s", dict[str, int]), st.dictionaries(TEXTS, NUMBERS)),
    (ValueStateDescriptor("s", str), TEXTS),
]


@pytest.fixture(scope="module")
def tiny():
    """All limits are of a few bytes, so that everything is converted in pieces, sorted on disk and held there."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lines, "_LONG_BYTES", 0)
        patched.setattr(json_lines, "PIECE_BYTES", 5)
        patched.setattr(long_texts, "HELD_BYTES", 200)
        patched.setattr(long_texts, "PIECE_BYTES", 5)
        patched.setattr(long_texts, "_MOST_FILES", 2)
        yield


def written(place, descriptor, values):
    (operator,) = write_savepoint(
        place, Job([Operator("o", key=int, states=[descriptor])]), {"o/s": values}, max_parallelism=2
    ).operators
    return operator, operator.state("s")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("descriptor", "values"), DESCRIPTORS, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_texts_made_in_pieces_are_those_made_at_once(descriptor, values, data):
    entries = data.draw(st.dictionaries(st.integers(0, 9), values, min_size=1, max_size=5))
    with TemporaryDirectory() as folder:
        operator, state = written(f"{folder}/sp", descriptor, entries)

        expected = [(row[:-1], json_text(row[-1])) for row in tagged_rows(operator, state)]
        assert expected == [(place, "".join(texts)) for place, texts in json_rows(operator, state)]


@pytest.mark.usefixtures("tiny")
@given(st.lists(st.text("ab{} ", max_size=4)))
def test_lines_are_sorted_by_what_comes_before_their_end(texts):
    with SortedLines() as lines:
        for text in texts:
            lines.add(f"{text}\n")

        assert sorted(texts) == [line[:-1] for line in lines]


@pytest.mark.usefixtures("tiny")
def test_nothing_of_a_text_is_there_before_all_of_it_is():
    numbers = count()
    pieces = held(str(next(numbers)) for _ in range(300))

    first = next(pieces)

    assert 300 == next(numbers)
    assert "".join(map(str, range(300))) == first + "".join(pieces)
    with pytest.raises(ZeroDivisionError):
        next(held(str(1 // (300 - number)) for number in range(301)))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, NoSpaceLeft), (errno.EACCES, StorageFailed)])
def test_a_temporary_file_that_cannot_be_written_is_reported_with_its_folder(tmp_path, monkeypatch, number, kind):
    def refuse(*_, **__):
        raise OSError(number, "refused")

    operator, state = written(tmp_path / "sp", DESCRIPTORS[0][0], {1: {str(one): one for one in range(50)}})
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)

    with pytest.raises(kind, match="refused") as caught:
        list(json_rows(operator, state))
    assert tempfile.gettempdir() in caught.value.what
    assert "TMPDIR" in caught.value.advice


def test_equal_maps_are_equal_texts_in_whatever_order_they_are_put(tmp_path):
    pairs = [(name, number) for number, name in enumerate(["b", "a", "", "ab"])]
    texts = []
    for order in (pairs, pairs[::-1]):
        operator, state = written(tmp_path / str(len(texts)), DESCRIPTORS[0][0], {1: dict(order)})
        texts += ["".join(text) for _, text in json_rows(operator, state)]

    assert texts[0] == texts[1]
    assert [["", 2], ["a", 1], ["ab", 3], ["b", 0]] == json.loads(texts[0])["$map"]
