"""The bytes of a key of PyFlink's map state.

A Java array has no equality by its elements, so PyFlink's Java side wraps the bytes that a coder made of a key.

    i32 n, n bytes

Source: `org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer`, as it writes into savepoints of PyFlink 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from .. import rewrite
from ..compatibility import CompatibilityResult
from ..containers.arrays import BytesSerializer
from ..scalars import Scalar, flink_id, snapshot_of
from ..serializer import unrelated

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot


class ByteArrayWrapperSerializer(BytesSerializer):
    """PyFlink's ByteArrayWrapper: the serializer for the hint `ByteArrayWrapper`; its values are `bytes`."""

    row = Scalar("wrapped bytes", "ByteArrayWrapper", "", "", "ByteArrayWrapper", stays=rewrite.Blob())

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[bytes]:
        if isinstance(snapshot, ByteArrayWrapperSerializerSnapshot):
            return CompatibilityResult.compatible()
        return unrelated(self, snapshot)


ByteArrayWrapperSerializerSnapshot = snapshot_of(
    ByteArrayWrapperSerializer, snapshot_id=flink_id("ByteArrayWrapper", "org.apache.flink.streaming.api.utils.")
)

ByteArrayWrapper = Annotated[bytes, ByteArrayWrapperSerializer()]
"""The type hint of a key of PyFlink's map state: the bytes that a coder made of it."""
