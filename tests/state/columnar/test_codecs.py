"""Values decoded by block are those that the serializer reads one by one: types, values and damage at random."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stateshift import (
    Array,
    BigInt,
    DataInputView,
    DataOutputView,
    Either,
    JavaDate,
    Row,
    StateShiftError,
    TtlValue,
    serializer_for,
)
from stateshift.compat.testing.strategies import types, values_of
from stateshift.serializers.columns.bytes_at import padded
from stateshift.serializers.columns.codec import Cells
from stateshift.serializers.columns.nested import struct_array
from stateshift.serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.temporal.serializers import DateSerializer, SqlDateSerializer, SqlTimestampSerializer
from stateshift.state.columnar.column_values import JsonCodec, all_codecs, encode_column
from stateshift.state.columnar.runs import flat_decoder
from stateshift.state.transcode.executor_choice import VARIABLE, choose_executor


@pytest.fixture(scope="module", params=["objects", "numba"], autouse=True)
def executor(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        yield


def test_structs_without_parts_are_as_many_as_there_are_rows():
    found = struct_array(pa.struct([]), [], 3)

    assert [{}, {}, {}] == found.to_pylist()


OTHERS = [
    Row[int, str | None, float],
    Either[int, str],
    Array[int],
    list[Array[bool]],
    TtlSerializer(serializer_for(str)),
    GenericArraySerializer(serializer_for(str), "java.lang.String"),
    StringArraySerializer(),
    DateSerializer(exact=True),
    SqlDateSerializer(exact=True),
    SqlTimestampSerializer(exact=True),
]


def cells_of(pieces, gap=b""):
    """The places of values with a gap before each."""
    raw, data = padded(*(gap + piece for piece in pieces))
    ends = np.cumsum([len(gap) + len(piece) for piece in pieces], dtype=np.int64)
    starts = ends - np.array([len(piece) for piece in pieces], dtype=np.int64)
    return Cells(raw, data, starts, ends, flat_decoder(choose_executor(0)))


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def storable(serializer, values):
    """The bytes of those values that can be written; not every drawn one can, as of a set with equal elements."""
    found = []
    for value in values:
        try:
            found.append(written(serializer, value))
        except StateShiftError:
            continue
    return found


def check(serializer, pieces, same, *, exact):
    """Decode by block, and compare with what the restored serializer reads."""
    restored = serializer.snapshot_configuration().restore_serializer()
    codec = all_codecs(exact=exact).of(restored)
    cells = cells_of(pieces, b"\x7f\x80")
    fast, singly = codec.decode(cells), codec.decode_singly(cells)

    assert codec.kind == fast.column.type == singly.column.type
    assert len(pieces) == len(fast.column)
    fast.column.validate(full=True)
    for row in np.flatnonzero(~fast.odd).tolist():
        assert not singly.odd[row]
        assert cells.limits[row] == fast.ends[row] == singly.ends[row]
        value = restored.deserialize(DataInputView(pieces[row]))
        for decoded in (fast, singly):
            assert same(decoded.column[row].as_py(), value)
    return fast


@settings(max_examples=100)
@given(st.data(), st.booleans())
def test_a_block_of_values_of_any_type_is_what_its_serializer_reads(same, data, exact):
    hint = data.draw(types() | st.sampled_from(OTHERS))
    serializer = serializer_for(hint)
    pieces = storable(serializer, data.draw(st.lists(values_of(hint), max_size=6)))

    check(serializer, pieces, same, exact=exact)


@settings(max_examples=100)
@given(st.data())
def test_a_column_that_was_read_is_written_as_the_same_values(same, data):
    hint = data.draw(types() | st.sampled_from(OTHERS))
    serializer = serializer_for(hint).snapshot_configuration().restore_serializer()
    codec = all_codecs().of(serializer)
    assume(not isinstance(codec, JsonCodec))
    cells = cells_of(storable(serializer_for(hint), data.draw(st.lists(values_of(hint), max_size=6))))
    read = codec.decode(cells)
    column = read.column.filter(pa.array(~read.odd))

    encoded = encode_column(serializer, column)

    assert [] == list(codec.mismatches(codec.kind))
    pieces = encoded.join()
    for row in np.flatnonzero(~encoded.declined).tolist():
        assert same(column[row].as_py(), serializer.deserialize(DataInputView(pieces[row].as_py())))


@settings(max_examples=150)
@given(st.data())
def test_damage_is_odd_and_nothing_worse(data):
    hint = data.draw(types() | st.sampled_from(OTHERS))
    serializer = serializer_for(hint)
    pieces = storable(serializer, data.draw(st.lists(values_of(hint), min_size=1, max_size=4)))
    pieces = [bytearray(piece) for piece in pieces if piece]
    for piece in pieces:
        piece[data.draw(st.integers(0, len(piece) - 1))] = data.draw(st.sampled_from([0, 1, 2, 4, 0x7F, 0x80, 0xFF]))
    codec = all_codecs().of(serializer.snapshot_configuration().restore_serializer())
    cells = cells_of([bytes(piece[: data.draw(st.integers(0, len(piece)))]) for piece in pieces])

    found = codec.decode(cells)

    found.column.validate(full=True)
    assert (found.ends[~found.odd] <= cells.limits[~found.odd]).all()


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (dict[str, list[int]], [{}, {"a": [1, 2], "b": []}, {"c": list(range(300))}]),
        (list[tuple[str, int | None]], [[("x", 1), ("", None)], []]),
        (list[str], [["a"] * 40, ["b"], [], ["c"] * 40]),
        (frozenset[str], [frozenset({"only"}), frozenset()]),
        (list[str | None], [[None, "a"], [None]]),
        (str, ["plain", "Größe", "", "日本", "😀"]),
        (Row[int, str | None], [Row(1, None), Row(2, "b")]),
        (TtlSerializer(serializer_for(str)), [TtlValue(1_700_000_000_000, "a")]),
        (DateSerializer(exact=True), [JavaDate(-1), JavaDate(1_700_000_000_123)]),
        (Decimal, [Decimal("1.50"), Decimal(-7), Decimal(0), Decimal("12345678901.123")]),
        (BigInt, [0, 1, 10, -1, 2**63 - 1]),
    ],
)
def test_values_of_structural_types_are_taken_by_the_block(same, hint, values):
    serializer = serializer_for(hint)

    assert not check(serializer, [written(serializer, value) for value in values], same, exact=False).odd.any()


def test_a_long_list_among_short_ones_is_left_to_the_serializer(same):
    serializer = serializer_for(list[str])
    values = [["a", "b"], ["c"] * 500, []]

    found = check(serializer, [written(serializer, value) for value in values], same, exact=False)

    assert [False, True, False] == found.odd.tolist()


LETTERS = st.sampled_from([*"a\x7f\x80߿ࠀ㿿䀀\uffff𐀀𝄞\U0010ffff", *map(chr, (0xD800, 0xDBFF, 0xDC00, 0xDFFF))])


@given(st.lists(st.lists(LETTERS, max_size=5).map("".join), min_size=1, max_size=5))
def test_letters_of_every_length_are_what_the_serializer_reads(values):
    codec = all_codecs().of(serializer_for(str))
    cells = cells_of([written(serializer_for(str), value) for value in values])

    fast, singly = codec.decode(cells), codec.decode_singly(cells)

    assert fast.odd.tolist() == singly.odd.tolist()
    assert fast.column.filter(pa.array(~fast.odd)) == singly.column.filter(pa.array(~singly.odd))
    assert fast.ends[~fast.odd].tolist() == singly.ends[~singly.odd].tolist()


def test_half_of_a_surrogate_pair_is_odd():
    serializer = serializer_for(str)
    codec = all_codecs().of(serializer)

    found = codec.decode(cells_of([written(serializer, value) for value in ("a", "\ud800", "b")]))

    assert [False, True, False] == found.odd.tolist()
    assert pa.string() == found.column.type
