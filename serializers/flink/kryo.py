"""Kryo: values of types that Flink could not analyse, which only Kryo, a Java library, can read.

    UTF type class, then three optional maps: registrations, default serializers, default serializer classes

The end of a value cannot be found in its bytes. Where something else marks it, such as the frame of an entry, the value
is read as opaque bytes; within a POJO, a tuple, a list or a map it makes the whole state unreadable. Source: format
notes 6.1 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

import attrs

from ..errors import OldReaderUnavailable, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import TypeSerializerConfigSnapshot
from ..stored_names import lasting
from .optional_map import OptionalMap

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView


@lasting
@attrs.frozen
class KryoBytes:
    """The bytes of a value that only Kryo can read.

    Attributes:
        type_class: The Java class that the state declares.
        data: The bytes of Kryo's `writeClassAndObject`.
    """

    type_class: str
    data: bytes = attrs.field(repr=bytes.hex)


@attrs.frozen
class KryoBytesSerializer(TypeSerializer[KryoBytes]):
    """Reads all bytes up to the end of the frame as one value. Restored from a snapshot by `restore_framed`.

    Attributes:
        stored: The snapshot, which is rewritten as it is.
    """

    stored: KryoSerializerSnapshot

    def serialize(self, value: KryoBytes, target: DataOutputView) -> None:
        if not isinstance(value, KryoBytes) or value.type_class != self.stored.type_class:
            raise ValueNotConvertible(f"{shown(value)} is not a stored value of {self.stored.describe()}")
        target.write(value.data)

    def deserialize(self, source: DataInputView) -> KryoBytes:
        return KryoBytes(self.stored.type_class, source.read_fully(source.remaining()))

    def snapshot_configuration(self) -> KryoSerializerSnapshot:
        return self.stored


@register_snapshot
@attrs.define
class KryoSerializerSnapshot(TypeSerializerConfigSnapshot[KryoBytes]):
    """Snapshot of Flink's Kryo serializer; the parts of its maps are kept as bytes.

    Attributes:
        type_class: The Java class of the values.
        registrations: Class name -> how Kryo writes the class. May contain objects in Java serialization.
        default_serializers: Class name -> a serializer object in Java serialization.
        default_serializer_classes: Class name -> the name of a serializer class.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
    version: ClassVar[int] = 2
    kind: ClassVar[str] = "kryo"

    type_class: str = ""
    registrations: OptionalMap = attrs.field(factory=OptionalMap)
    default_serializers: OptionalMap = attrs.field(factory=OptionalMap)
    default_serializer_classes: OptionalMap = attrs.field(factory=OptionalMap)

    @property
    def java_class(self) -> str:
        """The Java class of the values."""
        return self.type_class

    def describe(self) -> str:
        return f"kryo<{self.type_class}>"

    def restore_serializer(self) -> NoReturn:
        raise OldReaderUnavailable(
            f"values of {self.describe()} can only be read by Kryo, a Java library, which alone knows where one ends",
            advice="leave the state as it is (its bytes are copied), pass a fallback deserializer, or drop it",
        )

    def restore_framed(self) -> KryoBytesSerializer:
        """Return the serializer of values that end where their frame does."""
        return KryoBytesSerializer(self)

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.type_class)
        for entries in (self.registrations, self.default_serializers, self.default_serializer_classes):
            entries.write(target)

    def read(self, source: DataInputView) -> None:
        self.type_class = source.read_utf()
        self.registrations = OptionalMap.read(source)
        self.default_serializers = OptionalMap.read(source)
        self.default_serializer_classes = OptionalMap.read(source)
