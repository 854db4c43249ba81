"""The reference time of a run: the value of new time stamps, and the time by which other values have expired.

Stamps are whole milliseconds, so a reference time is truncated to them, and equal times produce equal bytes (RUN-5).
Source: rules STATE-4 and STATE-5.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..serializers.errors import DeclarationError, shown

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_WAY = "write a date and a time with its zone: 2026-01-31T12:00:00Z, or +02:00 at the end"


def now() -> datetime:
    """Return the current time."""
    return checked_time(datetime.now(UTC))


def checked_time(time: datetime) -> datetime:
    """Return a time in UTC, truncated to milliseconds.

    Raises:
        DeclarationError: It has no time zone, or is outside the years 1 to 9999 in UTC.
    """
    if time.utcoffset() is None:
        raise DeclarationError.before_writing(f"the reference time {time.isoformat()} has no time zone", advice=_WAY)
    try:
        time = time.astimezone(UTC)
    except OverflowError as error:
        raise DeclarationError.before_writing(
            f"the reference time {time.isoformat()} cannot be converted to UTC: {error}",
            advice=_WAY,
        ) from error
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def parse_time(text: str) -> datetime:
    """Read a time in the format of `time_text`, or in another form of ISO 8601 with a time zone.

    Raises:
        DeclarationError: The text is not such a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise DeclarationError(f"{shown(text)} is not a valid time: {error}", advice=_WAY) from error
    return checked_time(time)


def time_text(time: datetime) -> str:
    """Return a time in UTC as text: `2026-01-31T12:00:00.000Z`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def length_text(length: timedelta) -> str:
    """Return a duration in words: `1 day`, `90 days 12:00:00`."""
    return str(length).removesuffix(", 0:00:00").replace(",", "")


def age_text(millis: int) -> str:
    """Return a length of time in the largest unit of which it has one, as `3.5 h`."""
    for size, unit in _UNITS:
        if millis >= size:
            return f"{millis / size:,.1f} {unit}".replace(".0 ", " ")
    return f"{millis} ms"


def length_ms(length: timedelta) -> int:
    """Return a duration in whole milliseconds, as Flink stores it."""
    return length // _MILLISECOND


def milliseconds(time: datetime) -> int:
    """Return a time as a time stamp: milliseconds since 1970 UTC."""
    return (time - _EPOCH) // _MILLISECOND


def millis_text(millis: int) -> str:
    """Return a time in milliseconds since 1970, in UTC; any number can be told."""
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(" ")
    except OverflowError:
        return f"{millis} ms since 1970"
