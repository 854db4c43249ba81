"""Arrays: Flink's byte[] with its rule TEXT-1, and the snapshots of all other arrays.

    primitive arrays  i32 n, n elements (byte as raw bytes)
    StringArray       i32 n, n strings
    GenericArray      i32 n, each a flag "is present" and the element if so

Source: format notes 6.1 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from . import layout
from .compatibility import CompatibilityResult, Finding, Verdict
from .errors import ValueNotConvertible, shown
from .numeric import BASE
from .registry import register_snapshot
from .serializer import KEEP_OLD_TYPE, TypeSerializer, unrelated
from .snapshot import CompositeTypeSerializerSnapshot, FlinkSnapshot, TypeSerializerConfigSnapshot
from .unread import PlainUnreadSnapshot, ValuesNotRead

if TYPE_CHECKING:
    from .views import DataInputView, DataOutputView

ARRAY = BASE + "array."


def text_to_utf8(value: str | None) -> bytes | None:
    """Encode as rule TEXT-1 says; raises `ValueNotConvertible` for half a character, which Java strings may hold."""
    try:
        return None if value is None else value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueNotConvertible(
            f"{shown(value)} holds a lone surrogate, which UTF-8 cannot express",
            advice="register a converter for this state that says how such text becomes bytes",
            rule="TEXT-1",
        ) from error


@attrs.frozen
class BytesSerializer(TypeSerializer[bytes]):
    """Flink's byte[]. What the hint `bytes` means."""

    def serialize(self, value: bytes, target: DataOutputView) -> None:
        if not isinstance(value, bytes):
            raise ValueNotConvertible(f"{shown(value)} is not bytes")
        target.write_int(len(value))
        target.write(value)

    def deserialize(self, source: DataInputView) -> bytes:
        return source.read_fully(source.read_size("bytes"))

    @property
    def layout(self) -> layout.Layout:
        return layout.Prefixed(1)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[bytes]:
        return BytePrimitiveArraySerializerSnapshot()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[bytes]:
        if isinstance(snapshot, BytePrimitiveArraySerializerSnapshot):
            return CompatibilityResult.compatible()
        if snapshot.kind != "string":
            return unrelated(self, snapshot)
        finding = Finding(
            "$", "TEXT-1", Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(),
            "text becomes its UTF-8 bytes", ("migrate the state: text is encoded as UTF-8", KEEP_OLD_TYPE),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=text_to_utf8)


@register_snapshot
@attrs.define
class BytePrimitiveArraySerializerSnapshot(FlinkSnapshot[bytes]):
    """Snapshot of `BytesSerializer`."""

    snapshot_id: ClassVar[str] = ARRAY + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "bytes"

    def describe(self) -> str:
        return "bytes"

    def restore_serializer(self) -> TypeSerializer[bytes]:
        return BytesSerializer()


@register_snapshot
@attrs.define
class BooleanPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's boolean[]."""

    snapshot_id: ClassVar[str] = ARRAY + "BooleanPrimitiveArraySerializer$BooleanPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<boolean>"


@register_snapshot
@attrs.define
class CharPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's char[]."""

    snapshot_id: ClassVar[str] = ARRAY + "CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<char>"


@register_snapshot
@attrs.define
class ShortPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's short[]."""

    snapshot_id: ClassVar[str] = ARRAY + "ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<short>"


@register_snapshot
@attrs.define
class IntPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's int[]."""

    snapshot_id: ClassVar[str] = ARRAY + "IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<int>"


@register_snapshot
@attrs.define
class LongPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's long[]."""

    snapshot_id: ClassVar[str] = ARRAY + "LongPrimitiveArraySerializer$LongPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<long>"


@register_snapshot
@attrs.define
class FloatPrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's float[]."""

    snapshot_id: ClassVar[str] = ARRAY + "FloatPrimitiveArraySerializer$FloatPrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<float>"


@register_snapshot
@attrs.define
class DoublePrimitiveArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's double[]."""

    snapshot_id: ClassVar[str] = ARRAY + "DoublePrimitiveArraySerializer$DoublePrimitiveArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<double>"


@register_snapshot
@attrs.define
class StringArraySerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's String[]."""

    snapshot_id: ClassVar[str] = ARRAY + "StringArraySerializer$StringArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    words: ClassVar[str] = "array<string>"


@register_snapshot
@attrs.define
class GenericArraySerializerSnapshot(ValuesNotRead, CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of Flink's arrays of objects, boxed numbers included; the outer part is the component's class."""

    snapshot_id: ClassVar[str] = BASE + "GenericArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    nested_count: ClassVar[int] = 1

    component_class: str = ""
    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def describe(self) -> str:
        return f"array<{', '.join(part.describe() for part in self.nested)}>"

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write_utf(self.component_class)

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        self.component_class = source.read_utf()
