"""A savepoint read to values and written from them again: every serializer, hash and framing in both directions."""

from __future__ import annotations

from stateshift import (
    AggregatingStateDescriptor,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    TimeDomain,
    TimerServiceDescriptor,
    ValueStateDescriptor,
)
from stateshift.compat.description import StateKind
from stateshift.state.formats.flink.value_readers import value_reader
from stateshift.state.timers import queue_parts

PLAIN = {
    StateKind.VALUE: ValueStateDescriptor,
    StateKind.REDUCING: ReducingStateDescriptor,
    StateKind.AGGREGATING: AggregatingStateDescriptor,
}


def descriptor_of(state):
    """What a program would declare for a stored state, with serializers that its snapshots restore."""
    serializer = value_reader(state.kind, state.description.value.snapshot)
    if state.description.key is not None:
        return MapStateDescriptor(state.name, state.description.key.snapshot.restore_serializer(), serializer)
    if not state.kind.is_keyed:
        return ListStateDescriptor(state.name, serializer)
    namespace = state.description.namespace.snapshot.restore_serializer()
    if state.kind is StateKind.LIST:
        return ListStateDescriptor(state.name, serializer.element, namespace=namespace)
    if state.kind is StateKind.MAP:
        return MapStateDescriptor(
            state.name, serializer.key, serializer.value, nullable_values=True, namespace=namespace
        )
    functions = () if state.kind is StateKind.VALUE else (None,)
    return PLAIN[state.kind](state.name, *functions, serializer, namespace=namespace)


def operator_of(operator):
    """What a program would declare for a stored operator."""
    rooms = {"states": [], "list_states": [], "union_list_states": [], "broadcast_states": []}
    services = {}
    names = {
        StateKind.SPLIT_LIST: "list_states",
        StateKind.UNION_LIST: "union_list_states",
        StateKind.BROADCAST: "broadcast_states",
    }
    for state in operator.states:
        if state.kind is StateKind.TIMERS:
            service, _ = queue_parts(state.name)
            _, namespace = state.description.value.snapshot.nested
            services[service] = TimerServiceDescriptor(service, namespace=namespace.restore_serializer())
        else:
            rooms[names.get(state.kind, "states")].append(descriptor_of(state))
    key = operator.key.restore_serializer() if operator.key is not None else None
    return Operator(operator.uid, operator_id=operator.operator_id, key=key, timers=services.values(), **rooms)


def copy_by_value(savepoint, target, **options):
    """Write `savepoint` to `target` from its values; options are those of SavepointWriter."""
    stateful = [operator for operator in savepoint.operators if operator.stored.has_state]
    job = Job([operator_of(operator) for operator in stateful])
    most = {operator.max_parallelism for operator in stateful}
    parallelism = max(operator.parallelism for operator in stateful)
    assert len(most) == 1
    with SavepointWriter(target, job, max_parallelism=most.pop(), parallelism=parallelism, **options) as writer:
        for operator in stateful:
            for state in operator.states:
                write_state(writer, operator.operator_id, state)
    return Savepoint.open(target)


def write_state(writer, operator, state):
    """Put all values of a state."""
    if state.kind is StateKind.BROADCAST:
        for key, value in state.read_elements()[0][0].items():
            writer.put_broadcast(operator, state.name, key, value)
    elif not state.kind.is_keyed:
        for subtask, elements in enumerate(state.read_elements()):
            for element in elements:
                writer.add(operator, state.name, element, subtask=subtask)
    elif state.kind is StateKind.TIMERS:
        service, domain = queue_parts(state.name)
        by_event = domain is TimeDomain.EVENT_TIME
        register = writer.register_event_time_timer if by_event else writer.register_processing_time_timer
        for timer in state.read_timers():
            register(operator, timer.timestamp, timer.key, namespace=timer.namespace, service=service)
    else:
        for entry in state.read_entries():
            namespace = {} if entry.namespace is None else {"namespace": entry.namespace}
            writer.put(operator, state.name, entry.key, entry.value, **namespace)
