"""Keys of PyFlink's map state are bytes of a class of their own, which becomes no other type."""

import pytest

from stateshift import ByteArrayWrapper, Verdict, serializer_for
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.views import DataInputView, DataOutputView

WRAPPED, BYTES = serializer_for(ByteArrayWrapper), serializer_for(bytes)


def test_a_key_is_read_as_it_was_written():
    target = DataOutputView()
    WRAPPED.serialize(b"\0\xff", target)

    assert target.getvalue() == b"\0\0\0\2\0\xff"
    assert WRAPPED.deserialize(DataInputView(target.getvalue())) == b"\0\xff"


def test_its_snapshot_is_that_of_pyflink():
    stored = snapshot_to_bytes(WRAPPED.snapshot_configuration())

    assert b"org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$" in stored
    assert WRAPPED.ensure_compatibility(snapshot_from_bytes(stored)).verdict == Verdict.COMPATIBLE


@pytest.mark.parametrize(("new", "old"), [(WRAPPED, BYTES), (BYTES, WRAPPED), (WRAPPED, serializer_for(str))])
def test_other_types_are_no_keys(new, old):
    assert new.ensure_compatibility(old.snapshot_configuration()).verdict == Verdict.INCOMPATIBLE
