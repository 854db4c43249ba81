"""Machine code writes nothing past the memory reserved for it: ops of fixed size do not check, the rest does."""

from __future__ import annotations

from io import BytesIO

import pytest

pytest.importorskip("numba")

import numpy as np
from plain_executor import PlainExecutor

from stateshift.compat.description import ValueFraming
from stateshift.serializers.rewrite import Constant, Counted, Fixed, Sequence, Text, ToFloat, Widened
from stateshift.state.transcode.compiler import compile_value
from stateshift.state.transcode.interpreter import DONE, FULL
from stateshift.state.transcode.memory import PADDING
from stateshift.state.transcode.moves import moves_of
from stateshift.state.transcode.numba_executor import NumbaExecutor, bytes_behind, padded
from stateshift.state.transcode.numba_kernels import RESULT_NUMBERS, STATE_NUMBERS, TOTAL_NUMBERS, rewrite

PAIR = Sequence((Widened(1, 8), Text(), Fixed(40), ToFloat(4, 8)), (b"x" * 70, 0, 3, b"yz", 1, 2))
PAIR_BYTES = b"\xf0" + b"\4abc" + bytes(range(40)) + b"\0\0\0\7"
CASES = {
    "one": (PAIR, ValueFraming.WHOLE, PAIR_BYTES),
    "items that grow": (Counted(PAIR), ValueFraming.WHOLE, b"\0\0\0\5" + 5 * PAIR_BYTES),
    "lists in lists": (
        Counted(Sequence((Counted(Widened(1, 8)),))), ValueFraming.WHOLE, b"\0\0\0\3" + 3 * (b"\0\0\0\4" + b"abcd"),
    ),
    "elements": (PAIR, ValueFraming.SEPARATED, b",".join([PAIR_BYTES] * 4)),
    "constants": (Sequence((Fixed(3), Constant(b"c" * 200))), ValueFraming.WHOLE, b"123"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_is_written_past_the_reserved_memory_and_entries_that_fit_are_complete(case):
    byte_rewrite, framing, value = case
    program = compile_value(byte_rewrite, framing, nullable=False)
    entry = b"\0\0\0\3key" + len(value).to_bytes(4, "big") + value
    count = 20
    data = np.frombuffer(count * entry + bytes(PADDING), np.uint8)
    code, moves = (np.array(numbers, np.int64) for numbers in (program.code, moves_of(program)))
    constants = padded(program.constants)  # another type of array would be compiled separately, for half a minute
    registers, result = np.zeros(program.registers, np.int64), np.zeros(RESULT_NUMBERS, np.int64)
    states, totals = np.zeros((0, STATE_NUMBERS), np.int64), np.zeros((0, TOTAL_NUMBERS), np.int64)

    def rewritten(room):
        target = np.full(room + 3 * PADDING, 0xAA, np.uint8)
        size, free = count * len(entry), room - program.fixed
        places, none = np.array([0, size, size]), np.zeros(1, np.int64)
        status = rewrite(
            data, places, none, 0, states, none, code, constants, moves, none, target, free, registers, result, none,
            totals,
        )  # fmt: skip
        assert (target[room + PADDING :] == 0xAA).all()
        stop, written, entries, _, seen, *_ = result.tolist()
        assert (stop, written <= room, seen) == (entries * len(entry), True, entries)
        return status, entries, target[:written].tobytes()

    status, entries, whole = rewritten(100_000)
    assert (DONE, count) == (status, entries)
    for room in range(program.fixed, program.fixed + len(whole) + 1):
        status, entries, part = rewritten(room)
        assert status == (DONE if entries == count else FULL)
        assert whole[: entries * len(whole) // count] == part
    assert entries == count


def test_blocks_that_grow_more_than_earlier_ones_fit_too():
    program = compile_value(Sequence((Text(), Constant(b"c" * 10))), ValueFraming.WHOLE, nullable=False)
    executor, plain = NumbaExecutor(program), PlainExecutor(program)

    for size in (100, 0, 100, 1, 0):
        value = bytes([size + 1]) + b"t" * size
        block = 20_000 * (b"\0\0\0\3key" + len(value).to_bytes(4, "big") + value)

        done = executor.rewrite(block, 0)

        assert (DONE, len(block), 20_000) == (done.status, done.stop, done.entries)
        assert plain.rewrite(block, 0).data == done.data
        assert 20_000 == done.seen.entries


@pytest.mark.parametrize("own", [bytearray, lambda data: BytesIO(data).getbuffer(), lambda data: data])
@pytest.mark.parametrize(("begin", "end"), [(0, 100), (0, 60), (40, 60), (40, 100), (99, 100)])
def test_bytes_after_a_view_are_those_of_the_memory_that_it_is_a_view_of(own, begin, end):
    assert 100 - end == bytes_behind(memoryview(own(bytes(100)))[begin:end])


def test_memory_after_bytes_and_empty_views_is_unknown():
    assert 0 == bytes_behind(bytes(100))
    assert 0 == bytes_behind(memoryview(bytes(100))[40:40])
