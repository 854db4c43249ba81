"""`SparkRowSerializer`: the type of a row in a checkpoint of Spark, for descriptions and checks.

A value is the row as Spark's bytes, behind their i32 length; `rows` decodes many of them at once, by columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..byte_forms import sized, utf8
from ..compatibility import CompatibilityResult, worst
from ..errors import CorruptFile, CorruptSavepoint
from ..registry import register_snapshot
from ..serializer import TypeSerializer, unrelated
from ..snapshot import OWN_PREFIX, FormedSnapshot, TypeSerializerConfigSnapshot
from .rules import resolve
from .spark_types import SparkField, SparkType, parse_struct, schema_text

if TYPE_CHECKING:
    from ..byte_forms import Fields
    from ..views import DataInputView, DataOutputView
    from .spark_types import StoreSchema


_ROW = sized("a row")


@register_snapshot
@attrs.define
class SparkRowSnapshot(FormedSnapshot[bytes]):
    """Snapshot of `SparkRowSerializer`.

    Attributes:
        schema: The schema, in the JSON of `schema_text`.
    """

    snapshot_id: ClassVar[str] = OWN_PREFIX + "spark-row"
    kind: ClassVar[str] = "spark row"
    body: ClassVar[Fields] = {"schema": utf8("a schema of Spark")}

    schema: str = '{"type": "struct", "fields": []}'

    def describe(self) -> str:
        return parse_struct(self.schema).describe()

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        try:
            parse_struct(self.schema)
        except CorruptFile as error:
            raise CorruptSavepoint(f"a schema of Spark is damaged: {error}", offset=start) from error

    def restore_serializer(self) -> SparkRowSerializer:
        return SparkRowSerializer(parse_struct(self.schema))


@attrs.frozen
class SparkRowSerializer(TypeSerializer[bytes]):
    """Rows of a struct, as their bytes.

    Attributes:
        struct: The type of the rows.
    """

    struct: SparkType

    @classmethod
    def of_entries(cls, schema: StoreSchema) -> SparkRowSerializer:
        """Return the type of the entries of a store: a row of a key and a value."""
        parts = (SparkField(name, of, is_nullable=False) for name, of in (("key", schema.key), ("value", schema.value)))
        return cls(SparkType("struct", tuple(parts)))

    def serialize(self, value: bytes, target: DataOutputView) -> None:
        _ROW.write(target, value)

    def deserialize(self, source: DataInputView) -> bytes:
        return _ROW.read(source)

    def snapshot_configuration(self) -> SparkRowSnapshot:
        return SparkRowSnapshot(schema_text(self.struct))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[bytes]:
        if not isinstance(snapshot, SparkRowSnapshot):
            return unrelated(self, snapshot)
        findings = tuple(resolve(parse_struct(snapshot.schema), self.struct))
        return CompatibilityResult(worst([finding.verdict for finding in findings]), findings)
