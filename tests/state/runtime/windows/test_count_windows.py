"""Windows of a number of elements, as PyFlink has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_backends import BACKENDS
from window_jobs import contents

from stateshift import CountWindow, DeclarationError, ProcessWindowFunction, Savepoint, WindowedStream
from stateshift.pyflink.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from stateshift.state.testing import KeyedProcessHarness


class Shown(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window(), [value for _, value in elements]


def harness_of(assigner, backend=BACKENDS["hashmap"]):
    operation = WindowedStream(assigner, tuple[str, int]).process(Shown())
    return KeyedProcessHarness(operation, lambda pair: pair[0], str, backend=backend)


def feed(harness, key, values):
    for value in values:
        harness.process_element((key, value))
    return harness.take()


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def test_each_window_of_a_key_has_its_number_and_fires_when_it_is_full(backend):
    harness = harness_of(CountTumblingWindowAssigner.of(2), backend)

    assert [("a", CountWindow(0), [1, 2])] == feed(harness, "a", [1, 2, 3])
    assert [] == feed(harness, "b", [9])
    harness.restore(harness.snapshot())
    assert [("a", CountWindow(1), [3, 4])] == feed(harness, "a", [4, 5])
    assert [("b", CountWindow(0), [9, 8])] == feed(harness, "b", [8])


@given(size=st.integers(1, 5), slide=st.integers(1, 7), count=st.integers(0, 20))
def test_sliding_windows_are_those_of_the_model(size, slide, count):
    values = list(range(count))
    starts = range(0, count, slide)
    expected = [("a", CountWindow(at), values[start : start + size]) for at, start in enumerate(starts)]

    fired = feed(harness_of(CountSlidingWindowAssigner(size, slide)), "a", values)

    assert [one for one in expected if len(one[2]) == size] == fired


OF_PYFLINK = {
    (3, 3): [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]],
    (3, 2): [[1, 2, 3], [3, 4, 5], [5, 6, 7], [7, 8, 9], [9, 10, 11], [11, 12, 13]],
    (2, 3): [[1, 2], [4, 5], [7, 8], [10, 11]],
}
"""Size and slide -> the windows of the elements 1 to 13, from a run of `count_window` in PyFlink 2.3."""


@pytest.mark.parametrize("shape", OF_PYFLINK)
def test_the_windows_are_those_that_pyflink_gave(shape):
    fired = feed(harness_of(CountSlidingWindowAssigner.of(*shape)), "a", range(1, 14))

    assert [("a", CountWindow(at), of) for at, of in enumerate(OF_PYFLINK[shape])] == fired


def test_the_states_are_those_of_pyflink_and_a_full_window_leaves_none(backend, tmp_path):
    harness = harness_of(CountTumblingWindowAssigner(2), backend)
    feed(harness, "a", [1, 2])
    harness.snapshot(tmp_path / "savepoint")
    _, entries = contents(Savepoint.open(tmp_path / "savepoint"), "harness")

    assert {"tumble-count-assigner"} == {state for state, _ in entries}


def test_the_state_of_the_assigner_is_one_of_the_operation():
    operation = WindowedStream(CountSlidingWindowAssigner(4, 2), int).process(Shown())

    assert ["window-contents", "slide-count-assigner"] == [state.name for state in operation.states]


@pytest.mark.parametrize("made", [lambda: CountTumblingWindowAssigner(0), lambda: CountSlidingWindowAssigner(3, 0)])
def test_a_window_of_no_elements_is_refused(made):
    with pytest.raises(DeclarationError, match="a count window takes a number of elements from 1, not 0"):
        made()
