"""Functions of a value and the state of its key."""

from __future__ import annotations

import pytest
from live_backends import BACKENDS

from stateshift import DeclarationError
from stateshift.pyflink.extensions import flat_map_with_state, map_with_state
from stateshift.state.testing import KeyedProcessHarness


def numbered(value, state):
    """Number the elements of a key, and begin anew after the third."""
    number = (state or 0) + 1
    return (*value, number), None if number == 3 else number


def at_third(value, state):
    number = (state or 0) + 1
    return ([value[0]] if number == 3 else None), None if number == 3 else number


def harness_of(function, backend=BACKENDS["hashmap"], **options):
    return KeyedProcessHarness(function, lambda pair: pair[0], str, backend=backend, **options)


def feed(harness, *values):
    for value in values:
        harness.process_element(value)
    return harness.take()


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def test_each_key_has_its_state_over_a_restore(backend):
    harness = harness_of(map_with_state(numbered, int), backend)

    assert [("a", 5, 1), ("b", 6, 1)] == feed(harness, ("a", 5), ("b", 6))
    harness.restore(harness.snapshot())
    assert [("a", 5, 2), ("a", 5, 3), ("a", 5, 1)] == feed(harness, ("a", 5), ("a", 5), ("a", 5))


def test_there_may_be_no_result(backend):
    harness = harness_of(flat_map_with_state(at_third, int), backend)

    assert ["a"] == feed(harness, *[("a", 0)] * 5)


def test_what_is_no_pair_is_refused():
    with pytest.raises(DeclarationError, match="a function with state returned 7"):
        feed(harness_of(map_with_state(lambda *_: 7, int)), ("a", 1))
