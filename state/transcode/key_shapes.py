"""Checks of entry keys: that their parts are valid, that they hash to their key group, and that none occurs twice.

    key group, key [length], namespace [length], user key          key group, i64 time, key, namespace

A shape describes keys as numbers: the number of key groups (0 if keys are not hashed, or their hash is unknown), the
size of each value (-1 if it varies), whether a user key follows, the kind of the only part if the key is that part and
a byte 0 (else 0), the number of parts, and for each part its kind and the factor of its hash (0 if it is not hashed).

Java hashes a tuple as 31 times the hash so far, plus the hash of the next item: so each item has a factor, however deep
its tuples are nested. An entry that is not handled here (a null in a tuple, a NaN) is not an error: the caller checks
such entries one by one.

The functions with a leading underscore, and those that they share, are compiled by numba as they are.
Source: format notes 5.1 to 5.5; rule RUN-3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.key_hashes import finished, mixed_in, murmur
from .memory import add_key, clear_keys, is_ascii, load, load_little, size_end, text_end

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS, VALUE_SIZE, HAS_REST, PLAIN, COUNT, PARTS = range(6)
"""Indices into the numbers of a shape; the parts come last."""
BYTE, SHORT, INT, LONG = 1, 2, 4, 8
"""Kinds of parts: signed integers, by their size."""
BOOLEAN, CHAR, FLOAT, DOUBLE, TEXT, ZERO, SIZE, ROW, PASSED = 16, 17, 18, 19, 20, 21, 22, 23, 64
"""Other kinds of parts: `ZERO` is a byte 0, `SIZE` the size of the part before it, `ROW` a binary row behind its size,
which is only hashed, `PASSED` + n any n bytes, and `FIXED_ROW` + n a binary row of n bytes, all of whose slots hold any
bytes."""
FIXED_ROW = 1 << 16
AHEAD, TWICE, UNLIKE, CRAMPED = 0, 1, 2, 3
"""The results for a run: all keys belong to their key group and are distinct; a key occurs twice; a key is not handled
here; the table of keys is too small."""
_LENGTH_BYTES, _LAST_FLAG, _LONGEST_PLAIN = 4, 0x80, 0x80
_TRUE_HASH, _FALSE_HASH = 1231, 1237
_FACTOR, _MASK, _ROW_SEED, _LAST_KIND = 31, 0xFFFFFFFF, 42, 3
_LEAST = -(1 << 63)
_FLOAT_INFINITY, _DOUBLE_INFINITY = 0x7F800000, 0x7FF0000000000000
_FLOAT_BITS, _DOUBLE_BITS = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF


@attrs.frozen
class Shape:
    """The composition of the keys of one state's entries.

    Attributes:
        numbers: The numbers described in the module's docstring.
    """

    numbers: tuple[int, ...]

    @property
    def has_rest(self) -> bool:
        """Whether keys have further bytes that the shape does not describe."""
        return bool(self.numbers[HAS_REST])

    @classmethod
    def of(cls, parts: Sequence[tuple[int, int]], *, groups: int, has_rest: bool, value_size: int = -1) -> Shape:
        """Return a shape.

        Args:
            parts: The kind and the hash factor of each part.
            groups: The number of key groups; 0 if keys are not hashed.
            has_rest: Whether further bytes follow, such as a user key.
            value_size: The size of each value, if it is fixed and any bytes are valid; else -1.
        """
        numbers = (number for part in parts for number in part)
        plain = next((kind for kind in (TEXT, LONG) if groups and list(parts) == [(kind, 1), (ZERO, 0)]), 0)
        return cls((groups, value_size, int(has_rest), 0 if has_rest else plain, len(parts), *numbers))


def find_placed_run(
    data: Any, start: int, size: int, group: int, prefix_bytes: int, shape: Any, table: Any, capacity: int, result: Any
) -> int:
    """Check the keys of entries, up to the last entry of a state or of the data; return one of the results above.

    Args:
        data: Entries.
        start: The offset of the first entry.
        size: The end of the data.
        group: The key group.
        prefix_bytes: The number of key bytes that hold the key group.
        shape: The numbers of a `Shape`.
        table: A hash table for keys that do not ascend (`memory.clear_keys`).
        capacity: The number of items of the table.
        result: Receives the end of the run, the offset of its last entry, the number of entries, and whether their keys
            ascend.
    """
    at, last, entries, ascends, key_size = start, start, 0, True, 0
    mask, before, before_size, value_wanted = (1 << 8 * prefix_bytes) - 1, 0, -1, shape[VALUE_SIZE]
    result[0] = start
    while at < size:
        key_at = at + _LENGTH_BYTES
        if size - at < 8:
            return UNLIKE
        if load(data, at, 4) != key_size:  # most keys have the last size: the CPU predicts the branch
            key_size = load(data, at, 4)
        if key_size <= prefix_bytes or key_size > size - at - 8:
            return UNLIKE
        stop = key_at + key_size
        value_size = load(data, stop, 4)
        end = stop + _LENGTH_BYTES + value_size
        if value_size < 0 or end > size or (value_wanted >= 0 and value_size != value_wanted):
            return UNLIKE
        found = load(data, at + prefix_bytes, 4) & mask
        body = key_at + prefix_bytes
        is_last = data[key_at] >= _LAST_FLAG
        if (found & mask >> 1 if is_last else found) != group or not _is_placed(data, body, stop, shape, group):
            return UNLIKE
        body_size = stop - body
        if ascends and before_size >= 0:
            ascends = _is_before(data, before, before_size, body, body_size)
        before, before_size = body, body_size
        last, at = at, end
        entries += 1
        if is_last:
            break
    result[0], result[1], result[2], result[3] = at, last, entries, 1 if ascends else 0
    return AHEAD if ascends else _are_apart(data, start, entries, prefix_bytes, table, capacity)


def _are_apart(data: Any, start: int, entries: int, prefix_bytes: int, table: Any, capacity: int) -> int:
    """Return `AHEAD` if the keys of valid entries are distinct, else `TWICE`; `CRAMPED` if the table is too small."""
    slots = 2
    while slots < 2 * entries:
        slots *= 2
    if slots + 2 > capacity:
        return CRAMPED
    clear_keys(table, 0, entries)
    at = start
    for _ in range(entries):
        key_size = load(data, at, 4)
        body = at + _LENGTH_BYTES + prefix_bytes
        if not add_key(table, 0, data, start, body - start, key_size - prefix_bytes):
            return TWICE
        value_at = at + 2 * _LENGTH_BYTES + key_size
        at = value_at + load(data, value_at - _LENGTH_BYTES, 4)
    return AHEAD


def table_size(entries: int) -> int:
    """Return the number of items of a table that holds this many keys."""
    return 2 + (1 << (2 * entries).bit_length())


def _is_before(data: Any, first: int, first_size: int, second: int, second_size: int) -> bool:
    """Whether the first bytes are less than the second, compared as unsigned bytes, a prefix being less."""
    size = min(first_size, second_size)
    at = 0
    while size - at >= 8:
        one, other = load(data, first + at, 8), load(data, second + at, 8)
        if one != other:
            return (one ^ _LEAST) < (other ^ _LEAST)
        at += 8
    while at < size:
        if data[first + at] != data[second + at]:
            return bool(data[first + at] < data[second + at])
        at += 1
    return first_size < second_size


def _is_placed(  # noqa: C901, PLR0912 - one function, for numba; a case for each kind of part
    data: Any, at: int, stop: int, shape: Any, group: int
) -> bool:
    """Whether the parts of a key are valid and fill its bytes, and it hashes to its key group."""
    code, mark, place = 0, at, PARTS
    if shape[PLAIN] and stop - at > LONG:  # most keys; accounts for 6 % of the speed of small entries
        if shape[PLAIN] == LONG:
            number = load(data, at, LONG)
            return stop - at == LONG + 1 and data[stop - 1] == 0 and _is_in(number ^ number >> 32, shape, group)
        size = int(data[at])
        if size == stop - at - 1 and size < _LONGEST_PLAIN and data[stop - 1] == 0 and is_ascii(data, at, size):
            return _is_in(ascii_hash(data, at + 1, size - 1), shape, group)
    for _ in range(shape[COUNT]):
        kind, factor = shape[place], shape[place + 1]
        place += 2
        if kind == TEXT:
            begin = at
            at = text_end(data, begin, stop)
            if at < 0:
                return False
            if factor:
                code += factor * _text_hash(data, begin, at)
        elif kind == ROW or kind > FIXED_ROW:
            size = load(data, at, 4) if stop - at >= 4 else -1
            if size < 0 or size > stop - at - 4 or size & 3:
                return False
            if kind != ROW and (size != kind - FIXED_ROW or data[at + 4] > _LAST_KIND):
                return False
            if factor:
                code += factor * _row_hash(data, at + 4, size)
            at += 4 + size
        elif kind == ZERO:
            if at >= stop or data[at] != 0:
                return False
            at += 1
        elif kind == SIZE:
            at = size_end(data, at, stop, at - mark)
            if at < 0:
                return False
            mark = at
        elif kind >= PASSED:
            at += kind - PASSED
            if at > stop:
                return False
        else:
            size = _size_of(kind)
            if size > stop - at:
                return False
            if factor:
                number = _number_hash(data, at, kind)
                if number == _LEAST:
                    return False
                code += factor * number
            elif kind == BOOLEAN and data[at] > 1:
                return False
            at += size
    if at > stop or (at < stop and not shape[HAS_REST]):
        return False
    return shape[GROUPS] == 0 or _is_in(code, shape, group)


def _row_hash(data: Any, at: int, size: int) -> int:
    """Return Flink's hash of a binary row: murmur3 of its words, which are little-endian."""
    code = _ROW_SEED
    for place in range(at, at + size, 4):
        code = mixed_in(code, load_little(data, place, 4) & _MASK)
    return finished(code, size)


def _is_in(code: int, shape: Any, group: int) -> bool:
    """Whether a hash belongs to a key group."""
    groups, spread = shape[GROUPS], murmur(code & _MASK)
    found: int = spread & (groups - 1) if groups & (groups - 1) == 0 else spread % groups
    return found == group


def _size_of(kind: int) -> int:
    """Return the size of a part that is a number."""
    if kind in (FLOAT, INT):
        return 4
    if kind in (DOUBLE, LONG):
        return 8
    return 2 if kind in (CHAR, SHORT) else 1


def _number_hash(data: Any, at: int, kind: int) -> int:
    """Return Java's hash of a number, correct in its lowest 32 bits; -2^63 for NaN or an invalid boolean."""
    if kind == INT:
        return load(data, at, 4)
    if kind in (LONG, DOUBLE):
        number = load(data, at, 8)
        if kind == DOUBLE and (number & _DOUBLE_BITS) > _DOUBLE_INFINITY:
            return _LEAST
        return (number ^ number >> 32) & _MASK
    if kind == SHORT:
        return load(data, at, 2)
    if kind == BYTE:
        return load(data, at, 1)
    if kind == CHAR:
        return load(data, at, 2) & 0xFFFF
    if kind == FLOAT:
        number = load(data, at, 4)
        return _LEAST if (number & _FLOAT_BITS) > _FLOAT_INFINITY else number
    if data[at] > 1:
        return _LEAST
    return _TRUE_HASH if data[at] else _FALSE_HASH


def _text_hash(data: Any, at: int, end: int) -> int:
    """Return Java's hash, modulo 2^32, of a string that `text_end` has accepted."""
    size = int(data[at])
    if size < 0x80 and size == end - at:  # each character has one byte
        return ascii_hash(data, at + 1, size - 1)
    while data[at] >= 0x80:
        at += 1
    at += 1
    code = 0
    while at < end:
        unit = shift = 0
        while data[at] >= 0x80:
            unit |= (int(data[at]) & 0x7F) << shift
            shift += 7
            at += 1
        unit |= int(data[at]) << shift
        at += 1
        code = (_FACTOR * code + unit) & _MASK
    return code


def ascii_hash(data: Any, at: int, size: int) -> int:
    """Return Java's hash, modulo 2^32, of a string of `size` ASCII bytes."""
    code = 0
    for place in range(at, at + size):
        code = (_FACTOR * code + int(data[place])) & _MASK
    return code
