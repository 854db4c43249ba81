"""Key groups: the assignment of keys to a fixed number of groups, and of groups to subtasks.

    key group = murmur(hash of the key) mod max parallelism

Flink uses Java's `hashCode` of the key. This module computes it for numbers, booleans, chars, strings, tuples and
lists of these, rows of these and of byte arrays, and rows of Flink SQL.
Keys of other types (records, enums, decimals, dates) have a Java hash that is unstable or unknown; in operators that
Flink will not restore they are hashed by our own rule: the CRC-32 of the key's serialized bytes, as a signed 32-bit
number. Reading never needs a hash, because every entry contains its key group.

Source: format notes 5.1.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import mmh3

from ..compat.key_hashes import MAX_KEY_GROUPS, ROW_DATA, is_checked, is_stable, murmur
from ..serializers.errors import DeclarationError, ValueNotConvertible, shown
from ..serializers.rows.values import Row
from ..serializers.views import DataOutputView, split_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..serializers.serializer import TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

ONE_BYTE_KEY_GROUPS = 128
_MASK = 0xFFFFFFFF
_TRUE_HASH, _FALSE_HASH = 1231, 1237
_LAST_UNIT, _LAST_BYTE = 0xFFFF, 127
_WORD, _SIZE_BYTES, _ROW_SEED = 32, 4, 42
_FLOAT, _DOUBLE = struct.Struct(">f"), struct.Struct(">d")
_FLOAT_BITS, _DOUBLE_BITS = struct.Struct(">i"), struct.Struct(">q")
_FLOAT_NAN, _DOUBLE_NAN = 0x7FC00000, 0x7FF8000000000000
_INTEGER_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def key_group(hash_code: int, max_parallelism: int) -> int:
    """Return the key group of a key with this hash."""
    return murmur(hash_code) % max_parallelism


def prefix_size(max_parallelism: int) -> int:
    """Return the bytes of the key group before a key: 1 for up to 128 key groups, else 2."""
    return 1 if max_parallelism <= ONE_BYTE_KEY_GROUPS else 2


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """Return the contiguous range of key groups of a subtask."""
    check_parallelism(parallelism, max_parallelism)
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    return range(first, ((subtask + 1) * max_parallelism - 1) // parallelism + 1)


def subtask_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask to which a key group is assigned."""
    return group * parallelism // max_parallelism


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Refuse numbers that Flink does not allow: more than 32,768 key groups, or more subtasks than key groups.

    Raises:
        DeclarationError: The numbers are not allowed; the message has the allowed range.
    """
    if not 0 < parallelism <= max_parallelism <= MAX_KEY_GROUPS:
        raise DeclarationError(
            f"parallelism {parallelism} with max parallelism {max_parallelism} is not possible",
            advice=f"choose 1 <= parallelism <= max parallelism <= {MAX_KEY_GROUPS}",
        )


def has_stable_hash(serializer: TypeSerializer[Any]) -> bool:
    """Whether keys of this type have the same Java hash on every machine, so that Flink finds the written entries."""
    return is_stable(serializer.snapshot_configuration())


def has_checked_hash(serializer: TypeSerializer[Any]) -> bool:
    """Whether the hash of stored keys of this type is recomputed when entries are checked."""
    return is_checked(serializer.snapshot_configuration())


def java_hash(value: Any, serializer: TypeSerializer[Any]) -> int:
    """Return Java's `hashCode` of a key, as a signed 32-bit number.

    Raises:
        DeclarationError: The type has no stable hash; see `has_stable_hash`.
        ValueNotConvertible: The value does not have the serializer's type.
    """
    return _java_hasher(serializer.snapshot_configuration())(value)


def own_hash(key: bytes) -> int:
    """Return the hash of a key's serialized bytes by our own rule, for types without a stable Java hash."""
    return _signed(zlib.crc32(key))


def key_hasher(serializer: TypeSerializer[Any]) -> Callable[[Any], int]:
    """Return the function that hashes keys of this type: Java's hash where it is stable, else our own rule."""
    if has_stable_hash(serializer):
        return _java_hasher(serializer.snapshot_configuration())

    def hashed(value: Any) -> int:
        target = DataOutputView()
        serializer.serialize(value, target)
        return own_hash(target.getvalue())

    return hashed


def _signed(code: int) -> int:
    code &= _MASK
    return code - (1 << 32) if code >= 1 << 31 else code


def _java_hasher(snapshot: TypeSerializerConfigSnapshot[Any]) -> Callable[[Any], int]:
    if not is_stable(snapshot):
        raise DeclarationError(
            f"keys of type {snapshot.describe()} have no hash that is the same on every machine",
            advice="use a number, a string, a boolean, or a tuple, list or row of these as the key",
        )
    if snapshot.kind == "tuple":
        return _tuple_hasher([_java_hasher(child) for child in snapshot.children()])
    if snapshot.kind == ROW_DATA:
        return _row_hasher(snapshot.restore_serializer())
    if snapshot.kind == "list":
        return _list_hasher(_java_hasher(snapshot.children()[0]))
    if snapshot.kind == "row":
        columns = [_bytes_hash if child.kind == "bytes" else _java_hasher(child) for child in snapshot.children()]
        return _columns_hasher(columns, getattr(snapshot, "names", ()))
    return _HASHES[snapshot.describe()]


def _tuple_hasher(fields: Sequence[Callable[[Any], int]]) -> Callable[[Any], int]:
    def hashed(value: Any) -> int:
        if not isinstance(value, tuple) or len(value) != len(fields):
            raise ValueNotConvertible(f"{shown(value)} is not a tuple of {len(fields)} fields")
        code = 0
        for field, item in zip(fields, value, strict=True):
            code = 31 * code + (0 if item is None else field(item))
        return _signed(code)

    return hashed


def _row_hasher(serializer: TypeSerializer[Any]) -> Callable[[Any], int]:
    """Return the hash of binary rows: murmur3 of their bytes. Source: native snapshot notes, 7."""

    def hashed(value: Any) -> int:
        target = DataOutputView()
        serializer.serialize(value, target)
        return mmh3.hash(target.getvalue()[_SIZE_BYTES:], _ROW_SEED)

    return hashed


def _columns_hasher(columns: Sequence[Callable[[Any], int]], names: Sequence[str]) -> Callable[[Any], int]:
    """Return the hash of Flink's `Row`: its kind, and a list of lists of one. Source: `RowUtils` of Flink 2.3."""

    def hashed(value: Any) -> int:
        if not isinstance(value, Row) or len(value) != len(columns):
            raise ValueNotConvertible(f"{shown(value)} is not a row of {len(columns)} columns")
        try:
            items = value.get_fields_by_names(names) if names else value
        except KeyError as error:
            raise ValueNotConvertible(f"{shown(value)} has no column {error.args[0]!r}") from None
        code = 1
        for column, item in zip(columns, items, strict=True):
            code = 31 * code + (0 if item is None else 31 + column(item)) & _MASK
        return _signed(31 * value.get_row_kind().value + code)

    return hashed


def _bytes_hash(value: Any) -> int:
    if not isinstance(value, bytes):
        raise ValueNotConvertible(f"{shown(value)} is not bytes")
    code = 1
    for byte in value:
        code = 31 * code + (byte - 256 if byte > _LAST_BYTE else byte) & _MASK
    return _signed(code)


def _list_hasher(element: Callable[[Any], int]) -> Callable[[Any], int]:
    def hashed(value: Any) -> int:
        if not isinstance(value, list | tuple):
            raise ValueNotConvertible(f"{shown(value)} is not a list")
        code = 1
        for item in value:
            code = 31 * code + element(item) & _MASK
        return _signed(code)

    return hashed


def _big_integer_hash(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueNotConvertible(f"{shown(value)} is not an integer")
    size, code = -(-abs(value).bit_length() // _WORD), 0
    for place in reversed(range(size)):
        code = 31 * code + (abs(value) >> _WORD * place & _MASK) & _MASK
    return _signed(-code if value < 0 else code)


def _integer_hasher(name: str) -> Callable[[Any], int]:
    bits = _INTEGER_BITS[name]
    least, largest = -(1 << bits - 1), (1 << bits - 1) - 1

    def hashed(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= largest:
            raise ValueNotConvertible(f"{shown(value)} does not fit {name} ({bits} bits)")
        return _fold(value) if name == "long" else value

    return hashed


def _fold(value: int) -> int:
    """Return Java's hash of 64 bits: the two halves combined by xor."""
    return _signed((value & _MASK) ^ (value >> 32 & _MASK))


def _boolean_hash(value: Any) -> int:
    if not isinstance(value, bool):
        raise ValueNotConvertible(f"{shown(value)} is not a boolean")
    return _TRUE_HASH if value else _FALSE_HASH


def _char_hash(value: Any) -> int:
    if not isinstance(value, str) or len(value) != 1 or ord(value) > _LAST_UNIT:
        raise ValueNotConvertible(f"{shown(value)} is not a char (one UTF-16 unit)")
    return ord(value)


def _string_hash(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueNotConvertible(f"{shown(value)} is not a string")
    code = 0
    for char in split_surrogates(value):
        code = 31 * code + ord(char) & _MASK
    return _signed(code)


def _float_hash(value: Any) -> int:
    if value != value:  # noqa: PLR0124 - a NaN; Java gives them all one hash
        return _FLOAT_NAN
    try:
        bits: int = _FLOAT_BITS.unpack(_FLOAT.pack(value))[0]
    except (struct.error, OverflowError) as error:
        raise ValueNotConvertible(f"{shown(value)} does not fit a float (32 bits)") from error
    return bits


def _double_hash(value: Any) -> int:
    if value != value:  # noqa: PLR0124 - a NaN; Java gives them all one hash
        return _fold(_DOUBLE_NAN)
    try:
        bits: int = _DOUBLE_BITS.unpack(_DOUBLE.pack(value))[0]
    except (struct.error, OverflowError) as error:
        raise ValueNotConvertible(f"{shown(value)} does not fit a double (64 bits)") from error
    return _fold(bits)


_HASHES: dict[str, Callable[[Any], int]] = {
    **{name: _integer_hasher(name) for name in _INTEGER_BITS},
    "bigint": _big_integer_hash,
    "boolean": _boolean_hash,
    "char": _char_hash,
    "string": _string_hash,
    "float": _float_hash,
    "double": _double_hash,
}
