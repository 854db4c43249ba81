"""Runs of framed entries as columns: what is known of blocks, and what `framed` tells of them, by numpy.

Blocks are gone through several times, by several that do not know of each other; where their entries lie is kept for a
while, for those who come later.
"""

from __future__ import annotations

from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import numpy as np

from .columns import Column, gathered, integers, padded, view
from .framed import COMPLETE, NEEDS_MORE, Run, Survey
from .lockstep import Entries, find_entries, follow
from .memory import HALF_BITS, MIX, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LAST_FLAG = 0x80
_LENGTH_BYTES, _HEAD_BYTES, _TAIL_BYTES = 4, 8, 12
_ID_BYTES = 2
_ROOM_BYTES = 1 << 12
_FEWEST_BYTES = 1 << 11
_MOST_BYTES = 1 << 31
_AHEAD_BYTES, _READ_BYTES = 24 << 20, 8 << 20
"""Pieces have 4 MB: of a DataFrame three are found ahead, and one is worked on and put together."""
T = TypeVar("T")
_SEED, _FACTOR, _HALF = np.uint64(SEED), np.uint64(MIX), np.uint64(HALF_BITS)
KEY_HEAD_BYTES = 12
"""Bytes of an entry that hold its key's length and first word."""


class _Known(Generic[T]):
    """What is known of the blocks that were looked at last: of those that are worked on, and of those found ahead.

    One thread finds blocks while another works on them.

    Args:
        most_bytes: Of blocks that are kept; the latest one always is.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._blocks: dict[int, tuple[bytes | memoryview, T]] = {}
        self._bytes = 0
        self._lock = Lock()

    def put(self, block: bytes | memoryview, what: T) -> None:
        """Keep it for a while."""
        with self._lock:
            self._forget(id(block))
            self._blocks[id(block)] = block, what
            self._bytes += len(block)
            while self._bytes > self._most_bytes and len(self._blocks) > 1:
                self._forget(next(iter(self._blocks)))

    def get(self, block: bytes | memoryview) -> T | None:
        """Give what was kept of a block; None of any other."""
        found = self._blocks.get(id(block))
        return None if found is None else found[1]

    def forget(self, block: bytes | memoryview) -> None:
        """Let go of a block that nobody will ask for."""
        with self._lock:
            self._forget(id(block))

    def _forget(self, place: int) -> None:
        """Let go of a block; while one is kept, no other has its identity."""
        block, _ = self._blocks.pop(place, (b"", None))
        self._bytes -= len(block)


@attrs.frozen(eq=False)
class _Chain:
    """The entries of stored bytes: of several states, and not all of the last one.

    Attributes:
        entries: Where they lie.
        lasts: Which of them are the last of their state.
        stop: Where the first begins that is not whole.
    """

    entries: Entries
    lasts: Column
    stop: int

    @classmethod
    def of(cls, buffer: Any, entries: Entries, stop: int) -> _Chain:
        """Look for the last entries of states."""
        return cls(entries, np.flatnonzero(buffer[4:][entries.starts] >= _LAST_FLAG), stop)


known = _Known[Entries](_AHEAD_BYTES)
"""Blocks that were found, until they are rewritten."""
written = _Known[Entries](_AHEAD_BYTES)
"""Blocks that were written, until they are looked at."""
_chains = _Known[_Chain](_READ_BYTES)


def entries_of(block: bytes | memoryview) -> Entries | None:
    """Give where the entries of a block lie; None where it does not consist of entries, or is too small to matter."""
    found = known.get(block)
    if found is None:
        found = written.get(block)
    if found is None and _FEWEST_BYTES <= len(block) < _MOST_BYTES and block:
        found = find_entries(np.frombuffer(block, np.uint8), np.array([0]), np.array([len(block)]), stored=False)
        if found is not None:
            known.put(block, found)
    return found


def cut_key_groups(data: memoryview, begins: Sequence[int]) -> Iterator[memoryview]:
    """Cut stored bytes into those of key groups, having gone through all of them at once.

    Args:
        data: State ids, entries and end marks.
        begins: Where each key group begins.
    """
    edges = [*begins, len(data)]
    chain = _chain_of(data, np.array(edges))
    if chain is None:
        yield from (data[begin:end] for begin, end in pairwise(edges))
        return
    firsts = np.searchsorted(chain.entries.starts, edges)
    lasts = np.searchsorted(chain.lasts, firsts).tolist()
    pieces = zip(pairwise(edges), pairwise(firsts.tolist()), pairwise(lasts), strict=True)
    for (begin, end), (first, after), (last, last_after) in pieces:
        piece = data[begin:end]
        own = chain.lasts[last:last_after] - first
        _chains.put(piece, _Chain(chain.entries.part(first, after, begin), own, len(piece)))
        yield piece


def _chain_of(data: memoryview, edges: Column) -> _Chain | None:
    """Find the entries of whole key groups; None where their bytes are no such."""
    if (np.diff(edges) <= _ID_BYTES).any() or len(data) >= _MOST_BYTES:
        return None
    buffer = np.frombuffer(data, np.uint8)
    found = find_entries(buffer, edges[:-1] + _ID_BYTES, edges[1:], stored=True)
    return None if found is None else _Chain.of(buffer, found, len(data))


def find_run_in_columns(data: bytes | memoryview, start: int) -> Run | None:
    """Give a run, as `framed.find_run`, or the part of it that is whole, which needs more; None where there is none."""
    chain = _chains.get(data)
    if chain is None and _FEWEST_BYTES <= len(data) - start < _MOST_BYTES:
        buffer = np.frombuffer(data, np.uint8)
        chain = _Chain.of(buffer, *follow(buffer, start, len(data)))
        _chains.put(data, chain)
    return None if chain is None else _run_in(chain, data, start)


def _run_in(chain: _Chain, data: bytes | memoryview, start: int) -> Run | None:
    found = chain.entries
    first = int(np.searchsorted(found.starts, start))
    if first == len(found) or found.starts[first] != start:
        return None
    place = int(np.searchsorted(chain.lasts, first))
    is_complete = place < len(chain.lasts)
    last = int(chain.lasts[place]) if is_complete else len(found) - 1
    run = found.part(first, last + 1, start)
    if (run.values - run.starts <= _HEAD_BYTES).any():
        return None
    value = int(found.values[last])
    stop = value + int.from_bytes(data[value - _LENGTH_BYTES : value], "big") if is_complete else chain.stop
    return Run(COMPLETE if is_complete else NEEDS_MORE, stop, int(found.starts[last]), len(run), 0, found=run)


def survey_columns(data: bytes | memoryview, prefix: bytes) -> Survey | None:
    """As `framed.survey`; None where only plain Python can tell."""
    seen = _Seen.of(data)
    written.forget(data)
    if seen is None:
        return None
    misplaced = seen.sizes < len(prefix)
    for place, byte in enumerate(prefix):
        misplaced |= seen.heads[:, _LENGTH_BYTES + place] != byte
    others = np.flatnonzero(misplaced)
    first = int(seen.starts[others[0]]) if len(others) else -1
    return Survey(len(seen.starts), seen.key_sum(), first, int(seen.starts[-1]))


@attrs.frozen
class Parts:
    """What was seen in blocks that were put together.

    Attributes:
        keys: The checksum of all keys.
        edges: Where each block begins, and the end.
        lasts: Where the last entry of each begins.
    """

    keys: int
    edges: list[int]
    lasts: list[int]


def survey_together(data: bytes | memoryview, prefixes: Sequence[bytes], counts: Sequence[int]) -> Parts | None:
    """Look at all entries of several blocks, put together; None where one is not as it should be.

    Args:
        data: The blocks, one after the other.
        prefixes: What all keys of each begin with, of the same size.
        counts: How many entries each has, one at least.
    """
    seen = _Seen.of(data)
    written.forget(data)
    ends = np.cumsum(counts)
    if seen is None or len(seen.starts) != ends[-1] or (seen.sizes < len(prefixes[0])).any():
        return None
    for place, bytes_ in enumerate(zip(*prefixes, strict=True)):
        wanted = np.repeat(np.array(bytes_, np.uint8), counts)
        if (seen.heads[:, _LENGTH_BYTES + place] != wanted).any():
            return None
    edges = [0, *seen.starts[ends[:-1]].tolist(), len(data)]
    return Parts(seen.key_sum(), edges, seen.starts[ends - 1].tolist())


@attrs.frozen(eq=False)
class _Seen:
    """The entries of a block, as its own bytes tell them: where and how each begins, size and last word of its key."""

    buffer: Any
    starts: Column
    heads: Any
    sizes: Column
    lasts: Column

    @classmethod
    def of(cls, data: bytes | memoryview) -> _Seen | None:
        """See that entries lie where they are known to, and fill the block; None where they do not."""
        found = entries_of(data)
        if found is None or found.values[-1] > len(data):
            return None
        has_room = int(found.starts[-1]) + 2 * KEY_HEAD_BYTES <= len(data)
        buffer = np.frombuffer(data, np.uint8) if has_room else padded(data)
        heads = gathered(buffer, found.starts, 0, KEY_HEAD_BYTES)
        sizes = found.values - found.starts - _HEAD_BYTES
        lasts, lengths = last_words(buffer, found.values)
        ends = found.values + lengths
        if found.starts[0] or ends[-1] != len(data) or (ends[:-1] != found.starts[1:]).any():
            return None
        if (heads[:, :_LENGTH_BYTES].view(">i4")[:, 0] != sizes).any():
            return None
        return cls(buffer, found.starts, heads, sizes, lasts)

    def key_sum(self) -> int:
        """Give the checksum of all keys."""
        return int(key_sums(self.buffer, self.starts, self.sizes, self.heads, self.lasts).sum(dtype=np.uint64))


def put_together(blocks: Sequence[bytes | memoryview]) -> memoryview:
    """Put blocks together, with room behind; what is known of where their entries lie is known of the whole then."""
    data = memoryview(bytearray().join([*blocks, bytes(_ROOM_BYTES)]))[:-_ROOM_BYTES]
    parts, at = [], 0
    for block in blocks:
        found = entries_of(block)
        if found is None:
            return data
        known.forget(block)
        parts.append(found.part(0, len(found), -at))
        at += len(block)
    known.put(data, Entries.joined(parts))
    return data


def last_words(buffer: Any, values: Column) -> tuple[Column, Column]:
    """Give the last 8 bytes of keys, as unsigned numbers, and the lengths of values, by where the values begin."""
    at = values - _TAIL_BYTES
    if len(at) and at[0] < 0:
        at[0] = 0  # it is a key of less than 8 bytes
    tails = view(buffer, f"V{_TAIL_BYTES}")[at].view(np.uint8).reshape(len(at), _TAIL_BYTES)
    return tails[:, :8].view(">u8")[:, 0].astype(np.uint64), tails[:, 8:].view(">i4")[:, 0]


def key_sums(buffer: Any, starts: Column, sizes: Column, heads: Any, lasts: Column) -> Column:
    """Give what each key adds to the checksum, as `memory.key_sum` says.

    Args:
        buffer: With entries.
        starts: Where they begin.
        sizes: Bytes of their keys.
        heads: Rows of `KEY_HEAD_BYTES` or more with which they begin.
        lasts: The last words of their keys; those of keys that are shorter do not matter.
    """
    total = heads[:, _LENGTH_BYTES:KEY_HEAD_BYTES].view(">u8")[:, 0].astype(np.uint64)
    if sizes.min(initial=8) < 8:
        few = np.flatnonzero(sizes < 8)
        total[few], lasts[few] = _short_words(buffer, starts[few] + _LENGTH_BYTES, sizes[few])
    total ^= _mix(sizes.view(np.uint64) ^ _SEED)
    _mix(total)
    for place in range(8, int(sizes.max(initial=0)) - 8, 8):
        more = np.flatnonzero(sizes > place + 8)
        total[more] = _mix(total[more] ^ _words(buffer, starts[more] + (_LENGTH_BYTES + place), 8))
    total ^= lasts
    return _mix(total)


def _short_words(buffer: Any, at: Column, sizes: Column) -> tuple[Column, Column]:
    """Give the first and the last word of keys of less than 8 bytes."""
    is_tiny, is_there = sizes < 4, sizes > 0
    ends = _words(buffer, at + sizes - 1, 1) + _words(buffer, at + (sizes >> 1), 1) * np.uint64(256)
    first = np.where(is_tiny, _words(buffer, at, 1) * is_there, _words(buffer, at, 4))
    return first, np.where(is_tiny, ends * is_there, _words(buffer, at + sizes - 4, 4))


def _words(buffer: Any, at: Column, size: int) -> Column:
    """Give signed big-endian integers, to 64 bits; a place before the buffer is as good as any."""
    return integers(buffer, at if len(at) and at[0] >= 0 else np.maximum(at, 0), size).view(np.uint64)


def _mix(number: Column) -> Column:
    number *= _FACTOR
    number ^= number >> _HALF
    return number
