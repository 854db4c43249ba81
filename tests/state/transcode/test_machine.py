"""What machine code makes of bytes: the same as plain Python, of any, up to the very end of what may be looked at."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift.state.transcode import memory, ops
from stateshift.state.transcode import numba_encodings as encodings

pytest.importorskip("numba")

import numpy as np

from stateshift.state.transcode.kept_code import compiled
from stateshift.state.transcode.memory import PADDING, address

LENGTHS = [0, 1, 2, 31, 32, 33, 62, 63, 64, 65, 126, 127, 128, 129, 200]


@compiled
def ends_of(data, at, stop, ends):
    """Fill in where what begins at a place would end, for each kind of thing."""
    bytes_ = address(data)
    ends[0] = memory.text_end(bytes_, at, stop)
    ends[1] = memory.maybe_text_end(bytes_, at, stop)
    ends[2] = encodings.varint_end(bytes_, at, stop, 32)
    ends[3] = encodings.varint_end(bytes_, at, stop, 64)
    ends[4] = encodings.var_text_end(bytes_, at, stop)
    ends[5] = encodings.var_blob_end(bytes_, at, stop)
    ends[6] = encodings.maybe_var_text_end(bytes_, at, stop, 0)
    ends[7] = encodings.maybe_var_text_end(bytes_, at, stop, 2)


@compiled
def moved(target, source, size, sign, more):
    """Copy bytes after a sign."""
    memory.put_sign(address(target), 0, more, sign)
    memory.copy(address(target), more, address(source), 0, size)


@compiled
def does_match(data, constants):
    """Whether bytes are, under a mask, what they are to be."""
    return memory.matches(address(data), 0, address(constants), 0)


def by_plain(data, at, stop):
    return [
        memory.text_end(data, at, stop),
        memory.maybe_text_end(data, at, stop),
        encodings.varint_end(data, at, stop, 32),
        encodings.varint_end(data, at, stop, 64),
        encodings.var_text_end(data, at, stop),
        encodings.var_blob_end(data, at, stop),
        encodings.maybe_var_text_end(data, at, stop, 0),
        encodings.maybe_var_text_end(data, at, stop, 2),
    ]


def by_machine(data, at, stop):
    ends = np.zeros(8, np.int64)
    # The bytes after it must not matter: neither zeros nor ones.
    seen = []
    for behind in (b"\0", b"\xff"):
        ends_of(np.frombuffer(data + behind * PADDING, np.uint8), at, stop, ends)
        seen.append(ends.tolist())
    assert seen[0] == seen[1]
    return seen[0]


def varint(number):
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


texts = st.builds(
    lambda flag, size, letters, more: flag + varint(size) + (letters * 201)[: max(size - 1, 0)] + more,
    st.sampled_from([b"", b"\0", b"\1", b"\2"]),
    st.sampled_from(LENGTHS),
    st.sampled_from([b"a", b"abc\xc3", b"\xc3\xa9", b"\xff"]),
    st.binary(max_size=3),
)
numbers = st.builds(
    lambda number, padding, more: varint(number)[:-1] + padding + more,
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([b"", b"\0", b"\x01", b"\x0f", b"\x10", b"\x80\0", b"\xff\xff\x01"]),
    st.binary(max_size=12),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.one_of(texts, numbers, st.binary(max_size=80)), st.data())
def test_what_lies_in_bytes_ends_at_the_same_place_by_machine_code(data, draw):
    stop = draw.draw(st.integers(0, len(data)))

    for at in {0, min(1, stop), stop}:
        assert by_plain(data[:stop], at, stop) == by_machine(data[:stop], at, stop)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("sign", [0x00, 0x7F, 0x80, 0xFF])
def test_bytes_arrive_whole_after_a_sign(size, sign):
    source = bytes(range(1, 201)) * 2
    target, expected = np.zeros(size + 7 + PADDING, np.uint8), bytearray(size + 7)

    moved(target, np.frombuffer(source, np.uint8), size, sign, 7)
    memory.put_sign(expected, 0, 7, sign)
    memory.copy(expected, 7, source, 0, size)

    assert bytes(expected) == target[: size + 7].tobytes()


@given(st.binary(min_size=1, max_size=ops.WORD), st.data())
def test_bytes_match_under_a_mask_or_not(data, draw):
    mask = draw.draw(st.binary(min_size=len(data), max_size=len(data))).ljust(ops.WORD, b"\0")
    masked = bytes(byte & bits for byte, bits in zip(data, mask, strict=False)).ljust(ops.WORD, b"\0")
    place = draw.draw(st.integers(0, len(data) - 1))
    other = masked[:place] + bytes([masked[place] ^ 1]) + masked[place + 1 :]

    for value, expected in ((masked, True), (other, False)):
        constants = mask + value
        assert expected is memory.matches(data, 0, constants, 0)
        padded = np.frombuffer(data + b"\xff" * PADDING, np.uint8)
        assert expected is bool(does_match(padded, np.frombuffer(constants + bytes(PADDING), np.uint8)))
