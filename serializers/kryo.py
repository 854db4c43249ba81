"""Kryo: the snapshot of types that Flink could not analyse. Only Kryo, a Java library, reads their values.

    UTF type class, then three optional maps: registrations, default serializers, default serializer classes

Source: format notes 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from .optional_map import OptionalMap
from .registry import register_snapshot
from .unread import ValuesNotRead

if TYPE_CHECKING:
    from .views import DataInputView, DataOutputView


@register_snapshot
@attrs.define
class KryoSerializerSnapshot(ValuesNotRead):
    """Snapshot of Flink's Kryo serializer; the parts of its maps are kept as bytes.

    Attributes:
        type_class: The Java class of the values.
        registrations: By class name, how Kryo was told to write it. May hold objects in Java serialization.
        default_serializers: By class name, a serializer object in Java serialization.
        default_serializer_classes: By class name, the name of a serializer class.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
    version: ClassVar[int] = 2
    kind: ClassVar[str] = "kryo"

    type_class: str = ""
    registrations: OptionalMap = attrs.field(factory=OptionalMap)
    default_serializers: OptionalMap = attrs.field(factory=OptionalMap)
    default_serializer_classes: OptionalMap = attrs.field(factory=OptionalMap)

    def describe(self) -> str:
        return f"kryo<{self.type_class}>"

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.type_class)
        for entries in (self.registrations, self.default_serializers, self.default_serializer_classes):
            entries.write(target)

    def read(self, source: DataInputView) -> None:
        self.type_class = source.read_utf()
        self.registrations = OptionalMap.read(source)
        self.default_serializers = OptionalMap.read(source)
        self.default_serializer_classes = OptionalMap.read(source)
