"""Java's `DataInput` and `DataOutput` over Python buffers.

Everything is big-endian and unaligned. Source: format notes, section 1.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .errors import CorruptSavepoint, ValueNotConvertible, shown

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORT, _UNSIGNED_SHORT = struct.Struct(">h"), struct.Struct(">H")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_FLOAT, _DOUBLE = struct.Struct(">f"), struct.Struct(">d")
MAX_NAME_BYTES, _SHOWN = 0xFFFF, 40
_MAX_VARINT_BYTES = 5
SEPARATOR = b"\x2c"
"""The byte between the elements of a list state."""


def split_surrogates(text: str) -> str:
    """Replace every character outside the BMP by its two surrogates, as Java holds it."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))


def encode_modified_utf8(text: str) -> bytes:
    """Encode as Java's modified UTF-8: NUL as two bytes, surrogates one by one (format notes 1.1)."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    return split_surrogates(text).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode_modified_utf8(data: bytes) -> str:
    """Decode modified UTF-8; raises `CorruptSavepoint` on anything that Java would not have written."""
    if data.isascii() and b"\0" not in data:
        return data.decode("ascii")
    try:
        split = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        text = split.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptSavepoint("a name is not valid modified UTF-8") from error
    if encode_modified_utf8(text) != data:
        raise CorruptSavepoint("a name is not valid modified UTF-8")
    return text


class DataInputView:
    """Reads Java `DataInput` values from a buffer; every short read raises `CorruptSavepoint` with the position.

    Args:
        data: The bytes to read from.
        position: Where to start.
        end: Where the readable part ends; by default at the end of `data`.
    """

    __slots__ = ("_data", "end", "nesting", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self._data = data
        self.position = position
        self.nesting = 0
        self.end = len(data) if end is None else end

    def remaining(self) -> int:
        """Return the number of bytes left to read."""
        return self.end - self.position

    def _take(self, size: int) -> int:
        start = self.position
        if size < 0 or size > self.end - start:
            raise CorruptSavepoint(
                f"{size} bytes were expected, but only {self.end - start} are left",
                offset=start,
            )
        self.position = start + size
        return start

    def skip_bytes(self, size: int) -> None:
        """Move on by `size` bytes."""
        self._take(size)

    def read_fully(self, size: int) -> bytes:
        """Read exactly `size` bytes; the size is checked before anything is allocated."""
        start = self._take(size)
        return self._data[start : start + size]

    def span(self, start: int) -> bytes:
        """Return the bytes from `start` to the current position."""
        return self._data[start : self.position]

    def part(self, start: int, size: int) -> DataInputView:
        """Return a view of a part; positions stay those of the whole, so that its errors name the right byte."""
        view = DataInputView(self._data, start, start + size)
        view.nesting = self.nesting
        return view

    def peek(self, size: int) -> bytes:
        """Return up to `size` bytes ahead, without moving."""
        return self._data[self.position : min(self.position + size, self.end)]

    def read_byte(self) -> int:
        """Read an i8."""
        value = self.read_unsigned_byte()
        return value - 256 if value > 127 else value

    def read_unsigned_byte(self) -> int:
        """Read a u8."""
        position = self.position
        if position >= self.end:
            self._take(1)
        self.position = position + 1
        return self._data[position]

    def read_zigzag(self, bits: int) -> int:
        """Read a signed number of up to so many bits, seven in a byte, low bits first, as Avro has it."""
        start = at = self.position
        data, end = self._data, self.end
        if at < end and (byte := data[at]) < 0x80:  # most numbers are small
            self.position = at + 1
            return byte >> 1 ^ -(byte & 1)
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            if byte < 0x80:
                value |= byte << shift
                if value >> bits:
                    break
                self.position = at
                return value >> 1 ^ -(value & 1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift >= bits:
                break
        else:
            self.position = at
            self._take(1)  # raises: the number goes on, and the bytes do not
        raise CorruptSavepoint(f"a number does not fit {bits} bits", offset=start)

    def read_varint(self) -> int:
        """Read a number of seven bits per byte, low bits first, with the top bit set on all bytes but the last."""
        value = self.read_unsigned_byte()
        if value < 0x80:
            return value
        value &= 0x7F
        start = self.position - 1
        for index in range(1, _MAX_VARINT_BYTES):
            byte = self.read_unsigned_byte()
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise CorruptSavepoint("a variable-length number does not end", offset=start)

    def read_boolean(self) -> bool:
        """Read a bool: 0 is false, 1 is true; other bytes, which Java never writes, are an error."""
        value = self.read_unsigned_byte()
        if value > 1:
            raise CorruptSavepoint(f"byte {value:#04x} where a boolean was expected", offset=self.position - 1)
        return value == 1

    def read_short(self) -> int:
        """Read an i16."""
        value: int = _SHORT.unpack_from(self._data, self._take(2))[0]
        return value

    def read_unsigned_short(self) -> int:
        """Read a u16."""
        value: int = _UNSIGNED_SHORT.unpack_from(self._data, self._take(2))[0]
        return value

    def read_int(self) -> int:
        """Read an i32."""
        value: int = _INT.unpack_from(self._data, self._take(4))[0]
        return value

    def read_long(self) -> int:
        """Read an i64."""
        value: int = _LONG.unpack_from(self._data, self._take(8))[0]
        return value

    def read_float(self) -> float:
        """Read an f32."""
        value: float = _FLOAT.unpack_from(self._data, self._take(4))[0]
        return value

    def read_double(self) -> float:
        """Read an f64."""
        value: float = _DOUBLE.unpack_from(self._data, self._take(8))[0]
        return value

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Read the numbers of a `struct` format, such as `struct.Struct(">ibb")`."""
        return form.unpack_from(self._data, self._take(form.size))

    def read_utf(self) -> str:
        """Read a UTF string (format notes 1.1)."""
        start = self._take(2)
        size = self._data[start] << 8 | self._data[start + 1]
        start = self._take(size)
        return decode_modified_utf8(self._data[start : start + size])

    def read_size(self, what: str, *, least_bytes_each: int = 1) -> int:
        """Read an i32 count and refuse one that the remaining bytes cannot hold, before anything is allocated."""
        start = self.position
        count = self.read_int()
        if count < 0 or count * least_bytes_each > self.remaining():
            raise CorruptSavepoint(
                f"{count} {what} are declared, but only {self.remaining()} bytes are left", offset=start
            )
        return count

    def expect(self, value: int, what: str) -> None:
        """Read an i32, and refuse any other value than `value`."""
        start = self.position
        found = self.read_int()
        if found != value:
            raise CorruptSavepoint(f"{what} should be {value:#x}, but is {found:#x}", offset=start)


class DataOutputView:
    """Writes Java `DataOutput` values into a growing buffer; out-of-range values raise `ValueNotConvertible`."""

    __slots__ = ("_data", "nesting", "write")

    def __init__(self) -> None:
        self._data = bytearray()
        self.nesting = 0
        self.write: Callable[[bytes | memoryview], None] = self._data.extend

    def __len__(self) -> int:
        return len(self._data)

    def getvalue(self) -> bytes:
        """Return everything written so far."""
        return bytes(self._data)

    def taken(self) -> bytes:
        """Return everything written so far, and clear the buffer."""
        data = bytes(self._data)
        self._data.clear()
        return data

    def _pack(self, form: struct.Struct, value: float, kind: str) -> None:
        try:
            self._data += form.pack(value)
        except (struct.error, OverflowError) as error:
            raise ValueNotConvertible(f"{shown(value)} does not fit {kind}") from error

    def write_byte(self, value: int) -> None:
        """Write the low eight bits."""
        self._data.append(value & 0xFF)

    def write_boolean(self, value: bool) -> None:  # noqa: FBT001 - Java's name and signature
        """Write a bool as 0 or 1."""
        self._data.append(1 if value else 0)

    def write_short(self, value: int) -> None:
        """Write an i16."""
        self._pack(_SHORT, value, "a short (16 bits)")

    def write_unsigned_short(self, value: int) -> None:
        """Write a u16."""
        self._pack(_UNSIGNED_SHORT, value, "an unsigned short (16 bits)")

    def write_int(self, value: int) -> None:
        """Write an i32."""
        self._pack(_INT, value, "an int (32 bits)")

    def write_long(self, value: int) -> None:
        """Write an i64."""
        self._pack(_LONG, value, "a long (64 bits)")

    def write_float(self, value: float) -> None:
        """Write an f32."""
        self._pack(_FLOAT, value, "a float (32 bits)")

    def write_double(self, value: float) -> None:
        """Write an f64."""
        self._pack(_DOUBLE, value, "a double (64 bits)")

    def write_utf(self, text: str) -> None:
        """Write a UTF string of at most 65535 bytes (format notes 1.1)."""
        data = encode_modified_utf8(text)
        size = len(data)
        if size > MAX_NAME_BYTES:
            raise ValueNotConvertible(
                f"a name takes {size:,} bytes, but the format allows {MAX_NAME_BYTES:,}: {shown(text, _SHOWN)}",
                advice="choose a shorter name",
            )
        self._data += size.to_bytes(2, "big")
        self._data += data
