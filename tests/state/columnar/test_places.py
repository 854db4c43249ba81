"""Where the entries of blocks lie: plain Python and machine code see the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint
from stateshift.serializers.columns.bytes_at import padded
from stateshift.state.columnar.runs import places_of
from stateshift.state.transcode.executor_choice import ExecutorName

entries = st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.binary(max_size=6)), max_size=6)


def framed(items):
    return b"".join(len(part).to_bytes(4, "big") + part for item in items for part in item)


@pytest.fixture(scope="module", params=["objects", "numba"])
def executor(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    return ExecutorName(request.param)


def found(raw, sizes, counts, executor):
    places = places_of(*padded(raw), sizes, counts, executor)
    return [(raw[key:key_end], raw[value:value_end]) for key, key_end, value, value_end in zip(*places, strict=True)]


@given(st.lists(entries, max_size=4))
def test_entries_are_found_where_they_lie(executor, blocks):
    parts = [framed(items) for items in blocks]

    assert [item for items in blocks for item in items] == found(
        b"".join(parts), [len(part) for part in parts], [len(items) for items in blocks], executor
    )


@given(entries.filter(len), st.data())
def test_a_block_that_holds_other_entries_is_damaged(executor, items, data):
    raw = framed(items)
    cut = data.draw(st.integers(1, len(raw)))

    for size, count in ((len(raw) - cut, len(items)), (len(raw), len(items) - 1), (len(raw), len(items) + 1)):
        with pytest.raises(CorruptSavepoint, match="cut off or damaged"):
            found(raw, [size], [count], executor)
