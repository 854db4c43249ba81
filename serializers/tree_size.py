"""How large a Python value is when it is written out as a tree: a part that is shared stands as often as it is met.

A list that holds another twice, which holds a third twice, is small in memory, and has no end when it is printed.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

PART = 16
"""What each part counts, beside its characters and digits."""


def size_of_part(value: object) -> int:
    """Give what a part counts, without those within it."""
    if isinstance(value, str | bytes | bytearray):
        return PART + len(value)
    return PART + (value.bit_length() >> 1 if isinstance(value, int) else 0)


def is_tree_within(value: object, most: int) -> bool:
    """Whether a value of built-in containers counts no more than `most`; a text or number by itself always does."""
    size, level = 0, [value] if _parts(value) else []
    while level:
        within: list[Any] = []
        for one in level:
            parts = _parts(one)
            size += size_of_part(one)
            if size + PART * (len(within) + len(parts)) > most:
                return False
            within += parts
        level = within
    return True


def _parts(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset | collections.deque) else ()
