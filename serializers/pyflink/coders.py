"""Values as PyFlink's coders write them, where Flink's own serializers write them otherwise.

    STRING, CHAR   i32 n, n bytes of UTF-8          SQL_DATE       i32 days since 1970-01-01
    BIG_DEC        i32 n, n bytes of `str(value)`   SQL_TIME       i32 milliseconds of the day
                                                    SQL_TIMESTAMP  i64 milliseconds since 1970, in no time zone

A coder cuts a finer time of day without a word; here it is refused. Of a time before 1970 that has milliseconds, the
coder writes another time; here the right one is written, which the coder reads.

Source: `pyflink.fn_execution.coders` and `coder_impl_fast` of PyFlink 2.3, compared with them in `tests/interop`.
"""

from __future__ import annotations

import datetime as dt
import decimal
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from .. import rewrite
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..primitives.numeric import DecimalSerializer
from ..primitives.text import StringSerializer
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, snapshot_of
from ..serializer import Counterpart, TypeSerializer, unrelated
from ..snapshot import OWN_PREFIX
from ..temporal.serializers import LocalDateSerializer, LocalDateTimeSerializer, LocalTimeSerializer
from ..temporal.values import LocalDate, LocalDateTime, LocalTime, TemporalValue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..compatibility import CompatibilityResult
    from ..snapshot import TypeSerializerConfigSnapshot
    from ..views import DataInputView, DataOutputView

T = TypeVar("T")

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH, _MILLI = dt.datetime(1970, 1, 1), dt.timedelta(milliseconds=1)  # noqa: DTZ001 - in no time zone
_FIRST, _LAST = dt.datetime.min, dt.datetime.max  # noqa: DTZ901 - likewise
_DAY_MILLIS = 86_400_000


def _as_it_is(value: Any) -> Any:
    return value


class CoderSnapshot(ScalarSnapshot[T]):
    """Base of the snapshots of coders. Flink knows only the `byte[]` around, so they stand in no savepoint."""

    version: ClassVar[int] = 1
    serializer: ClassVar[type[CoderSerializer[Any]]]

    def get_compatible_versions(self) -> Collection[int]:
        return (1,)

    def read(self, source: DataInputView) -> None:
        """Read nothing: the id is the whole description."""

    def counterpart(self) -> Counterpart | None:
        """Return the type of Flink that has the same values (FAM-4)."""
        return Counterpart(*self.serializer.same_as)


@attrs.frozen
class CoderSerializer(ScalarSerializer[T]):
    """Base of the serializers that write as coders do."""

    same_as: ClassVar[tuple[TypeSerializer[Any], Callable[[Any], Any], Callable[[Any], Any]]]
    """Flink's serializer of the same values, and conversions to its values and back."""

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if snapshot == self.snapshot():
            return super().ensure_compatibility(snapshot)
        return unrelated(self, snapshot)


def _write_text(text: str, target: DataOutputView) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ValueNotConvertible(
            f"{shown(text)} contains a lone surrogate, which no coder of PyFlink writes", advice="replace it"
        ) from error
    target.write_int(len(data))
    target.write(data)


def _read_text(source: DataInputView) -> str:
    start = source.position
    try:
        return source.read_fully(source.read_size("bytes of a text")).decode()
    except UnicodeDecodeError as error:
        raise CorruptSavepoint(f"bytes of a text are not UTF-8: {error.reason}", offset=start) from error


class CoderStringSerializer(CoderSerializer[str]):
    """The coder of `Types.STRING()` and `Types.CHAR()`: for `str` and `Char`."""

    row = Scalar("PyFlink string", "CoderString", "", "", "str", arrow="string", stays=rewrite.Utf8())
    same_as = StringSerializer(), _as_it_is, _as_it_is

    def serialize(self, value: str, target: DataOutputView) -> None:
        if not isinstance(value, str):
            raise ValueNotConvertible(f"{shown(value)} is not a string")
        _write_text(value, target)

    def deserialize(self, source: DataInputView) -> str:
        return _read_text(source)


class CoderDecimalSerializer(CoderSerializer[decimal.Decimal]):
    """The coder of `Types.BIG_DEC()`: for `Decimal`, any that Python has."""

    row = Scalar("PyFlink decimal", "CoderDecimal", "", "", "Decimal", stays=rewrite.Utf8())
    same_as = DecimalSerializer(), _as_it_is, _as_it_is

    def serialize(self, value: decimal.Decimal, target: DataOutputView) -> None:
        if not isinstance(value, decimal.Decimal):
            raise ValueNotConvertible(f"{shown(value)} is not a Decimal")
        _write_text(str(value), target)

    def deserialize(self, source: DataInputView) -> decimal.Decimal:
        start, text = source.position, _read_text(source)
        try:
            value = decimal.Decimal(text)
        except decimal.InvalidOperation:
            value = None
        if value is None or str(value) != text:
            raise CorruptSavepoint(f"{shown(text)} is not what Python writes of a Decimal", offset=start)
        return value


def _as_python(value: Any) -> Any:
    """Return a value of Python's `datetime` module for an exact one."""
    return value.to_python() if isinstance(value, TemporalValue) else value


@attrs.frozen
class CoderTemporalSerializer(CoderSerializer[T]):
    """Base of the coders of dates and times, which write one number."""

    row: ClassVar[Scalar]
    exact: ClassVar[type[TemporalValue]]
    """The class of exact values, which checks a value of Python's."""

    def serialize(self, value: Any, target: DataOutputView) -> None:
        checked = value if isinstance(value, self.exact) else self.exact.from_python(value)
        target.write(self.row.packing.pack(self._number(checked.to_python())))

    def deserialize(self, source: DataInputView) -> Any:
        start, number = source.position, source.unpack(self.row.packing)[0]
        try:
            return self._value(number)
        except (ValueError, OverflowError) as error:
            raise CorruptSavepoint(f"{number} is the number of no {self.describe()}", offset=start) from error

    @abstractmethod
    def _number(self, value: Any) -> int:
        """Return the number that is written for a value of Python."""

    @abstractmethod
    def _value(self, number: int) -> Any:
        """Return the value of a number."""


def _whole(value: Any, micros: int) -> int:
    millis, finer = divmod(micros, 1000)
    if finer:
        raise ValueNotConvertible(
            f"{shown(value)} is finer than milliseconds, and PyFlink's coder writes no more",
            advice="round it first; or use Types.INSTANT(), which holds nanoseconds",
        )
    return millis


class CoderDateSerializer(CoderTemporalSerializer[dt.date]):
    """The coder of `Types.SQL_DATE()`, whose values are `datetime.date` in Python."""

    row = Scalar(
        "PyFlink date", "CoderDate", "", ">i", "SqlDate", arrow="date32",
        stays=rewrite.Ranged(4, 1 - _EPOCH_DAY, dt.date.max.toordinal() - _EPOCH_DAY),
    )  # fmt: skip
    exact = LocalDate
    same_as = LocalDateSerializer(exact=True), LocalDate.from_python, _as_python

    def _number(self, value: dt.date) -> int:
        return value.toordinal() - _EPOCH_DAY

    def _value(self, number: int) -> dt.date:
        return dt.date.fromordinal(number + _EPOCH_DAY)


class CoderTimeSerializer(CoderTemporalSerializer[dt.time]):
    """The coder of `Types.SQL_TIME()`, whose values are `datetime.time` in Python, to the millisecond."""

    row = Scalar("PyFlink time", "CoderTime", "", ">i", "SqlTime", stays=rewrite.Ranged(4, 0, _DAY_MILLIS - 1))
    exact = LocalTime
    same_as = LocalTimeSerializer(exact=True), LocalTime.from_python, _as_python

    def _number(self, value: dt.time) -> int:
        return _whole(value, ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)

    def _value(self, number: int) -> dt.time:
        seconds, millis = divmod(number, 1000)
        minutes, second = divmod(seconds, 60)
        return dt.time(*divmod(minutes, 60), second, millis * 1000)


class CoderTimestampSerializer(CoderTemporalSerializer[dt.datetime]):
    """The coder of `Types.SQL_TIMESTAMP()`, whose values are `datetime.datetime` without a zone, to the millisecond."""

    row = Scalar(
        "PyFlink timestamp", "CoderTimestamp", "", ">q", "SqlTimestamp",
        stays=rewrite.Ranged(8, (_FIRST - _EPOCH) // _MILLI, (_LAST - _EPOCH) // _MILLI),
    )  # fmt: skip
    exact = LocalDateTime
    same_as = LocalDateTimeSerializer(exact=True), LocalDateTime.from_python, _as_python

    def _number(self, value: dt.datetime) -> int:
        return _whole(value, (value - _EPOCH) // dt.timedelta(microseconds=1))

    def _value(self, number: int) -> dt.datetime:
        return _EPOCH + number * _MILLI


def _registered(serializer: type[CoderSerializer[Any]]) -> type[ScalarSnapshot[Any]]:
    name = serializer.row.name.removeprefix("PyFlink ")
    return snapshot_of(serializer, CoderSnapshot, snapshot_id=f"{OWN_PREFIX}pyflink.{name}")


CoderStringSerializerSnapshot = _registered(CoderStringSerializer)
CoderDecimalSerializerSnapshot = _registered(CoderDecimalSerializer)
CoderDateSerializerSnapshot = _registered(CoderDateSerializer)
CoderTimeSerializerSnapshot = _registered(CoderTimeSerializer)
CoderTimestampSerializerSnapshot = _registered(CoderTimestampSerializer)

CODERS: tuple[type[CoderSerializer[Any]], ...] = (
    CoderStringSerializer, CoderDecimalSerializer, CoderDateSerializer, CoderTimeSerializer, CoderTimestampSerializer,
)  # fmt: skip
