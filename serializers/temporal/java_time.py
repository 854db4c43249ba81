"""Dates and times of `java.time`: their bytes in Flink, their snapshots, and the rules TIME-1 to TIME-5.

    Instant        i64 seconds, i32 nanoseconds                                 null: -2^63 and -2^31
    LocalDate      i32 year, i8 month, i8 day                                   null: -2^31 and i16 -32768
    LocalTime      i8 hour, i8 minute, i8 second, i32 nanoseconds               null: i8 -128, i16 -32768, i32 -2^31
    LocalDateTime  LocalDate, LocalTime                                         null: both nulls

`java.util.Date` and the types of `java.sql` are in `java_sql`. Source: format notes 6.1 and 7; compatibility rules 4.2.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..primitives.numeric import BASE
from ..registry import register_snapshot
from ..serializer import CONVERTER, KEEP_OLD_TYPE, TypeSerializer, converter_that, incompatible, unrelated
from ..snapshot import FlinkSnapshot, TypeSerializerConfigSnapshot
from ..wording import one
from .values import Instant, LocalDate, LocalDateTime, LocalTime, TemporalValue

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView

_INT_NULL, LONG_NULL = -(2**31), -(2**63)
_SHORT_NULL = (-128, 0)
"""The short -32768, as two signed bytes."""


@attrs.frozen
class Meaning:
    """The meaning of a temporal type, which the rules compare.

    Attributes:
        what: The kind of time.
        zone: How a value is bound to a time zone; "" where it is not.
        per_second: The number of units in a second; 0 for days.
    """

    what: str
    zone: str
    per_second: int


DATETIME, DATE, TIME = "date and time", "date", "time of day"
A_MOMENT = "a moment"
_NANOS = 1_000_000_000
YEARS = "datetime holds the years 1 to 9999"
YEARS_AND_MICROS = f"{YEARS}, and microseconds"


class TemporalSnapshot(FlinkSnapshot[Any]):
    """Snapshot of a temporal type; `words` is its name in messages."""

    kind: ClassVar[str] = "temporal"
    words: ClassVar[str]
    meaning: ClassVar[Meaning]
    serializer: ClassVar[type[TemporalSerializer]]

    def describe(self) -> str:
        return self.words

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.serializer(exact=True, allow_null=True)


@attrs.frozen
class TemporalSerializer(TypeSerializer[Any]):
    """Base of the temporal serializers: numbers of fixed length, and the rules.

    Each writes exact values, and values of Python's `datetime` module that fit without rounding.

    Attributes:
        exact: Whether the exact value is read (`Instant`, `LocalDate`, …) instead of Python's own type, which cannot
            hold every stored value.
        allow_null: Whether None is read and written, in the format's null form; otherwise None is an error.
    """

    form: ClassVar[struct.Struct]
    null: ClassVar[tuple[int, ...]]
    value_class: ClassVar[type[TemporalValue]]
    python_holds: ClassVar[str]
    """The values that Python's own type can hold; "" where Python has no type, so that values are always exact."""

    exact: bool = attrs.field(default=False, kw_only=True)
    allow_null: bool = attrs.field(default=False, eq=False, kw_only=True)

    @property
    def length(self) -> int:
        return self.form.size

    def serialize(self, value: Any, target: DataOutputView) -> None:
        if value is None and self.allow_null:
            target.write(self._null_bytes())
            return
        exact = value if isinstance(value, self.value_class) else self.value_class.from_python(value)
        target.write(self.form.pack(*exact.parts))

    def _null_bytes(self) -> bytes:
        return self.form.pack(*self.null)

    @abstractmethod
    def snapshot_configuration(self) -> TemporalSnapshot: ...

    def deserialize(self, source: DataInputView) -> Any:
        start = source.position
        parts = self.form.unpack(source.read_fully(self.form.size))
        if parts == self.null:
            if not self.allow_null:
                raise ValueNotConvertible(
                    f"a null is stored where a value of {self.describe()} is declared",
                    advice="declare the type optional (… | None)",
                )
            return None
        try:
            value = self.value_class(*parts)
        except ValueNotConvertible as error:
            raise CorruptSavepoint(f"bytes are not a value of {self.describe()}: {error.what}", offset=start) from error
        return value if self.exact else value.to_python()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if not isinstance(snapshot, TemporalSnapshot):
            return unrelated(self, snapshot)
        own = self.snapshot_configuration()
        if snapshot.snapshot_id == own.snapshot_id:
            return CompatibilityResult.compatible(*self._remarks(own))
        old, new = snapshot.meaning, own.meaning
        if old.what != new.what:
            reason = f"{one(old.what)} is not {one(new.what)}"
            return incompatible(self, snapshot, "TIME-5", reason, KEEP_OLD_TYPE, CONVERTER)
        if old.zone != new.zone:
            reason = (
                f"{snapshot.words} is {_bound(old)}, and {own.words} is {_bound(new)}: a zone would have to be assumed"
            )
            way = converter_that("which time zone is meant")
            return incompatible(self, snapshot, "TIME-4", reason, way, KEEP_OLD_TYPE)
        if old.per_second > new.per_second:
            way = converter_that("how values are rounded")
            reason = f"{snapshot.words} holds finer fractions of a second than {own.words}"
            return incompatible(self, snapshot, "TIME-3", reason, way, KEEP_OLD_TYPE)
        return self._from_moment(snapshot, finer=old.per_second < new.per_second)

    def _remarks(self, own: TemporalSnapshot) -> tuple[Finding, ...]:
        """Return the finding that Python's own type cannot hold every stored value, which then fails (V-5)."""
        if self.exact or not self.python_holds:
            return ()
        exact = self.value_class.__name__
        reason = f"Python's {self.python_holds}; a stored value beyond that would fail, other than with {exact}"
        way = f"declare the type stateshift.{exact}, which is exact"
        flags = (Flag.MAY_FAIL_PER_VALUE,)
        return (Finding("$", "TIME-1", Verdict.COMPATIBLE, own.words, own.words, reason, (way,), flags),)

    def _from_moment(self, snapshot: TemporalSnapshot, *, finer: bool) -> CompatibilityResult[Any]:
        """Take over the same points in time in other bytes: in a finer unit (TIME-2), or in another class (FAM-4)."""
        if finer:
            rule, reason = "TIME-2", "the same moment in a finer unit, in other bytes"
        else:
            rule, reason = "FAM-4", "the same moment in the same unit, in other bytes"
        may_not_fit = snapshot.meaning.per_second == _NANOS and not isinstance(self, InstantSerializer)
        finding = Finding(
            "$", rule, Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(), reason,
            ("migrate the state: each value is the same moment afterwards", KEEP_OLD_TYPE),
            (Flag.MAY_FAIL_PER_VALUE,) if may_not_fit else (),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=_ToMoment(self.value_class, rule))


def _bound(meaning: Meaning) -> str:
    return meaning.zone or f"a {meaning.what} in no time zone"


@attrs.frozen
class _ToMoment:
    """Converts a value to the same point in time in another class."""

    to: type[Any]
    rule: str

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        moment = Instant.from_python(value)
        try:
            return self.to.from_python(moment)
        except ValueNotConvertible as error:
            raise ValueNotConvertible(
                f"{shown(str(moment))} is out of the range of {self.to.java}: {error.what}",
                advice=CONVERTER,
                rule=self.rule,
            ) from error


class InstantSerializer(TemporalSerializer):
    """Flink's Instant: the serializer for `datetime`, `AwareDatetime` and `Instant` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">qi")
    null: ClassVar[tuple[int, ...]] = (LONG_NULL, _INT_NULL)
    value_class: ClassVar[type[TemporalValue]] = Instant
    python_holds: ClassVar[str] = YEARS_AND_MICROS

    def snapshot_configuration(self) -> TemporalSnapshot:
        return InstantSerializerSnapshot()


class LocalDateSerializer(TemporalSerializer):
    """Flink's LocalDate: the serializer for `date` and `LocalDate` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">ibb")
    null: ClassVar[tuple[int, ...]] = (_INT_NULL, *_SHORT_NULL)
    value_class: ClassVar[type[TemporalValue]] = LocalDate
    python_holds: ClassVar[str] = "date holds the years 1 to 9999"

    def snapshot_configuration(self) -> TemporalSnapshot:
        return LocalDateSerializerSnapshot()


class LocalTimeSerializer(TemporalSerializer):
    """Flink's LocalTime: the serializer for `time` and `LocalTime` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">bbbi")
    null: ClassVar[tuple[int, ...]] = (-128, *_SHORT_NULL, _INT_NULL)
    value_class: ClassVar[type[TemporalValue]] = LocalTime
    python_holds: ClassVar[str] = "time holds microseconds"

    def snapshot_configuration(self) -> TemporalSnapshot:
        return LocalTimeSerializerSnapshot()


class LocalDateTimeSerializer(TemporalSerializer):
    """Flink's LocalDateTime: the serializer for `NaiveDatetime` and `LocalDateTime` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">ibbbbbi")
    null: ClassVar[tuple[int, ...]] = (*LocalDateSerializer.null, *LocalTimeSerializer.null)
    value_class: ClassVar[type[TemporalValue]] = LocalDateTime
    python_holds: ClassVar[str] = YEARS_AND_MICROS

    def snapshot_configuration(self) -> TemporalSnapshot:
        return LocalDateTimeSerializerSnapshot()


@register_snapshot
class InstantSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `InstantSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "InstantSerializer$InstantSerializerSnapshot"
    java_class: ClassVar[str] = "java.time.Instant"
    words: ClassVar[str] = "instant"
    meaning: ClassVar[Meaning] = Meaning(DATETIME, A_MOMENT, _NANOS)
    serializer: ClassVar[type[TemporalSerializer]] = InstantSerializer


@register_snapshot
class LocalDateSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `LocalDateSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "LocalDateSerializer$LocalDateSerializerSnapshot"
    java_class: ClassVar[str] = "java.time.LocalDate"
    words: ClassVar[str] = "date"
    meaning: ClassVar[Meaning] = Meaning(DATE, "", 0)
    serializer: ClassVar[type[TemporalSerializer]] = LocalDateSerializer


@register_snapshot
class LocalTimeSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `LocalTimeSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "LocalTimeSerializer$LocalTimeSerializerSnapshot"
    java_class: ClassVar[str] = "java.time.LocalTime"
    words: ClassVar[str] = "time"
    meaning: ClassVar[Meaning] = Meaning(TIME, "", _NANOS)
    serializer: ClassVar[type[TemporalSerializer]] = LocalTimeSerializer


@register_snapshot
class LocalDateTimeSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `LocalDateTimeSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot"
    java_class: ClassVar[str] = "java.time.LocalDateTime"
    words: ClassVar[str] = "local datetime"
    meaning: ClassVar[Meaning] = Meaning(DATETIME, "", _NANOS)
    serializer: ClassVar[type[TemporalSerializer]] = LocalDateTimeSerializer
