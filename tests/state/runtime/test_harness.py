"""The harness itself: snapshots, restores at another parallelism, and values that are changed unseen."""

from datetime import timedelta
from functools import partial

import pytest
from live_backends import BACKENDS

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Configuration,
    DeclarationError,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Savepoint,
    StateTtlConfig,
    StorageFailed,
    TargetExists,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness, ProcessHarness, StateMutated, TaskInfo


def first(value):
    return value[0]


class Counts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield value[0], self.count.value()


def test_a_restore_goes_on_from_the_snapshot():
    harness = KeyedProcessHarness(Counts(), first, str)
    harness.process_elements("a", "a", "b")
    snapshot = harness.snapshot()
    assert [("a", 3)] == harness.process_elements("a")
    harness.restore(snapshot)
    assert [("a", 3), ("b", 2)] == harness.process_elements("a", "b")
    harness.restore(snapshot, function=Counts())

    assert [("a", 3)] == harness.process_elements("a")


def test_state_is_restored_at_another_parallelism():
    keys = [f"key {number}" for number in range(40)]
    whole = KeyedProcessHarness(Counts(), lambda value: value, str)
    for key in keys:
        whole.process_element(key)
    parts = [
        KeyedProcessHarness(Counts(), lambda value: value, str, task=TaskInfo(index=index, parallelism=3))
        for index in range(3)
    ]
    found = 0
    for part in parts:
        part.restore(whole.snapshot())
        for key in keys:
            try:
                part.process_element(key)
            except ValueError:  # of another subtask
                continue
            found += part.take()[0][1] == 2
    assert len(keys) == found
    again = KeyedProcessHarness(Counts(), lambda value: value, str)
    again.restore(*(part.snapshot() for part in parts))

    assert {3} == {count for _, count in again.process_elements(*keys)}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_checkpoints_of_a_storage_are_numbered_and_retained(tmp_path, backend):
    harness = KeyedProcessHarness(Counts(), first, str, backend=backend)
    with open_checkpoints(str(tmp_path), retained=2) as storage:
        for _ in range(3):
            harness.process_elements("ada")
            snapshot = harness.snapshot(storage)
            harness.notify_checkpoint_complete()
        latest = HarnessSnapshot.of(Savepoint.open(storage.latest.place), "harness")
    harness.process_elements("ada")
    harness.restore(latest)

    assert 3 == snapshot.checkpoint_id == latest.checkpoint_id
    assert {"chk-2", "chk-3"} == {path.name for path in tmp_path.glob("*/chk-*")}
    assert [("a", 4)] == harness.process_elements("ada")


def test_an_incremental_checkpoint_needs_the_last_one_to_be_complete(tmp_path):
    configuration = Configuration.of({"execution.checkpointing.incremental": True}, environment={})
    backend = partial(EmbeddedRocksDBStateBackend, configuration=configuration)
    harness = KeyedProcessHarness(Counts(), first, str, backend=backend)
    harness.process_elements("ada")
    with open_checkpoints(str(tmp_path), retained=4) as storage:
        files = []
        for is_complete in (False, True, True):
            harness.snapshot(storage)
            if is_complete:
                harness.notify_checkpoint_complete()
            files.append(len(list(tmp_path.glob("*/shared/*"))))
    harness.close()

    assert [1, 2, 2] == files


def test_the_clock_does_not_go_back():
    harness = KeyedProcessHarness(Counts(), first, str)
    harness.advance_processing_time(5)

    with pytest.raises(DeclarationError, match="cannot go back from 5 to 4"):
        harness.advance_processing_time(4)


class Sum(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def add(self, value, accumulator):
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0]]


class Runs(KeyedProcessFunction):
    """Calls each element with the states: it is (key, function)."""

    def open(self, runtime_context):
        get = runtime_context
        self.states = {
            "value": get.get_state(ValueStateDescriptor("value", list[int])),
            "list": get.get_list_state(ListStateDescriptor("list", list[int])),
            "map": get.get_map_state(MapStateDescriptor("map", str, list[int])),
            "reducing": get.get_reducing_state(
                ReducingStateDescriptor("reducing", lambda one, other: one + other, list[int])
            ),
            "aggregating": get.get_aggregating_state(AggregatingStateDescriptor("aggregating", Sum(), list[int])),
        }

    def process_element(self, value, ctx):
        result = value[1](self.states)
        if result is not None:
            yield result


def runs(*steps, **options):
    harness = KeyedProcessHarness(Runs(), first, str, **options)
    for step in steps:
        harness.process_element(("a", step))
    return harness.output


GIVEN = [1]


@pytest.mark.parametrize(
    "write",
    [
        lambda states: states["value"].update(GIVEN),
        lambda states: states["list"].add(GIVEN),
        lambda states: states["list"].update([GIVEN]),
        lambda states: states["map"].put("x", GIVEN),
        lambda states: states["reducing"].add(GIVEN),
    ],
    ids=["value", "list", "list update", "map", "reducing"],
)
def test_a_value_that_is_changed_after_it_was_handed_over_is_found(write):
    def changed(_):
        GIVEN.append(2)

    def read(states):
        for state in states.values():
            (state.value if hasattr(state, "value") else state.clear)()

    GIVEN[:] = [1]
    assert [] == runs(write, changed, read)
    with pytest.raises(StateMutated, match="was changed after it was handed over or read") as caught:
        runs(write, changed, read, detect_mutation=True)
    assert "'a'" == caught.value.where["key"]


def test_a_value_that_is_changed_after_it_was_read_is_found():
    def append(states):
        found = states["value"].value()
        found.append(2)
        states["value"].update(found)

    with pytest.raises(StateMutated, match="of the state 'value'"):
        runs(lambda states: states["value"].update([1]), append, detect_mutation=True)


def test_what_is_done_through_the_states_is_no_mutation():
    def all_of_them(states):
        states["value"].update([*(states["value"].value() or ()), 1])
        states["list"].add_all([[1], [2]])
        states["map"]["x"] = [1]
        states["map"].put_all({"y": [2]})
        del states["map"]["y"]
        states["reducing"].add([3])
        states["aggregating"].add(4)

    def read(states):
        return (
            states["value"].value(), list(states["list"]), dict(states["map"].items()), list(states["map"]),
            "x" in states["map"], states["map"]["x"], states["map"].is_empty(), states["reducing"].get(),
            states["aggregating"].get(),
        )  # fmt: skip

    steps = [all_of_them, all_of_them, read]
    expected = [([1, 1], [[1], [2], [1], [2]], {"x": [1]}, ["x"], True, [1], False, [3, 3], 8)]

    assert expected == runs(*steps)
    assert expected == runs(*steps, detect_mutation=True)


@pytest.mark.parametrize("detect_mutation", [False, True])
def test_a_missing_map_key_reads_as_none_and_is_removed_in_silence(detect_mutation):
    def read(states):
        del states["map"]["z"]
        return [states["map"].get("z"), "z" in states["map"], states["map"].is_empty()]

    assert [[None, False, True]] == runs(read, detect_mutation=detect_mutation)


class Remembers(KeyedProcessFunction):
    """Has states of each kind with TTL."""

    def __init__(self, *cleanup):
        self.cleanup = cleanup

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(timedelta(milliseconds=10)).disable_cleanup_in_background()
        more = {"time_to_live": getattr(ttl, self.cleanup[0])(*self.cleanup[1:]).build()}
        get = runtime_context
        self.value = get.get_state(ValueStateDescriptor("value", int, **more))
        self.several = get.get_list_state(ListStateDescriptor("list", str, **more))
        self.map = get.get_map_state(MapStateDescriptor("map", str, str | None, **more))
        self.most = get.get_reducing_state(ReducingStateDescriptor("most", max, int, **more))
        self.sum = get.get_aggregating_state(AggregatingStateDescriptor("sum", Sum(), list[int], **more))
        self.forever = get.get_state(ValueStateDescriptor("forever", int))

    def process_element(self, value, ctx):
        _, number = value
        self.value.update(number)
        self.several.add_all(["a,b", str(number)])
        self.map.put(str(number), str(number))
        self.map.put("null", None)
        self.most.add(number)
        self.sum.add(number)
        self.forever.update(number)


@pytest.mark.parametrize("cleanup", [("cleanup_full_snapshot",), ("cleanup_in_rocksdb_compact_filter", 1000)])
@pytest.mark.parametrize("detect_mutation", [False, True])
@pytest.mark.parametrize("is_checkpoint", [False, True])
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_a_full_snapshot_leaves_out_what_has_expired(tmp_path, backend, is_checkpoint, detect_mutation, cleanup):
    is_swept = cleanup[0] == "cleanup_in_rocksdb_compact_filter" and not detect_mutation
    if is_checkpoint and backend is BACKENDS["rocksdb"] and not is_swept:
        pytest.skip("its checkpoint is the files of the database, as in Flink")
    harness = KeyedProcessHarness(
        Remembers(*cleanup), first, str, backend=backend, uid="ttl", detect_mutation=detect_mutation, task=TaskInfo()
    )
    harness.process_element(("old", 1))
    harness.process_element(("both", 1))
    harness.advance_processing_time(6)
    harness.process_element(("both", 2))
    harness.process_element(("new", 3))
    harness.advance_processing_time(12)
    harness.snapshot(tmp_path / "s", is_checkpoint=is_checkpoint)
    operator = Savepoint.open(tmp_path / "s").operator("ttl")
    names = ["value", "list", "map", "most", "sum", "forever"]
    found = {name: {entry.key: entry.value for entry in operator.state(name).read_entries()} for name in names}

    assert {"old": 1, "both": 2, "new": 3} == found["forever"]
    assert [{"both", "new"}] * 5 == [set(found[name]) for name in names[:5]]
    assert [TtlValue(6, "a,b"), TtlValue(6, "2")] == found["list"]["both"]
    assert {"2": TtlValue(6, "2"), "null": TtlValue(6, None)} == found["map"]["both"]
    assert TtlValue(6, [3]) == found["sum"]["both"]


@pytest.mark.parametrize("in_background", [True, False])
def test_checkpoints_of_rocksdb_remove_what_nobody_reads(tmp_path, in_background):
    builder = StateTtlConfig.new_builder(timedelta(milliseconds=10))
    config = (builder if in_background else builder.disable_cleanup_in_background()).build()
    harness = KeyedProcessHarness(Visits(config), first, int, backend=BACKENDS["rocksdb"], uid="ttl")
    harness.process_elements(*((key, 1) for key in range(50)))
    harness.advance_processing_time(6)
    harness.process_elements(*((key, 2) for key in range(25)))
    harness.advance_processing_time(12)
    harness.snapshot(tmp_path / "s", is_checkpoint=True)
    found = Savepoint.open(tmp_path / "s").operator("ttl").state("visits").read_entries()

    assert set(range(25 if in_background else 50)) == {entry.key for entry in found}
    assert [2] * 25 + [None] * 25 == harness.process_elements(*((key, None) for key in range(50)))
    harness.close()


def test_a_sweep_is_bounded_and_goes_on_where_the_last_one_ended():
    config = StateTtlConfig.new_builder(timedelta(milliseconds=10)).build()
    harness = KeyedProcessHarness(Visits(config), first, int, backend=BACKENDS["rocksdb"])
    harness.process_elements(*((key, 1) for key in range(2000)))
    harness.advance_processing_time(10)
    backend, left = harness._backend, []
    while not left or left[-1]:
        backend.sweep(300)
        left.append(len(list(backend.get_keys("visits", None))))

    assert len(left) > 2
    assert sorted({2000, *left}, reverse=True) == [2000, *left]
    harness.close()


class Visits(KeyedProcessFunction):
    """An element is (key, number to keep) or (key, None) to read it."""

    def __init__(self, config):
        self.config = config

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("visits", int, time_to_live=self.config)
        self.state = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        if value[1] is None:
            yield self.state.value()
        else:
            self.state.update(value[1])


class Puts(KeyedProcessFunction):
    """Hands over what it gets."""

    def open(self, runtime_context):
        self.states = {
            "value": runtime_context.get_state(ValueStateDescriptor("value", int, **self.options)),
            "list": runtime_context.get_list_state(ListStateDescriptor("list", int, **self.options)),
            "map": runtime_context.get_map_state(MapStateDescriptor("map", str, int, **self.options)),
            "reducing": runtime_context.get_reducing_state(
                ReducingStateDescriptor("reducing", lambda _, other: other, int, **self.options)
            ),
            "aggregating": runtime_context.get_aggregating_state(
                AggregatingStateDescriptor("aggregating", LastOf(), int, **self.options)
            ),
        }

    def __init__(self, options):
        self.options = options

    def process_element(self, value, ctx):
        state, method, *arguments = value
        getattr(self.states[state], method)(*arguments)


class LastOf(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_b


LONG = StateTtlConfig.new_builder(timedelta(days=1)).build()
WRONG = [
    ("value", "update", "text"),
    ("value", "update", 1 << 63),
    ("list", "add", "text"),
    ("list", "add_all", [1, "text"]),
    ("list", "update", [1, 0.5]),
    ("map", "put", "a", "text"),
    ("map", "put", None, 1),
    ("map", "put", 1, 1),
    ("map", "put_all", {"a": 1, None: 2}),
    ("reducing", "add", "text"),
    ("aggregating", "add", "text"),
]


@pytest.mark.parametrize("options", [{}, {"time_to_live": LONG}], ids=["plain", "ttl"])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_what_does_not_fit_is_refused_when_it_is_handed_over(backend, wrong, options):
    with KeyedProcessHarness(Puts(options), lambda _: "key", str, backend=backend) as harness:
        with pytest.raises(ValueNotConvertible) as caught:
            harness.process_element(wrong)
        assert wrong[0] == caught.value.where["state"]
        harness.snapshot()  # nothing of it is in the state


def test_the_heap_backend_itself_checks_nothing():
    live = HashMapStateBackend(serializer_for(int), 4, range(4))
    live.set_current_key(1)
    handle = live.get_or_create_keyed_state(ValueStateDescriptor("value", int))
    handle.update("text")

    assert "text" == handle.value()


@pytest.mark.parametrize("returned", [5, 0, "text", b"text", 0.5], ids=repr)
def test_a_result_that_is_returned_alone_is_refused(returned):
    class Returns(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return returned

    class YieldsAndReturns(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value
            return returned

    for function in (Returns(), YieldsAndReturns()):
        with pytest.raises(DeclarationError, match="returned"):
            KeyedProcessHarness(function, lambda value: value, str).process_elements("a")


def test_a_function_that_is_no_object_of_a_function_class_is_refused():
    for function in (lambda value: value, str, print):
        with pytest.raises(DeclarationError, match="is a plain function or a foreign class"):
            ProcessHarness(function)
    with pytest.raises(DeclarationError, match="LastOf is a class, and a function is an object of it"):
        ProcessHarness(LastOf)


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
def test_a_backend_is_not_created_without_a_subtask(backend):
    with pytest.raises(DeclarationError, match=f"pass what creates the backends: backend={backend.__name__}$"):
        backend()
    with pytest.raises(DeclarationError, match=rf"backend=partial\({backend.__name__}, configuration=…\)$"):
        backend(configuration=None)


def test_a_place_that_cannot_be_written_is_not_a_missing_savepoint(tmp_path):
    (tmp_path / "file").write_text("x")
    harness = ProcessHarness(Doubles())
    with pytest.raises(TargetExists, match="file is a file"):
        harness.snapshot(tmp_path / "file")
    with pytest.raises(StorageFailed, match="it is a file, or inside one, not a folder") as caught:
        harness.snapshot(tmp_path / "file" / "below")
    assert str(tmp_path / "file" / "below") == caught.value.where["savepoint"]
    assert "x" == (tmp_path / "file").read_text()


class Doubles(MapFunction):
    def map(self, value):
        return 2 * value
