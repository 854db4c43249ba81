"""The accumulator is the argument of `add` that is called so; where none is, nothing is guessed."""

from __future__ import annotations

import pytest

from stateshift import AggregateFunction, AggregatingStateDescriptor, DeclarationError, KeyedProcessFunction
from stateshift.state.testing import KeyedProcessHarness


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class OfPyFlink(Mean):
    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1


class OfTheProposal(Mean):
    def add(self, acc, value):
        return acc[0] + value, acc[1] + 1


class Means(KeyedProcessFunction):
    def __init__(self, descriptor):
        self.descriptor = descriptor

    def open(self, runtime_context):
        self.mean = runtime_context.get_aggregating_state(self.descriptor)

    def process_element(self, value, ctx):
        self.mean.add(value[1])
        yield self.mean.get()


@pytest.mark.parametrize(
    "descriptor",
    [
        AggregatingStateDescriptor("mean", OfPyFlink(), tuple[int, int]),
        AggregatingStateDescriptor("mean", agg_function=OfPyFlink(), state_type_info=tuple[int, int]),
        AggregatingStateDescriptor("mean", OfTheProposal(), tuple[int, int]),
        AggregatingStateDescriptor("mean", aggregate_function=OfTheProposal(), acc_type_info=tuple[int, int]),
    ],
)
def test_both_orders_compute_the_same(descriptor):
    harness = KeyedProcessHarness(Means(descriptor), lambda pair: pair[0], str)
    for value in (1, 2, 6):
        harness.process_element(("a", value))

    assert [1, 1.5, 3] == harness.take()


@pytest.mark.parametrize("names", ["value, total", "element, acc", "x, acc", "item, aggregate"])
def test_an_accumulator_that_is_last(names):
    made = type("Made", (Mean,), {"add": eval(f"lambda self, {names}: None")})  # noqa: S307 - names from above

    function = made()
    assert function is AggregatingStateDescriptor("mean", function, int).agg_function


@pytest.mark.parametrize("names", ["a, b", "value, element", "acc, agg", "value", "*args", "value, acc, more"])
def test_names_that_do_not_say_it_are_refused(names):
    made = type("Made", (Mean,), {"add": eval(f"lambda self, {names}: None")})  # noqa: S307 - names from above

    with pytest.raises(DeclarationError, match=r"Made\.add\(.*\) does not say which argument is the accumulator"):
        AggregatingStateDescriptor("mean", made(), int)


def test_a_name_is_given_once():
    with pytest.raises(DeclarationError, match=r"has both acc_type_info=… and state_type_info=…"):
        AggregatingStateDescriptor("mean", OfPyFlink(), acc_type_info=int, state_type_info=int)
