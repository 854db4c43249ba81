"""Keys held against their key group: machine code, columns and plain Python say the same, and what Java's hash says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import TimeWindow, VoidNamespace, serializer_for
from stateshift.compat.description import StateKind
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.flink.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import ByteSerializer, FloatSerializer, IntSerializer, ShortSerializer
from stateshift.serializers.primitives.text import CharSerializer
from stateshift.state.entry_keys import encode, length_bytes
from stateshift.state.key_groups import java_hash, key_group
from stateshift.state.transcode.entry_check import BlockChecker, CheckedTypes, make_entry_check
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.key_shapes import AHEAD, CRAMPED, TWICE, UNLIKE, find_placed_run, table_size

LONG, TEXT = serializer_for(int), serializer_for(str)
TYPES = {
    "long": (LONG, st.integers(-(2**63), 2**63 - 1)),
    "text": (TEXT, st.text(max_size=40)),
    "ascii": (TEXT, st.text(st.characters(max_codepoint=127), max_size=300)),
    "int": (IntSerializer(), st.integers(-(2**31), 2**31 - 1)),
    "short": (ShortSerializer(), st.integers(-(2**15), 2**15 - 1)),
    "byte": (ByteSerializer(), st.integers(-128, 127)),
    "boolean": (serializer_for(bool), st.booleans()),
    "char": (CharSerializer(), st.characters(max_codepoint=0xFFFF)),
    "float": (FloatSerializer(), st.floats(width=32)),
    "double": (serializer_for(float), st.floats()),
    "tuple": (TupleSerializer((TEXT, LONG)), st.tuples(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1))),
    "nested": (
        TupleSerializer((LONG, TupleSerializer((TEXT, serializer_for(bool))))),
        st.tuples(st.integers(-9, 9), st.tuples(st.text(max_size=3), st.booleans())),
    ),
}
NAMESPACES = [
    (VoidNamespaceSerializer(), VoidNamespace()), (TimeWindowSerializer(), TimeWindow(5, 9)), (TEXT, "space"),
]  # fmt: skip

NUMBA = ExecutorName.NUMBA


def entry(group, prefix, key, namespace, value=b"v"):
    (key_type, key_value), (space_type, space) = key, namespace
    parts = [group.to_bytes(prefix, "big")]
    for data in (encode(key_type, key_value), encode(space_type, space)):
        parts.append(data)
        if key_type.length < 0 and space_type.length < 0:
            parts.append(length_bytes(len(data)))
    data = b"".join(parts)
    return struct.pack(">i", len(data)) + data + struct.pack(">i", len(value)) + value


def checker(key, namespace, groups, prefix):
    types = CheckedTypes(StateKind.VALUE, key, namespace, TEXT)
    return BlockChecker(make_entry_check(types, groups=groups, prefix_bytes=prefix, with_values=False), prefix, NUMBA)


def plainly(data, group, check, prefix):
    """What plain Python says."""
    table, result = [0] * table_size(64), [0, 0, 0, 0]
    return find_placed_run(data, 0, len(data), group, prefix, check.shape.numbers, table, len(table), result)


@pytest.mark.parametrize("name", TYPES)
@given(st.data())
def test_a_key_is_only_in_the_place_of_its_hash(name, data):
    serializer, values = TYPES[name]
    key, groups = data.draw(values), data.draw(st.sampled_from([1, 7, 128, 129, 32768]))
    namespace = data.draw(st.sampled_from(NAMESPACES))
    prefix, group = 1 if groups <= 128 else 2, key_group(java_hash(key, serializer), groups)
    check = checker(serializer, namespace[0], groups, prefix)
    other = (group + data.draw(st.integers(1, 9))) % groups
    with_nan = key != key  # noqa: PLR0124 - not plain: it has many forms, and one hash

    for place in {group, other}:
        block = entry(place, prefix, (serializer, key), namespace)
        is_sound = place == group and not with_nan
        assert is_sound == (plainly(block, place, check.check, prefix) == AHEAD)
        pytest.importorskip("numba")
        seen = check.keys(block, place)
        assert (seen is not None) == is_sound


def blocks(keys):
    return b"".join(entry(0, 1, (LONG, key), NAMESPACES[0]) for key in keys)


@given(st.lists(st.integers(0, 60), max_size=60))
def test_a_key_that_comes_twice_is_no_plain_one_in_whatever_order(keys):
    pytest.importorskip("numba")
    check, data = checker(LONG, NAMESPACES[0][0], 1, 1), blocks([5, *keys])
    is_twice = len({5, *keys}) < len(keys) + 1
    ascends = [5, *keys] == sorted({5, *keys})

    assert (TWICE if is_twice else AHEAD) == plainly(data, 0, check.check, 1)
    seen = check.keys(data, 0)
    assert is_twice == (seen is None)
    if seen is not None:
        assert len(keys) * len(blocks([5])) == seen.last
        assert seen.ascends == ascends
        assert seen.ascends == (seen.hashes is None)


def test_too_little_memory_for_the_keys_is_reported():
    data, result = blocks([3, 1]), [0, 0, 0, 0]
    shape = checker(LONG, NAMESPACES[0][0], 1, 1).check.shape.numbers

    assert CRAMPED == find_placed_run(data, 0, len(data), 0, 1, shape, [0, 0], 2, result)
    assert 2 == result[2]


@pytest.mark.parametrize("at", range(18))
def test_any_other_framing_prefix_or_namespace_is_not_plain(at):
    sound = entry(3, 1, (LONG, 0x0101010101010101), NAMESPACES[0])
    check = checker(LONG, NAMESPACES[0][0], 128, 1)
    group = key_group(java_hash(0x0101010101010101, LONG), 128)
    sound = sound[:4] + bytes([group]) + sound[5:]
    damaged = sound[:at] + bytes([sound[at] ^ 0x40]) + sound[at + 1 :]

    assert AHEAD == plainly(sound, group, check.check, 1)
    assert UNLIKE == plainly(damaged, group, check.check, 1)
