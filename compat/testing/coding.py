"""Conversion of values to bytes and back, as all tests of the harness do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.views import DataInputView, DataOutputView

if TYPE_CHECKING:
    from ...serializers.serializer import TypeDeserializer, TypeSerializer


def written(serializer: TypeSerializer[Any], *values: Any) -> bytes:
    """Return the bytes of the values, one after the other."""
    target = DataOutputView()
    for value in values:
        serializer.serialize(value, target)
    return target.getvalue()


def read(reader: TypeDeserializer[Any], data: bytes) -> Any:
    """Return the one value encoded in the bytes, or raise AssertionError if bytes are left over."""
    source = DataInputView(data)
    value = reader.deserialize(source)
    assert source.remaining() == 0, f"{source.remaining()} of {len(data)} bytes are left over"
    return value
