"""The keys of a block held against where they lie, as columns; as `placed`, by numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import columns
from .checking import SeenKeys
from .columns import gathered, integers
from .numpy_framing import KEY_HEAD_BYTES, entries_of, key_sums, last_words
from .placed import (
    BOOLEAN,
    CHAR,
    COUNT,
    DOUBLE,
    FLOAT,
    GROUPS,
    HAS_REST,
    INT,
    LONG,
    PARTS,
    PASSED,
    SHORT,
    SIZE,
    TEXT,
    VALUE_SIZE,
    ZERO,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .columns import Column

_LENGTH_BYTES, _LONGEST_TEXT = 4, 0x80
_TRUE_HASH, _FALSE_HASH, _FACTOR = 1231, 1237, 31
_SIZES = {INT: 4, FLOAT: 4, LONG: 8, DOUBLE: 8, CHAR: 2, SHORT: 2}
_INFINITIES = {FLOAT: (0x7FFFFFFF, 0x7F800000), DOUBLE: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000)}
_U32 = np.uint32
_SIGN = 1 << 31


def look_at_keys(block: bytes | memoryview, key_group: int, prefix_bytes: int, shape: Sequence[int]) -> SeenKeys | None:
    """Look at the keys of a block; None where not all are plain, or two may be the same.

    Args:
        block: Entries.
        key_group: Theirs.
        prefix_bytes: How many bytes of a key tell it.
        shape: Numbers of a `Shape`.
    """
    found = entries_of(block)
    if found is None or found.starts[0]:
        return None
    buffer = columns.padded(block)
    starts, stops = found.starts, found.values - _LENGTH_BYTES
    ends = np.append(starts[1:], len(block))
    sizes = stops - starts - _LENGTH_BYTES
    if (sizes <= prefix_bytes).any() or (integers(buffer, stops, 4) != ends - found.values).any():
        return None
    if shape[VALUE_SIZE] >= 0 and (ends - found.values != shape[VALUE_SIZE]).any():
        return None
    if (integers(buffer, starts + _LENGTH_BYTES, prefix_bytes) != key_group).any():
        return None
    if not _are_placed(buffer, starts + _LENGTH_BYTES + prefix_bytes, stops, shape, key_group):
        return None
    heads = gathered(buffer, starts, 0, KEY_HEAD_BYTES)
    hashes = key_sums(buffer, starts, sizes, heads, last_words(buffer, found.values)[0])
    in_order = np.sort(hashes)
    if (in_order[1:] == in_order[:-1]).any():
        return None
    return SeenKeys(int(starts[-1]), ascends=False, hashes=hashes)


def _are_placed(  # noqa: PLR0912 - a case for each kind of part
    buffer: Any, at: Column, stops: Column, shape: Sequence[int], key_group: int
) -> bool:
    """Whether the parts of all keys fill their bytes, and they hash to their key group."""
    code, mark = np.zeros(len(at), _U32), at
    for place in range(PARTS, PARTS + 2 * shape[COUNT], 2):
        kind, factor = shape[place : place + 2]
        if kind == TEXT:
            size = buffer[at].astype(np.int64)
            if ((size == 0) | (size >= _LONGEST_TEXT) | (at + size > stops)).any():
                return False
            if not columns.are_ascii(buffer, at + 1, size - 1).all():
                return False
            code = _text_hashes(buffer, at + 1, size - 1) * _U32(factor) + code if factor else code
            at = at + size
        elif kind == ZERO:
            if (at >= stops).any() or buffer[at].any():
                return False
            at = at + 1
        elif kind == SIZE:
            size = at - mark
            if (size >= 1 << 8).any() or (at >= stops).any() or (buffer[at] != size).any():
                return False
            at = mark = at + 1
        elif kind >= PASSED:
            at = at + (kind - PASSED)
        else:
            size = _SIZES.get(kind, 1)
            if (at + size > stops).any():
                return False
            hashes = _number_hashes(integers(buffer, at, size), kind)
            if hashes is None:
                return False
            code = hashes * _U32(factor) + code if factor else code
            at = at + size
    if (at > stops).any() or (not shape[HAS_REST] and (at != stops).any()):
        return False
    return not shape[GROUPS] or bool((key_groups_of(code, shape[GROUPS]) == key_group).all())


def _text_hashes(buffer: Any, at: Column, sizes: Column) -> Any:
    code = np.zeros(len(at), _U32)
    for passed in range(int(sizes.max(initial=0))):
        more = sizes > passed
        code = np.where(more, code * _U32(_FACTOR) + buffer[np.where(more, at + passed, 0)], code)
    return code


def _number_hashes(numbers: Column, kind: int) -> Any:
    """Give Java's hashes; None where one is not plain."""
    if kind in _INFINITIES:
        mask, infinity = _INFINITIES[kind]
        if (numbers & mask > infinity).any():
            return None
    if kind == BOOLEAN:
        return None if (numbers >> 1).any() else np.where(numbers == 1, _U32(_TRUE_HASH), _U32(_FALSE_HASH))
    if kind in {LONG, DOUBLE}:
        numbers = numbers ^ numbers >> 32
    return (numbers & (0xFFFF if kind == CHAR else 0xFFFFFFFF)).astype(_U32)


def key_groups_of(codes: Any, max_parallelism: int) -> Any:
    """Give the key group of each hash, an unsigned number of 32 bits."""
    code = codes * _U32(0xCC9E2D51)
    code = _rotate(code, 15) * _U32(0x1B873593)
    code = _rotate(code, 13) * _U32(5) + _U32(0xE6546B64)
    code ^= _U32(4)
    code = (code ^ code >> _U32(16)) * _U32(0x85EBCA6B)
    code = (code ^ code >> _U32(13)) * _U32(0xC2B2AE35)
    code ^= code >> _U32(16)
    spread = code.astype(np.int64)
    spread = np.where(spread < _SIGN, spread, (1 << 32) - spread)
    spread[spread == _SIGN] = 0  # Java's abs of its least int, by definition
    return np.asarray(spread % max_parallelism, dtype=np.int32)


def _rotate(code: Any, bits: int) -> Any:
    return code << _U32(bits) | code >> _U32(32 - bits)
