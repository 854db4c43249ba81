"""Surveys of runs of framed entries by their lengths alone: where they end, their number, a checksum of their keys.

    i32 n, n key bytes, i32 m, m value bytes, ...

The checksum does not depend on the order of the entries: it is the sum of the keys' hashes. A key is hashed as words,
signed big-endian numbers: the first and the last 8 bytes, which may overlap, and the words of 8 bytes from the 9th byte
on that begin before the last 8. A key of 4 to 7 bytes has its first and its last 4 bytes as words; a shorter one has
its first byte, and 256 times its middle byte plus its last byte. With mix(n, w) = h ^ h >> 32 for
h = (n ^ w) * 0x9E3779B97F4A7C15, in 64 bits, the hash starts from 0x1E3779B97F4A7C15 and mixes in the size, the first
word, the words between, and the last word. The checksum detects accidental loss or change, not tampering.

The functions with a leading underscore, and `alike` and `key_sums`, are compiled by numba as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptSavepoint
from .executor_choice import ExecutorName, load_machine_code
from .memory import is_less, key_sum, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LENGTH_BYTES = 4
_LAST_FLAG = 0x80
_MASK = (1 << 64) - 1

COMPLETE, NEEDS_MORE, NO_KEY, OVERSIZED = 0, 1, 2, 3
"""How a run ends: after the last entry of its state, at missing bytes, at a key size below 1, at an oversized value."""


@attrs.frozen
class Run:
    """Entries of one state that follow one another.

    Attributes:
        ending: One of the four constants above.
        stop: The offset of the first entry after the run.
        last: The offset of its last entry.
        entries: The number of entries.
        detail: For `NO_KEY` the size read; for `NEEDS_MORE` the bytes that the next entry needs, as far as is known;
            for `OVERSIZED` the value's size read as a signed i32.
    """

    ending: int
    stop: int
    last: int
    entries: int
    detail: int


@attrs.frozen
class Survey:
    """Statistics of the entries of a block.

    Attributes:
        entries: The number of entries.
        keys: The checksum of their keys.
        misplaced: The offset of the first entry whose key has another prefix; -1 if there is none.
        last: The offset of the last entry; -1 if there is none.
    """

    entries: int
    keys: int
    misplaced: int
    last: int

    def go_on(self, rest: Survey, at: int) -> Survey:
        """Return this survey extended by `rest`, the survey of the entries from offset `at` on."""
        if not rest.entries:
            return self
        misplaced = at + rest.misplaced if self.misplaced < 0 <= rest.misplaced else self.misplaced
        return Survey(self.entries + rest.entries, self.keys + rest.keys & _MASK, misplaced, at + rest.last)


def find_run(data: bytes | memoryview, start: int, executor: ExecutorName = ExecutorName.OBJECTS) -> Run:
    """Return the run of entries from `start` to the last entry of the state, or as far as the data go."""
    result = [0, 0, 0, 0]
    if executor is ExecutorName.NUMBA:
        fast = load_machine_code()
        ending, result = fast.call(fast.find_run, data, start, len(data))
        return Run(ending, *result)
    return Run(_find_run(data, start, len(data), result), *result)


def survey(data: bytes | memoryview, prefix: bytes, executor: ExecutorName = ExecutorName.OBJECTS) -> Survey:
    """Return the survey of all entries of a block.

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


def ascends(data: bytes | memoryview, executor: ExecutorName = ExecutorName.OBJECTS) -> bool:
    """Whether each key of a block is less than the next one; of a damaged block it is not."""
    if executor is ExecutorName.NUMBA:
        fast = load_machine_code()
        return bool(fast.ascends(fast.read_only(fast.np.frombuffer(data, fast.np.uint8)), len(data)))
    return _ascends(data, len(data))


def find_entries(data: Any, start: int, end: int, places: Sequence[Any]) -> None:
    """Write the offsets of the entries of a block into `places`.

    Args:
        data: Bytes; for machine code an array of bytes.
        start: The offset of the first entry.
        end: The end of the last entry.
        places: Four lists or arrays with an item per entry: start and end of each key, start and end of each value.

    Raises:
        CorruptSavepoint: The block has another number of entries, or is damaged.
    """
    find = _find_entries if isinstance(data, bytes) else load_machine_code().find_entries
    if not find(data, start, end, *places):
        raise CorruptSavepoint("the entries of a block are cut off or damaged")


def add_keys(total: int, keys: Iterable[bytes]) -> int:
    """Return a checksum with keys added."""
    for key in keys:
        total += key_sum(key, 0, len(key))
    return total & _MASK


def alike(data: Any, model: int, at: int, size: int, key_size: int, value_size: int, prefix_bytes: int) -> int:
    """Count the entries from `at` on that have the given key and value sizes, and the key prefix of the model entry.

    No load depends on an earlier one, which is much faster than following the lengths.

    Args:
        data: Entries.
        model: The offset of the model entry.
        at: The offset of the first entry to check.
        size: The latest end of the entries.
        key_size: The size of each key.
        value_size: The size of each value.
        prefix_bytes: The number of key bytes that are compared.
    """
    value_at, entry_size = key_size + _LENGTH_BYTES, key_size + value_size + 2 * _LENGTH_BYTES
    count, mask = 0, -1 << 8 * (_LENGTH_BYTES - prefix_bytes)
    head = load(data, model, 8) & mask
    while size - at >= entry_size and load(data, at, 8) & mask == head and load(data, at + value_at, 4) == value_size:
        at += entry_size
        count += 1
    return count


def key_sums(data: Any, at: int, count: int, entry_size: int, key_size: int) -> int:
    """Return the checksum of the keys of `count` entries of one size."""
    keys, at = 0, at + _LENGTH_BYTES
    for _ in range(count):  # a range with a step that is not known costs all compiled code a fifth of its speed
        keys += key_sum(data, at, key_size)
        at += entry_size
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
        if load(data, at, 4) != key_size:  # most keys have the last size: the CPU predicts the branch
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
        if load(data, at, 4) != key_size:  # as in _find_run
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


def _ascends(data: Any, size: int) -> bool:
    at, old, old_end = 0, 0, 0
    while size - at >= 2 * _LENGTH_BYTES:
        key_at = at + _LENGTH_BYTES
        key_size = load(data, at, 4)
        if key_size < 0 or key_size > size - at - 2 * _LENGTH_BYTES:
            return False
        if at > 0 and not is_less(data, old, old_end, key_at, key_at + key_size):
            return False
        old, old_end = key_at, key_at + key_size
        value_size = load(data, old_end, 4)
        if value_size < 0:
            return False
        at = old_end + _LENGTH_BYTES + value_size
    return at == size


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
