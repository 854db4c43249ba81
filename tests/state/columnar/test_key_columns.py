"""Key groups of columns are those of their keys, one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import Float32, Int8, Int16, Int32, serializer_for
from stateshift.state.columnar.key_columns import hash_column, key_groups_of
from stateshift.state.entry_keys import encode
from stateshift.state.key_groups import key_group, key_hasher

ascii_text = st.text(st.characters(max_codepoint=127), max_size=40)
KEYS = {
    "long": (int, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int": (Int32, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int from bigint": (Int32, pa.int64(), st.integers(-(2**31), 2**31 - 1)),
    "short": (Int16, pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "byte": (Int8, pa.int8(), st.integers(-128, 127)),
    "boolean": (bool, pa.bool_(), st.booleans()),
    "double": (float, pa.float64(), st.floats()),
    "double from bigint": (float, pa.int64(), st.integers(-(2**53), 2**53)),
    "float": (Float32, pa.float32(), st.floats(width=32)),
    "float from double": (Float32, pa.float64(), st.floats(-1e38, 1e38)),
    "string": (str, pa.string(), ascii_text),
}
PARALLELISMS = st.sampled_from([1, 7, 128, 200, 32768])


def groups_of(serializer, column, keys, max_parallelism):
    encoded = pa.array([encode(serializer, key) for key in keys], pa.large_binary())
    return key_groups_of(hash_column(serializer, column, encoded), max_parallelism).tolist()


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data(), max_parallelism=PARALLELISMS)
def test_a_column_has_the_key_groups_of_its_keys(name, data, max_parallelism):
    hint, kind, values = KEYS[name]
    serializer, keys = serializer_for(hint), data.draw(st.lists(values, max_size=20))
    hasher = key_hasher(serializer)

    found = groups_of(serializer, pa.array(keys, kind), keys, max_parallelism)

    assert [key_group(hasher(key), max_parallelism) for key in keys] == found


@given(keys=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), ascii_text, st.booleans()), max_size=20))
def test_tuples_are_hashed_item_by_item(keys):
    serializer = serializer_for(tuple[int, str, bool])
    kind = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    column = pa.array([dict(zip("abc", key, strict=True)) for key in keys], kind)
    hasher = key_hasher(serializer)

    assert [key_group(hasher(key), 128) for key in keys] == groups_of(serializer, column, keys, 128)


@given(keys=st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-99, max_value=99)))
def test_keys_without_a_stable_hash_go_by_their_bytes(keys):
    import decimal

    serializer = serializer_for(decimal.Decimal)
    hasher = key_hasher(serializer)

    found = groups_of(serializer, pa.array(keys, pa.decimal128(10, 2)), keys, 128)

    assert [key_group(hasher(key), 128) for key in keys] == found


@pytest.mark.parametrize("most", [200, 32768])
def test_the_hash_whose_absolute_value_java_cannot_express_gives_group_0(most):
    """`murmur` of this hash is the least int, whose absolute value is defined as 0 (format notes 5.1)."""
    from stateshift.state.key_groups import murmur

    column = pa.array([-2_089_875_627 + step for step in range(-3, 4)], pa.int32())
    serializer = serializer_for(Int32)

    found = groups_of(serializer, column, column.to_pylist(), most)

    assert 0 == found[3]
    assert [murmur(code) % most for code in column.to_pylist()] == found


def test_columns_that_are_slices_and_sparse_texts_are_hashed_where_they_stand():
    serializer = serializer_for(str)
    column = pa.array(["left out", "", "a", "", "bc" * 100]).slice(1)
    hasher = key_hasher(serializer)
    keys = column.to_pylist()

    assert [key_group(hasher(key), 128) for key in keys] == groups_of(serializer, column, keys, 128)
