"""Handles, timers and the write-back cache over a sorted store, on RocksDB and on a store of thirty lines."""

from collections import deque
from dataclasses import dataclass

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sorted_dict import DictStore

from stateshift import (
    BigInt,
    Configuration,
    DeclarationError,
    EmbeddedRocksDBStateBackend,
    Int8,
    Int16,
    Int32,
    ListStateDescriptor,
    MapStateDescriptor,
    StateShiftError,
    TimeDomain,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.state.backends.sorted.backend import SortedStateBackend
from stateshift.state.entry_keys import encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import CANONICAL, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_readers import keyed_reader
from stateshift.state.formats.flink.keyed_stream import write_keyed_stream
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.key_groups import key_group, key_hasher


class CountingStore(DictStore):
    """Counts the batches that are written to its tables."""

    def table(self, name):
        table = super().table(name)
        if not hasattr(table, "batches"):
            write, table.batches = table.write, []
            table.write = lambda changes: (table.batches.append(len(changes)), write(changes))[1]
        return table


def on_dict(key=int, groups=range(4), max_parallelism=4, **options):
    return SortedStateBackend(DictStore(), serializer_for(key), max_parallelism, groups, **options)


def on_rocksdb(key=int, groups=range(4), max_parallelism=4, **options):
    values = {f"state.backend.rocksdb.{name}": value for name, value in options.items()}
    configuration = Configuration.of(values, environment={})
    return EmbeddedRocksDBStateBackend(serializer_for(key), max_parallelism, groups, configuration=configuration)


@pytest.fixture(params=[on_dict, on_rocksdb], ids=["dict", "rocksdb"])
def backend_of(request):
    backends = []

    def make(**options):
        backends.append(request.param(**options))
        return backends[-1]

    yield make
    for backend in backends:
        backend.dispose()


def contents(frozen):
    return [(block.key_group, block.state_id, tuple(block.items())) for block in frozen.blocks()]


def filled(backend):
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", int))
    mapped = backend.get_or_create_keyed_state(MapStateDescriptor("m", str, int))
    timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for key in range(200):
        backend.set_current_key(key)
        value.update(key)
        several.add_all([key, key + 1])
        mapped.put_all({"a": key, "b": -key})
        timers.add(key % 7, key, None)
    return value, several, mapped, timers


def test_a_frozen_state_is_what_it_was(backend_of):
    backend = backend_of()
    value, several, mapped, timers = filled(backend)
    before = contents(backend.freeze())
    frozen = backend.freeze()
    for key in range(200):
        backend.set_current_key(key)
        value.update(-1)
        several.clear()
        mapped.remove("a")
    while timers.poll(10):
        pass
    backend.flush()

    assert before == contents(frozen)
    frozen.release()
    frozen.release()
    with pytest.raises((StateShiftError, KeyError)):
        contents(frozen)


def test_a_frozen_state_is_restored_by_another_backend(backend_of):
    first, second = backend_of(), backend_of()
    filled(first)
    frozen = first.freeze()
    data, offsets = write_keyed_stream(frozen.header, range(4), frozen.blocks())
    handle = KeyGroupsHandle(CANONICAL, 0, offsets, InlineHandle("", data))
    second.restore(keyed_reader(InlineBytes(data), handle, 4))
    assert contents(frozen) == contents(second.freeze())
    value, several, mapped, timers = (
        second.get_or_create_keyed_state(ValueStateDescriptor("v", int)),
        second.get_or_create_keyed_state(ListStateDescriptor("l", int)),
        second.get_or_create_keyed_state(MapStateDescriptor("m", str, int)),
        second.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer()),
    )
    second.set_current_key(7)

    assert (7, [7, 8], {"a": 7, "b": -7}) == (value.value(), several.get(), dict(mapped.items()))
    assert 200 == len(list(timers.timers()))
    assert set(range(200)) == set(second.get_keys("m", None))
    backend = backend_of()
    backend.restore(frozen)
    with pytest.raises(DeclarationError, match="restored"):
        backend.get_or_create_keyed_state(ListStateDescriptor("v", int))


@pytest.mark.parametrize("order", [sorted, lambda items: sorted(items, reverse=True), lambda items: deal(items, 7)])
def test_many_entries_are_restored_in_whatever_order_they_come(backend_of, order):
    """RocksDB takes files of entries in order; Flink's heap writes savepoints in none, and entries of a few megabytes
    come in several blocks."""
    first, second = backend_of(), backend_of()
    value = first.get_or_create_keyed_state(ValueStateDescriptor("v", str))
    for key in range(3000):
        first.set_current_key(key)
        value.update(f"value {key}")
    frozen = first.freeze()
    blocks = [Block.of(one.key_group, one.state_id, order(list(one.items()))) for one in frozen.blocks()]
    for stored in blocks[:2], blocks[2:]:
        data, offsets = write_keyed_stream(frozen.header, range(4), stored)
        handle = KeyGroupsHandle(CANONICAL, 0, offsets, InlineHandle("", data))
        second.restore(keyed_reader(InlineBytes(data), handle, 4))

    assert contents(frozen) == contents(second.freeze())
    assert 3000 == sum(block.entries for block in blocks)


def deal(items, hands):
    return [item for hand in range(hands) for item in items[hand::hands]]


def test_key_and_namespace_of_variable_length_are_told_apart(backend_of):
    backend = backend_of(key=str)
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int, namespace=str))
    for key, namespace, value in (("a", "bc", 1), ("ab", "c", 2), ("", "abc", 3), ("a" * 300, "", 4)):
        backend.set_current_key(key)
        state.set_current_namespace(namespace)
        state.update(value)
    backend.flush()
    backend.set_current_key("ab")
    state.set_current_namespace("c")

    assert 2 == state.value()
    assert ["a"] == list(backend.get_keys("v", "bc"))


def test_namespaces_merge_into_one(backend_of):
    backend = backend_of()
    descriptor = ListStateDescriptor("s", int, namespace=TimeWindowSerializer())
    state = backend.get_or_create_keyed_state(descriptor)
    backend.set_current_key(1)
    for start in range(3):
        state.set_current_namespace(TimeWindow(start, start + 1))
        state.add(start)
    state.merge_namespaces(TimeWindow(0, 1), [TimeWindow(0, 1), TimeWindow(2, 3), TimeWindow(5, 6)])
    state.set_current_namespace(TimeWindow(0, 1))

    assert [0, 2] == state.get()
    assert [1] == list(backend.get_keys("s", TimeWindow(1, 2)))
    assert [] == list(backend.get_keys("s", TimeWindow(2, 3)))


def test_timers_of_many_key_groups_come_in_the_order_of_their_times(backend_of):
    backend = backend_of(groups=range(3, 16), max_parallelism=16)
    queue = backend.create_timer_queue("t", TimeDomain.PROCESSING_TIME, VoidNamespaceSerializer())
    keys = [key for key in range(400) if _fits(backend, key)]
    times = {(key * 7919) % 1009 - 500: key for key in keys}
    for time, key in times.items():
        assert queue.add(time, key, None)
        assert not queue.add(time, key, None)
    gone = sorted(times)[::3]
    for time in gone:
        queue.remove(time, times[time], None)
        queue.remove(time, times[time], None)
    expected = sorted(set(times) - set(gone))
    assert expected[0] == queue.first_timestamp()
    assert set(expected) == {time for time, *_ in queue.timers()}
    found = []
    while (timer := queue.poll(100)) is not None:
        found.append(timer)

    assert [(time, times[time]) for time in expected if time <= 100] == [timer[:2] for timer in found]
    assert min(time for time in expected if time > 100) == queue.first_timestamp()


def _fits(backend, key):
    try:
        backend.set_current_key(key)
    except ValueNotConvertible:
        return False
    return True


def test_timers_beyond_those_in_memory_are_found_again():
    backend = on_dict(held_timers=4, groups=range(1), max_parallelism=1)
    queue = backend.create_timer_queue("t", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for time in (*range(100, 0, -1), *range(101, 200)):
        queue.add(time, 1, None)
    queue.remove(1, 1, None)
    queue.remove(150, 1, None)

    assert not queue.add(170, 1, None)
    assert [*range(2, 150), *range(151, 200)] == [timer[0] for timer in iter(lambda: queue.poll(1000), None)]


@pytest.mark.parametrize(
    "make", [lambda: on_dict(heap_timers=True), lambda: on_rocksdb(**{"timer-service.factory": "heap"})]
)
def test_timers_on_the_heap_are_in_a_snapshot(make):
    backend, other = make(), on_dict()
    queue = backend.create_timer_queue("t", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for time in range(300):
        queue.add(time, time % 9, None)
    queue.poll(0)
    first = backend.freeze()
    queue.remove(5, 5, None)
    second = backend.freeze()
    other.restore(second)
    restored = other.create_timer_queue("t", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())

    assert 299 == sum(block.entries for block in first.blocks())
    assert set(queue.timers()) == set(restored.timers())
    assert 298 == len(set(queue.timers()))
    backend.dispose()


def test_elements_that_are_added_one_by_one_are_one_write():
    store = CountingStore()
    backend = SortedStateBackend(store, serializer_for(int), 4, range(4))
    state = backend.get_or_create_keyed_state(ListStateDescriptor("l", int))
    backend.set_current_key(1)
    for number in range(1000):
        state.add(number)
    assert [] == store.table("l").batches
    backend.freeze()
    backend.freeze()
    state.add(1000)
    backend.freeze()

    assert [1, 1] == store.table("l").batches
    assert list(range(1001)) == state.get()


def test_a_full_cache_is_written_and_loses_nothing():
    store = CountingStore()
    backend = SortedStateBackend(store, serializer_for(int), 4, range(4), cache_bytes=10_000)
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", str))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", str))
    for round_ in range(3):
        for key in range(100):
            backend.set_current_key(key)
            value.update(f"{round_} {key}")
            several.add(f"{round_}")
            if key % 3 == 0:
                value.clear()
    assert max(store.table("v").batches) < 60
    found = []
    for key in range(100):
        backend.set_current_key(key)
        found.append((value.value(), several.get()))

    assert [(None if key % 3 == 0 else f"2 {key}", ["0", "1", "2"]) for key in range(100)] == found


def test_a_list_past_the_limit_is_refused_when_it_grows(monkeypatch):
    for module in ("write_cache", "handles"):
        monkeypatch.setattr(f"stateshift.state.backends.sorted.{module}.MAX_VALUE_BYTES", 100)
    monkeypatch.setattr("stateshift.serializers.limits.MAX_VALUE_BYTES", 100)
    backend = on_dict(key=str)
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", str))
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", str))
    backend.set_current_key("ada")
    several.add("x" * 60)
    for grow in (lambda: several.add("y" * 60), lambda: value.update("z" * 101), lambda: several.update(["z" * 101])):
        with pytest.raises(ValueNotConvertible, match="at most 100") as refused:
            grow()
        assert "ada" in str(refused.value.where["key"])

    assert ["x" * 60] == several.get()


def test_values_that_do_not_fit_are_refused_when_they_are_handed_over(backend_of):
    backend = backend_of()
    value, several, mapped, _ = filled(backend)
    for step in (
        lambda: value.update("text"),
        lambda: several.add(None),
        lambda: several.update([1, None]),
        lambda: mapped.put("a", None),
        lambda: mapped.put(1, 1),
        lambda: backend.set_current_key("text"),
    ):
        with pytest.raises(ValueNotConvertible):
            step()
    backend.set_current_key(5)

    assert (5, [5, 6], {"a": 5, "b": -5}) == (value.value(), several.get(), dict(mapped.items()))


def test_state_outside_a_key_is_refused(backend_of):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(MapStateDescriptor("m", str, int))

    with pytest.raises(DeclarationError, match="without a current key"):
        state.is_empty()


def test_a_key_of_another_subtask_is_refused(backend_of):
    backend = backend_of(groups=range(1))

    with pytest.raises(ValueNotConvertible, match="this subtask has 0 to 0"):
        deque(map(backend.set_current_key, range(20)))


def test_a_name_has_one_type(backend_of):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("s", int))

    assert state is backend.get_or_create_keyed_state(ValueStateDescriptor("s", int))
    with pytest.raises(DeclarationError, match="value state of long, and is asked for as value state of string"):
        backend.get_or_create_keyed_state(ValueStateDescriptor("s", str))


@dataclass
class Mutable:
    name: str
    count: int


@attrs.frozen
class Frozen:
    name: str
    count: int


def test_a_value_that_is_changed_without_an_update_is_not_changed_in_the_state(backend_of):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("last", Mutable))
    backend.set_current_key(1)

    given = Mutable("ann", 1)
    state.update(given)
    given.count = 2
    state.value().count = 3

    assert state.value() == Mutable("ann", 1)
    backend.flush()
    assert state.value() == Mutable("ann", 1)


def test_frozen_records_of_several_keys_are_told_apart(backend_of):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("last", Frozen))
    for key in (1, 2, 1):
        backend.set_current_key(key)
        before = state.value()
        state.update(Frozen("x" * key, (before.count if before else 0) + key))
    found = {}
    for key in (2, 1):
        backend.set_current_key(key)
        found[key] = state.value()
    assert found == {1: Frozen("x", 2), 2: Frozen("xx", 2)}


def test_a_value_that_is_written_again_and_again_waits_for_one_batch():
    store = CountingStore()
    backend = SortedStateBackend(store, serializer_for(int), 4, range(4), cache_bytes=4000)
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("count", int))
    backend.set_current_key(1)
    for count in range(1000):
        state.update(count)
    backend.flush()
    assert store.table("count").batches == [1]
    assert state.value() == 999


STEPS = ("one", "two", "clear", "flush", "freeze", "keys")


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(-3, 3)), max_size=30), st.booleans())
def test_a_number_that_changes_again_and_again_is_what_it_was_set_to_last(steps, is_full):
    backend = on_dict(key=str, cache_bytes=300 if is_full else 1 << 20)
    serializer, hashed = serializer_for(str), key_hasher(serializer_for(str))
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("count", int))
    wanted, current = {}, None
    for step, number in steps:
        if step in {"one", "two"}:
            if step != current:
                current = step
                backend.set_encoded_key(step, key_group(hashed(step), 4), encode(serializer, step))
            state.update(number)
            wanted[step] = number
        elif step == "clear" and current:
            state.clear()
            wanted.pop(current, None)
        elif step == "flush":
            backend.flush()
        elif step == "freeze":
            assert len(contents(backend.freeze())) == len({key_group(hashed(key), 4) for key in wanted})
        elif step == "keys":
            assert sorted(backend.get_keys("count", None)) == sorted(wanted)
        if current:
            assert state.value() == wanted.get(current)
    for key in ("one", "two"):
        backend.set_current_key(key)
        assert state.value() == wanted.get(key)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, "x", 0.5], ids=["above", "below", "text", "float"])
def test_a_number_that_does_not_fit_is_refused_at_once_whatever_was_written_before(backend_of, value):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("count", int))
    backend.set_current_key(1)
    for fits in (5, (1 << 63) - 1, -(1 << 63)):
        state.update(fits)
        with pytest.raises(ValueNotConvertible, match="count"):
            state.update(value)
        assert state.value() == fits
    state.update(True)
    assert type(state.value()) is int


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (BigInt, [1, 1 << 200, -5]),
        (Int8, [-128, 127, 5]),
        (Int16, [300, -300]),
        (Int32, [1 << 30, -1]),
        (float, [1, 2.5]),
    ],
    ids=["BigInt", "Int8", "Int16", "Int32", "float"],
)
def test_numbers_of_all_types_change_again_and_again(backend_of, hint, values):
    backend = backend_of()
    state = backend.get_or_create_keyed_state(ValueStateDescriptor("number", hint))
    for key in (1, 2, 1):
        backend.set_current_key(key)
        for value in values:
            state.update(value)
            assert state.value() == value
    backend.flush()
    for key in (2, 1):
        backend.set_current_key(key)
        assert state.value() == values[-1]


def test_a_key_with_its_bytes_is_refused_in_another_subtask(backend_of):
    backend = backend_of(groups=range(2))
    with pytest.raises(ValueNotConvertible, match="key group 3"):
        backend.set_encoded_key(7, 3, b"")
