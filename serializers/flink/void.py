"""Void: Flink's type without a value, written as one byte 0. Source: format notes 7."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..errors import ValueNotConvertible, shown
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, snapshot_of
from .windows import expect_zero

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView


class VoidSerializer(ScalarSerializer[None]):
    """Flink's Void, whose only value is None."""

    row = Scalar("void", "Void", "java.lang.Void", ">b", "None")

    def serialize(self, value: None, target: DataOutputView) -> None:
        if value is not None:
            raise ValueNotConvertible(f"{shown(value)} is not None")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> None:
        expect_zero(source, "Flink's Void")


@snapshot_of(VoidSerializer)
class VoidSerializerSnapshot(ScalarSnapshot[None]):
    """Snapshot of `VoidSerializer`."""

    kind: ClassVar[str] = "void"
