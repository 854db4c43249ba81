"""The ordered map with optional parts that POJO and Kryo snapshots are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DataInputView, DataOutputView
from stateshift.serializers.flink.opaque import OPTIONAL_MAP, OptionalEntry, OptionalMap

MAGIC = bytes.fromhex("000004F2C69A3D70")
PARTS = st.none() | st.binary(max_size=8)
MAPS = st.builds(
    lambda entries: OptionalMap(tuple(entries)),
    st.lists(st.builds(OptionalEntry, st.text(max_size=5), PARTS, PARTS), max_size=5, unique_by=lambda e: e.name),
)


def written(entries: OptionalMap) -> bytes:
    target = DataOutputView()
    OPTIONAL_MAP.write(target, entries)
    return target.getvalue()


def test_bytes_are_those_of_the_format():
    entries = OptionalMap((OptionalEntry("b", b"", None), OptionalEntry("a", None, b"\x07")))

    expected = MAGIC + bytes.fromhex("00000002" + "000162 01 00000000 00" + "000161 00 01 00000001 07")
    assert expected == written(entries)


@given(MAPS)
def test_order_and_absent_parts_are_kept(entries):
    source = DataInputView(written(entries))

    assert entries == OPTIONAL_MAP.read(source)
    assert 0 == source.remaining()


@given(MAPS, st.data())
def test_every_truncation_is_rejected(entries, data):
    whole = written(entries)
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(CorruptSavepoint):
        OPTIONAL_MAP.read(DataInputView(whole[:size]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 12, "should begin with 0x4f2c69a3d70"),
        (MAGIC + b"\x7f\xff\xff\xff", "2147483647 entries"),
        (MAGIC + b"\xff\xff\xff\xff", "-1 entries"),
        (MAGIC + bytes.fromhex("00000001 000161 02 00"), "where a boolean was expected"),
        (MAGIC + bytes.fromhex("00000001 000161 01 7fffffff"), "2147483647 bytes of an entry"),
        (
            MAGIC + bytes.fromhex("00000002 000161 00 00 000161 00 00"),
            "two entries of an optional map have the same name",
        ),
    ],
)
def test_what_is_no_map_is_refused(data, message):
    with pytest.raises(CorruptSavepoint, match=message):
        OPTIONAL_MAP.read(DataInputView(data))
