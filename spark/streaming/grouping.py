"""The integers that Spark groups rows by, so that each slot is in a partition of its own choice.

Spark puts a group into the partition `pmod(murmur3(integer, 42), partitions)`. Source: notes on Spark, 2.1, rule 1.
"""

from __future__ import annotations

from itertools import count

_MASK = 0xFFFFFFFF
_SEED = 42


def slot_groups(slots: int, partitions: int) -> tuple[int, ...]:
    """Return an integer for each slot: the slots go to the partitions in turn."""
    found: list[int] = []
    for slot in range(slots):
        first = found[-1] + 1 if found else 0
        found.append(next(number for number in count(first) if partition_of(number, partitions) == slot % partitions))
    return tuple(found)


def partition_of(number: int, partitions: int) -> int:
    """Return Spark's partition of the group of an integer column."""
    mixed = number * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    code = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    signed = code - (1 << 32) if code >> 31 else code
    return signed % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
