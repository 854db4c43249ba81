"""Parcels: entries of one state and one new key group, on their way from where they were read to who writes them.

An entry in a parcel:

    i32 where the new key begins in the entry's key, i32 its size, i32 size of the old key (0 where keys keep their
    bytes), i32 size of the entry's key, i32 size of the value; then entry's key, old key, value
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

PARCEL_BYTES = 4 << 20
"""A parcel is sent on when it has that many."""
BEGIN = -1
"""In place of a key group: the parcel says that the subtask is to be written, and may hold what a reading counted."""
_SIZES = struct.Struct(">5i")


@attrs.frozen
class Parcel:
    """Entries of one state on their way to the subtask that has their new key group.

    Attributes:
        subtask: Of the result.
        key_group: Of the result, or `BEGIN`.
        state_id: The place of the state in the new header.
        data: The entries.
    """

    subtask: int
    key_group: int
    state_id: int
    data: bytes = attrs.field(repr=False)


class SentEntry(NamedTuple):
    """An entry with its key written anew. Sorted, those of one key stand in the order of their old keys' bytes.

    Attributes:
        entry_key: Key group, key, namespace and user key, or a timer.
        old_key: The stored bytes of the key; empty where keys keep their bytes.
        key_start: Where the key begins in `entry_key`.
        key_size: Its bytes.
        value: The value's bytes.
    """

    entry_key: bytes
    old_key: bytes
    key_start: int
    key_size: int
    value: bytes = b""

    @property
    def key(self) -> bytes:
        """The bytes of the key from now on."""
        return self.entry_key[self.key_start : self.key_start + self.key_size]


def framed(entry: SentEntry, value: bytes) -> bytes:
    """Give an entry as it lies in a parcel, with its value."""
    key, old, start, size, _ = entry
    return _SIZES.pack(start, size, len(old), len(key), len(value)) + key + old + value


def entries_of(parcel: Parcel) -> Iterator[SentEntry]:
    """Give the entries of a parcel."""
    data, at = parcel.data, 0
    while at < len(data):
        start, size, old_size, entry_size, value_size = _SIZES.unpack_from(data, at)
        key_at = at + _SIZES.size
        old_at = key_at + entry_size
        value_at = old_at + old_size
        at = value_at + value_size
        yield SentEntry(data[key_at:old_at], data[old_at:value_at], start, size, data[value_at:at])
