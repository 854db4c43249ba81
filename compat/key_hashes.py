"""Keys whose Java hash is the same in every JVM, so that Flink finds the state written under them.

Source: format notes 5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

MAX_KEY_GROUPS = 1 << 15
_MASK = 0xFFFFFFFF
ROW_DATA = "RowData"
"""The kind of the keys of Flink SQL."""
SIMPLE_TYPES = frozenset({"byte", "short", "int", "long", "boolean", "char", "string", "float", "double"})


def is_stable(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether keys of this type hash to the same in every JVM: some of Flink's types, tuples, lists and rows of them.

    A row hashes a `byte[]` by its content, as the rows are that PyFlink keys by; alone, it has no such hash.
    """
    if not snapshot.is_flink:
        return False
    if snapshot.kind == "row":
        return all(
            child.kind == "bytes" or (child.kind != "list" and is_stable(child)) for child in snapshot.children()
        )
    if snapshot.kind in {"tuple", "list"}:
        return all(map(is_stable, snapshot.children()))
    return snapshot.kind == ROW_DATA or snapshot.describe() in {*SIMPLE_TYPES, "bigint"}


def is_checked(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether the hash of stored keys is recomputed: numbers of a fixed size, text, tuples, and rows of Flink SQL.

    Big integers, lists and rows are not checked: savepoints of earlier releases may have them in places by a different
    hash. A restore looks at some of them.
    """
    if not is_stable(snapshot):
        return False
    if snapshot.kind == "tuple":
        return all(map(is_checked, snapshot.children()))
    return snapshot.kind == ROW_DATA or snapshot.describe() in SIMPLE_TYPES


def murmur(hash_code: int) -> int:
    """Return a 32-bit hash spread over 0 to 2^31 - 1, as by Flink's `MathUtils.murmurHash`."""
    code = finished(mixed_in(0, hash_code), 4)
    if code < 1 << 31:
        return code
    return (1 << 32) - code if code > 1 << 31 else 0


def mixed_in(code: int, word: int) -> int:
    """Return murmur3's hash so far with a further word of 32 bits."""
    word = _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return _rotate(code ^ word, 13) * 5 + 0xE6546B64 & _MASK


def finished(code: int, size: int) -> int:
    """Return murmur3's hash of so many bytes, all of which are mixed in."""
    code ^= size
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    return code ^ code >> 16


def _rotate(code: int, bits: int) -> int:
    return (code << bits | code >> 32 - bits) & _MASK
