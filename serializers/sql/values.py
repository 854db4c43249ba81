"""`RowData` and `TimestampData`: values of Flink SQL that Python has no type for.

    CHAR, VARCHAR      str        TINYINT to BIGINT          int
    BINARY, VARBINARY  bytes      FLOAT, DOUBLE              float
    BOOLEAN            bool       DATE                       int: days since 1970
    DECIMAL            Decimal    TIME                       int: milliseconds of the day
    ARRAY              list       INTERVAL…                  int: months, or milliseconds
    MAP, MULTISET      dict       TIMESTAMP, TIMESTAMP_LTZ   `TimestampData`
    ROW, STRUCTURED    `RowData`  RAW                        bytes

These are the values of Flink's own `RowData`; a column of a DataFrame has dates and times.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs

from ..errors import ValueNotConvertible
from ..rows.values import Row, RowKind
from ..stored_names import lasting

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a time stamp of SQL is in no zone
_NANOS_PER_MILLI = 1_000_000


@lasting
@attrs.frozen(order=True)
class TimestampData:
    """A time stamp, exactly as Flink holds it.

    Attributes:
        millisecond: Milliseconds since 1970, of the local time, or in UTC for TIMESTAMP_LTZ.
        nano_of_millisecond: Nanoseconds within it, 0 to 999,999.
    """

    millisecond: int
    nano_of_millisecond: int = 0

    def to_datetime(self) -> dt.datetime:
        """Return the time stamp as Python has it, without a zone.

        Raises:
            ValueNotConvertible: It is finer than a microsecond, or not in the years 1 to 9999.
        """
        micros, rest = divmod(self.nano_of_millisecond, 1000)
        try:
            found = _EPOCH + dt.timedelta(milliseconds=self.millisecond, microseconds=micros)
        except OverflowError:
            raise ValueNotConvertible(f"{self} is not in the years 1 to 9999, which datetime holds") from None
        if rest:
            raise ValueNotConvertible(f"{self} is finer than a microsecond, which datetime holds")
        return found


@lasting
class RowData(Row[*tuple[Any, ...]]):
    """A row of Flink SQL: a `Row` whose stored bytes may differ from those that Flink's serializer of rows writes.

    Generated code of Flink writes some nulls otherwise, and keys are compared as bytes. So a row with other bytes keeps
    them, is written with them again, and is not equal to the row that has the same fields.
    """

    __slots__ = ("_stored",)

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._stored = b""  # as those of `encode_row`

    @classmethod
    def _read(cls, values: list[Any], kind: RowKind) -> RowData:
        row = cls()
        row._values, row._kind = tuple(values), kind
        return row

    def _identity(self) -> Any:
        return self._kind, self._values, self._stored

    def __getstate__(self) -> Any:
        return (*super().__getstate__(), self._stored)

    def __setstate__(self, state: Any) -> None:
        *held, self._stored = state
        super().__setstate__(tuple(held))
