"""Entries of one size that are rewritten at once come out as the interpreter rewrites them, one by one."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from plain_executor import PlainExecutor

from stateshift.compat.description import ValueFraming
from stateshift.serializers.rewrite import Constant, Counted, Fixed, Literal, Sequence, Text, ToFloat, Widened
from stateshift.state.transcode.compiler import compile_value
from stateshift.state.transcode.frames import add_keys, survey
from stateshift.state.transcode.interpreter import DONE
from stateshift.state.transcode.memory import copy
from stateshift.state.transcode.moves import moves_of, rewrite_even
from stateshift.state.transcode.numba_executor import NumbaExecutor

parts = st.one_of(
    st.integers(1, 70).map(Fixed),
    st.integers(0, 255).map(Literal),
    st.binary(min_size=1, max_size=20).map(Constant),
    st.sampled_from([Widened(old, new) for old, new in ((1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8))]),
)


@st.composite
def programs(draw):
    """An op list of moves, and what old values consist of: a size, or the byte that must be there."""
    chosen = draw(st.lists(parts, min_size=1, max_size=6))
    order = [*draw(st.permutations(range(len(chosen)))), draw(st.binary(max_size=9))]
    kept = order[draw(st.integers(0, len(chosen))) :]
    made = compile_value(Sequence(tuple(chosen), tuple(kept)), ValueFraming.WHOLE, nullable=False)
    return made, chosen


def value_of(chosen, byte):
    """An old value whose bytes are `byte` where they may be."""
    pieces = {Fixed: "size", Widened: "old"}
    return b"".join(
        bytes([one.byte]) if isinstance(one, Literal) else bytes([byte]) * getattr(one, pieces.get(type(one), ""), 0)
        for one in chosen
    )


def to_64_bits(done):
    """What was rewritten, its checksum without a sign."""
    return attrs.evolve(done, keys=done.keys & (1 << 64) - 1)


def framed(pairs):
    return b"".join(len(part).to_bytes(4, "big") + part for pair in pairs for part in pair)


runs = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 15, 16, 17, 129])), max_size=3)


@settings(max_examples=60)
@given(programs(), runs, st.data())
def test_they_come_out_as_one_by_one_whatever_is_among_them(made, sizes, data):
    program, chosen = made
    keys = [bytes([entry & 0x7F]) * size for size, entries in sizes for entry in range(entries)]
    block = bytearray(framed((key, value_of(chosen, entry & 0xFF)) for entry, key in enumerate(keys)))
    for _ in range(data.draw(st.integers(0, 2)) if block else 0):
        block[data.draw(st.integers(0, len(block) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.one_of(st.just(0), st.integers(0, len(block))))
    given_data = bytes(block[: len(block) - cut])

    prefix = bytes(data.draw(st.integers(0, 2)))
    done = NumbaExecutor(program).rewrite(given_data, 0, prefix)

    plain = PlainExecutor(program).rewrite(given_data, 0)
    assert moves_of(program)
    assert to_64_bits(plain) == to_64_bits(done)
    assert survey(plain.data, prefix) == done.seen


@pytest.mark.parametrize("sizes", [[5] * 9000, [5] * 4000 + [6] * 40 + [200_000, 7, 300_000] + [5] * 4000])
@pytest.mark.parametrize("wrong", [None, 0, 4010, 7000])
def test_what_was_written_is_seen_as_a_look_at_all_of_it_sees_it(sizes, wrong):
    program = compile_value(Sequence((Text(), Widened(4, 8))), ValueFraming.WHOLE, nullable=False)
    values = [bytes([size % 100 + 1]) + b"a" * (size % 100) + b"wide" for size in sizes]
    keys = [(b"\2" if place == wrong else b"\1") + b"k" * size for place, size in enumerate(sizes)]
    block = framed(zip(keys, values, strict=True))

    done = NumbaExecutor(program).rewrite(block, 0, b"\1")

    assert done.seen == survey(done.data, b"\1")
    assert (DONE, len(sizes)) == (done.status, done.seen.entries)
    assert (wrong is None) == (done.seen.misplaced < 0)


@settings(max_examples=20)
@given(programs(), st.integers(1, 40), st.integers(0, 150))
def test_most_entries_of_one_size_are_rewritten_at_once_also_by_plain_python(made, key_size, count):
    program, chosen = made
    keys = [bytes([entry & 0x7F]) * key_size for entry in range(count)]
    block = framed((key, value_of(chosen, entry & 0xFF)) for entry, key in enumerate(keys))
    room, result = program.capacity(len(block)), [0, 0, 0, 0, 0]
    target = bytearray(room)

    rewrite_even(block, 0, len(block), moves_of(program), program.constants, target, room, 0, 0, result)

    whole = PlainExecutor(program).rewrite(block, 0)
    stop, size, entries, sums, last = result
    assert (count if count >= 16 else entries) == entries
    assert (len(block) // count * entries if count else 0) == stop
    assert whole.data[:size] == target[:size]
    assert survey(target[:size], b"").last == last
    assert add_keys(0, keys[:entries]) == sums & (1 << 64) - 1


@pytest.mark.parametrize("key_size", [1, 3, 4, 5, 12, 13, 28, 29, 40, 61])
def test_where_other_bytes_were_written_than_should_be_nothing_is_rewritten_at_once(monkeypatch, key_size):
    program = compile_value(Sequence((Fixed(4), Widened(4, 8))), ValueFraming.WHOLE, nullable=False)
    block = framed((bytes([entry]) * key_size, bytes(8)) for entry in range(20))

    def entries_rewritten(wrong=None):
        def copied(target, to, source, at, size):
            copy(target, to, source, at, size)
            if wrong is not None and to:
                target[to + wrong] ^= 1

        monkeypatch.setattr("stateshift.state.transcode.moves.copy", copied)
        result, target = [0, 0, 0, 0, 0], bytearray(program.capacity(len(block)))
        rewrite_even(block, 0, len(block), moves_of(program), program.constants, target, len(target), 0, 0, result)
        return result[2]

    assert 20 == entries_rewritten()
    assert not any(entries_rewritten(wrong) for wrong in range(4 + key_size))


@pytest.mark.parametrize(
    ("parts", "kept", "around", "moves"),
    [
        ([Widened(4, 8), Fixed(8)], [0, 1], (0, 8), (0, 4, 0, 8)),
        ([Fixed(3), Widened(4, 8), Fixed(2), Fixed(7)], [0, 1, 2, 3], (3, 9), (3, 4, 3, 8)),
        ([Fixed(5), Fixed(90)], [0, 1], (95, 0), ()),
        ([Fixed(8), Fixed(2)], [1, 0], (0, 0), (8, 2, 0, 2, 0, 8, 2, 8)),
        ([Fixed(8), Fixed(2)], [0], (8, 0), ()),
        ([Fixed(8), Fixed(2)], [1], (0, 2), ()),
    ],
)
def test_what_both_values_begin_and_end_with_is_copied_with_the_keys_and_no_move(parts, kept, around, moves):
    program = compile_value(Sequence(tuple(parts), tuple(kept)), ValueFraming.WHOLE, nullable=False)

    _, _, checks, count, *rest = moves_of(program)

    assert (0, len(moves) // 4) == (checks, count)
    assert (*around, *moves) == tuple(rest)


@pytest.mark.parametrize("rewrite", [Text(), ToFloat(4, 8), Counted(Widened(4, 8))], ids=["text", "float", "list"])
def test_values_of_many_sizes_and_numbers_that_are_calculated_are_no_moves(rewrite):
    program = compile_value(Sequence((Fixed(2), rewrite)), ValueFraming.WHOLE, nullable=False)

    assert () == moves_of(program)
