"""Runs of entries found by their lengths: plain Python and numba see the same, of any bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.frames import COMPLETE, NO_KEY, Survey, add_keys, find_run, survey

pytest.importorskip("numba")

from stateshift.state.transcode.kept_code import compiled

pairs_of_one_size = st.tuples(st.binary(min_size=1, max_size=40), st.binary(max_size=20), st.integers(1, 5)).map(
    lambda one: [(bytes([one[0][0] ^ place & 1]) + one[0][1:], one[1]) for place in range(one[2])]
)
entries = st.lists(pairs_of_one_size, max_size=5).map(lambda some: [pair for pairs in some for pair in pairs])

VALUE = b"\0\0\0\2ab"


def framed(pairs):
    return b"".join(len(part).to_bytes(4, "big") + part for pair in pairs for part in pair)


def by_each(function, *arguments):
    """What plain Python and numba give; an error is reported by its message."""
    found = []
    for name in (ExecutorName.OBJECTS, ExecutorName.NUMBA):
        try:
            found.append(function(*arguments, name))
        except CorruptSavepoint as error:
            found.append(str(error))
    return found


@given(entries, st.binary(max_size=2))
def test_a_survey_counts_entries_and_finds_the_first_of_another_prefix(pairs, prefix):
    plain, fast = by_each(survey, framed(pairs), prefix)

    starts = [len(framed(pairs[:place])) for place in range(len(pairs))]
    others = [start for start, (key, _) in zip(starts, pairs, strict=True) if not key.startswith(prefix)]
    keys = add_keys(0, [key for key, _ in pairs])
    assert Survey(len(pairs), keys, [*others, -1][0], [-1, *starts][-1]) == plain
    assert plain == fast


@given(st.one_of(st.binary(max_size=60), entries.map(framed)), st.integers(0, 200), st.integers(1, 255))
def test_plain_python_and_numba_see_the_same_in_any_bytes(data, size, bits):
    changed = data[:size] + bytes(byte ^ bits for byte in data[size : size + 1]) + data[size + 1 :]
    for given_data in (data, data[:size], data + b"\xff\xff", changed):
        plain, fast = by_each(survey, given_data, b"\0")
        assert plain == fast
        plain, fast = by_each(find_run, given_data, 0)
        assert plain == fast


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (1, 1), (1, 0), (3, 3, 2, 2, 0), (9, -1), (1, -2), (2, 1 << 30)])
def test_keys_as_long_as_the_one_before_and_others_are_seen_alike(sizes):
    given_data = b"".join(size.to_bytes(4, "big", signed=True) + bytes(max(size & 15, 0)) + VALUE for size in sizes)

    for function, argument in ((survey, b"\0"), (survey, b""), (find_run, 0)):
        plain, fast = by_each(function, given_data, argument)
        assert plain == fast


@given(st.data(), st.integers(1, 40), st.integers(0, 30), st.integers(2, 300))
def test_one_among_many_of_a_size_that_is_not_so_is_seen_wherever_it_is(data, key_size, value_size, count):
    block = bytearray(framed((b"\1" * key_size, b"v" * value_size) for _ in range(count)))
    place, byte = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, 7 + key_size))
    block[place * (8 + key_size + value_size) + byte] ^= data.draw(st.integers(1, 255))
    given_data = bytes(block[: data.draw(st.integers(0, len(block)) | st.just(len(block)))])

    for function, argument in ((survey, b"\1"), (survey, b"\1\1"), (find_run, 0)):
        plain, fast = by_each(function, given_data, argument)
        assert plain == fast


@pytest.mark.parametrize("count", [7, 8, 9, 40, 300])
@pytest.mark.parametrize("key_size", [1, 7, 8, 9, 10, 15, 16, 17])
def test_keys_of_one_size_have_the_checksum_of_each_by_itself(key_size, count):
    keys = [b"\1" + random.Random(place).randbytes(key_size - 1) for place in range(count)]  # noqa: S311 - no secrets

    plain, fast = by_each(survey, framed((key, b"value") for key in keys), b"\1")

    assert plain == fast
    assert sum(add_keys(0, [key]) for key in keys) & (1 << 64) - 1 == plain.keys


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_run_ends_before_a_key_without_size(before):
    run = find_run(framed([(b"\1", b"v")] * before + [(b"", b"v")]), 0)

    assert (NO_KEY, before, 0) == (run.ending, run.entries, run.detail)


def test_the_checksum_does_not_depend_on_the_order_and_does_on_every_bit():
    keys = [random.Random(7).randbytes(size) for size in (1, 7, 8, 9, 16, 23)]  # noqa: S311 - no secrets
    whole = add_keys(0, keys)
    changed = {
        add_keys(0, [*keys[:place], key[:at] + bytes([key[at] ^ 1 << bit]) + key[at + 1 :], *keys[place + 1 :]])
        for place, key in enumerate(keys)
        for at in range(len(key))
        for bit in range(8)
    }

    assert whole == add_keys(add_keys(0, keys[3:]), keys[:3])
    assert whole not in changed
    assert 8 * sum(map(len, keys)) - 8 < len(changed)


def test_a_run_ends_with_the_entry_whose_flag_says_so():
    first, last = framed([(b"\1a", b"x")]), framed([(b"\x81b", b"yz")])

    run = find_run(first + last + b"\xff\xff", 0)

    assert (COMPLETE, len(first + last), len(first), 2) == (run.ending, run.stop, run.last, run.entries)


def test_a_function_whose_compiled_code_cannot_be_kept_is_compiled_by_each_process():
    made = {}
    exec("def twice(number):\n    return 2 * number\n", made)  # noqa: S102 - a function without a file

    assert 14 == compiled(made["twice"])(7)


def test_long_keys_have_one_checksum_too():
    plain, fast = by_each(survey, framed([(bytes(range(200)), b""), (b"\0" * 99, b"v")]), b"\0")

    assert plain == fast


def stored(groups):
    """Key groups as they are stored, and where each begins."""
    data, begins = bytearray(), []
    for states in groups:
        begins.append(len(data))
        for state_id, pairs in states.items():
            last = [(bytes([pairs[-1][0][0] | 0x80]) + pairs[-1][0][1:], pairs[-1][1])]
            data += state_id.to_bytes(2, "big") + framed(pairs[:-1] + last)
        data += b"\xff\xff"
    return bytes(data), begins


def random_groups(seed):
    """Key groups with up to three states, with few entries and with many, of many sizes."""
    random_ = random.Random(seed)  # noqa: S311 - no secrets
    for group in range(6):
        ids = random_.sample(range(3), random_.randint(1, 3))
        yield {
            state_id: [
                (bytes([group]) + random_.randbytes(random_.randint(0, 9)), random_.randbytes(random_.randint(0, 60)))
                for _ in range(random_.choice([1, 30, 1500]))
            ]
            for state_id in ids
        }


def runs_of(piece, executor):
    """All runs of a key group, one after the other, up to one that is not whole."""
    at, runs = 2, []
    while at < len(piece):
        run = find_run(piece, at, executor)
        runs.append(run)
        if run.ending != COMPLETE:
            break
        at = run.stop + 2
    return runs


@pytest.mark.parametrize("seed", range(8))
def test_a_key_group_that_is_cut_off_or_damaged_has_the_runs_that_plain_python_sees(seed):
    random_ = random.Random(seed)  # noqa: S311 - no secrets
    data, _ = stored([*random_groups(seed)][:1])
    for _ in range(20):
        cut = random_.randrange(2, len(data))
        for piece in (data[:cut], data[:cut] + random_.randbytes(1) + data[cut + 1 :]):
            plain, fast = by_each(runs_of, piece)
            assert plain == fast
