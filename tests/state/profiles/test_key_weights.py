"""The heaviest keys: exact, or with a stated bound."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stateshift.state.profiles import key_weights
from stateshift.state.profiles.distributions import DistributionTally
from stateshift.state.profiles.key_weights import HEAVIEST, KeyWeights, Weights, heaviest_rows

KEYS = [f"k{number}".encode() for number in range(40)]
entries = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KEYS), st.integers(1, 50)), max_size=200)


def weights_of(rows):
    keys, sizes = [key for key, _ in rows], np.array([size for _, size in rows], np.int64)
    ones = np.ones(len(rows), np.int64)
    return Weights(pa.array(keys, pa.binary()), 0 * ones, ones, sizes)


def summed(key_groups):
    """Add entries, a list for each key group, each state by itself."""
    found = KeyWeights(is_alone=False)
    for rows in key_groups:
        for state in "abc":
            own = [(key, size) for name, key, size in rows if name == state]
            for at in range(0, len(own), 7):
                found.add(state, weights_of(own[at : at + 7]), is_unique=False)
        found.settle()
    return found


def sums_of(rows, state=None):
    sums = Counter()
    for name, key, size in rows:
        sums[key] += size * (state in {None, name})
    return Counter({key: size for key, size in sums.items() if size})


@given(entries)
def test_sums_of_states_and_of_the_operator_are_exact(rows):
    found = summed([rows])

    for state, top in [*found.tops.items(), (None, found.all)]:
        sums = sums_of(rows, state)
        assert [size for size, *_ in top.keys] == sorted(sums.values(), reverse=True)[:HEAVIEST]
        assert all(sums[key] == size for size, _, _, key in top.keys)
        assert top.missing_bytes == 0


@given(entries)
def test_with_too_many_keys_sums_lack_at_most_what_is_said(rows):
    before, key_weights.MOST_KEYS = key_weights.MOST_KEYS, 16
    try:
        found = summed([rows])
    finally:
        key_weights.MOST_KEYS = before

    for state, top in [*found.tops.items(), (None, found.all)]:
        sums = sums_of(rows, state)
        for size, _, _, key in top.keys:
            assert sums[key] - top.missing_bytes <= size <= sums[key]
        shown = {key for *_, key in top.keys}
        for key in sums.keys() - shown if len(top.keys) == HEAVIEST else ():
            assert sums[key] <= top.keys[-1][0] + top.missing_bytes


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 12))
def test_the_heaviest_rows_are_the_first_of_the_largest(sizes, count):
    rows = heaviest_rows(np.array(sizes, np.int64), count).tolist()

    assert sorted(rows) == rows
    assert set(rows) == set(sorted(range(len(sizes)), key=lambda row: (-sizes[row], row))[:count])


@given(st.lists(st.lists(st.integers(0, (1 << 63) - 1) | st.integers(0, 9), max_size=20), max_size=4))
def test_a_distribution_is_that_of_all_numbers(batches):
    tally = DistributionTally()
    for batch in batches:
        other = DistributionTally()
        other.add(np.array(batch, np.int64))
        tally.merge(other)
    numbers = [number for batch in batches for number in batch]
    found = tally.result()

    assert (found.count, found.total) == (len(numbers), sum(numbers))
    assert (found.smallest, found.largest) == (min(numbers, default=None), max(numbers, default=None))
    assert Counter(number.bit_length() for number in numbers) == Counter(dict(enumerate(found.buckets))) + Counter()
    assert all(first.bit_length() == last.bit_length() for first, last, _ in found.rows())
