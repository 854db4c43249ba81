"""Values that only Kryo reads: bytes where something frames them, and refused everywhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import DataInputView, DataOutputView, KryoBytes, OldReaderUnavailable, ValueNotConvertible
from stateshift.serializers.containers.lists import ListSerializerSnapshot, MapSerializerSnapshot
from stateshift.serializers.containers.tuples import TupleSerializerSnapshot
from stateshift.serializers.containers.wrappers import NullableSerializerSnapshot
from stateshift.serializers.flink.opaque import KryoBytesSerializer, KryoSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot

KRYO, STRING = KryoSerializerSnapshot("fx.Thing"), StringSerializerSnapshot()
SERIALIZER = KRYO.restore_framed()


@given(st.binary())
def test_all_bytes_of_the_frame_are_the_value(data):
    value = SERIALIZER.deserialize(DataInputView(b"before" + data, 6))
    target, copied = DataOutputView(), DataOutputView()
    SERIALIZER.serialize(value, target)
    SERIALIZER.copy_bytes(DataInputView(data), copied)

    assert KryoBytes("fx.Thing", data) == value
    assert data == target.getvalue() == copied.getvalue()


def test_it_writes_no_other_value():
    for other in (b"bytes", KryoBytes("fx.Other", b"")):
        with pytest.raises(ValueNotConvertible, match=r"not a stored value of kryo<fx\.Thing>"):
            SERIALIZER.serialize(other, DataOutputView())


def test_its_snapshot_is_the_stored_one_and_it_takes_over_no_other_class():
    assert KRYO == SERIALIZER.snapshot_configuration()
    assert SERIALIZER.ensure_compatibility(KryoSerializerSnapshot("fx.Thing")).is_compatible_as_is()
    assert SERIALIZER.ensure_compatibility(KryoSerializerSnapshot("fx.Other")).is_incompatible()
    assert KryoBytesSerializer(KRYO) == SERIALIZER
    assert -1 == SERIALIZER.length
    assert not SERIALIZER.layout.can_skip


@pytest.mark.parametrize(
    ("snapshot", "path"),
    [
        (KRYO, None),
        (ListSerializerSnapshot((KRYO,)), "$[]"),
        (MapSerializerSnapshot((STRING, KRYO)), "${}"),
        (MapSerializerSnapshot((KRYO, STRING)), "$<key>"),
        (TupleSerializerSnapshot((STRING, KRYO), "org.apache.flink.api.java.tuple.Tuple2"), "$(1)"),
        (NullableSerializerSnapshot((KRYO,)), "$?"),
        (PojoSerializerSnapshot("fx.A", (PojoField("list", "fx.A", ListSerializerSnapshot((KRYO,))),)), "$.list[]"),
    ],
)
def test_where_nothing_frames_it_the_class_and_the_path_are_reported(snapshot, path):
    with pytest.raises(OldReaderUnavailable, match=r"values of kryo<fx\.Thing> can only be read by Kryo") as caught:
        snapshot.restore_serializer()

    assert path == caught.value.where.get("path")
