"""The shuffle format of rekeyed entries: a `ShuffleBatch` packs entries of one state and one new key group.

An entry in a `ShuffleBatch`:

    i32 offset of the new key in the entry's key, i32 its size, i32 size of the old key (0 if keys keep their bytes),
    i32 size of the entry's key, i32 size of the value; then entry's key, old key, value
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..runner import ShuffleBatch

BEGIN = -1
"""A marker instead of a key group: the subtask must be written even if empty; the data may be a reading's counts."""
_SIZES = struct.Struct(">5i")


class SentEntry(NamedTuple):
    """An entry with its new key. Entries with the same new entry key sort by the bytes of their old keys.

    Attributes:
        entry_key: The key group, key, namespace and user key, or a timer.
        old_key: The stored bytes of the key; empty if keys keep their bytes.
        key_start: The offset of the key in `entry_key`.
        key_size: The size of the key.
        value: The bytes of the value.
    """

    entry_key: bytes
    old_key: bytes
    key_start: int
    key_size: int
    value: bytes = b""

    @property
    def key(self) -> bytes:
        """The bytes of the new key."""
        return self.entry_key[self.key_start : self.key_start + self.key_size]


def framed(entry: SentEntry, value: bytes) -> bytes:
    """Return the bytes of an entry in a `ShuffleBatch`, with its value."""
    key, old, start, size, _ = entry
    return _SIZES.pack(start, size, len(old), len(key), len(value)) + key + old + value


def entries_of(batch: ShuffleBatch) -> Iterator[SentEntry]:
    """Yield the entries of a `ShuffleBatch`."""
    data, at = batch.data, 0
    while at < len(data):
        start, size, old_size, entry_size, value_size = _SIZES.unpack_from(data, at)
        key_at = at + _SIZES.size
        old_at = key_at + entry_size
        value_at = old_at + old_size
        at = value_at + value_size
        yield SentEntry(data[key_at:old_at], data[old_at:value_at], start, size, data[value_at:at])
