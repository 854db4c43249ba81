"""Items carried through three steps by two threads: taken one by one, worked on at once, and finished in their order.

A thread keeps an item for all its steps, so that what one step has touched is still in the processor's cache for the
next. The first item is carried by who asks, alone: what both need is loaded then.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Condition, Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
R = TypeVar("R")


class Turns(Generic[T, R]):
    """Carries items through.

    Args:
        items: They are taken by one thread at a time.
        finish: Takes what came of each item, in the order of the items; called by one thread at a time.
    """

    def __init__(self, items: Iterator[T], finish: Callable[[R], None]) -> None:
        self._items, self._finish = items, finish
        self._taking, self._turn = Lock(), Condition()
        self._taken = self._finished = 0
        self._failed = False

    def carry(self, make_worker: Callable[[], Callable[[T], R]]) -> None:
        """Carry all items through; what fails is raised once all items before it are finished.

        Args:
            make_worker: Makes who works on items, for each thread one.
        """
        work = make_worker()
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
                self._failed = True
                self._turn.notify_all()
            raise

    def _carry_one(self, work: Callable[[T], R]) -> bool:
        """Carry an item through; False where there is none, or where the other thread has failed before."""
        problem: Exception | None = None
        result: R | None = None
        item = None
        with self._taking:
            place, self._taken = self._taken, self._taken + 1
            try:
                item = next(self._items, None)
            except Exception as error:  # noqa: BLE001 - raised when its turn comes
                problem = error
        if item is None and problem is None:
            return False
        try:
            result = work(item) if item is not None else None
        except Exception as error:  # noqa: BLE001 - as above
            problem = error
        with self._turn:
            self._turn.wait_for(lambda: self._failed or self._finished == place)
            if self._failed:
                return False
        if problem is not None:
            raise problem
        assert result is not None  # noqa: S101 - that is what the type says
        self._finish(result)
        with self._turn:
            self._finished += 1
            self._turn.notify_all()
        return True
