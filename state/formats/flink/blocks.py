"""Blocks: the entries of one state within one key group, found by their framing only.

    u16 state id, entries; entry: i32 n, bytes[n] key, i32 m, bytes[m] value
    the top bit of a key's first byte marks the last entry of the state: u16 next state id, or 0xFFFF for the end

In a block this bit is cleared, so a block does not depend on what follows it: blocks can be copied, left out and
reordered as they are. Source: format notes 5.2.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, ValueNotConvertible, shown
from ....serializers.limits import MAX_VALUE_BYTES, require_room
from ...transcode.executor_choice import ExecutorName
from ...transcode.frames import COMPLETE, NO_KEY, OVERSIZED, find_run, survey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

END_MARK = 0xFFFF
LAST_FLAG = 0x80
_LENGTH = struct.Struct(">i")
_LENGTH_BYTES = 4
_ID_BYTES = 2
_UNSIGNED = 0xFFFFFFFF
_LONG_BYTES = 1 << 12
"""If a block's entries are longer on average, `Block.items` copies them one by one instead of the whole block."""
MARGIN_BYTES = 128
"""Machine code may read this many bytes past the end of its input, if they exist."""


@attrs.frozen
class Block:
    """Entries of one state within one key group: all of them, or a piece of a long block.

    Attributes:
        key_group: The key group.
        state_id: The index of the state in the stream's header.
        data: The entries, `i32 n, key, i32 m, value` each; bytes, or a view of memory that the block owns and that the
            consumer of the block may overwrite.
        entries: The number of entries.
        last_entry: The position of the last entry in `data`; -1 where it is not known, and then found when needed.
        oversized: If not 0, the block is one entry whose value has this many bytes, more than an entry may have: `data`
            ends with the key, without the value.
    """

    key_group: int
    state_id: int
    data: bytes | memoryview = attrs.field(repr=False)
    entries: int
    last_entry: int = -1
    oversized: int = 0

    @property
    def size_bytes(self) -> int:
        """The bytes of the entries with their framing, including an oversized value that is not in `data`."""
        return len(self.data) + (_LENGTH_BYTES + self.oversized if self.oversized else 0)

    def refuse_oversized(self) -> None:
        """Refuse a block whose value can be neither read nor written.

        Raises:
            UnsupportedFormat: The value is longer than an entry may be.
        """
        if self.oversized:
            raise UnsupportedFormat(
                f"a value has {self.oversized:,} bytes, past the 2 GB of an entry: Flink writes such a list state and"
                " cannot read it again",
                advice="shorten the list in the running job, and take another savepoint; or drop the state",
                key=shown(self.data[_LENGTH_BYTES:].hex()),
            )

    @classmethod
    def of(cls, key_group: int, state_id: int, items: Iterable[tuple[bytes, bytes]]) -> Block:
        """Return a block of pairs of key bytes and value bytes, in the given order."""
        pieces, size, last, pack = list[bytes](), 0, -1, _LENGTH.pack
        for key, value in items:
            if not key or key[0] & LAST_FLAG:
                raise ValueNotConvertible("the bytes of a key do not begin with a key group")
            key_size, value_size = len(key), len(value)
            if value_size > MAX_VALUE_BYTES:
                require_room(value_size)
            pieces += pack(key_size), key, pack(value_size), value
            last = size
            size += key_size + value_size + 2 * _LENGTH_BYTES
        return cls(key_group, state_id, b"".join(pieces), len(pieces) // 4, last)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries as pairs of key bytes and value bytes; raises as `refuse_oversized`."""
        self.refuse_oversized()
        are_long, at, size = len(self.data) > self.entries * _LONG_BYTES, 0, len(self.data)
        data = self.data if are_long else bytes(self.data)
        unpack = _LENGTH.unpack_from
        for _ in range(self.entries):
            try:
                key_at = at + _LENGTH_BYTES
                key_end = key_at + unpack(data, at)[0]
                value_at = key_end + _LENGTH_BYTES
                at = value_at + unpack(data, key_end)[0]
            except struct.error:
                raise _broken(self) from None
            if not key_at <= key_end < value_at <= at <= size:
                raise _broken(self)
            yield bytes(data[key_at:key_end]), bytes(data[value_at:at])
        if at != size:
            raise _broken(self)

    def key_at(self, place: int) -> bytes:
        """Return the key of the entry at an offset in `data`."""
        at = place + _LENGTH_BYTES
        return bytes(self.data[at : at + _length(self.data, place)])

    def find_last_entry(self) -> int:
        """Return the position of the last entry in `data`."""
        if self.last_entry >= 0:
            return self.last_entry
        self.refuse_oversized()
        found = survey(self.data, b"")
        if found.entries != self.entries:
            raise _broken(self)
        return max(found.last, 0)


def join_pieces(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks whose pieces are joined, for code that needs all entries of a state within a key group at once."""
    pieces: list[Block] = []
    for block in blocks:
        block.refuse_oversized()
        if pieces and (pieces[0].key_group, pieces[0].state_id) != (block.key_group, block.state_id):
            yield _joined(pieces)
            pieces = []
        pieces.append(block)
    if pieces:
        yield _joined(pieces)


def whole(blocks: Iterable[Block], state_ids: Collection[int]) -> Iterator[Block]:
    """Yield blocks; of some states, the pieces of a long block are joined, as in `join_pieces`."""
    pending: list[Block] = []
    for block in blocks:
        if pending and (pending[0].key_group, pending[0].state_id) != (block.key_group, block.state_id):
            yield from join_pieces(pending)
            pending = []
        if block.state_id in state_ids:
            pending.append(block)
        else:
            yield block
    if pending:
        yield from join_pieces(pending)


def _joined(pieces: list[Block]) -> Block:
    if len(pieces) == 1:
        return pieces[0]
    last = pieces[-1]
    at = sum(len(piece.data) for piece in pieces[:-1]) + last.last_entry if last.last_entry >= 0 else -1
    data = memoryview(bytearray().join(piece.data for piece in pieces))
    return Block(last.key_group, last.state_id, data, sum(piece.entries for piece in pieces), at)


def _length(data: bytes | memoryview, at: int) -> int:
    length: int = _LENGTH.unpack_from(data, at)[0] if at + _LENGTH_BYTES <= len(data) else -1
    if length < 0:
        raise CorruptSavepoint("the entries of a block are cut off or damaged")
    return length


def _broken(block: Block) -> CorruptSavepoint:
    return CorruptSavepoint(f"the block of key group {block.key_group} does not hold {block.entries} entries")


class BlockWalker:
    """Finds the blocks of one key group in its bytes, which come in pieces.

    At most the current pieces are held in memory: a block that is longer than a piece is yielded in several pieces.

    Args:
        key_group: The key group.
        states: The number of states in the header.
        pieces: The bytes from the key group's offset to its end, in order, in writable memory: blocks are views of it.
        size: The number of all bytes, if known: then a length that goes past them is refused at once.
        overlap: How many preceding bytes each piece repeats, if there are so many: an entry that began within them
            need not be joined with the piece.
        executor: The executor that finds the entries.
    """

    def __init__(
        self,
        key_group: int,
        states: int,
        pieces: Iterator[memoryview],
        size: int | None = None,
        overlap: int = 0,
        executor: ExecutorName = ExecutorName.OBJECTS,
    ) -> None:
        self._key_group = key_group
        self._states = states
        self._pieces = pieces
        self._left = size
        self._most_overlap = overlap
        self._executor = executor
        self._given = 0
        self._data = memoryview(bytearray())
        self._at = 0
        self._passed = 0

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks; raises `CorruptSavepoint` where the framing is broken."""
        seen = set()
        while True:
            self._need(_ID_BYTES)
            state_id = int.from_bytes(self._data[self._at : self._at + _ID_BYTES], "big")
            self._at += _ID_BYTES
            if state_id == END_MARK:
                break
            if state_id >= self._states or state_id in seen:
                problem = "occurs twice" if state_id in seen else "is not in the header"
                raise self._corrupt(f"the state with id {state_id} {problem}")
            seen.add(state_id)
            yield from self._state(state_id)
        if not seen:
            raise self._corrupt("there is no entry")
        if self._at < len(self._data) or next(self._pieces, None):
            raise self._corrupt("bytes follow the end mark that belong to no key group")

    def _state(self, state_id: int) -> Iterator[Block]:
        is_last = False
        while not is_last:
            data, begin = self._data, self._at
            run = find_run(data, begin, self._executor)
            is_last = run.ending == COMPLETE
            if run.ending == NO_KEY:
                raise self._corrupt(f"a key has {run.detail} bytes", run.stop)
            self._at = at = run.stop
            if run.entries:
                entries = _cut(data, begin, at, run.last, is_last)
                yield Block(self._key_group, state_id, entries, run.entries, run.last - begin)
            if run.ending == OVERSIZED:
                is_last = data[at + _LENGTH_BYTES] >= LAST_FLAG
                head_size = _LENGTH_BYTES + _length(data, at)
                head, size = _cut(data, at, at + head_size, at, is_last), run.detail & _UNSIGNED
                self._pass(head_size + _LENGTH_BYTES, size)
                yield Block(self._key_group, state_id, head, 1, 0, size)
            elif not is_last:
                self._need(run.detail)

    def _pass(self, head: int, size: int) -> None:
        """Skip the head of an entry and its oversized value, without holding the value in memory."""
        have = len(self._data) - self._at - head
        if self._left is not None and size - have > self._left:
            raise self._corrupt(f"a value has {size - _UNSIGNED - 1} bytes")
        self._passed += self._at + head + size
        while have < size:
            piece, overlap = self._next_piece()
            if piece is None:
                raise self._corrupt(f"a value has {size - _UNSIGNED - 1} bytes")
            have += len(piece) - overlap
            self._data = piece
        self._data, self._at = self._data[len(self._data) - (have - size) :], 0

    def _need(self, size: int) -> None:
        """Read pieces until at least `size` bytes are available from the current position on."""
        have = len(self._data) - self._at
        if have >= size:
            return
        if self._left is not None and size - have > self._left:
            raise self._corrupt(f"{size} bytes are declared, but only {have + self._left} are left")
        place = self._passed + self._at
        self._data, self._at, self._passed = self._data[self._at :], 0, place
        joined: bytearray | None = None
        while have < size:
            piece, overlap = self._next_piece()
            if piece is None:
                raise self._corrupt(f"{size} bytes are declared, but only {have} are left")
            if have <= overlap:  # the piece contains the remaining bytes
                self._at = overlap - have
                self._passed = place - self._at
                self._data, joined = piece, None
            else:
                joined = bytearray(self._data) if joined is None else joined
                joined += piece[overlap:]
            have += len(piece) - overlap
        if joined is not None:
            joined += bytes(MARGIN_BYTES)
            self._data = memoryview(joined)[:-MARGIN_BYTES]

    def _next_piece(self) -> tuple[memoryview | None, int]:
        """Return the next piece, and how many of its bytes were in the pieces before it."""
        piece, overlap = next(self._pieces, None), min(self._most_overlap, self._given)
        if piece is not None:
            self._given += len(piece) - overlap
            if self._left is not None:
                self._left -= len(piece) - overlap
        return piece, overlap

    def _corrupt(self, what: str, at: int | None = None) -> CorruptSavepoint:
        place = self._passed + (self._at if at is None else at)
        return CorruptSavepoint(f"key group {self._key_group}, {place} bytes after its start: {what}")


def _cut(data: memoryview, begin: int, end: int, last: int, is_last: bool) -> memoryview:  # noqa: FBT001 - private
    if is_last:
        data[last + _LENGTH_BYTES] &= ~LAST_FLAG
    return data[begin:end]
