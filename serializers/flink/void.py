"""Void: Flink's type without a value, written as one byte 0. Source: format notes 7."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from ..errors import ValueNotConvertible, shown
from ..registry import register_snapshot
from ..scalars import flink_id
from ..serializer import TypeSerializer
from ..snapshot import FlinkSnapshot, TypeSerializerConfigSnapshot
from .windows import expect_zero

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView


@attrs.frozen
class VoidSerializer(TypeSerializer[None]):
    """Flink's Void, whose only value is None."""

    @property
    def length(self) -> int:
        return 1

    def serialize(self, value: None, target: DataOutputView) -> None:
        if value is not None:
            raise ValueNotConvertible(f"{shown(value)} is not None")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> None:
        expect_zero(source, "Flink's Void")

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[None]:
        return VoidSerializerSnapshot()


@register_snapshot
class VoidSerializerSnapshot(FlinkSnapshot[None]):
    """Snapshot of `VoidSerializer`."""

    snapshot_id: ClassVar[str] = flink_id("Void")
    kind: ClassVar[str] = "void"
    java_class: ClassVar[str] = "java.lang.Void"

    def describe(self) -> str:
        return "void"

    def restore_serializer(self) -> TypeSerializer[None]:
        return VoidSerializer()
