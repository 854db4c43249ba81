"""States whose values expire: every kind of state, both visibilities, both update types, and the ways to clean up."""

from datetime import timedelta

import pytest
from live_backends import BACKENDS

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DeclarationError,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    TimeWindow,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.state.runtime.runtime_context import KeyedStateStore

LIVED = timedelta(milliseconds=10)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Scene:
    """A store of states at key 1, with a clock."""

    def __init__(self, backend):
        self.now = 0
        self.backend = backend(serializer_for(int), 8, range(8))
        self.backend.set_current_key(1)
        self.store = KeyedStateStore(self.backend, lambda: self.now)


@pytest.fixture(params=BACKENDS.values(), ids=BACKENDS)
def scene(request):
    return Scene(request.param)


def config(**options):
    builder = StateTtlConfig.new_builder(LIVED).disable_cleanup_in_background()
    for name, value in options.items():
        getattr(builder, name)(*value)
    return builder.build()


ON_READ = {"update_ttl_on_read_and_write": ()}
SHOWS = {"return_expired_if_not_cleaned_up": ()}


def value(scene, ttl):
    state = scene.store.get_state(ValueStateDescriptor("s", int, time_to_live=ttl))
    return lambda: state.update(1), state.value, 1, None, state


def of_list(scene, ttl):
    state = scene.store.get_list_state(ListStateDescriptor("s", int, time_to_live=ttl))
    return lambda: state.update([1]), state.get, [1], [], state


def of_map(scene, ttl):
    state = scene.store.get_map_state(MapStateDescriptor("s", str, int, time_to_live=ttl))
    return lambda: state.put("a", 1), lambda: state.get("a"), 1, None, state


def whole_map(scene, ttl):
    state = scene.store.get_map_state(MapStateDescriptor("s", str, int, time_to_live=ttl))
    return lambda: state.put("a", 1), lambda: dict(state.items()), {"a": 1}, {}, state


def reducing(scene, ttl):
    state = scene.store.get_reducing_state(ReducingStateDescriptor("s", max, int, time_to_live=ttl))
    return lambda: state.add(1), state.get, 1, None, state


def aggregating(scene, ttl):
    state = scene.store.get_aggregating_state(
        AggregatingStateDescriptor("s", Mean(), tuple[int, int], time_to_live=ttl)
    )
    return lambda: state.add(1), state.get, 1.0, None, state


KINDS = [value, of_list, of_map, whole_map, reducing, aggregating]


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_expires_when_its_time_is_reached(scene, kind):
    write, read, there, gone, _ = kind(scene, config())
    write()
    scene.now = 9
    assert there == read()
    scene.now = 10

    assert gone == read()
    scene.now = 0
    assert gone == read()  # the read has removed it


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_renews_the_stamp_where_this_is_asked_for(scene, kind):
    write, read, there, gone, _ = kind(scene, config(**ON_READ))
    write()
    for now in (9, 18, 27):
        scene.now = now
        assert there == read()
    scene.now = 37

    assert gone == read()


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_value_is_seen_once_where_this_is_asked_for(scene, kind):
    write, read, there, gone, _ = kind(scene, config(**SHOWS))
    write()
    scene.now = 10

    assert [there, gone] == [read(), read()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_renews_the_stamp(scene, kind):
    write, read, there, _, _ = kind(scene, config())
    write()
    scene.now = 9
    write()
    scene.now = 18

    assert there == read()


@pytest.mark.parametrize("kind", KINDS)
def test_clear_removes_what_lives(scene, kind):
    write, read, _, gone, state = kind(scene, config())
    write()
    state.clear()

    assert gone == read()


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_time_nothing_expires(scene, kind):
    ttl = StateTtlConfig.new_builder(LIVED).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    write, read, there, _, _ = kind(scene, ttl)
    write()
    scene.now = 1 << 40

    assert there == read()


def test_each_element_of_a_list_expires_by_itself(scene):
    state = scene.store.get_list_state(ListStateDescriptor("s", int, time_to_live=config()))
    state.add(1)
    scene.now = 5
    state.add_all([2, 3])
    scene.now = 10

    assert [2, 3] == state.get() == list(state)


def test_each_value_of_a_map_expires_by_itself(scene):
    state = scene.store.get_map_state(MapStateDescriptor("s", str, int, time_to_live=config()))
    state["a"] = 1
    scene.now = 5
    state.put_all({"b": 2, "c": 3})
    scene.now = 10

    assert (["b", "c"], [2, 3], False) == (list(state), list(state.values()), "a" in state)
    del state["b"], state["c"]
    assert state.is_empty()


def test_a_map_whose_values_have_all_expired_is_empty(scene):
    state = scene.store.get_map_state(MapStateDescriptor("s", str, int, time_to_live=config()))
    state["a"] = 1
    scene.now = 10

    assert state.is_empty()


def test_what_has_expired_is_not_added_to(scene):
    highest = scene.store.get_reducing_state(ReducingStateDescriptor("r", max, int, time_to_live=config()))
    mean = scene.store.get_aggregating_state(
        AggregatingStateDescriptor("a", Mean(), tuple[int, int], time_to_live=config())
    )
    highest.add(9)
    mean.add(9)
    scene.now = 10
    highest.add(1)
    mean.add(1)

    assert (1, 1.0) == (highest.get(), mean.get())


@pytest.mark.parametrize("expired", [0, 1])
def test_merged_namespaces_leave_out_what_has_expired(scene, expired):
    windows = TimeWindow(0, 1), TimeWindow(1, 2)
    highest = scene.store.get_reducing_state(
        ReducingStateDescriptor("r", lambda one, other: one + other, int, namespace=TimeWindow, time_to_live=config())
    )
    mean = scene.store.get_aggregating_state(
        AggregatingStateDescriptor("a", Mean(), tuple[int, int], namespace=TimeWindow, time_to_live=config())
    )
    for at in (expired, 1 - expired):
        for state in (highest, mean):
            state.set_current_namespace(windows[at])
            state.add(at + 1)
        scene.now += 8
    for state in (highest, mean):
        state.merge_namespaces(TimeWindow(0, 2), windows)
        state.set_current_namespace(TimeWindow(0, 2))

    assert (2 - expired, 2.0 - expired) == (highest.get(), mean.get())


def test_update_with_none_clears_and_the_default_is_read(scene):
    state = scene.store.get_state(ValueStateDescriptor("s", int, 7, time_to_live=config()))
    before = state.value()
    state.update(1)
    state.update(None)

    assert [7, 7] == [before, state.value()]


@pytest.mark.parametrize("ttl", [False, config()])
@pytest.mark.parametrize("kind", [reducing, aggregating])
def test_adding_none_removes_what_there_is(scene, kind, ttl):
    write, read, _, gone, state = kind(scene, ttl)
    write()
    state.add(None)

    assert gone == read()


@pytest.mark.parametrize("method", ["add", "add_all", "update"])
def test_a_list_refuses_none(scene, method):
    state = scene.store.get_list_state(ListStateDescriptor("s", int, time_to_live=config()))

    with pytest.raises(ValueNotConvertible, match="None"):
        getattr(state, method)(None if method == "add" else [1, None])


def test_folding_state_expires(scene):
    with pytest.deprecated_call():
        descriptor = FoldingStateDescriptor("f", "", lambda text, one: text + one, str, time_to_live=config())
    state = scene.store.get_folding_state(descriptor)
    state.add("a")
    state.add("b")
    before = state.get()
    scene.now = 10
    state.add("c")

    assert ("ab", "c") == (before, state.get())
    assert scene.store.get_folding_state(descriptor) is state


def test_stamps_are_stored_with_the_values(scene):
    scene.now = 5
    scene.store.get_state(ValueStateDescriptor("s", int, time_to_live=config())).update(1)
    stored = scene.backend.get_or_create_keyed_state(ValueStateDescriptor("s", int, time_to_live=True))

    assert TtlValue(5, 1) == stored.value()


def test_each_access_looks_at_some_keys(scene):
    ttl = config(cleanup_incrementally=(2, False))
    state = scene.store.get_state(ValueStateDescriptor("s", int, time_to_live=ttl))
    for key in range(10):
        scene.backend.set_current_key(key)
        state.update(key)
    scene.now = 10
    scene.backend.set_current_key(10)
    for _ in range(8):
        state.update(10)

    left = [10] if scene.backend.cleans_up_incrementally else range(11)
    assert [*left] == sorted(scene.backend.get_keys("s", None))
    assert 10 == scene.backend.current_key


def test_each_element_looks_at_some_keys_where_this_is_asked_for(scene):
    ttl = config(cleanup_incrementally=(5, True))
    state = scene.store.get_map_state(MapStateDescriptor("s", int, int, time_to_live=ttl))
    state.put(1, 1)
    scene.now = 10
    for _ in range(2):
        for cleaner in scene.store.cleaners:
            cleaner.step()

    assert ([] if scene.backend.cleans_up_incrementally else [1]) == list(scene.backend.get_keys("s", None))


def test_ttl_needs_a_time(scene):
    with pytest.raises(DeclarationError, match="not how long its values live"):
        scene.store.get_state(ValueStateDescriptor("s", int, time_to_live=True))


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(microseconds=1), 5, None])
def test_a_time_is_a_timedelta_of_a_millisecond_or_more(ttl):
    with pytest.raises(DeclarationError, match="cannot live for"):
        StateTtlConfig.new_builder(ttl).build()


def test_the_builder_keeps_what_it_is_told():
    made = (
        StateTtlConfig.new_builder(timedelta(1))
        .set_ttl(LIVED)
        .use_processing_time()
        .never_return_expired()
        .update_ttl_on_create_and_write()
        .cleanup_full_snapshot()
        .cleanup_in_rocksdb_compact_filter(7, timedelta(1))
        .build()
    )
    cleanup = made.get_cleanup_strategies()

    assert (LIVED, True, True) == (made.get_ttl(), made.is_enabled(), cleanup.in_full_snapshot())
    assert 7 == cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries()
    assert timedelta(1) == cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_periodic_compaction_time()
    assert 5 == cleanup.get_incremental_cleanup_strategy().get_cleanup_size()
    assert made.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert made.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired


def test_cleanup_in_the_background_can_be_switched_off():
    cleanup = StateTtlConfig.new_builder(LIVED).disable_cleanup_in_background().build().get_cleanup_strategies()

    assert not cleanup.is_cleanup_in_background()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_descriptor_gets_ttl_as_in_pyflink():
    descriptor = ValueStateDescriptor("s", int)
    descriptor.enable_time_to_live(config())

    assert "ttl<long>" == descriptor.describe().describe()
    assert config() == descriptor.time_to_live
