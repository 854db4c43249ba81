"""Runs of framed entries, found by their lengths alone: where they end, how many they are, a checksum of their keys.

    i32 n, n key bytes, i32 m, m value bytes, ...

The checksum does not depend on the order of the entries. Of a key it takes words, as signed big-endian numbers: the
first and the last 8 bytes, which may overlap, and those from the 9th on, 8 by 8, that begin before the last 8. A key of
4 to 7 bytes has its first and its last 4; a shorter one its first byte, and 256 times the middle one plus the last one.
With mix(n, w) = h ^ h >> 32 for h = (n ^ w) * 0x9E3779B97F4A7C15, in 64 bits, it goes from 0x1E3779B97F4A7C15 through
the size, the first word, those between, and the last one, and adds what comes out. That tells what was lost or
changed by mistake, not on purpose.

The functions with a leading underscore, and the two that they share, are compiled by numba as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptSavepoint
from .choice import ExecutorName, load_machine_code
from .memory import key_sum, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LENGTH_BYTES = 4
_LAST_FLAG = 0x80
_AT_ONCE = 128  # bytes that were looked at are in the nearest cache then
_GLANCE = 16  # entries are looked at one by one first: where sizes differ, those mostly do
_MASK = (1 << 64) - 1

COMPLETE, NEEDS_MORE, NO_KEY, OVERSIZED = 0, 1, 2, 3
"""How a run ends: with the last entry of its state, where bytes are missing, at a key without size, at a huge value."""


@attrs.frozen
class Run:
    """Entries of one state that follow one another.

    Attributes:
        ending: One of the four.
        stop: Where the first entry begins that is not of the run.
        last: Where its last entry begins.
        entries: How many there are.
        detail: The size of a key without; where bytes are missing, how many the next entry needs, as far as is known;
            of a value with more bytes than an i32 tells, that number, taken as signed.
    """

    ending: int
    stop: int
    last: int
    entries: int
    detail: int


@attrs.frozen
class Survey:
    """What was seen in a block.

    Attributes:
        entries: How many there are.
        keys: The checksum of their keys.
        misplaced: Where the first entry begins whose key has another prefix; -1 where none has.
        last: Where the last entry begins; -1 where there is none.
    """

    entries: int
    keys: int
    misplaced: int
    last: int

    def go_on(self, rest: Survey, at: int) -> Survey:
        """Put behind it what was seen of the entries that begin at a place."""
        if not rest.entries:
            return self
        misplaced = at + rest.misplaced if self.misplaced < 0 <= rest.misplaced else self.misplaced
        return Survey(self.entries + rest.entries, self.keys + rest.keys & _MASK, misplaced, at + rest.last)


def find_run(data: bytes | memoryview, start: int, executor: ExecutorName = ExecutorName.PLAIN) -> Run:
    """Go from entry to entry, to the last one of a state or of the data."""
    result = [0, 0, 0, 0]
    if executor is ExecutorName.NUMBA:
        fast = load_machine_code()
        ending, result = fast.call(fast.find_run, data, start, len(data))
        return Run(ending, *result)
    return Run(_find_run(data, start, len(data), result), *result)


def survey(data: bytes | memoryview, prefix: bytes, executor: ExecutorName = ExecutorName.PLAIN) -> Survey:
    """Look at all entries of a block.

    Raises:
        CorruptSavepoint: The block does not consist of entries.
    """
    number, result = int.from_bytes(prefix, "big"), [0, 0, 0, 0]
    if executor is ExecutorName.NUMBA:
        fast = load_machine_code()
        is_sound, result = fast.call(fast.survey, data, len(data), number, len(prefix))
    else:
        is_sound = _survey(data, len(data), number, len(prefix), result)
    if not is_sound:
        raise CorruptSavepoint("the entries of a block are cut off or damaged")
    entries, keys, misplaced, last = result
    return Survey(entries, keys & _MASK, misplaced, last)


def find_entries(data: Any, start: int, end: int, places: Sequence[Any]) -> None:
    """Note where the entries of a block lie.

    Args:
        data: Bytes; for machine code an array of them.
        start: Where the first entry begins.
        end: Where the last one ends.
        places: Four lists or arrays, as long as there are entries: where each key starts and ends, and each value.

    Raises:
        CorruptSavepoint: There are not so many entries.
    """
    find = _find_entries if isinstance(data, bytes) else load_machine_code().find_entries
    if not find(data, start, end, *places):
        raise CorruptSavepoint("the entries of a block are cut off or damaged")


def add_keys(total: int, keys: Iterable[bytes]) -> int:
    """Add keys to a checksum."""
    for key in keys:
        total += key_sum(key, 0, len(key))
    return total & _MASK


def alike(data: Any, model: int, at: int, size: int, key_size: int, value_size: int, prefix_bytes: int) -> int:
    """Count the entries from `at` on that have keys and values of such sizes, and keys that begin as the model's does.

    Nothing waits for what was loaded before: that is much faster than to go from length to length.

    Args:
        data: Entries.
        model: Where one begins that is so.
        at: Where the first one begins that is looked at.
        size: Where they end at the latest.
        key_size: Bytes of each key.
        value_size: Bytes of each value.
        prefix_bytes: How many bytes of the keys are looked at.
    """
    value_at, entry_size = key_size + _LENGTH_BYTES, key_size + value_size + 2 * _LENGTH_BYTES
    count, mask = 0, -1 << 8 * (_LENGTH_BYTES - prefix_bytes)
    head = load(data, model, 8) & mask
    while size - at >= entry_size and load(data, at, 8) & mask == head and load(data, at + value_at, 4) == value_size:
        at += entry_size
        count += 1
    return count


def key_sums(data: Any, at: int, count: int, entry_size: int, key_size: int) -> int:
    """Sum up the keys of so many entries of one size."""
    keys = 0
    for key_at in range(at + _LENGTH_BYTES, at + _LENGTH_BYTES + count * entry_size, entry_size):
        keys += key_sum(data, key_at, key_size)
    return keys


def _find_run(data: Any, start: int, size: int, result: Any) -> int:
    at = last = start
    entries, detail, key_size = 0, 0, 1
    ending = NEEDS_MORE
    while True:
        key_at = at + _LENGTH_BYTES
        if key_at > size:
            detail = _LENGTH_BYTES
            break
        if load(data, at, 4) != key_size:  # most keys are as long as the last one: where it ends need not be waited for
            key_size = load(data, at, 4)
            if key_size < 1:
                ending, detail = NO_KEY, key_size
                break
        value_at = key_at + key_size + _LENGTH_BYTES
        if value_at > size:
            detail = value_at - at
            break
        value_size = load(data, value_at - _LENGTH_BYTES, 4)
        if value_size < 0:
            ending, detail = OVERSIZED, value_size
            break
        end = value_at + value_size
        if end > size:
            detail = end - at
            break
        entries += 1
        last, at = at, end
        if data[key_at] >= _LAST_FLAG:
            ending = COMPLETE
            break
    result[0], result[1], result[2], result[3] = at, last, entries, detail
    return ending


def _survey(data: Any, size: int, prefix: int, prefix_bytes: int, result: Any) -> bool:
    at, entries, keys, misplaced, last, key_size = 0, 0, 0, -1, -1, 0
    mask = (1 << 8 * prefix_bytes) - 1
    while at < size:
        if size - at < 8:
            return False
        if load(data, at, 4) != key_size:  # as in a run
            key_size = load(data, at, 4)
            if key_size < 0:
                return False
        if key_size > size - at - 8:
            return False
        key_at = at + _LENGTH_BYTES
        value_size = load(data, key_at + key_size, 4)
        end = key_at + key_size + _LENGTH_BYTES + value_size
        if value_size < 0 or end > size:
            return False
        # the 4 bytes that end with the prefix
        if misplaced < 0 and (key_size < prefix_bytes or load(data, at + prefix_bytes, 4) & mask != prefix):
            misplaced = at
        keys += key_sum(data, key_at, key_size)
        entries += 1
        last, at = at, end
    result[0], result[1], result[2], result[3] = entries, keys, misplaced, last
    return True


def _find_entries(data: Any, start: int, end: int, keys: Any, key_ends: Any, values: Any, value_ends: Any) -> bool:
    at = start
    for row in range(len(keys)):
        key_at = at + _LENGTH_BYTES
        key_size = load(data, at, 4) if end - at >= 8 else -1
        if key_size < 0 or key_size > end - at - 8:
            return False
        value_at = key_at + key_size + _LENGTH_BYTES
        value_size = load(data, value_at - _LENGTH_BYTES, 4)
        if value_size < 0 or value_size > end - value_at:
            return False
        at = value_at + value_size
        keys[row], key_ends[row], values[row], value_ends[row] = key_at, key_at + key_size, value_at, at
    return at == end
