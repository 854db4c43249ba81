"""Items carried through three steps by two threads: taken one by one, worked on at once, and finished in their order.

Or by one, where the other would have no processor to itself.

A thread that has worked on an item finishes it, and those behind it that are ready; where one before it is still at
work, or another thread is finishing, it goes on with the next item, and they finish it. So nobody waits for another
while there is something to do, and what one step has touched is mostly still in the processor's cache for the next.
The first item is carried by who asks, alone: what both need is loaded then.
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
_MOST_READY = 2
"""How many results may wait: each holds memory."""


class Turns(Generic[T, R]):
    """Carries items through.

    Args:
        items: They are taken by one thread at a time.
        finish: Takes what came of each item, in the order of the items; called by one thread at a time.
    """

    def __init__(self, items: Iterator[T], finish: Callable[[R], object]) -> None:
        self._items, self._finish = items, finish
        self._taking, self._turn = Lock(), Condition()
        self._taken = self._finished = 0
        self._ready: dict[int, Callable[[], object]] = {}
        self._is_finishing = self._has_failed = False

    def carry(self, make_worker: Callable[[], Callable[[T], R]], *, alone: bool = False) -> None:
        """Carry all items through; what fails is raised once all items before it are finished.

        Args:
            make_worker: Makes who works on items, for each thread one.
            alone: Whether there is no other thread than that of who asks.
        """
        work = make_worker()
        if alone:
            for item in self._items:
                result = work(item)
                del item  # each holds memory, which the next one takes
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
        """Take an item, work on it, and finish what is ready; False where there is none, or where all is to end."""
        return self._work_on_one(work) and self._finish_ready()

    def _work_on_one(self, work: Callable[[T], R]) -> bool:
        """Take an item and work on it, and let go of it; False where there is none."""
        item = None
        last_step: Callable[[], object] = _nothing
        with self._taking:
            place, self._taken = self._taken, self._taken + 1
            try:
                item = next(self._items, None)
            except Exception as error:  # noqa: BLE001 - raised when its turn comes
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
        """Finish what is ready, or leave that to the other thread; False where all is to end."""
        with self._turn:
            self._turn.wait_for(lambda: self._has_failed or self._may_finish() or len(self._ready) < _MOST_READY)
            while self._may_finish() and not self._has_failed:
                self._finish_next()
            return not self._has_failed

    def _may_finish(self) -> bool:
        return not self._is_finishing and self._finished in self._ready

    def _finish_next(self) -> None:
        """Take the last step of an item; the other thread goes on meanwhile."""
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
    """The last step of no item."""


def _raised(error: Exception) -> None:
    raise error
