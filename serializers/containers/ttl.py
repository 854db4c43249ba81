"""Values of states with a time to live: Flink's TtlSerializer around the serializer of the user value.

    i64 last access, in milliseconds since 1970 UTC, then the user value

The stamp adds no step to the path of the user value, because the state's declaration does not mention it. A state may
gain stamps (STATE-4) or lose them (STATE-5). A new stamp is the reference time of the run, which a check does not know:
a conversion that adds stamps is called within `AtTime`.

How long values live is not stored. Source: format notes 6.1, 6.2 and 7; compatibility rules 8.4.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import attrs

from .. import rewrite
from ..compatibility import Child, CompatibilityResult, Finding, Verdict, compose
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, shown
from ..primitives.numeric import LongSerializerSnapshot
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting
from ..views import DataOutputView
from ..ways_out import by_migration
from .wrappers import OptionalSerializer, without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..rewrite import Conversion
    from ..serializer import TypeDeserializer
    from ..snapshot import Speller
    from ..views import DataInputView

T = TypeVar("T")

FORMER_TIME_TO_LIVE = "former_time_to_live=timedelta(…)"
"""The descriptor's option for the former time to live, which no savepoint stores."""

LAST_MS = (1 << 63) - 1
_reference_time_ms: ContextVar[int] = ContextVar("reference time of the run")


@lasting
@attrs.frozen
class TtlValue(Generic[T]):
    """A value and the time of its last access.

    Attributes:
        last_access_ms: Milliseconds since 1970 UTC.
        value: The user value.
    """

    last_access_ms: int
    value: T


@attrs.frozen
class TtlConversion:
    """Converts the user value and keeps the stamp."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> TtlValue[Any]:
        converted = None if value.value is None else self.convert(value.value)
        return TtlValue(value.last_access_ms, converted)


@attrs.frozen
class AtTime:
    """A conversion at a reference time, which is the time of any stamp that it adds.

    Attributes:
        reference_time_ms: Milliseconds since 1970 UTC.
        convert: Converts an old value to a new one.
    """

    reference_time_ms: int
    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        token = _reference_time_ms.set(self.reference_time_ms)
        try:
            return self.convert(value)
        finally:
            _reference_time_ms.reset(token)


@attrs.frozen
class Stamped:
    """Converts a bare value and adds a stamp (rule STATE-4)."""

    convert: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> TtlValue[Any]:
        stamp = _reference_time_ms.get(None)
        if stamp is None:
            raise DeclarationError("a value needs a time stamp, but none was given", advice="convert it within AtTime")
        return TtlValue(stamp, value if self.convert is None else self.convert(value))


@attrs.frozen
class Stripped:
    """Removes the stamp and converts the bare value (rule STATE-5)."""

    convert: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> Any:
        return value.value if self.convert is None else self.convert(value.value)


def taking_null(serializer: TypeSerializer[Any]) -> TypeSerializer[Any] | None:
    """Return the serializer with nulls allowed, if its format has a null form; else None.

    Behind a stamp, Flink knows a null by this form only: an entry with null in place of stamp and value does not exist
    to it.
    """
    if isinstance(serializer, OptionalSerializer):
        return serializer
    given: Any = serializer
    if not attrs.has(type(given)) or not hasattr(given, "allow_null"):
        return None
    taking = cast("TypeSerializer[Any]", attrs.evolve(given, allow_null=True))
    try:
        taking.serialize(None, DataOutputView())
    except ValueNotConvertible:  # java.sql.Timestamp, whose null Flink reads back wrongly
        return None
    return taking


@attrs.frozen
class TtlSerializer(TypeSerializer[TtlValue[T]]):
    """Flink's TtlSerializer.

    Attributes:
        value: The serializer of the user value.
    """

    value: TypeSerializer[T]

    @property
    def length(self) -> int:
        inner = self.value.length
        return 8 + inner if inner >= 0 else -1

    @property
    def is_immutable_type(self) -> bool:
        return self.value.is_immutable_type

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Sequence((rewrite.Fixed(8), self.value.layout))

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
            return self._switched_on(snapshot)
        stored = snapshot.nested[1]
        return compose(
            CompatibilityResult.compatible(),
            [Child("", self.value, self.value.ensure_compatibility(stored), stored.restore_serializer)],
            rebuild=lambda nested: TtlSerializer(nested[0]),
            convert=lambda conversions: None if conversions[0] is None else TtlConversion(conversions[0]),
            read_with=lambda readers: TtlSerializer(readers[0]),
        )

    def _switched_on(self, stored: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[TtlValue[T]]:
        finding = Finding(
            "$", "STATE-4", Verdict.REQUIRES_MIGRATION, stored.describe(), self.describe(),
            "time to live is switched on, which takes a time stamp before each value",
            (by_migration("the stamp is the reference time of the run, so that nothing expires because of it"),
             "declare the state without time to live, as it was stored"),
        )  # fmt: skip
        return compose(
            CompatibilityResult.requires_migration(finding),
            [Child("", self.value, self.value.ensure_compatibility(stored), stored.restore_serializer)],
            rebuild=lambda nested: TtlSerializer(nested[0]),
            convert=lambda conversions: Stamped(_but_nulls(conversions[0])),
            read_with=lambda readers: readers[0],
        )


def switched_off(value: TypeSerializer[T], snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T]:
    """Judge stamped values for a serializer of bare values (rule STATE-5).

    The result is that for the bare values, at best `requires_migration`: they must be rewritten without stamps. No
    value is dropped here, because only the new declaration can say how long values lived.

    Args:
        value: The serializer of the bare values.
        snapshot: A `TtlSerializerSnapshot`.
    """
    stored = snapshot.children()[1]
    finding = Finding(
        "$", "STATE-5", Verdict.REQUIRES_MIGRATION, snapshot.describe(), value.describe(),
        "time to live is switched off; the savepoint does not store how long values live, so none counts as expired",
        (by_migration("the time stamps are removed"),
         f"declare how long values lived ({FORMER_TIME_TO_LIVE} of the descriptor): expired values are then dropped",
         "declare the state with time to live, as it was stored"),
    )  # fmt: skip
    return compose(
        CompatibilityResult.requires_migration(finding),
        [Child("", value, value.ensure_compatibility(stored), stored.restore_serializer)],
        rebuild=lambda nested: nested[0],
        convert=lambda conversions: Stripped(_but_nulls(conversions[0])),
        read_with=lambda readers: TtlSerializer(readers[0]),
    )


@attrs.frozen
class ButNulls:
    """Converts values, and leaves nulls to the new serializer."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return None if value is None else self.convert(value)


def _but_nulls(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return a conversion that leaves nulls to the new serializer."""
    return None if convert is None else ButNulls(convert)


@register_snapshot
@attrs.define
class TtlSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `TtlSerializer`; nested are that of the time stamp (always a long) and that of the user value."""

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


def before_nulls(convert: Conversion) -> Conversion:
    """Return what converts values that are there."""
    return convert.convert if isinstance(convert, ButNulls) else convert


def stripped_rewrite(
    reader: TypeDeserializer[Any],
    conversion: Conversion,
    writer: TypeSerializer[Any],
    expired_until_ms: int | None,
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of stamped values that lose their stamps; None if `conversion` does not do that.

    Source: rule STATE-5.

    Args:
        reader: The reader of the stamped values.
        conversion: Converts old values to new ones.
        writer: The serializer of the bare values.
        expired_until_ms: Values last accessed at this time or earlier are left out, so they are odd; None: no value is.
    """
    strips = conversion.convert if isinstance(conversion, AtTime) else conversion
    if not isinstance(reader, TtlSerializer) or not isinstance(strips, Stripped):
        return None
    value = rewrite.rewrite_of(reader.value, before_nulls(strips.convert), writer)
    if value is None:
        return None
    alive = rewrite.Fixed(8) if expired_until_ms is None else rewrite.Ranged(8, expired_until_ms + 1, LAST_MS)
    return rewrite.Sequence((alive, value), (1,))
