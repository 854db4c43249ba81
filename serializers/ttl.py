"""Values of states with a time to live: Flink's TtlSerializer around the user's.

    i64 last access, in milliseconds since 1970 UTC, then the user value

The path of the user value is not lengthened: to the one who declares the state, the stamp is not there.
Source: format notes 6.1, 6.2 and 7; compatibility rules 8.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import attrs

from . import layout
from .compatibility import Child, CompatibilityResult, compose
from .errors import CorruptSavepoint, ValueNotConvertible, shown
from .numeric import LongSerializerSnapshot
from .registry import register_snapshot
from .serializer import TypeSerializer, unrelated
from .snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from .ttl_aware import without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Callable

    from .serializer import TypeDeserializer
    from .snapshot import Speller
    from .views import DataInputView, DataOutputView

T = TypeVar("T")


@attrs.frozen
class TtlValue(Generic[T]):
    """A value and when it was last accessed.

    Attributes:
        last_access_ms: Milliseconds since 1970 UTC.
        value: The user's value.
    """

    last_access_ms: int
    value: T


@attrs.frozen
class _TtlConversion:
    """Converts the user value and keeps the stamp."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> TtlValue[Any]:
        converted = None if value.value is None else self.convert(value.value)
        return TtlValue(value.last_access_ms, converted)


@attrs.frozen
class TtlSerializer(TypeSerializer[TtlValue[T]]):
    """Flink's TtlSerializer.

    Attributes:
        value: Of the user value.
    """

    value: TypeSerializer[T]

    @property
    def length(self) -> int:
        inner = self.value.length
        return 8 + inner if inner >= 0 else -1

    @property
    def layout(self) -> layout.Layout:
        return layout.Sequence((layout.Fixed(8), self.value.layout))

    def serialize(self, value: TtlValue[T], target: DataOutputView) -> None:
        if not isinstance(value, TtlValue):
            raise ValueNotConvertible(
                f"{shown(value)} has no time of last access", advice="wrap it: TtlValue(last_access_ms, value)"
            )
        target.write_long(value.last_access_ms)
        self.value.serialize(value.value, target)

    def deserialize(self, source: DataInputView) -> TtlValue[T]:
        return TtlValue(source.read_long(), self.value.deserialize(source))

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[TtlValue[T]]:
        return TtlSerializerSnapshot((LongSerializerSnapshot(), self.value.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[TtlValue[T]]:
        snapshot = without_ttl_awareness(snapshot)
        if not isinstance(snapshot, TtlSerializerSnapshot):
            return unrelated(self, snapshot)
        stored = snapshot.nested[1]
        return compose(
            CompatibilityResult.compatible(),
            [Child("", self.value, self.value.ensure_compatibility(stored), stored.restore_serializer)],
            rebuild=lambda nested: TtlSerializer(nested[0]),
            convert=lambda conversions: None if conversions[0] is None else _TtlConversion(conversions[0]),
            read_with=_read_ttl_with,
        )


def _read_ttl_with(readers: list[TypeDeserializer[Any]]) -> TypeDeserializer[Any]:
    return TtlSerializer(cast("TypeSerializer[Any]", readers[0]))


@register_snapshot
@attrs.define
class TtlSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `TtlSerializer`; nested are the time stamp's (always a long) and the user value's."""

    snapshot_id: ClassVar[str] = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
    kind: ClassVar[str] = "ttl"
    outer_version: ClassVar[int] = 2
    nested_count: ClassVar[int] = 2
    steps: ClassVar[tuple[str, ...]] = ("", "")

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def describe(self) -> str:
        return f"ttl<{self.nested[1].describe()}>"

    def spell(self, speller: Speller) -> str:
        return f"ttl<{speller.part(self.nested[1])}>"

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        if not isinstance(self.nested[0], LongSerializerSnapshot):
            raise CorruptSavepoint(f"the time stamps of ttl are described as {self.nested[0].describe()}", offset=start)

    def restore_serializer(self) -> TypeSerializer[Any]:
        return TtlSerializer(self.restore_nested(1))
