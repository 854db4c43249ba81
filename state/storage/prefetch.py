"""Iteration with a thread that reads ahead, and the number of usable cores."""

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
"""How many items may wait, so that one slow item does not stop the other thread."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items in their order; while the caller works on one, a thread computes the next ones.

    The thread computes the third item and those after it: a caller that takes only the first item does not wait for
    others, and two items need no thread. An error is raised in place of the item that failed.
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
