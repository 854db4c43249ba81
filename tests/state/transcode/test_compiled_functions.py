"""Functions whose machine code is kept: what is called, by whom it was linked, and when numba has to come."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

import numpy as np

from stateshift.state.transcode.kept_code import CompiledFunction, kept_file
from stateshift.state.transcode.memory import address, load, store


def total(data, table, factor, is_less):
    """Return what is read from bytes and from a table of two dimensions, and whether it is to be subtracted."""
    found = load(address(data), 0, 8) * factor
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            found = found - table[row, column] if is_less else found + table[row, column]
    return found


def put(target, number):
    """Write a number."""
    store(address(target), 0, 8, number)


def is_more(number, other):
    """Whether a number is greater."""
    return number > other


def ones(count):
    """Return the sum of a new array, whose memory numba gives."""
    made = np.ones(count, np.int64)
    return made.sum()


DATA, TABLE = np.frombuffer((-7).to_bytes(8, "big", signed=True), np.uint8), np.arange(6).reshape(2, 3)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """`kept(function, *arguments)`: the function, after another process has called it with these arguments."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def call(function, *arguments):
        CompiledFunction(function)(*arguments)
        return CompiledFunction(function)

    return call


def is_by_numba(function):
    return "by_numba" in vars(function)


def test_numbers_truths_and_arrays_arrive_and_numba_is_not_asked(kept):
    function = kept(total, DATA, TABLE, 3, False)

    assert [-6, -36] == [function(DATA, TABLE, 3, False), function(DATA, TABLE, 3, True)]
    assert -15 + 7 == function(DATA, np.array([[5, -13]]), 0, False)
    assert not is_by_numba(function)


def test_nothing_and_a_truth_come_back(kept):
    writes, compares, target = kept(put, np.zeros(8, np.uint8), 1), kept(is_more, 1, 2), np.zeros(8, np.uint8)

    assert writes(target, -2) is None
    assert (-2).to_bytes(8, "big", signed=True) == target.tobytes()
    assert [True, False] == [compares(2, -1), compares(-1, 2)]
    assert [False, False] == [*map(is_by_numba, (writes, compares))]


@pytest.mark.parametrize("table", [TABLE.astype(np.int32), TABLE.T.copy().T, TABLE[:, ::2]], ids=str)
def test_arrays_of_other_kinds_are_left_to_numba_and_what_is_kept_stays(kept, table):
    function = kept(total, DATA, TABLE, 1, False)
    before = kept_file(total).read_bytes()

    assert -7 + table.sum() == function(DATA, table, 1, False)
    assert is_by_numba(function)
    assert before == kept_file(total).read_bytes()


def test_what_may_not_be_written_is_not_written(kept):
    function, target = kept(put, np.zeros(8, np.uint8), 1), np.zeros(8, np.uint8)
    function(target, 1)
    target.setflags(write=False)

    assert function.kept.words((target.view(), 2)) is None


@pytest.mark.parametrize("place", [0, 5, 200, -1])
def test_damaged_code_is_not_called(kept, place):
    function = kept(is_more, 1, 2)
    damaged = bytearray(kept_file(is_more).read_bytes())
    damaged[place] ^= 1
    kept_file(is_more).write_bytes(damaged)

    assert function(2, 1) is True
    assert function.kept is None


def test_code_of_another_source_is_not_called(kept, monkeypatch):
    function = kept(is_more, 1, 2)
    monkeypatch.setattr("stateshift.state.transcode.kept_code.source_stamp", lambda _: "another")

    assert function.kept is None


def half(number):
    """Return a number of another kind than those that are kept."""
    return number / 2


@pytest.mark.parametrize(("function", "result"), [(ones, 5), (half, 2.5)], ids=["numba's memory", "a float"])
def test_what_is_no_plain_function_of_words_is_not_kept(kept, function, result):
    assert result == kept(function, 3)(5)
    assert not kept_file(function).exists()
