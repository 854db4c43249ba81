"""Limits of the format: what exceeds them is refused, with advice, before anything is published.

    a key or a value of an entry   2^31 - 1 bytes: its length is an i32
    a name                         65,535 bytes of modified UTF-8: its length is a u16
    a type                         100 levels; ours: whoever reads a stored snapshot must not run out of stack
    the header of a stream         64 MiB; ours: it is read at once

Source: format notes 1.1 and 5.2.
"""

from __future__ import annotations

from .errors import DeclarationError, ValueNotConvertible
from .views import MAX_NAME_BYTES, encode_modified_utf8

MAX_VALUE_BYTES = (1 << 31) - 1
MAX_NESTING = 100
MAX_HEADER_BYTES = 64 << 20
_MOST_BYTES_OF_A_CHARACTER = 6
_SHOWN = 40


def require_room(size_bytes: int, *, is_key: bool = False) -> None:
    """Refuse a key or a value that is too large for an entry. The key of an entry includes namespace and map key.

    Flink's RocksDB backend lets a list state grow past this limit, writes it, and fails on the next read.

    Raises:
        ValueNotConvertible: The size exceeds the limit.
    """
    if size_bytes > MAX_VALUE_BYTES:
        raise ValueNotConvertible(
            f"a {'key' if is_key else 'value'} takes {size_bytes:,} bytes, but an entry holds at most"
            f" {MAX_VALUE_BYTES:,}: Flink could not read it back",
            advice="use a shorter key, such as a hash of it"
            if is_key
            else "spread the list over several keys, or shorten it in a converter",
        )


def require_nesting(levels: int) -> None:
    """Refuse to write a type in more levels of others than are read back.

    Args:
        levels: The number of types that contain it.

    Raises:
        DeclarationError: There are too many.
    """
    if levels >= MAX_NESTING:
        raise DeclarationError(
            f"the type is nested more than {MAX_NESTING} levels deep, and could not be read back",
            advice="declare fewer levels: a record that refers to itself takes two, whatever the depth of its values",
        )


def require_header(size_bytes: int) -> None:
    """Refuse to write a header of a stream that would not be read back.

    Raises:
        DeclarationError: It is too large.
    """
    if size_bytes > MAX_HEADER_BYTES:
        raise DeclarationError(
            f"the types of an operator take {size_bytes:,} bytes, but the header of a stream is read up to"
            f" {MAX_HEADER_BYTES:,}",
            advice="divide the states among several operators, or declare fewer fields",
        )


def require_name(name: str, what: str) -> None:
    """Refuse a name that is too long for a header.

    Args:
        name: The name of a state, an operator or a field.
        what: What it names, such as "a state".

    Raises:
        DeclarationError: It is too long.
    """
    if (
        len(name) * _MOST_BYTES_OF_A_CHARACTER > MAX_NAME_BYTES
        and (size := len(encode_modified_utf8(name))) > MAX_NAME_BYTES
    ):
        raise DeclarationError(
            f"the name of {what} takes {size:,} bytes, but the format allows {MAX_NAME_BYTES:,}: {name[:_SHOWN]!r}…",
            advice="choose a shorter name",
        )
