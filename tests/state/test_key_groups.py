import decimal
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import DeclarationError, Row, RowKind, ValueNotConvertible, row_of, serializer_for
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from stateshift.serializers.primitives.text import CharSerializer, StringSerializer
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.state.entry_keys import decode, encode
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader
from stateshift.state.formats.flink.meta_info import MetaInfoKind
from stateshift.state.formats.flink.state_kinds import entry_key_format
from stateshift.state.key_groups import (
    has_stable_hash,
    java_hash,
    key_group,
    key_group_range,
    key_hasher,
    murmur,
    own_hash,
    prefix_size,
    subtask_of,
)

LONG, STRING = LongSerializer(), StringSerializer()


@st.composite
def subtasks(draw):
    parallelism = draw(st.integers(1, 300))
    return parallelism, draw(st.integers(parallelism, 1000))


@given(subtasks())
def test_the_ranges_of_all_subtasks_are_all_key_groups_once(numbers):
    parallelism, most = numbers
    ranges = [key_group_range(subtask, parallelism, most) for subtask in range(parallelism)]

    assert [group for groups in ranges for group in groups] == list(range(most))


@given(subtasks(), st.data())
def test_a_key_group_lies_in_the_range_of_its_subtask(numbers, data):
    parallelism, most = numbers
    group = data.draw(st.integers(0, most - 1))

    assert group in key_group_range(subtask_of(group, parallelism, most), parallelism, most)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 32768))
def test_a_key_group_is_one_of_those_there_are(hash_code, most):
    assert 0 <= murmur(hash_code) < 2**31
    assert 0 <= key_group(hash_code, most) < most


@pytest.mark.parametrize(("key", "expected"), [(-2_089_875_627, 0), (-2_089_875_626, None), (-2_089_875_628, None)])
def test_the_one_int_whose_spread_hash_java_cannot_make_positive_is_in_key_group_0(key, expected):
    """`Math.abs` leaves the least int as it is, and Flink then takes 0. Most numbers of key groups divide 2^31."""
    group = key_group(key_hasher(IntSerializer())(key), 200)

    assert (expected is None) == (group != 0)
    assert (expected is None) == (murmur(key) != 0)


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_hash_of_a_long_is_its_halves_xored(value):
    low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF

    assert java_hash(value, LONG) & 0xFFFFFFFF == low ^ high


@given(st.text())
def test_the_hash_of_a_string_goes_by_its_utf_16_units(value):
    data, code = value.encode("utf-16-be", "surrogatepass"), 0
    for at in range(0, len(data), 2):
        code = (31 * code + int.from_bytes(data[at : at + 2], "big")) % 2**32

    assert java_hash(value, STRING) == (code if code < 2**31 else code - 2**32)


@pytest.mark.parametrize(
    ("value", "serializer", "expected"),
    [
        (-1, LONG, 0),
        (7, IntSerializer(), 7),
        (-3, ShortSerializer(), -3),
        (-128, ByteSerializer(), -128),
        (True, BooleanSerializer(), 1231),
        (False, BooleanSerializer(), 1237),
        ("hello", STRING, 99162322),
        ("polygenelubricants", STRING, -(2**31)),
        (1.0, DoubleSerializer(), 1072693248),
        (float("nan"), DoubleSerializer(), 2146959360),
        (-0.0, DoubleSerializer(), -(2**31)),
        (1.0, FloatSerializer(), 1065353216),
        (float("nan"), FloatSerializer(), 2143289344),
        (("a", 2), TupleSerializer((STRING, LONG)), 31 * 97 + 2),
        (("a", None), TupleSerializer((STRING, LONG)), 31 * 97),
        ((5,), TupleSerializer((LONG,)), 5),
        (0, BigIntSerializer(), 0),
        (-(2**32), BigIntSerializer(), -31),
        ([], ListSerializer(LONG), 1),
        (["a", "b"], ListSerializer(STRING), 31 * (31 + 97) + 98),
    ],
)
def test_hashes_are_those_of_java(value, serializer, expected):
    assert java_hash(value, serializer) == expected
    assert has_stable_hash(serializer)


@pytest.mark.parametrize(
    ("value", "serializer"),
    [
        (2**63, LONG),
        (2**31, IntSerializer()),
        (True, LONG),
        ("1", LONG),
        (1, STRING),
        (1, BooleanSerializer()),
        (1e300, FloatSerializer()),
        ("x", DoubleSerializer()),
        (("a",), TupleSerializer((STRING, LONG))),
        (True, BigIntSerializer()),
        ("a", ListSerializer(STRING)),
    ],
)
def test_a_key_of_another_type_is_refused(value, serializer):
    with pytest.raises(ValueNotConvertible):
        java_hash(value, serializer)


def test_a_type_without_a_stable_hash_is_hashed_by_its_bytes():
    serializer = DecimalSerializer()
    value = decimal.Decimal("1.5")

    assert not has_stable_hash(serializer)
    assert not has_stable_hash(TupleSerializer((LONG, serializer)))
    with pytest.raises(DeclarationError, match="no hash"):
        java_hash(value, serializer)
    assert key_hasher(serializer)(value) == own_hash(encode(serializer, value))


def test_the_rule_of_our_own_never_changes():
    assert own_hash(b"123456789") == 0xCBF43926 - 2**32


@pytest.mark.parametrize(("parallelism", "most"), [(0, 1), (2, 1), (1, 32769)])
def test_impossible_parallelism_is_refused(parallelism, most):
    with pytest.raises(DeclarationError, match="not possible"):
        key_group_range(0, parallelism, most)


SERIALIZERS = {
    "boolean": BooleanSerializer(),
    "byte": ByteSerializer(),
    "char": CharSerializer(),
    "short": ShortSerializer(),
    "int": IntSerializer(),
    "long": LONG,
    "bigint": BigIntSerializer(),
    "float": FloatSerializer(),
    "double": DoubleSerializer(),
    "string": STRING,
}


def typed(kind, value):
    """A key of the table as Python has it, and its serializer."""
    if isinstance(kind, dict):
        fields = [
            (None, LONG) if of is None else typed(of, item) for of, item in zip(kind["row"], value[1], strict=True)
        ]
        row = Row.of_kind(RowKind(value[0]), *(field for field, _ in fields))
        return row, RowSerializer.of([serializer for _, serializer in fields])
    if kind == "bytes":
        return bytes.fromhex(value), BytesSerializer()
    if str(kind).startswith("list<"):
        items = [typed(kind[len("list<") : -1], item) for item in value]
        return [item for item, _ in items], ListSerializer(SERIALIZERS[kind[len("list<") : -1]])
    if isinstance(kind, list):
        fields = [typed(*field) for field in zip(kind, value, strict=True)]
        return tuple(field for field, _ in fields), TupleSerializer(tuple(serializer for _, serializer in fields))
    return float.fromhex(value) if kind in {"float", "double"} else value, SERIALIZERS[kind]


def test_hashes_and_key_groups_are_those_that_flink_computed(root):
    """The table is written and checked by `fx.Hashes`, which runs in real Flink (tests/interop/test_hashes.py)."""
    table = json.loads((root / "tests" / "fixtures" / "flink-hashes.json").read_text(encoding="utf-8"))
    wrong = []
    for kind, value, hash_code, groups in table["keys"]:
        key, serializer = typed(kind, value)
        assert has_stable_hash(serializer)
        found = java_hash(key, serializer)
        if (found, [key_group(found, most) for most in table["max_parallelism"]]) != (hash_code, groups):
            wrong.append((kind, value, hash_code, found))

    assert wrong == []
    assert {str(kind) for kind, *_ in table["keys"]} >= SERIALIZERS.keys()


def test_columns_of_a_named_row_are_hashed_in_their_order():
    named = row_of({"a": int, "b": str})

    assert java_hash(Row(1, "x"), named) == java_hash(Row(b="x", a=1), named)
    for wrong in (Row(1), (1, "x"), Row(a=1, c="x")):
        with pytest.raises(ValueNotConvertible):
            java_hash(wrong, named)


@pytest.mark.parametrize("hint", [bytes, tuple[bytes, int], Row[list[int]], Row[decimal.Decimal]])
def test_rows_hash_byte_arrays_by_their_content_and_nothing_else_does(hint):
    assert not has_stable_hash(serializer_for(hint))
    assert has_stable_hash(serializer_for(Row[bytes, int]))


def test_a_second_byte_is_needed_from_129_key_groups_on():
    assert [prefix_size(most) for most in (1, 128, 129, 32768)] == [1, 1, 2, 2]


def test_every_key_that_flink_stored_lies_in_the_key_group_of_its_hash(canonical, keyed_streams_of):
    for operator, subtask, handle, source in keyed_streams_of(canonical):
        reader = KeyedStreamReader.open(source, handle)
        key = reader.header.key_snapshot.restore_serializer()
        assert has_stable_hash(key)
        hashed = key_hasher(key)
        formats = {
            state_id: entry_key_format(info, key, operator.max_parallelism)
            for state_id, info in enumerate(reader.header.states)
            if info.kind is MetaInfoKind.KEY_VALUE
        }
        assert handle.key_groups == key_group_range(subtask.index, operator.parallelism, operator.max_parallelism)
        for block in reader.blocks():
            for key_bytes, _ in block.items() if block.state_id in formats else ():
                parts = formats[block.state_id].split(key_bytes)
                assert parts.key_group == block.key_group
                assert key_group(hashed(decode(key, parts.key)), operator.max_parallelism) == block.key_group
