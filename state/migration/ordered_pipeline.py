"""A pipeline that processes items in two threads: taken one by one, worked on in parallel, and finished in order.

It uses one thread if a second one would have no core of its own.

A thread that has worked on an item finishes it, and the following items that are ready. If an earlier item is still
being worked on, or the other thread is finishing, it takes the next item instead, and the other thread finishes this
one. Thus no thread waits while there is work, and the data of one step are mostly still in the CPU cache for the next.
The first item is processed by the calling thread alone, so that what both threads need is loaded once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Condition, Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
R = TypeVar("R")
_MOST_READY = 4
"""The number of results that may wait: each holds memory."""


class Turns(Generic[T, R]):
    """A pipeline of items.

    Args:
        items: The items; the iterator is advanced by one thread at a time.
        finish: A function that is called with the result of each item, in order, by one thread at a time.
    """

    def __init__(self, items: Iterator[T], finish: Callable[[R], object]) -> None:
        self._items, self._finish = items, finish
        self._taking, self._turn = Lock(), Condition()
        self._taken = self._finished = 0
        self._ready: dict[int, Callable[[], object]] = {}
        self._is_finishing = self._has_failed = False

    def carry(self, make_worker: Callable[[], Callable[[T], R]], *, alone: bool = False) -> None:
        """Process all items; an error is raised after all items before it are finished.

        Args:
            make_worker: A factory that returns the function that works on an item, one for each thread.
            alone: Whether to use only the calling thread.
        """
        work = make_worker()
        if alone:
            for item in self._items:
                result = work(item)
                del item  # free its memory for the next one
                self._finish(result)
                del result
            return
        if not self._carry_one(work):
            return
        with ThreadPoolExecutor(1) as thread:
            other = thread.submit(copy_context().run, self._carry_all, make_worker())
            self._carry_all(work)
            other.result()

    def _carry_all(self, work: Callable[[T], R]) -> None:
        try:
            while self._carry_one(work):
                pass
        except BaseException:
            with self._turn:
                self._has_failed = True
                self._turn.notify_all()
            raise

    def _carry_one(self, work: Callable[[T], R]) -> bool:
        """Take an item, work on it, and finish what is ready; return False if there is none, or after a failure."""
        return self._work_on_one(work) and self._finish_ready()

    def _work_on_one(self, work: Callable[[T], R]) -> bool:
        """Take an item, work on it, and release it; return False if there is none."""
        item = None
        last_step: Callable[[], object] = _nothing
        with self._taking:
            place, self._taken = self._taken, self._taken + 1
            try:
                item = next(self._items, None)
            except Exception as error:  # noqa: BLE001 - raised in the order of the items
                last_step = partial(_raised, error)
        if item is not None:
            try:
                last_step = partial(self._finish, work(item))
            except Exception as error:  # noqa: BLE001 - as above
                last_step = partial(_raised, error)
        if last_step is _nothing:
            return False
        with self._turn:
            self._ready[place] = last_step
        return True

    def _finish_ready(self) -> bool:
        """Finish the items that are ready, or leave that to the other thread; return False after a failure."""
        with self._turn:
            self._turn.wait_for(lambda: self._has_failed or self._may_finish() or len(self._ready) < _MOST_READY)
            while self._may_finish() and not self._has_failed:
                self._finish_next()
            return not self._has_failed

    def _may_finish(self) -> bool:
        return not self._is_finishing and self._finished in self._ready

    def _finish_next(self) -> None:
        """Finish the next item, with the lock released so that the other thread can go on."""
        last_step, self._is_finishing = self._ready.pop(self._finished), True
        self._turn.notify_all()
        self._turn.release()
        try:
            last_step()
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._turn.acquire()
            self._is_finishing = False
            self._finished += 1
            self._turn.notify_all()


def _nothing() -> None:
    """Do nothing: it marks that no item was taken."""


def _raised(error: Exception) -> None:
    raise error
