"""The integers that Spark groups rows by, so that each slot is in a partition of its own choice.

Spark puts a group into the partition `pmod(murmur3(integer, 42), partitions)`. Source: notes on Spark, 2.1, rule 1.

Spark 4.3 holds all rows of a group in one buffer of at most 2 GB before Python gets the first one
(`ApplyInPandasWithStatePythonRunner`). So a slot has groups besides its own for the rows of a large batch, its lanes.
Their integers are negative: Spark orders groups by their integers, so a slot's own group comes after its lanes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, islice

LANES = 256
"""How many lanes a slot has."""
_MASK = 0xFFFFFFFF
_SEED = 42


def slot_groups(slots: int, partitions: int) -> tuple[int, ...]:
    """Return an integer for each slot: the slots go to the partitions in turn."""
    found: list[int] = []
    for slot in range(slots):
        first = found[-1] + 1 if found else 0
        found.append(next(number for number in count(first) if partition_of(number, partitions) == slot % partitions))
    return tuple(found)


@lru_cache(maxsize=1024)
def lanes_of(slot: int, slots: int, partitions: int) -> tuple[int, ...]:
    """Return the integers of a slot's lanes, in the order in which Spark calls them; they are in its partition."""
    numbers = (-1 - slot - slots * number for number in count())
    found = (number for number in numbers if partition_of(number, partitions) == slot % partitions)
    return tuple(reversed(list(islice(found, LANES))))


def slot_of_lane(group: int, slots: int) -> int:
    """Return the slot that a lane is of."""
    return (-1 - group) % slots


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
