"""Dates and times of `java.time`: their bytes in Flink, their snapshots, and the rules TIME-1 to TIME-5.

    Instant        i64 seconds, i32 nanoseconds                                 null: -2^63 and -2^31
    LocalDate      i32 year, i8 month, i8 day                                   null: -2^31 and i16 -32768
    LocalTime      i8 hour, i8 minute, i8 second, i32 nanoseconds               null: i8 -128, i16 -32768, i32 -2^31
    LocalDateTime  LocalDate, LocalTime                                         null: both nulls

Source: format notes 6.1 and 7; compatibility rules 4.2.

And those of `java.util` and `java.sql`:

    Date, SqlDate, SqlTime  i64 milliseconds since 1970 UTC                     null: -2^63
    SqlTimestamp            i64 milliseconds, i32 nanoseconds of the second     null: -2^63 and i32 0

Flink writes the null of a SqlTimestamp in twelve bytes and reads it back in eight, which corrupts whatever follows.
That null is read here, and never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import rewrite
from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, snapshot_of
from ..serializer import CONVERTER, KEEP_OLD_TYPE, converter_that, incompatible, unrelated
from ..ways_out import by_migration
from ..wording import one
from .values import (
    FIRST_SECOND,
    LAST_SECOND,
    Instant,
    JavaDate,
    LocalDate,
    LocalDateTime,
    LocalTime,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    TemporalValue,
)

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot
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


@attrs.frozen
class Time(Scalar):
    """The row of a temporal type.

    Attributes:
        value_class: The class of its exact values.
        null: The stored numbers that mean null.
        meaning: What the rules compare.
        python_holds: The values that Python's own type can hold; "" where Python has no type, so that values are always
            exact.
    """

    value_class: type[TemporalValue] = attrs.field(kw_only=True)
    null: tuple[int, ...] = attrs.field(kw_only=True)
    meaning: Meaning = attrs.field(kw_only=True)
    python_holds: str = attrs.field(default="", kw_only=True)


class TemporalSnapshot(ScalarSnapshot[Any]):
    """Snapshot of a temporal type."""

    kind: ClassVar[str] = "temporal"
    serializer: ClassVar[type[TemporalSerializer]]


@attrs.frozen
class TemporalSerializer(ScalarSerializer[Any]):
    """Base of the temporal serializers: numbers of fixed length, and the rules.

    Each writes exact values, and values of Python's `datetime` module that fit without rounding.

    Attributes:
        exact: Whether the exact value is read (`Instant`, `LocalDate`, …) instead of Python's own type, which cannot
            hold every stored value.
        allow_null: Whether None is read and written, in the format's null form; otherwise None is an error.
    """

    row: ClassVar[Time]
    restored: ClassVar[dict[str, bool]] = {"exact": True, "allow_null": True}

    exact: bool = attrs.field(default=False, kw_only=True)
    allow_null: bool = attrs.field(default=False, eq=False, kw_only=True)

    @property
    def value_class(self) -> type[TemporalValue]:
        """The class of the exact values."""
        return self.row.value_class

    def serialize(self, value: Any, target: DataOutputView) -> None:
        if value is None and self.allow_null:
            target.write(self._null_bytes())
            return
        exact = value if isinstance(value, self.value_class) else self.value_class.from_python(value)
        target.write(self.row.packing.pack(*exact.parts))

    def _null_bytes(self) -> bytes:
        return self.row.packing.pack(*self.row.null)

    def deserialize(self, source: DataInputView) -> Any:
        start = source.position
        parts = source.unpack(self.row.packing)
        if parts == self.row.null:
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
        stored = snapshot.serializer.row
        if stored == self.row:
            return CompatibilityResult.compatible(*self._remarks())
        old, new = stored.meaning, self.row.meaning
        if old.what != new.what:
            reason = f"{one(old.what)} is not {one(new.what)}"
            return incompatible(self, snapshot, "TIME-5", reason, KEEP_OLD_TYPE, CONVERTER)
        if old.zone != new.zone:
            reason = (
                f"{stored.name} is {_bound(old)}, and {self.row.name} is {_bound(new)}: a zone would have to be assumed"
            )
            way = converter_that("which time zone is meant")
            return incompatible(self, snapshot, "TIME-4", reason, way, KEEP_OLD_TYPE)
        if old.per_second > new.per_second:
            way = converter_that("how values are rounded")
            reason = f"{stored.name} holds finer fractions of a second than {self.row.name}"
            return incompatible(self, snapshot, "TIME-3", reason, way, KEEP_OLD_TYPE)
        return self._from_moment(snapshot, finer=old.per_second < new.per_second)

    def _remarks(self) -> tuple[Finding, ...]:
        """Return the finding that Python's own type cannot hold every stored value, which then fails (V-5)."""
        if self.exact or not self.row.python_holds:
            return ()
        exact = self.value_class.__name__
        reason = f"Python's {self.row.python_holds}; a stored value beyond that would fail, other than with {exact}"
        way = f"declare the type stateshift.{exact}, which is exact"
        flags = (Flag.MAY_FAIL_PER_VALUE,)
        return (Finding("$", "TIME-1", Verdict.COMPATIBLE, self.row.name, self.row.name, reason, (way,), flags),)

    def _from_moment(self, snapshot: TemporalSnapshot, *, finer: bool) -> CompatibilityResult[Any]:
        """Take over the same points in time in other bytes: in a finer unit (TIME-2), or in another class (FAM-4)."""
        if finer:
            rule, reason = "TIME-2", "the same moment in a finer unit, in other bytes"
        else:
            rule, reason = "FAM-4", "the same moment in the same unit, in other bytes"
        may_not_fit = snapshot.serializer.row.meaning.per_second == _NANOS and not isinstance(self, InstantSerializer)
        finding = Finding(
            "$", rule, Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(), reason,
            (by_migration("each value is the same moment afterwards"), KEEP_OLD_TYPE),
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


_NANOS_OF_SECOND = rewrite.Ranged(4, 0, 999_999_999)
_DATE = (rewrite.Date(),)
_TIME = (rewrite.Ranged(1, 0, 23), rewrite.Ranged(1, 0, 59), rewrite.Ranged(1, 0, 59), _NANOS_OF_SECOND)
_NO_DATE, _NO_TIME = (_INT_NULL, *_SHORT_NULL), (-128, *_SHORT_NULL, _INT_NULL)


class InstantSerializer(TemporalSerializer):
    """Flink's Instant: the serializer for `datetime`, `AwareDatetime` and `Instant` (exact)."""

    row = Time(
        "instant", "Instant", "java.time.Instant", ">qi", "Instant", null=(LONG_NULL, _INT_NULL),
        value_class=Instant, meaning=Meaning(DATETIME, A_MOMENT, _NANOS), python_holds=YEARS_AND_MICROS,
        stays=rewrite.Sequence((rewrite.Ranged(8, FIRST_SECOND, LAST_SECOND), _NANOS_OF_SECOND)),
    )  # fmt: skip


class LocalDateSerializer(TemporalSerializer):
    """Flink's LocalDate: the serializer for `date` and `LocalDate` (exact)."""

    row = Time(
        "date", "LocalDate", "java.time.LocalDate", ">ibb", "LocalDate", null=_NO_DATE, arrow="date32",
        value_class=LocalDate, meaning=Meaning(DATE, "", 0), python_holds="date holds the years 1 to 9999",
        stays=rewrite.Sequence(_DATE),
    )  # fmt: skip


class LocalTimeSerializer(TemporalSerializer):
    """Flink's LocalTime: the serializer for `time` and `LocalTime` (exact)."""

    row = Time(
        "time", "LocalTime", "java.time.LocalTime", ">bbbi", "LocalTime", null=_NO_TIME,
        value_class=LocalTime, meaning=Meaning(TIME, "", _NANOS), python_holds="time holds microseconds",
        stays=rewrite.Sequence(_TIME),
    )  # fmt: skip


class LocalDateTimeSerializer(TemporalSerializer):
    """Flink's LocalDateTime: the serializer for `NaiveDatetime` and `LocalDateTime` (exact)."""

    row = Time(
        "local datetime", "LocalDateTime", "java.time.LocalDateTime", ">ibbbbbi", "LocalDateTime",
        null=(*_NO_DATE, *_NO_TIME), value_class=LocalDateTime, meaning=Meaning(DATETIME, "", _NANOS),
        python_holds=YEARS_AND_MICROS, stays=rewrite.Sequence((*_DATE, *_TIME)),
    )  # fmt: skip


InstantSerializerSnapshot = snapshot_of(InstantSerializer, TemporalSnapshot)
LocalDateSerializerSnapshot = snapshot_of(LocalDateSerializer, TemporalSnapshot)
LocalTimeSerializerSnapshot = snapshot_of(LocalTimeSerializer, TemporalSnapshot)
LocalDateTimeSerializerSnapshot = snapshot_of(LocalDateTimeSerializer, TemporalSnapshot)


_IN_ZONE_OF_JVM = "stored as a moment in the time zone of its JVM"
_MILLIS = rewrite.Sequence((rewrite.Ranged(8, LONG_NULL + 1, -LONG_NULL - 1),))


class DateSerializer(TemporalSerializer):
    """Flink's Date, which is `java.util.Date`: the serializer for `JavaDate` (exact)."""

    row = Time(
        "java.util.Date", "Date", "java.util.Date", ">q", "JavaDate", null=(LONG_NULL,), stays=_MILLIS,
        value_class=JavaDate, meaning=Meaning(DATETIME, A_MOMENT, 1000), python_holds=YEARS,
    )  # fmt: skip


class SqlDateSerializer(TemporalSerializer):
    """Flink's SqlDate: the serializer for `SqlDate`; always exact, because Python has no type for it."""

    row = Time(
        "java.sql.Date", "SqlDate", "java.sql.Date", ">q", "SqlDate", null=(LONG_NULL,), stays=_MILLIS,
        value_class=SqlDate, meaning=Meaning(DATE, _IN_ZONE_OF_JVM, 0),
    )  # fmt: skip


class SqlTimeSerializer(TemporalSerializer):
    """Flink's SqlTime: the serializer for `SqlTime`; always exact, because Python has no type for it."""

    row = Time(
        "java.sql.Time", "SqlTime", "java.sql.Time", ">q", "SqlTime", null=(LONG_NULL,), stays=_MILLIS,
        value_class=SqlTime, meaning=Meaning(TIME, _IN_ZONE_OF_JVM, 1000),
    )  # fmt: skip


class SqlTimestampSerializer(TemporalSerializer):
    """Flink's SqlTimestamp: the serializer for `SqlTimestamp` (exact)."""

    row = Time(
        "java.sql.Timestamp", "SqlTimestamp", "java.sql.Timestamp", ">qi", "SqlTimestamp", null=(LONG_NULL, 0),
        stays=None, value_class=SqlTimestamp, meaning=Meaning(DATETIME, A_MOMENT, 1_000_000_000),
        python_holds=YEARS_AND_MICROS,
    )  # fmt: skip

    def _null_bytes(self) -> bytes:
        raise ValueNotConvertible(
            "a null cannot be written as java.sql.Timestamp: Flink reads it back wrongly, and all that follows it",
            advice="declare the type optional (… | None), which has a null flag of its own",
        )


DateSerializerSnapshot = snapshot_of(DateSerializer, TemporalSnapshot)
SqlDateSerializerSnapshot = snapshot_of(SqlDateSerializer, TemporalSnapshot)
SqlTimeSerializerSnapshot = snapshot_of(SqlTimeSerializer, TemporalSnapshot)
SqlTimestampSerializerSnapshot = snapshot_of(SqlTimestampSerializer, TemporalSnapshot)


TIMES: tuple[type[TemporalSerializer], ...] = (
    InstantSerializer, LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer,
    DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer,
)  # fmt: skip
