"""What only Java libraries read: values of Kryo and of Flink's Avro serializer, as bytes; their snapshots are parsed.

The ordered map in which Flink's POJO and Kryo snapshots keep their configuration; parts of an entry may be absent.

    i64 0x000004F2C69A3D70, i32 n, then for each entry
    UTF name, bool, [i32 length and key bytes], bool, [i32 length and value bytes]; false leaves a part out

Source: format notes 6.1.

Kryo: values of types that Flink could not analyse, which only Kryo, a Java library, can read.

    UTF type class, then three optional maps: registrations, default serializers, default serializer classes

The end of a value cannot be found in its bytes. Where something else marks it, such as the frame of an entry, the value
is read as opaque bytes; within a POJO, a tuple, a list or a map it makes the whole state unreadable. Source: format
notes 6.1 and 7.

The snapshot of Flink's Avro serializer. Its values are not read by this release.

Flink's snapshots have no length, so this one must be parsed to find the rest of a header:

    version 1   UTF schema JSON; the class is the schema's own full name
    version 2   UTF runtime class, UTF schema JSON
    version 3   UTF runtime class, i32 length and schema JSON in UTF-8 (longer than 65535 bytes)

Source: format notes 6.1, which take it from older sources; version 3 was never seen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import attrs

from ..byte_forms import BOOLEAN, LONG, UTF, ByteForm, checked, made, many, mapped, optional, several, sized, utf8
from ..errors import OldReaderUnavailable, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import FormedSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..byte_forms import Fields
    from ..views import DataInputView, DataOutputView

_MAGIC = 0x000004F2C69A3D70


@attrs.frozen
class OptionalEntry:
    """A name, and up to two parts; Flink leaves out parts that it could not read on an earlier restore.

    Attributes:
        name: The name of a field or class.
        key: The first part.
        value: The second part.
        value_at: The position of the second part in the input.
    """

    name: str
    key: bytes | None
    value: bytes | None
    value_at: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class OptionalMap:
    """The entries in stored order, which has a meaning (tags of subclasses, pairing of fields)."""

    entries: tuple[OptionalEntry, ...] = ()


_PART = optional(BOOLEAN, sized("an entry"))
_ENTRY = made(OptionalEntry, {"name": UTF, "key": _PART, "value": _PART})


def _read_entry(source: DataInputView) -> OptionalEntry:
    entry = _ENTRY.read(source)
    return attrs.evolve(entry, value_at=source.position - len(entry.value or b""))


OPTIONAL_MAP = mapped(
    several(
        checked(LONG, _MAGIC.__eq__, f"an optional map should begin with {_MAGIC:#x} but begins with {{:#x}}"),
        many(ByteForm(_read_entry, _ENTRY.write, _ENTRY.least), "entries of an optional map", apart="name"),
    ),
    lambda pair: OptionalMap(pair[1]),
    lambda stored: (_MAGIC, stored.entries),
)


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
class KryoSerializerSnapshot(FormedSnapshot[KryoBytes]):
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
    body: ClassVar[Fields] = {
        "type_class": UTF,
        "registrations": OPTIONAL_MAP,
        "default_serializers": OPTIONAL_MAP,
        "default_serializer_classes": OPTIONAL_MAP,
    }

    type_class: str = ""
    registrations: OptionalMap = OptionalMap()
    default_serializers: OptionalMap = OptionalMap()
    default_serializer_classes: OptionalMap = OptionalMap()

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


@register_snapshot
@attrs.define
class AvroSerializerSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of Flink's Avro serializer.

    It is written at the version at which it was read, an exception to rule SNAP-5: a Flink that wrote version 1 or 2
    need not know version 3, and this release changes nothing in it.

    Attributes:
        schema: The writer's schema, as JSON text.
        runtime_class: The Java class of the values; "" in version 1, where it is the schema's full name.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
    version: ClassVar[int] = 3
    kind: ClassVar[str] = "avro"

    schema: str = ""
    runtime_class: str = ""

    def get_version(self) -> int:
        return self.version if self._read_version is None else self._read_version

    def get_compatible_versions(self) -> Collection[int]:
        return (1, 2, 3)

    def describe(self) -> str:
        return f"avro<{self.runtime_class or self._schema_name()}>"

    def _schema_name(self) -> str:
        try:
            schema = json.loads(self.schema)
            if not isinstance(schema, dict):
                return str(schema)
            name, namespace = str(schema.get("name", schema.get("type", "?"))), schema.get("namespace")
            return f"{namespace}.{name}" if namespace and "." not in name else name
        except (ValueError, RecursionError):
            return "unreadable schema"

    def restore_serializer(self) -> TypeSerializer[Any]:
        raise OldReaderUnavailable(
            f"values of {self.describe()} are not read by this release",
            advice="leave the state as it is (its bytes are copied), pass a fallback deserializer, or drop it",
        )

    def write(self, target: DataOutputView) -> None:
        version = self.get_version()
        if version > 1:
            target.write_utf(self.runtime_class)
        self._schema_form(version).write(target, self.schema)

    def read(self, source: DataInputView) -> None:
        version = self.get_read_version()
        self.runtime_class = source.read_utf() if version > 1 else ""
        self.schema = self._schema_form(version).read(source)

    @staticmethod
    def _schema_form(version: int) -> ByteForm[str]:
        return UTF if version < 3 else utf8("an Avro schema", errors="surrogatepass")
