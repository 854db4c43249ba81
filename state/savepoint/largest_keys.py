"""The keys of a keyed state with the most bytes, found in one pass with bounded memory.

Only the key is cut out of each entry; values are not decoded, so this works also where they cannot be read. The size of
a key in a state is the sum over its namespaces (windows), the entries of its map, its timers. All of them are in one
key group, but adjacent only in sorted streams, as RocksDB writes them: the heap backend writes entries in the order of
a hash table. Therefore sums are kept for up to `MOST_KEYS` keys of a key group at a time; if there are more, the
smaller sums are discarded. In a sorted stream that loses nothing; in others a discarded key may occur again, and then
the result is marked as inexact.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.views import DataInputView
from ..entry_keys import decode, end_of
from ..key_groups import prefix_size

if TYPE_CHECKING:
    from ...serializers.rewrite import ByteRewrite
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.blocks import Block

MOST_KEYS = 1 << 16
_MOST_BYTES = 32 << 20
_TIME_BYTES, _FRAME_BYTES = 8, 8
_Sum = tuple[int, int]


@attrs.frozen
class KeySize:
    """The size of one key in one state.

    Attributes:
        key: The key.
        key_group: The key group of the key.
        entries: The number of stored entries: in map state one for each user key.
        size_bytes: The bytes of these entries, including keys and framing.
    """

    key: Any
    key_group: int
    entries: int
    size_bytes: int


@attrs.frozen
class LargestKeys:
    """The keys of a state with the most bytes.

    Attributes:
        keys: The keys, largest first.
        is_exact: Whether it is certain that no other key is larger, and that the sizes are complete.
        unknown: The reason why keys cannot be cut out of entries, or "".
    """

    keys: tuple[KeySize, ...] = ()
    is_exact: bool = True
    unknown: str = ""


@attrs.frozen
class KeyCutter:
    """Cuts the key out of the key of an entry. Created with `of`.

    Attributes:
        start: The position of the key.
        size: The length of the key, where all keys have the same length; else -1.
        layout: Finds the end of the key.
    """

    start: int
    size: int
    layout: ByteRewrite

    @classmethod
    def of(cls, kind: StateKind, key: TypeSerializer[Any], max_parallelism: int) -> KeyCutter:
        """Return the cutter of keys of this type from entries of this kind of state."""
        start = prefix_size(max_parallelism) + (_TIME_BYTES if kind is StateKind.TIMERS else 0)
        return cls(start, key.length, end_of(key))

    def cut(self, entry_key: bytes) -> bytes:
        """Return the bytes of the key; raises `CorruptSavepoint` where there are not enough."""
        if 0 <= self.size <= len(entry_key) - self.start:
            return entry_key[self.start : self.start + self.size]
        view = DataInputView(entry_key)
        view.skip_bytes(self.start)
        self.layout.skip(view)
        return view.span(self.start)


class KeyTally:
    """Sums up the entries and bytes of each key of one state. Add all blocks, key groups one after the other.

    Args:
        kind: The kind of the state.
        key: The snapshot of its keys.
        max_parallelism: The number of key groups.
        wanted: How many keys to find.
        most_keys: For how many keys sums are kept at a time.

    Raises:
        OldReaderUnavailable: No serializer reads keys of this type, so their ends cannot be found.
    """

    def __init__(
        self,
        kind: StateKind,
        key: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
        wanted: int,
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._serializer = key.restore_serializer()
        cutter = KeyCutter.of(kind, self._serializer, max_parallelism)
        self._start, self._cut = cutter.start, cutter.cut
        self._wanted = wanted
        self._most_keys = max(most_keys, wanted)
        self._top: list[tuple[int, int, int, bytes]] = []
        self._is_exact = True
        self._key_group = -1
        self._begin()

    def _begin(self) -> None:
        self._sums: dict[bytes, _Sum] = {}
        self._sum_bytes = 0
        self._key = b""
        self._entries = self._size = 0
        self._is_sorted, self._has_forgotten = True, False

    def add(self, block: Block) -> None:
        """Add the entries of a block, or of a piece of one."""
        if block.key_group != self._key_group:
            self._finish_key_group()
            self._key_group = block.key_group
        for entry_key, value in block.items():
            # No key's encoding is a prefix of another's: bytes that begin with the last key are that key again.
            if not (self._key and entry_key.startswith(self._key, self._start)):
                key = self._cut(entry_key)
                self._finish_key()
                self._is_sorted &= key > self._key
                self._key = key
            self._entries += 1
            self._size += _FRAME_BYTES + len(entry_key) + len(value)

    def result(self) -> LargestKeys:
        """Return the largest keys; call it once, after the last block."""
        self._finish_key_group()
        largest = sorted(self._top, key=lambda one: (-one[0], one[2:]))
        keys = (KeySize(decode(self._serializer, key), group, entries, size) for size, entries, group, key in largest)
        return LargestKeys(tuple(keys), self._is_exact)

    def _finish_key(self) -> None:
        """Add the sums of a run of entries with the same key."""
        if not self._entries:
            return
        known = self._sums.get(self._key)
        if known is None:
            self._sum_bytes += len(self._key)
            known = (0, 0)
        self._sums[self._key] = (known[0] + self._size, known[1] + self._entries)
        self._entries = self._size = 0
        if len(self._sums) > self._most_keys or self._sum_bytes > _MOST_BYTES:
            self._forget()

    def _forget(self) -> None:
        """Keep the larger half of the sums; if keys are very long, only as many as are wanted."""
        kept = self._largest(max(self._most_keys // 2, self._wanted))
        if sum(map(len, kept)) > _MOST_BYTES // 2:
            kept = self._largest(self._wanted)
        self._sums = {key: self._sums[key] for key in kept}
        self._sum_bytes = sum(map(len, kept))
        self._has_forgotten = True

    def _largest(self, count: int) -> list[bytes]:
        return heapq.nlargest(count, self._sums, key=self._sums.__getitem__)

    def _finish_key_group(self) -> None:
        self._finish_key()
        # No key's encoding is a prefix of another's, so sorted entries are sorted by key.
        self._is_exact &= self._is_sorted or not self._has_forgotten
        found = ((*self._sums[key], self._key_group, key) for key in self._largest(self._wanted))
        self._top = heapq.nlargest(self._wanted, [*self._top, *found])
        self._begin()
