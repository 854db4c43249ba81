"""Whole key groups by machine code: what comes out, what is left as it was, and when nothing is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from plain_executor import PlainExecutor

from stateshift.compat.description import ValueFraming
from stateshift.serializers.rewrite import Constant, Fixed, Sequence, Text, Widened
from stateshift.state.transcode.compiler import compile_value
from stateshift.state.transcode.frames import add_keys
from stateshift.state.transcode.key_groups import StateTotal, Treatment, make_key_groups_executor
from stateshift.state.transcode.memory import PADDING

EVEN = compile_value(Sequence((Widened(4, 8),), (0,)), ValueFraming.WHOLE, nullable=False)
ODD = compile_value(Sequence((Text(), Constant(b"c" * 60))), ValueFraming.WHOLE, nullable=False)
SWAPPED = compile_value(Sequence((Fixed(2), Fixed(3)), (1, 0)), ValueFraming.WHOLE, nullable=False)
TREATMENTS = (Treatment(2, EVEN), Treatment(None), Treatment(0), Treatment(1, ODD), Treatment(3, SWAPPED))
DROPPED, OF_TEXT = 1, 3
VALUES = {0: st.binary(min_size=4, max_size=4), 3: st.integers(0, 9).map(lambda size: bytes([size + 1]) + b"t" * size),
          4: st.binary(min_size=5, max_size=5)}  # fmt: skip


@st.composite
def key_groups(draw, prefix_bytes):
    """Key groups, each with the entries of some states: their numbers, ids, keys and values."""
    groups = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=4)))
    found = {}
    for group in groups:
        found[group] = {}
        for state in draw(st.lists(st.sampled_from(range(len(TREATMENTS))), min_size=1, max_size=5, unique=True)):
            count, size = draw(st.sampled_from([1, 2, 15, 16, 17, 40, 150])), draw(st.integers(0, 20))
            value = VALUES.get(state, st.binary(max_size=9))
            some = draw(st.lists(value, min_size=1, max_size=3))
            prefix = group.to_bytes(prefix_bytes, "big")
            found[group][state] = [
                (prefix + number.to_bytes(2, "big") + bytes(size), some[number % len(some)]) for number in range(count)
            ]
    return found


def framed(pairs):
    return b"".join(len(part).to_bytes(4, "big") + part for pair in pairs for part in pair)


def flagged(pairs):
    """Entries as they are stored."""
    *others, (key, value) = pairs
    return framed([*others, (bytes([key[0] | 0x80]) + key[1:], value)])


def plain(program, block):
    """New entries, by plain Python."""
    done = PlainExecutor(program).rewrite(block, 0)
    return done.data + (plain(program, block[done.stop :]) if done.stop < len(block) else b"")


def rewritten(state, pairs):
    program = TREATMENTS[state].program
    if program is None:
        return flagged(pairs)
    data = bytearray(plain(program, framed(pairs)))
    data[len(plain(program, framed(pairs[:-1]))) + 4] |= 0x80
    return bytes(data)


def stored(found, of=flagged, ids=range(5)):
    """The bytes of key groups, and where each begins."""
    data, begins = b"", []
    for states in found.values():
        begins.append(len(data))
        parts = [ids[state].to_bytes(2, "big") + of(state, pairs) for state, pairs in states.items()]
        data += b"".join(parts) + b"\xff\xff" if parts else b""
    return data, begins


def in_memory(data, room):
    return memoryview(bytearray(data + b"\xee" * room))[: len(data)]


@given(
    st.sampled_from([1, 2]).flatmap(lambda size: st.tuples(st.just(size), key_groups(size))),
    st.sampled_from([0, PADDING]),
)
def test_they_come_out_as_state_by_state(given_groups, room):
    prefix_bytes, found = given_groups
    executor = make_key_groups_executor(TREATMENTS, prefix_bytes)
    old, begins = stored(found, lambda _, pairs: flagged(pairs))
    data = in_memory(old, room)
    kept = {group: {one: pairs for one, pairs in states.items() if one != DROPPED} for group, states in found.items()}
    expected, places = stored(kept, rewritten, [one.new_id for one in TREATMENTS])

    for _ in range(2):  # how much becomes of the first is not known
        new = executor.rewrite(data, begins, [*found])

        assert expected == bytes(new.data)
        assert [at if kept[group] else -1 for group, at in zip(found, places, strict=True)] == new.offsets
        assert old == bytes(data)
        assert [
            told(state, found) for state in sorted({one for states in found.values() for one in states})
        ] == new.totals


def told(state, found):
    pairs = [pair for states in found.values() for pair in states.get(state, ())]
    keys = add_keys(0, [key for key, _ in pairs]) if TREATMENTS[state].program else 0
    return StateTotal(state, first_of(state, found), len(pairs), keys, keys)


def first_of(state, found):
    """Where its first new entry begins."""
    at = 0
    for states in found.values():
        for one, pairs in states.items():
            if one == state:
                return at + 2
            at += 0 if one == DROPPED else 2 + len(rewritten(one, pairs))
        at += 2 if states.keys() - {DROPPED} else 0
    raise AssertionError


@given(key_groups(1), st.data())
def test_of_what_is_not_plain_nothing_is_given_and_it_is_left_as_it_was(found, data):
    old, begins = stored(found, lambda _, pairs: flagged(pairs))
    cut = data.draw(st.integers(1, 6))
    damaged = data.draw(st.sampled_from([old[:-cut], old + b"\0\0", old[:-1] + b"\7", b"\0\x63" + old[2:]]))
    data_in_memory = in_memory(damaged, PADDING)

    assert make_key_groups_executor(TREATMENTS, 1).rewrite(data_in_memory, begins, [*found]) is None
    assert damaged == bytes(data_in_memory)


@pytest.mark.parametrize(
    "found",
    [
        {3: {0: [(b"\3a", b"1234")] * 20 + [(b"\4b", b"1234")]}},
        {3: {0: [(b"\4a", b"1234")] + [(b"\3b", b"1234")] * 20}},
        {3: {OF_TEXT: [(b"\3a", b"\2t"), (b"\4b", b"\2t")]}},
        {3: {OF_TEXT: [(b"\3a", b"\2t"), (b"\3b", b"\3t")]}},
        {3: {}},
    ],
    ids=["last of another", "first of another", "text of another", "no text", "no state"],
)
def test_an_entry_of_another_key_group_or_of_another_type_is_not_plain(found):
    old, begins = stored(found, lambda _, pairs: flagged(pairs))
    data_in_memory = in_memory(old or b"\xff\xff", PADDING)

    assert make_key_groups_executor(TREATMENTS, 1).rewrite(data_in_memory, begins, [*found]) is None


def test_a_state_that_comes_twice_is_not_plain():
    entries = flagged([(b"\3a", b"x")])
    once, twice = (b"".join([b"\0\2" + entries] * count) + b"\xff\xff" for count in (1, 2))
    executor = make_key_groups_executor(TREATMENTS, 1)

    assert executor.rewrite(in_memory(once, PADDING), [0], [3]).data == b"\0\0" + entries + b"\xff\xff"
    assert executor.rewrite(in_memory(twice, PADDING), [0], [3]) is None


def test_values_that_grow_very_much_are_left_to_the_interpreter():
    program = compile_value(Sequence((Text(), Constant(b"c" * 900))), ValueFraming.WHOLE, nullable=False)
    entries = flagged([(b"\3a", b"\2t")] * 3_000)
    data_in_memory = in_memory(b"\0\0" + entries + b"\xff\xff", PADDING)

    assert make_key_groups_executor([Treatment(0, program)], 1).rewrite(data_in_memory, [0], [3]) is None
