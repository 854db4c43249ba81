"""Sizes by state, key group and key: the sums are those of the entries, and the largest keys are the largest."""

from __future__ import annotations

from collections import defaultdict

import hypothesis.strategies as st
import pytest
from hypothesis import given

from stateshift import Savepoint, StateShiftError
from stateshift.compat.description import StateKind
from stateshift.compat.spread import Spread
from stateshift.serializers.flink.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import LongSerializer, LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializer, StringSerializerSnapshot
from stateshift.state.entry_keys import EntryKey, EntryKeyFormat, encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.savepoint.largest_keys import KeyTally
from stateshift.state.savepoint.sizes import measure_operator

ENTRIES = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=4), st.binary(max_size=9)), max_size=30)


def opened(savepoint_of, name):
    return Savepoint.open(str(savepoint_of(name)))


@pytest.mark.parametrize(
    "name",
    ["rocksdb-account-v1", "hashmap-string-p2-m128-files", "rocksdb-string-p1-m200-snappy", "hashmap-windows-p2-m128"],
)
def test_one_walk_counts_what_each_state_counts_by_itself(savepoint_of, name):
    for sizes in opened(savepoint_of, name).measure():
        expected = {state.name: state.measure() for state in sizes.operator.states}

        assert expected == {found.state.name: found.measure for found in sizes.states}
        by_group = sum(share.size_bytes for share in sizes.key_groups)
        assert by_group == sum(found.measure.size_bytes for found in sizes.states if found.state.kind.is_keyed)
        assert by_group == sum(share.size_bytes for share in sizes.subtasks)
        entries = sum(found.measure.entries for found in sizes.states if found.state.kind.is_keyed)
        assert [entries] * 2 == [
            sum(share.entries for share in shares) for shares in (sizes.key_groups, sizes.subtasks)
        ]
        assert [by_group] * 3 == [sum(share.size_bytes for share in sizes.bins(count)) for count in (1, 16, 1000)]


def test_bins_are_neighbours_that_cover_all_key_groups(savepoint_of):
    sizes = opened(savepoint_of, "rocksdb-account-v1").operator("account-state").measure()

    groups = [group for share in sizes.bins(16) for group in share.key_groups]
    assert list(range(200)) == groups
    assert [100, 100] == [len(share.key_groups) for share in sizes.subtasks]


def test_only_named_states_are_measured(savepoint_of):
    sizes = opened(savepoint_of, "rocksdb-account-v1").operator("account-state").measure(states=["account"])

    assert ["account"] == [found.state.name for found in sizes.states]
    assert 435 == sizes.size_bytes == sum(share.size_bytes for share in sizes.key_groups)


def test_the_largest_keys_of_map_state_are_those_with_the_most_entries(savepoint_of):
    operator = opened(savepoint_of, "hashmap-string-p2-m128-files").operator("keyed-op")
    entries = {entry.key: len(entry.value) for entry in operator.state("labels").read_entries()}

    (sizes,) = measure_operator(operator, states=["labels"], keys=100).states

    assert entries == {key.key: key.entries for key in sizes.largest.keys}
    assert sizes.measure.size_bytes == sum(key.size_bytes for key in sizes.largest.keys)
    assert sorted((key.size_bytes for key in sizes.largest.keys), reverse=True) == [
        key.size_bytes for key in sizes.largest.keys
    ]


def test_keys_are_found_whatever_the_values_are(savepoint_of):
    (thing,) = opened(savepoint_of, "hashmap-kryo").operator("keyed-op").measure(states=["thing"], keys=9).states

    assert {0, 1, 2} == {key.key for key in thing.largest.keys}


def test_damage_is_reported_with_the_states_that_it_hides(savepoint_copy):
    folder = savepoint_copy("hashmap-string-p2-m128-files")
    for file in folder.iterdir():
        if file.name != "_metadata":
            file.write_bytes(file.read_bytes()[:-2] + b"\0\0")

    sizes = {found.state.name: found for found in Savepoint.open(str(folder)).operator("keyed-op").measure().states}

    assert isinstance(sizes["labels"].error, StateShiftError)
    assert (None, {}) == (sizes["labels"].measure, sizes["labels"].key_groups)
    assert "file" in sizes["labels"].error.where
    assert 10 == sizes["rules"].measure.entries


def test_progress_is_reported_on_the_way(savepoint_of, monkeypatch):
    monkeypatch.setattr("stateshift.state.savepoint.sizes._TELL_EVERY_BYTES", 1)
    told = []

    sizes = opened(savepoint_of, "rocksdb-account-v1").operator("account-state").measure(progress=told.append)

    assert sorted(set(told)) == told
    assert sizes.size_bytes == told[-1]


def test_skew_compares_the_largest_with_the_average():
    assert (0, 2.0, 6, 2.5, 2.4) == (*_parts(Spread.of([0, 1, 3, 6])), Spread.of([0, 1, 3, 6]).skew)
    assert Spread.of([0, 0]).skew is None


def _parts(spread):
    return spread.smallest, spread.median, spread.largest, spread.average


def blocks_of(items, pieces):
    """Two key groups with the same entries, each in several pieces."""
    for group in (3, 5):
        for at in range(0, len(items), pieces):
            yield Block.of(group, 0, items[at : at + pieces])


@given(ENTRIES, st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_sums_of_keys_are_exact_while_there_is_room(entries, wanted, pieces, is_sorted):
    keys = EntryKeyFormat.of(StateKind.MAP, StringSerializer(), VoidNamespaceSerializer(), 128)
    items = []
    expected = defaultdict(int)
    for key, user, value in entries:
        items.append((keys.join(EntryKey(3, encode(StringSerializer(), key), b"\0", user.encode())), value))
        expected[key] += 8 + len(items[-1][0]) + len(value)

    blocks = blocks_of(sorted(items) if is_sorted else items, pieces)
    found = tally_of(StateKind.MAP, StringSerializerSnapshot(), wanted, blocks)

    assert found.is_exact
    sizes = sorted([*expected.values()] * 2, reverse=True)[:wanted]
    assert sizes == [key.size_bytes for key in found.keys]
    assert all(expected[key.key] == key.size_bytes for key in found.keys)


def tally_of(kind, snapshot, wanted, blocks, most_keys=1000):
    tally = KeyTally(kind, snapshot, 128, wanted, most_keys)
    for block in blocks:
        tally.add(block)
    return tally.result()


def longs(*sizes):
    """Entries of value state with these keys, each with a value of so many bytes."""
    keys = EntryKeyFormat.of(StateKind.VALUE, LongSerializer(), VoidNamespaceSerializer(), 128)
    return [(keys.join(EntryKey(3, encode(LongSerializer(), key), b"\0")), bytes(size)) for key, size in sizes]


def test_sorted_streams_stay_exact_with_little_room():
    items = longs(*((key, key * 7 % 101) for key in range(100)))

    found = tally_of(StateKind.VALUE, LongSerializerSnapshot(), 3, [Block.of(3, 0, items)], most_keys=10)

    assert found.is_exact
    assert [72, 43, 14] == [key.key for key in found.keys]


def test_keys_that_may_have_come_back_after_they_were_forgotten_make_it_a_least():
    items = longs(*((key * 37 % 100, 1) for key in range(100)))

    found = tally_of(StateKind.VALUE, LongSerializerSnapshot(), 3, [Block.of(3, 0, items)], most_keys=10)

    assert not found.is_exact
    assert 3 == len(found.keys)


def test_timers_count_for_their_key_whenever_they_fire():
    timers = EntryKeyFormat.of(StateKind.TIMERS, StringSerializer(), TimeWindowSerializer(), 128)
    items = [
        (timers.join(EntryKey(3, encode(StringSerializer(), key), bytes(16), timestamp_ms=time)), b"")
        for time, key in [(1, "a"), (2, "b"), (3, "a"), (4, "long key")]
    ]

    found = tally_of(StateKind.TIMERS, StringSerializerSnapshot(), 2, [Block.of(3, 0, items)])

    assert [("a", 2), ("long key", 1)] == [(key.key, key.entries) for key in found.keys]
