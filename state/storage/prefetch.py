"""A thread that goes ahead of another, and how many may be at work at once."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
_MOST_AHEAD = 2
"""How many items may wait: where one thread takes longer once, the other goes on."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Give items in their order; while one is worked on, a thread makes the next ones.

    That begins with the third: who looks at the first alone waits for no other, and for so few no thread is needed.
    What fails is raised where the item would have come.
    """
    yield from islice(items, 1)
    item = next(items, None)
    if item is None:
        return
    with ThreadPoolExecutor(1) as thread:
        coming = deque(thread.submit(next, items, None) for _ in range(_MOST_AHEAD))
        while item is not None:
            yield item
            item = coming.popleft().result()
            coming.append(thread.submit(next, items, None))
