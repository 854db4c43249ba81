"""A state under a snapshot class that is not registered is refused when it is opened, not when it is written."""

import pytest
from live_backends import BACKENDS
from unregistered_measures import Forgotten

from stateshift import (
    AggregatingStateDescriptor,
    DeclarationError,
    Job,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.state.backends.operator_state import OperatorStateBackend
from stateshift.state.testing import KeyedProcessHarness, write_savepoint
from stateshift.state.timers import TimeDomain

STATES = {
    "value": ValueStateDescriptor("s", Forgotten()),
    "in a tuple": ValueStateDescriptor("s", TupleSerializer((serializer_for(int), Forgotten()))),
    "with ttl": ValueStateDescriptor("s", Forgotten(), time_to_live=True),
    "list": ListStateDescriptor("s", Forgotten()),
    "map key": MapStateDescriptor("s", Forgotten(), int),
    "map value": MapStateDescriptor("s", int, Forgotten()),
    "reducing": ReducingStateDescriptor("s", max, Forgotten()),
    "aggregating": AggregatingStateDescriptor("s", None, Forgotten()),
    "namespace": ValueStateDescriptor("s", int, namespace=Forgotten()),
}
REFUSED = (
    r"has the snapshot class unregistered_measures.ForgottenSnapshot \(stateshift/acme-forgotten\), which is not reg"
)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_keyed_state_is_refused_when_it_is_opened(backend, state):
    live = BACKENDS[backend](serializer_for(int), 4, range(4))
    with pytest.raises(DeclarationError, match=f"the state 's' {REFUSED}"):
        live.get_or_create_keyed_state(STATES[state])
    live.dispose()


@pytest.mark.parametrize(
    ("method", "descriptor"),
    [
        ("get_list_state", STATES["list"]),
        ("get_union_list_state", STATES["list"]),
        ("get_broadcast_state", STATES["map key"]),
        ("get_broadcast_state", STATES["map value"]),
    ],
)
def test_an_operator_state_is_refused_when_it_is_opened(method, descriptor):
    with pytest.raises(DeclarationError, match=f"the operator state 's' {REFUSED}"):
        getattr(OperatorStateBackend(), method)(descriptor)


@pytest.mark.parametrize("backend", BACKENDS)
def test_timers_are_refused_when_they_are_opened(backend):
    live = BACKENDS[backend](serializer_for(int), 4, range(4))
    with pytest.raises(DeclarationError, match=f"the timers of 't' {REFUSED}"):
        live.create_timer_queue("t", TimeDomain.EVENT_TIME, Forgotten())
    live.dispose()


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        pass


def test_keys_are_refused_before_the_function_is_opened():
    with pytest.raises(DeclarationError, match=f"the keys of 'harness' {REFUSED}"):
        KeyedProcessHarness(Nothing(), lambda value: value, Forgotten())


@pytest.mark.parametrize("state", ["value", "list", "map key", "namespace"])
def test_no_savepoint_is_written(state, tmp_path):
    with pytest.raises(DeclarationError, match=f"the state 's' {REFUSED}"):
        write_savepoint(tmp_path / "savepoint", Job([Operator("op", key=int, states=[STATES[state]])]), {})
    assert not (tmp_path / "savepoint").exists()
