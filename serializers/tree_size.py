"""Size of a Python value written out as a tree, in which a shared part counts each time that it occurs.

A list that holds a second list twice, which holds a third one twice, and so on, is small in memory and endless in
print.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

PART = 16
"""The size of each part, apart from its characters and digits."""


def size_of_part(value: object) -> int:
    """Return the size of a part without the parts within it."""
    if isinstance(value, str | bytes | bytearray):
        return PART + len(value)
    return PART + (value.bit_length() >> 1 if isinstance(value, int) else 0)


def is_tree_within(value: object, most: int) -> bool:
    """Whether the size of a value of built-in containers is at most `most`; always true for a text or number alone."""
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
