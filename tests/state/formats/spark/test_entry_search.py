"""Entries of snapshots that machine code finds: the same as plain Python does, damage included."""

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from stateshift.serializers.errors import CorruptFile
from stateshift.serializers.spark_rows.rows import Rows
from stateshift.state.formats.spark.store_files import changes_in
from stateshift.state.transcode.executor_choice import ExecutorName

SIZE = struct.Struct(">i")
rows = st.binary(max_size=40)
entries = st.lists(st.tuples(rows, rows | st.none()), max_size=30)


def content_of(entries):
    framed = (
        SIZE.pack(len(key)) + key + (SIZE.pack(-1) if value is None else SIZE.pack(len(value)) + value)
        for key, value in entries
    )
    return b"".join(framed) + SIZE.pack(-1)


def found(pieces, executor):
    """Return the entries, and the message of the error."""
    pairs = []
    try:
        for _, keys, values in changes_in(iter(pieces), executor=executor):
            assert len(keys) == len(values)
            pairs += zip(keys, values, strict=True)
    except CorruptFile as error:
        return pairs, str(error)
    return pairs, None


@given(entries)
@example([(b"\xff\1", b"a"), (b"\xff\2", b"b")])
@example([(b"", b"of all rows")])
@example([(b"gone", None)])
def test_machine_code_finds_what_plain_python_does(entries):
    content = content_of(entries)
    assert found([content], ExecutorName.NUMBA) == (entries, None)
    assert found([content], ExecutorName.OBJECTS) == (entries, None)


@given(entries, st.data())
def test_damage_has_the_same_message(entries, data):
    content = bytearray(content_of(entries))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    fast, plain = (found([bytes(content)], one) for one in (ExecutorName.NUMBA, ExecutorName.OBJECTS))
    assert fast[1] == plain[1]
    assert fast[0] == plain[0]


@pytest.mark.parametrize("size", [1 << 20, (4 << 20) - 1, 5 << 20])
def test_entries_across_the_bounds_of_pieces_are_whole(size):
    entries = [(bytes([one]) * 100, bytes([one]) * size) for one in range(5)]
    content = content_of(entries)
    pieces = [content[at : at + 777_777] for at in range(0, len(content), 777_777)]
    for executor in (ExecutorName.NUMBA, ExecutorName.OBJECTS):
        assert found(pieces, executor) == (entries, None)


def test_rows_are_a_sequence():
    rows = Rows.of([b"a", b"", b"long"])
    assert [*rows] == [rows[0], rows[1], rows[2]] == [b"a", b"", b"long"]
    assert [*rows[1:]] == [b"", b"long"]
    assert Rows.of(rows) is rows
    assert len(Rows.of([])) == 0
