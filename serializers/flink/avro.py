"""The snapshot of Flink's Avro serializer. Its values are not read by this release.

Flink's snapshots have no length, so this one must be parsed to find the rest of a header:

    version 1   UTF schema JSON; the class is the schema's own full name
    version 2   UTF runtime class, UTF schema JSON
    version 3   UTF runtime class, i32 length and schema JSON in UTF-8 (longer than 65535 bytes)

Source: format notes 6.1, which take it from older sources; version 3 was never seen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import CorruptSavepoint, OldReaderUnavailable
from ..registry import register_snapshot
from ..snapshot import TypeSerializerConfigSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..serializer import TypeSerializer
    from ..views import DataInputView, DataOutputView


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
        if version < 3:
            target.write_utf(self.schema)
            return
        schema = self.schema.encode("utf-8", "surrogatepass")
        target.write_int(len(schema))
        target.write(schema)

    def read(self, source: DataInputView) -> None:
        version = self.get_read_version()
        self.runtime_class = source.read_utf() if version > 1 else ""
        if version < 3:
            self.schema = source.read_utf()
            return
        start = source.position
        schema = source.read_fully(source.read_size("bytes of an Avro schema"))
        try:
            self.schema = schema.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptSavepoint("an Avro schema is not UTF-8", offset=start) from error
