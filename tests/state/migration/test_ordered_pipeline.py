"""Items that two threads carry through: all of them, in their order, up to the first that fails."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.state.migration.ordered_pipeline import Turns


def carried(items, work, finish=None):
    """What was finished, and how it ended."""
    finished = []

    def take(result):
        if finish is not None:
            finish(result)
        finished.append(result)

    try:
        Turns(iter(items), take).carry(lambda: work)
    except ArithmeticError as error:
        return finished, error
    return finished, None


@pytest.mark.parametrize("count", range(6))
def test_all_items_are_finished_in_their_order(count):
    assert ([2 * item for item in range(1, count + 1)], None) == carried(range(1, count + 1), lambda item: 2 * item)


def test_two_threads_work_at_once_each_with_its_own_worker():
    both, made = threading.Barrier(2, timeout=20), []

    def make_worker():
        worker = len(made)
        made.append(worker)

        def work(item):
            if item:
                both.wait()
            return worker, threading.get_ident()

        return work

    found = []
    Turns(iter(range(9)), found.append).carry(make_worker)

    assert (0, threading.get_ident()) == found[0]
    assert 2 == len(set(found))
    assert [0, 1] == made


def test_one_thread_does_all_where_there_is_to_be_no_other():
    made, found = [], []

    def make_worker():
        made.append(len(made))
        return lambda item: (item, threading.get_ident())

    Turns(iter(range(9)), found.append).carry(make_worker, alone=True)

    assert [(item, threading.get_ident()) for item in range(9)] == found
    assert [0] == made


def test_what_fails_ends_one_thread_after_what_was_before_it():
    found = []

    with pytest.raises(ZeroDivisionError):
        Turns(iter([2, 1, 0, 4]), found.append).carry(lambda: lambda item: 2 // item, alone=True)

    assert [1, 2] == found


def test_few_results_wait_for_an_item_that_takes_long():
    taken, waiting = [], threading.Event()

    def work(item):
        taken.append(item)
        if item == 5:
            waiting.set()
        if item == 1:
            assert waiting.wait(20)
            time.sleep(0.05)
            assert [*range(6)] == taken
        return item

    assert ([*range(9)], None) == carried(range(9), work)


def test_what_is_empty_takes_no_thread(monkeypatch):
    monkeypatch.setattr("stateshift.state.migration.ordered_pipeline.ThreadPoolExecutor", None)

    assert ([], None) == carried([], str)


class Odd(ArithmeticError):
    """What fails, with its place."""


@given(st.integers(0, 12), st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_what_fails_first_is_raised_when_all_before_is_finished(count, taken, worked, ended):
    def items():
        for item in range(count):
            if item in taken:
                raise Odd(item)
            yield item

    def fail(places):
        def at(item):
            if item in places:
                raise Odd(item)
            return item

        return at

    finished, error = carried(items(), fail(worked), fail(ended))

    first = min((item for item in taken | worked | ended if item < count), default=None)
    assert [*range(count if first is None else first)] == finished
    assert (None if first is None else (first,)) == (None if error is None else error.args)


@pytest.mark.parametrize("at", [1, 5])
def test_an_interrupt_ends_both_threads(at):
    def work(item):
        if item >= at and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return item

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        Turns(iter(range(1, 10_000)), lambda _: None).carry(lambda: work)

    assert before == threading.active_count()
