"""What is special about the heap backend: its copies on write, its identities, its timer heap."""

import threading

import pytest

from stateshift import (
    DeclarationError,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateShiftError,
    TimeDomain,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import VOID_NAMESPACE, TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.state.backends.heap import tables
from stateshift.state.formats.flink.handles import CANONICAL, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_readers import keyed_reader
from stateshift.state.formats.flink.keyed_stream import write_keyed_stream
from stateshift.state.formats.flink.sources import InlineBytes


def backend_of(key=int, groups=range(4), max_parallelism=4):
    return HashMapStateBackend(serializer_for(key), max_parallelism, groups)


def contents(frozen):
    return [(block.key_group, block.state_id, tuple(block.items())) for block in frozen.blocks()]


def test_a_change_after_the_freeze_is_not_in_the_snapshot():
    backend = backend_of()
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", int))
    mapped = backend.get_or_create_keyed_state(MapStateDescriptor("m", str, int))
    timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for key in range(20):
        backend.set_current_key(key)
        value.update(key)
        several.add(key)
        mapped.put("a", key)
        timers.add(key, key, VOID_NAMESPACE)
    before = contents(backend.freeze())
    frozen = backend.freeze()
    for key in range(20):
        backend.set_current_key(key)
        value.update(key + 1)
        several.add(-1)
        several.add(-2)
        mapped.put("b", 1)
        mapped.remove("a")
        timers.remove(key, key, VOID_NAMESPACE)
        timers.add(key + 1, key, VOID_NAMESPACE)

    assert before == contents(frozen)
    backend.set_current_key(3)
    assert ([3, -1, -2], [("b", 1)], 4) == (several.get(), mapped.items(), value.value())


def test_a_container_is_copied_once_for_a_snapshot_and_never_after_its_release():
    backend = backend_of()
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", int))
    backend.set_current_key(1)
    several.add(1)
    frozen = backend.freeze()
    several.add(2)
    held = several._found()
    several.add(3)
    assert several._found() is held
    frozen.release()
    assert several._found() is held
    several.add(4)
    other = backend.freeze()
    other.release()
    several.add(5)

    assert several._found() is held
    assert [1, 2, 3, 4, 5] == several.get()


def test_a_released_snapshot_cannot_be_read_on():
    backend = backend_of()
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    for key in range(100):
        backend.set_current_key(key)
        value.update(key)
    frozen = backend.freeze()
    blocks = frozen.blocks()
    next(blocks)
    frozen.release()
    frozen.release()

    with pytest.raises(StateShiftError, match="released"):
        list(blocks)


def test_a_snapshot_is_written_by_another_thread_while_the_function_goes_on():
    backend = backend_of(groups=range(16), max_parallelism=16)
    several = backend.get_or_create_keyed_state(ListStateDescriptor("l", int))
    for key in range(2000):
        backend.set_current_key(key)
        several.update([key])
    expected = contents(backend.freeze())
    frozen, found = backend.freeze(), []
    writer = threading.Thread(target=lambda: found.extend(contents(frozen)))
    writer.start()
    round_ = 0
    while writer.is_alive():
        for key in range(3000):
            backend.set_current_key(key)
            several.add(round_)
        round_ += 1
    writer.join()

    assert expected == found


@pytest.mark.parametrize(
    ("hint", "one", "other"),
    [
        (float, 0.0, -0.0),
        (list[int], [1], [1, 2]),
        (float, 1.5, float("nan")),
        (tuple[float, str], (0.0, ""), (-0.0, "")),
    ],
)
def test_keys_are_told_apart_as_by_their_bytes(hint, one, other):
    backend = backend_of(hint)
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", str))
    for key, text in ((one, "one"), (other, "other")):
        backend.set_current_key(key)
        assert value.value() is None
        value.update(text)
    backend.set_current_key(one)

    assert "one" == value.value()
    assert sorted(map(str, (one, other))) == sorted(map(str, backend.get_keys("v", VOID_NAMESPACE)))


def test_map_keys_are_told_apart_as_by_their_bytes():
    backend = backend_of()
    mapped = backend.get_or_create_keyed_state(MapStateDescriptor("m", float, int))
    backend.set_current_key(1)
    mapped.put_all({0.0: 1})
    mapped.put(-0.0, 2)
    mapped.put(float("nan"), 3)
    mapped.put(float("nan"), 4)

    assert ["0.0", "-0.0", "nan"] == list(map(str, mapped.keys()))
    assert [1, 2, 4] == mapped.values()


def test_state_without_a_current_key_is_refused():
    value = backend_of().get_or_create_keyed_state(ValueStateDescriptor("v", int))

    for access in (value.value, value.clear, lambda: value.update(1)):
        with pytest.raises(DeclarationError, match="without a current key"):
            access()


@pytest.mark.parametrize("key", ["text", [1], True, 1 << 70])
def test_a_key_of_another_type_is_refused(key):
    with pytest.raises(ValueNotConvertible):
        backend_of().set_current_key(key)


def test_a_key_of_another_subtask_is_refused():
    with pytest.raises(ValueNotConvertible, match="the key 0 is in key group 2; this subtask has 0 to 0"):
        backend_of(groups=range(1)).set_current_key(0)


def test_two_types_under_one_name_are_refused():
    backend = backend_of()
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))

    assert value is backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    with pytest.raises(DeclarationError, match="is value state of long, and is asked for as value state of string"):
        backend.get_or_create_keyed_state(ValueStateDescriptor("v", str))
    with pytest.raises(DeclarationError, match="is asked for as reducing state of long"):
        backend.get_or_create_keyed_state(ReducingStateDescriptor("v", max, int))


def test_a_value_that_does_not_fit_is_named_by_the_snapshot():
    backend = backend_of()
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    backend.set_current_key(7)
    value.update("seven")

    with pytest.raises(ValueNotConvertible) as caught:
        list(backend.freeze().blocks())
    assert ("v", "7") == (caught.value.where["state"], caught.value.where["key"])


def test_timers_fire_by_time_and_a_removed_one_does_not():
    backend = backend_of()
    timers = backend.create_timer_queue("window-timers", TimeDomain.EVENT_TIME, TimeWindowSerializer())
    window = TimeWindow(0, 10)
    assert timers.add(5, 1, window)
    assert not timers.add(5, 1, TimeWindow(0, 10))
    assert timers.add(-3, 2, window)
    assert timers.add(4, 3, window)
    timers.remove(4, 3, window)
    timers.remove(4, 3, window)

    assert -3 == timers.first_timestamp()
    assert (-3, 2, window) == timers.poll(4)
    assert timers.poll(4) is None
    assert [(5, 1, window)] == list(timers.timers())
    assert (5, 1, window) == timers.poll(5)
    assert timers.first_timestamp() is None


def test_removed_timers_do_not_fill_the_heap():
    backend = backend_of()
    timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for time in range(100_000):
        timers.add(time, 1, VOID_NAMESPACE)
        timers.remove(time - 5, 1, VOID_NAMESPACE)

    assert 5 == len(list(timers.timers()))
    assert len(timers._heap) < 2000


def stored(backend):
    """The reader of a canonical stream of what the backend holds."""
    frozen = backend.freeze()
    data, offsets = write_keyed_stream(frozen.header, backend.key_groups, frozen.blocks())
    frozen.release()
    handle = KeyGroupsHandle(CANONICAL, backend.key_groups.start, offsets, InlineHandle("stream", data))
    return keyed_reader(InlineBytes(data), handle, backend.max_parallelism)


def test_restored_state_without_a_handle_is_kept_as_it_was_stored():
    first = backend_of()
    value = first.get_or_create_keyed_state(ValueStateDescriptor("v", int, namespace=str))
    mapped = first.get_or_create_keyed_state(MapStateDescriptor("m", int, int))
    timers = first.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for key in range(9):
        first.set_current_key(key)
        value.set_current_namespace("space")
        value.update(key)
        mapped.put_all({1: key, 2: key})
        timers.add(-key, key, VOID_NAMESPACE)
    second = backend_of()
    second.restore(stored(first))

    assert list(range(9)) == sorted(second.get_keys("v", "space"))
    assert [] == list(second.get_keys("v", "other"))
    assert list(range(9)) == sorted(second.get_keys("m", None))
    assert contents(first.freeze()) == contents(second.freeze())

    timers = second.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    mapped = second.get_or_create_keyed_state(MapStateDescriptor("m", int, int))
    second.set_current_key(3)
    assert {1: 3, 2: 3} == dict(mapped.items())
    assert -8 == timers.first_timestamp()
    assert contents(first.freeze()) == contents(second.freeze())
    with pytest.raises(DeclarationError, match="was restored as value state of long, and is asked for as list state"):
        second.get_or_create_keyed_state(ListStateDescriptor("v", int, namespace=str))


def test_a_subtask_restores_only_its_own_key_groups():
    whole = backend_of()
    value = whole.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    for key in range(40):
        whole.set_current_key(key)
        value.update(key)
    halves = [backend_of(groups=range(2)), backend_of(groups=range(2, 4))]
    for half in halves:
        half.restore(stored(whole))
    again = backend_of()
    for half in halves:
        again.restore(stored(half))

    assert contents(whole.freeze()) == [block for half in halves for block in contents(half.freeze())]
    assert contents(whole.freeze()) == contents(again.freeze())


def test_more_keys_than_are_remembered_are_found(monkeypatch):
    monkeypatch.setattr(tables, "_MOST_KNOWN_KEYS", 10)
    backend = backend_of(str)
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    for number in range(100):
        backend.set_current_key(str(number))
        value.update(number)

    assert len(backend._slots) <= 10
    for number in range(100):
        backend.set_current_key(str(number))
        assert number == value.value()
