"""The one suite of all primitives on all backends: random operations, held against plain dicts.

Between the operations a snapshot is begun, finished while the state has moved on, and restored: into another backend,
at another parallelism, from a savepoint or a checkpoint.
"""

import itertools
import shutil
import tempfile
from copy import deepcopy
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from live_backends import BACKENDS as LIVE

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    StateTtlConfig,
    TimeDomain,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import VOID_NAMESPACE, VoidNamespaceSerializer
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.backends.rocksdb import store
from stateshift.state.backends.snapshots import (
    OperatorSnapshot,
    SavepointStrategy,
    SnapshotTarget,
    SubtaskSnapshot,
    publish_snapshot,
)
from stateshift.state.key_groups import key_group, key_group_range, key_hasher, subtask_of
from stateshift.state.publication.commit import Commit
from stateshift.state.runtime.runtime_context import KeyedStateStore
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

BACKENDS = LIVE | {"divided": partial(LIVE["rocksdb"], key_ranges=3)}
MAX_PARALLELISM = 6
UID = "keyed-op"
TEXTS = st.text(",ab😀\0", max_size=3)
WINDOWS = st.builds(TimeWindow, st.integers(0, 2), st.integers(3, 4))
NUMBERS = st.integers(-(1 << 40), 1 << 40)


class Longest(AggregateFunction):
    """Keeps all texts, in an accumulator that `add` changes, and gives the longest."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return max(accumulator, key=lambda text: (len(text), text))

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def descriptors(**more):
    """One state of each kind: in the namespaces of `more`."""
    return {
        "value": ValueStateDescriptor("value", str, "none", **more),
        "list": ListStateDescriptor("list", str, **more),
        "map": MapStateDescriptor("map", str, int | None, **more),
        "reducing": ReducingStateDescriptor("reducing", lambda one, other: one + other, int, **more),
        "aggregating": AggregatingStateDescriptor("aggregating", Longest(), list[str], **more),
    }


NAMESPACES = {
    "plain": ({}, st.just(VOID_NAMESPACE)),
    "text": ({"namespace": str}, TEXTS),
    "window": ({"namespace": TimeWindow}, WINDOWS),
}
KEYS = {
    "int": (int, st.integers(-5, 20)),
    "str": (str, TEXTS),
    "tuple": (tuple[str, int], st.tuples(TEXTS, st.integers(0, 2))),
    "float": (float, st.sampled_from([0.0, -0.0, 1.5, float("inf")])),
}


class Subtasks:
    """All subtasks of an operator, each with a backend."""

    def __init__(self, make, key, parallelism):
        self.parallelism = parallelism
        self.key, self.group_of = key, key_hasher(key)
        self.backends = [
            make(key, MAX_PARALLELISM, key_group_range(index, parallelism, MAX_PARALLELISM))
            for index in range(parallelism)
        ]

    def of(self, key):
        """The backend of a key, at this key."""
        group = key_group(self.group_of(key), MAX_PARALLELISM)
        backend = self.backends[subtask_of(group, self.parallelism, MAX_PARALLELISM)]
        backend.set_current_key(key)
        return backend


def hashable(value):
    """0.0 and -0.0 are two keys."""
    return repr(value)


class Snapshots(RuleBasedStateMachine):
    """Begins snapshots of all states and timers, finishes and restores them."""

    backend = key_type = namespace_type = lives = None  # set by the tests
    declared = staticmethod(descriptors)

    @initialize(data=st.data(), parallelism=st.integers(1, 3))
    def begin(self, data, parallelism):
        hint, self.keys = KEYS[self.key_type]
        arguments, self.namespaces = NAMESPACES[self.namespace_type]
        self.now = 1000
        self.key = serializer_for(hint)
        self.namespace = serializer_for(arguments["namespace"]) if arguments else VoidNamespaceSerializer()
        if self.lives:
            ttl = StateTtlConfig.new_builder(timedelta(milliseconds=self.lives)).build()
            arguments = {**arguments, "time_to_live": ttl}
        self.descriptors = self.declared(**arguments)
        self.start(self.backend, parallelism)
        self.held = {name: {} for name in self.descriptors}
        self.timers = {domain: set() for domain in TimeDomain}
        self.pending = None
        self.folders = Path(tempfile.mkdtemp(prefix="stateshift-model-"))
        self.numbers = itertools.count(1)
        self.known = {}

    def start(self, backend, parallelism):
        self.live = Subtasks(BACKENDS[backend], self.key, parallelism)
        self.stores = {id(backend): KeyedStateStore(backend, lambda: self.now) for backend in self.live.backends}

    def handle(self, backend, state):
        store, descriptor = self.stores[id(backend)], self.descriptors[state]
        return getattr(store, "get_state" if state == "value" else f"get_{state}_state")(descriptor)

    def is_living(self, stamped):
        return not self.lives or stamped[1] + self.lives > self.now

    def seen(self, state, place, default=None):
        """A single value in the model, without its time stamp."""
        stamped = self.held[state].get(place)
        return stamped[0] if stamped and self.is_living(stamped) else default

    def teardown(self):
        if hasattr(self, "live"):
            for backend in self.live.backends:
                backend.dispose()
            shutil.rmtree(self.folders)

    def at(self, data, state):
        """A handle at a random place, and that place in the model."""
        key, namespace = data.draw(self.keys, "key"), data.draw(self.namespaces, "namespace")
        handle = self.handle(self.live.of(key), state)
        handle.set_current_namespace(namespace)
        return handle, self.place(key, namespace)

    def place(self, key, namespace):
        self.known[hashable(key)] = key
        return hashable(key), namespace

    def queue(self, backend, domain):
        return backend.create_timer_queue("user-timers", domain, self.namespace)

    @precondition(lambda self: self.lives)
    @rule(passed_ms=st.integers(1, 7))
    def pass_time(self, passed_ms):
        self.now += passed_ms

    @precondition(lambda self: not self.pending)
    @rule(is_checkpoint=st.booleans())
    def begin_a_snapshot(self, is_checkpoint):
        folder = Folder.at(self.folders / str(next(self.numbers)))
        folder.create()
        operator, commit = Operator(UID, key=self.key), Commit(folder)
        futures = []
        for index, backend in enumerate(self.live.backends):
            strategy = backend.checkpoint_strategy() if is_checkpoint else SavepointStrategy(backend)
            target = SnapshotTarget(1, 0, commit, f"{operator.id}-keyed-{index}")
            futures.append(strategy.snapshot(target))
        self.pending = operator, commit, futures, is_checkpoint, deepcopy((self.held, self.timers))

    @precondition(lambda self: self.pending)
    @rule()
    def cancel_a_snapshot(self):
        for future in self.pending[2]:
            assert future.cancel()
        self.pending = None

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), restored=st.sampled_from(sorted(BACKENDS)), parallelism=st.integers(1, 4))
    def finish_a_snapshot_and_restore_it(self, data, restored, parallelism):
        operator, commit, futures, is_checkpoint, (held, timers) = self.pending
        for future in futures:
            future.run()
        parts = [SubtaskSnapshot(future.result()) for future in futures]
        publish_snapshot(commit, [OperatorSnapshot(operator, MAX_PARALLELISM, parts)], is_checkpoint=is_checkpoint)
        savepoint = Savepoint.open(commit.folder.place)
        report = verify(savepoint)
        assert report.ok, report.checks
        for backend in self.live.backends:
            backend.dispose()
        self.start(restored, parallelism)
        for backend in self.live.backends:
            restore_keyed(backend, savepoint.metadata.operators[0], savepoint.folder)
        self.held, self.timers, self.pending = held, timers, None


class LiveState(Snapshots):
    """In the model a value, an element, a value of a map, a sum and a list of texts each have a time stamp."""

    @rule(data=st.data(), value=st.none() | TEXTS)
    def update_a_value(self, data, value):
        handle, place = self.at(data, "value")
        assert self.seen("value", place, "none") == handle.value()
        handle.update(value)
        if value is None:
            self.held["value"].pop(place, None)
        else:
            self.held["value"][place] = value, self.now

    @rule(data=st.data(), values=st.lists(TEXTS, max_size=3), how=st.sampled_from(["add", "add_all", "update"]))
    def change_a_list(self, data, values, how):
        handle, place = self.at(data, "list")
        before = list(filter(self.is_living, self.held["list"].pop(place, [])))
        assert [value for value, _ in before] == handle.get()
        handle.get().append("not in the state")
        if how == "add":
            for value in values:
                handle.add(value)
        else:
            getattr(handle, how)(values)
        new = [(value, self.now) for value in values]
        after = new if how == "update" else before + new
        if after:
            self.held["list"][place] = after

    @rule(
        data=st.data(),
        values=st.dictionaries(TEXTS, st.none() | NUMBERS, max_size=3),
        removed=st.lists(TEXTS, max_size=2),
    )
    def change_a_map(self, data, values, removed):
        if self.lives:  # behind a time stamp, a long has no form for None
            values = {name: value for name, value in values.items() if value is not None}
        handle, place = self.at(data, "map")
        before = self.held["map"].pop(place, {})
        expected = {name: stamped for name, stamped in before.items() if self.is_living(stamped)}
        handle.put_all(values)
        expected |= {name: (value, self.now) for name, value in values.items()}
        for name in removed:
            assert (name in expected) == handle.contains(name)
            assert expected.get(name, (None,))[0] == handle.get(name)
            handle.remove(name)
            expected.pop(name, None)
        if "" not in expected:
            handle[""] = 1
            expected[""] = 1, self.now
        else:
            del handle[""]
            del expected[""]
        assert (not expected) == handle.is_empty()
        if expected:
            self.held["map"][place] = expected

    @rule(data=st.data(), values=st.lists(st.integers(-(1 << 32), 1 << 32), min_size=1, max_size=3))
    def reduce_values(self, data, values):
        handle, place = self.at(data, "reducing")
        for value in values:
            handle.add(value)
            self.held["reducing"][place] = self.seen("reducing", place, 0) + value, self.now

    @rule(data=st.data(), values=st.lists(TEXTS, min_size=1, max_size=3))
    def aggregate_values(self, data, values):
        handle, place = self.at(data, "aggregating")
        for value in values:
            handle.add(value)
            self.held["aggregating"][place] = [*self.seen("aggregating", place, []), value], self.now

    @rule(data=st.data(), state=st.sampled_from(["value", "list", "map", "reducing", "aggregating"]))
    def clear(self, data, state):
        handle, place = self.at(data, state)
        handle.clear()
        self.held[state].pop(place, None)

    @precondition(lambda self: self.namespace_type != "plain")
    @rule(data=st.data(), state=st.sampled_from(["list", "reducing", "aggregating"]))
    def merge_namespaces(self, data, state):
        key = data.draw(self.keys, "key")
        sources = data.draw(st.lists(self.namespaces, max_size=3, unique=True), "sources")
        target = data.draw(self.namespaces, "target")
        handle = self.handle(self.live.of(key), state)
        handle.merge_namespaces(target, sources)
        held, into = self.held[state], self.place(key, target)
        for namespace in sources:
            value = held.pop(self.place(key, namespace), None) if namespace != target else None
            before = held.get(into)
            if value is None:
                continue
            if state == "list":
                held[into] = (before or []) + value
            elif before is None or not self.is_living(before):
                held[into] = value
            elif self.is_living(value):
                held[into] = before[0] + value[0], self.now

    @rule(data=st.data(), domain=st.sampled_from(TimeDomain), time=st.integers(-3, 9), adds=st.booleans())
    def change_a_timer(self, data, domain, time, adds):
        key, namespace = data.draw(self.keys, "key"), data.draw(self.namespaces, "namespace")
        queue, timer = self.queue(self.live.of(key), domain), (time, *self.place(key, namespace))
        if adds:
            assert (timer not in self.timers[domain]) == queue.add(time, key, namespace)
            self.timers[domain].add(timer)
        else:
            queue.remove(time, key, namespace)
            self.timers[domain].discard(timer)

    @rule(domain=st.sampled_from(TimeDomain), until=st.integers(-4, 9))
    def fire_timers(self, domain, until):
        for backend in self.live.backends:
            queue, before = self.queue(backend, domain), -100
            while (timer := queue.poll(until)) is not None:
                time, key, namespace = timer
                assert before <= time <= until
                before = time
                self.timers[domain].remove((time, hashable(key), namespace))
            first = queue.first_timestamp()
            assert first is None or first > until
        assert not [timer for timer in self.timers[domain] if timer[0] <= until]

    @rule()
    def read_everything(self):
        """Keys whose values have expired may be there, without anything to read."""
        read = {
            "value": lambda handle: handle.value().removeprefix("none"),
            "list": lambda handle: handle.get(),
            "map": lambda handle: dict(handle.items()),
            "reducing": lambda handle: handle.get(),
            "aggregating": lambda handle: handle.get(),
        }
        spaces = {space for held in self.held.values() for _, space in held}
        found = {state: {} for state in self.descriptors}
        for backend, state, space in itertools.product(self.live.backends, self.descriptors, spaces):
            keys = list(backend.get_keys(state, space))
            handle = self.handle(backend, state)
            for key in keys:
                backend.set_current_key(key)
                handle.set_current_namespace(space)
                assert (hashable(key), space) not in found[state]
                found[state][hashable(key), space] = read[state](handle)
        living = {
            "list": lambda values: [value for value, _ in filter(self.is_living, values)],
            "map": lambda entries: {name: one[0] for name, one in entries.items() if self.is_living(one)},
            "aggregating": lambda one: Longest().get_result(one[0]) if self.is_living(one) else None,
        }
        expected = {
            state: {
                place: living.get(state, lambda one: one[0] if self.is_living(one) else None)(value)
                for place, value in held.items()
            }
            for state, held in self.held.items()
        }
        assert with_values(expected) == with_values(found)
        assert self.lives or {state: held.keys() for state, held in found.items()} == {
            state: held.keys() for state, held in self.held.items()
        }
        for domain, timers in self.timers.items():
            queues = [self.queue(backend, domain) for backend in self.live.backends]
            assert timers == {(time, hashable(key), space) for queue in queues for time, key, space in queue.timers()}


def with_values(found):
    """What was found where something is to be read; an empty text is nothing, as the other one of value state."""
    return {(state, *place): value for state, held in found.items() for place, value in held.items() if value}


class AllTexts(Longest):
    """Gives the accumulator itself, which `add` changes."""

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        acc_a.extend(acc_b)
        return acc_a


def appended(texts, text):
    texts.append(text)
    return texts


def changeable(**more):
    """States of lists of texts, which are changed in place; the function of the folding state does that itself."""
    return {
        "value": ValueStateDescriptor("value", list[str], ["none"], **more),
        "list": ListStateDescriptor("list", list[str], **more),
        "map": MapStateDescriptor("map", str, list[str], **more),
        "reducing": ReducingStateDescriptor("reducing", lambda one, other: one + other, list[str], **more),
        "aggregating": AggregatingStateDescriptor("aggregating", AllTexts(), list[str], **more),
        "folding": FoldingStateDescriptor("folding", ["begun"], appended, list[str], **more),
    }


class ChangedInPlace(Snapshots):
    """What a state hands out is changed in place, and handed over again or not.

    Where a key has a value, it is handed over again: on the heap the object may be the state. In the model a value, an
    element, a value of a map, a reduction and an accumulator each have a time stamp.
    """

    declared = staticmethod(changeable)
    bundles = st.lists(TEXTS, max_size=2)

    @rule(data=st.data(), text=TEXTS, stays=st.booleans())
    def change_a_value(self, data, text, stays):
        handle, place = self.at(data, "value")
        expected = self.seen("value", place)
        found = handle.value()
        assert (["none"] if expected is None else expected) == found
        found.append(text)
        if stays or expected is not None:
            handle.update(found)
            self.held["value"][place] = list(found), self.now

    @rule(data=st.data(), values=st.lists(bundles, max_size=2), text=TEXTS)
    def change_elements(self, data, values, text):
        handle, place = self.at(data, "list")
        before = [value for value, _ in filter(self.is_living, self.held["list"].pop(place, []))]
        found = handle.get()
        assert before == found
        for value in found:
            value.append(text)
        handle.update(found)
        handle.add_all(values)
        after = [([*value, text], self.now) for value in before] + [(list(value), self.now) for value in values]
        if after:
            self.held["list"][place] = after

    @rule(data=st.data(), name=TEXTS, value=bundles, text=TEXTS)
    def change_values_of_a_map(self, data, name, value, text):
        handle, place = self.at(data, "map")
        before = self.held["map"].pop(place, {})
        expected = {key: stamped for key, stamped in before.items() if self.is_living(stamped)}
        assert {key: stamped[0] for key, stamped in expected.items()} == dict(handle.items())
        for key, found in list(handle.items()):
            found.append(text)
            handle.put(key, found)
        after = {key: ([*stamped[0], text], self.now) for key, stamped in expected.items()}
        handle.put(name, value)
        self.held["map"][place] = after | {name: (list(value), self.now)}

    @rule(data=st.data(), value=bundles)
    def reduce_values(self, data, value):
        handle, place = self.at(data, "reducing")
        assert self.seen("reducing", place) == handle.get()
        handle.add(value)
        self.held["reducing"][place] = [*self.seen("reducing", place, []), *value], self.now

    @rule(data=st.data(), text=TEXTS, state=st.sampled_from(["aggregating", "folding"]))
    def add_and_change_the_result(self, data, text, state):
        handle, place = self.at(data, state)
        begun = ["begun"] if state == "folding" else []
        assert self.seen(state, place) == handle.get()
        handle.add(text)
        self.held[state][place] = [*self.seen(state, place, begun), text], self.now
        if state == "aggregating":
            first = handle.get()
            first.append("not in the state")
            handle.add(text)
            self.held[state][place][0].append(text)
            assert [*self.held[state][place][0][:-1], "not in the state"] == first

    @rule(data=st.data(), state=st.sampled_from(["value", "list", "map", "reducing", "aggregating", "folding"]))
    def clear(self, data, state):
        handle, place = self.at(data, state)
        handle.clear()
        self.held[state].pop(place, None)

    @precondition(lambda self: self.namespace_type != "plain")
    @rule(data=st.data())
    def merge_accumulators(self, data):
        key, target, source = (data.draw(one) for one in (self.keys, self.namespaces, self.namespaces))
        self.handle(self.live.of(key), "aggregating").merge_namespaces(target, [source])
        held, into = self.held["aggregating"], self.place(key, target)
        value = held.pop(self.place(key, source), None) if source != target else None
        if value is not None and not self.seen("aggregating", into):
            held[into] = value
        elif value is not None and self.is_living(value):
            held[into] = held[into][0] + value[0], self.now

    @rule()
    def read_every_value(self):
        for state, places in self.held.items():
            for (key, namespace), held in places.items():
                handle = self.handle(self.live.of(self.known[key]), state)
                handle.set_current_namespace(namespace)
                found = handle.value() if state == "value" else dict(handle.items()) if state == "map" else handle.get()
                if state == "list":
                    expected = [value for value, _ in filter(self.is_living, held)]
                elif state == "map":
                    expected = {name: stamped[0] for name, stamped in held.items() if self.is_living(stamped)}
                else:
                    expected = held[0] if self.is_living(held) else ["none"] if state == "value" else None
                assert expected == found


CASES = [(namespace, key, None) for namespace in NAMESPACES for key in KEYS]
CASES += [("plain", "int", 10), ("text", "str", 10)]


@pytest.mark.parametrize(("namespace", "key", "lives"), CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_random_operations_do_what_they_do_to_plain_dicts(backend, namespace, key, lives, monkeypatch):
    monkeypatch.setattr(store, "_LARGE_BYTES", 1)
    run_machine(LiveState, backend, namespace, key, lives)


def run_machine(kind, backend, namespace, key, lives):
    fixed = {"backend": backend, "namespace_type": namespace, "key_type": key, "lives": lives}
    run = type("Machine", (kind,), fixed).TestCase
    run.settings = settings(max_examples=5, stateful_step_count=30, deadline=None)
    run("runTest").runTest()


@pytest.mark.filterwarnings("ignore:FoldingStateDescriptor")
@pytest.mark.parametrize(("namespace", "lives"), [("plain", None), ("text", None), ("text", 10)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_state_hands_out_may_be_changed(backend, namespace, lives):
    run_machine(ChangedInPlace, backend, namespace, "int", lives)


@pytest.mark.parametrize("backend", BACKENDS)
def test_none_is_refused_in_a_list(backend):
    live = BACKENDS[backend](serializer_for(int), 4, range(4))
    live.set_current_key(1)
    handle = live.get_or_create_keyed_state(ListStateDescriptor("list", str))
    handle.add("a")

    for change in (lambda: handle.add(None), lambda: handle.add_all(["b", None]), lambda: handle.update([None])):
        with pytest.raises(ValueNotConvertible, match="a list has no None as an element"):
            change()
    assert ["a"] == handle.get()
    live.dispose()


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_may_be_changed_while_its_keys_are_listed(backend):
    live = BACKENDS[backend](serializer_for(int), 4, range(4))
    value = live.get_or_create_keyed_state(ValueStateDescriptor("value", int))
    for key in range(30):
        live.set_current_key(key)
        value.update(key)
    listed = []
    for key in live.get_keys("value", VOID_NAMESPACE):
        listed.append(key)
        live.set_current_key(key)
        value.clear()

    assert list(range(30)) == sorted(listed)
    assert [] == list(live.get_keys("value", VOID_NAMESPACE))
    assert [] == list(live.get_keys("another", VOID_NAMESPACE))
    live.dispose()
