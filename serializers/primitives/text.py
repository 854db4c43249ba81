"""Strings and chars: Flink's STR and u16, their snapshots, and rule TEXT-2.

    string  varint of the number of UTF-16 units + 1 (0 is null, 1 is empty), then each unit as a varint
    char    u16, one UTF-16 unit; there is no null form

A varint has seven bits per byte, low bits first, with the top bit set on all bytes but the last.
Source: format notes 1.2 and 7.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import rewrite
from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..scalars import Scalar, ScalarSerializer, snapshot_of
from ..serializer import CONVERTER, KEEP_OLD_TYPE, converter_that, unrelated
from ..ways_out import by_migration

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot
    from ..views import DataInputView, DataOutputView

_SHORT = [bytes([size]) for size in range(0x80)]
"""The sizes that take one byte."""
_MOST_UNIT_BYTES, _LAST_UNIT = 3, "\uffff"
_UNITS_AT_ONCE = 1 << 20
"""Units are converted in blocks, because a unit takes eight times its bytes while it is a Python number."""
_MAX_UNITS = 0x7FFFFFFE  # one less than Java's longest, since the length is stored plus one


def _append_varint(data: bytearray, value: int) -> None:
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


def write_string(value: str | None, target: DataOutputView) -> None:
    """Write a string, or the null form."""
    if value and len(value) < 0x7F and value.isascii():  # as most are
        target.write(_SHORT[len(value) + 1] + value.encode("ascii"))
        return
    data = bytearray()
    if value is None:
        data.append(0)
    elif value.isascii():
        _append_varint(data, len(value) + 1)
        target.write(bytes(data))
        target.write(value.encode("ascii"))
        return
    else:
        utf16 = value.encode("utf-16-be", "surrogatepass")
        count = len(utf16) // 2
        if count > _MAX_UNITS:
            raise ValueNotConvertible(f"a string of {count} UTF-16 units is longer than a Java string can be")
        _append_varint(data, count + 1)
        for start in range(0, count, _UNITS_AT_ONCE):
            for unit in struct.unpack_from(f">{min(_UNITS_AT_ONCE, count - start)}H", utf16, 2 * start):
                _append_varint(data, unit)
    target.write(bytes(data))


def read_string(source: DataInputView) -> str | None:
    """Read a string; None is the null form."""
    start = source.position
    size = source.read_varint()
    if size <= 1:
        return None if size == 0 else ""
    count = size - 1
    if count > source.remaining():
        raise CorruptSavepoint(
            f"a string of {count} UTF-16 units is declared, but only {source.remaining()} bytes are left", offset=start
        )
    data = source.peek(count)
    if data.isascii():
        source.skip_bytes(count)
        return data.decode("ascii")
    del data  # keep only one copy of a long string
    utf16 = bytearray()
    for done in range(0, count, _UNITS_AT_ONCE):
        wanted = min(_UNITS_AT_ONCE, count - done)
        units = _read_units(wanted, source)
        if len(units) < wanted:
            raise CorruptSavepoint(
                f"a string ends, or is not valid UTF-16, after {done + len(units)} of {count} units",
                offset=source.position,
            )
        utf16 += struct.pack(f">{wanted}H", *units)
    return utf16.decode("utf-16-be", "surrogatepass")


def _read_units(count: int, source: DataInputView) -> list[int]:
    """Read that many units.

    If there is an invalid or incomplete unit, the position does not move, and the units before it are returned.
    """
    units: list[int] = []
    unit = shift = 0
    for index, byte in enumerate(source.peek(count * _MOST_UNIT_BYTES)):
        unit |= (byte & 0x7F) << shift
        if byte >= 0x80:
            shift += 7
            continue
        if unit > 0xFFFF or (shift and not byte):
            break
        units.append(unit)
        unit = shift = 0
        if len(units) == count:
            source.skip_bytes(index + 1)
            return units
    return units


def utf8_to_text(value: bytes | None) -> str | None:
    """Decode UTF-8 strictly (rule TEXT-2); raises `ValueNotConvertible` instead of inserting replacement characters."""
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueNotConvertible(
            f"{shown(value)} is not UTF-8 (byte {error.start} of {len(error.object)}: {error.reason})",
            advice=converter_that("how such bytes become text"),
            rule="TEXT-2",
        ) from error


@attrs.frozen
class StringSerializer(ScalarSerializer[str]):
    """Flink's String: the serializer for the hint `str`.

    Attributes:
        allow_null: Whether None is read and written, in the format's null form; otherwise None is an error.
    """

    row = Scalar("string", "String", "java.lang.String", "", "str", arrow="string", stays=rewrite.Text())
    restored: ClassVar[dict[str, bool]] = {"allow_null": True}

    allow_null: bool = attrs.field(default=False, eq=False)

    def serialize(self, value: str, target: DataOutputView) -> None:
        if not isinstance(value, str) and not (value is None and self.allow_null):
            raise ValueNotConvertible(f"{shown(value)} is not a string")
        write_string(value, target)

    def deserialize(self, source: DataInputView) -> str:
        value = read_string(source)
        if value is None and not self.allow_null:
            raise ValueNotConvertible("a null is stored where a string is declared")
        return value  # type: ignore[return-value]  # None only with allow_null

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[str]:
        if isinstance(snapshot, StringSerializerSnapshot):
            return CompatibilityResult.compatible()
        if snapshot.kind != "bytes":
            return unrelated(self, snapshot)
        finding = Finding(
            "$", "TEXT-2", Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(),
            "bytes become text where they are UTF-8; others stop the migration",
            (by_migration("bytes are decoded as UTF-8"), CONVERTER, KEEP_OLD_TYPE), (Flag.MAY_FAIL_PER_VALUE,),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=utf8_to_text)


StringSerializerSnapshot = snapshot_of(StringSerializer)


class CharSerializer(ScalarSerializer[str]):
    """Flink's Character: one UTF-16 unit, which may be a lone surrogate; the serializer for the hint `Char`.

    No rule converts chars to anything else, or anything to chars (PRIM-4).
    """

    row = Scalar("char", "Char", "java.lang.Character", ">H", "Char", array="C")

    def serialize(self, value: str, target: DataOutputView) -> None:
        if not (isinstance(value, str) and len(value) == 1 and value <= _LAST_UNIT):
            raise ValueNotConvertible(f"{shown(value)} is not a char: a string of one UTF-16 unit")
        target.write_unsigned_short(ord(value))

    def deserialize(self, source: DataInputView) -> str:
        return chr(source.read_unsigned_short())


CharSerializerSnapshot = snapshot_of(CharSerializer)
