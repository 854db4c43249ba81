"""Iteration with a thread that reads ahead, or in batches; and the number of usable cores."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
_MOST_AHEAD = 2
"""How many items may wait, so that one slow item does not stop the other thread."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_batches(items: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield lists of items, each of just as many as have so many bytes; the last one has the rest.

    Where the items end with an error, those before it are yielded before it is raised.
    """
    held: list[T] = []
    size = 0
    try:
        for one in items:
            held.append(one)
            size += size_of(one)
            if size >= most:
                yield held
                held, size = [], 0
    except Exception:
        if held:
            yield held
        raise
    if held:
        yield held


def pair_bytes(pair: tuple[bytes, bytes]) -> int:
    """Return the size of an entry, for `in_batches`."""
    return len(pair[0]) + len(pair[1])


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
