"""Operator state through the harness: lists that are dealt out, union lists, broadcast maps, raw state, restores."""

import pytest
from live_backends import BACKENDS

from stateshift import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointedRestoring,
    CheckpointListener,
    DeclarationError,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    MigrationOptions,
    Policy,
    Savepoint,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.state.backends.operator_state import OperatorStateBackend
from stateshift.state.testing import (
    BroadcastHarness,
    HarnessSnapshot,
    KeyedProcessHarness,
    ProcessHarness,
    TaskInfo,
    snapshot_together,
)


class Buffers(MapFunction, CheckpointedFunction):
    """Keeps its elements in a list of one kind or the other."""

    def __init__(self, kind="list"):
        self.kind = kind
        self.buffered = []

    def initialize_state(self, context):
        get = getattr(context.get_operator_state_store(), f"get_{self.kind}_state")
        self.state = get(ListStateDescriptor("buffered", int))
        self.restored_from = context.get_restored_checkpoint_id()
        assert context.is_restored() == (self.restored_from is not None)
        self.buffered += self.state.get()

    def snapshot_state(self, context):
        self.state.update(self.buffered)
        self.taken = context.get_checkpoint_id(), context.get_checkpoint_timestamp()

    def map(self, value):
        self.buffered.append(value)


def subtasks(count, snapshot=None, function=Buffers, **options):
    """New harnesses, one a subtask."""
    tasks = [TaskInfo(index=index, parallelism=count) for index in range(count)]
    found = [ProcessHarness(function(), task=task, **options) for task in tasks]
    for harness in found if snapshot is not None else ():
        harness.restore(snapshot)
    return found


def buffered(harnesses):
    return [harness._function.buffered for harness in harnesses]


def test_a_list_is_dealt_out_evenly():
    (one,) = subtasks(1)
    one.process_elements(*range(5))
    two = subtasks(2, one.snapshot())
    assert [[0, 1, 2], [3, 4]] == buffered(two)
    two[0].process_elements(9)
    three = subtasks(3, snapshot_together(two))
    assert [[0, 1], [2, 9], [3, 4]] == buffered(three)

    assert [[0, 1, 2, 9, 3, 4]] == [sorted(part, key=[0, 1, 2, 9, 3, 4].index) for part in buffered(
        subtasks(1, snapshot_together(three))
    )]  # fmt: skip


def test_at_the_same_parallelism_each_subtask_has_its_own_list():
    before = subtasks(2)
    before[0].process_elements(1, 2, 3)

    assert [[1, 2, 3], []] == buffered(subtasks(2, snapshot_together(before)))


def test_a_union_list_goes_to_every_subtask():
    before = subtasks(2, function=lambda: Buffers("union_list"))
    before[0].process_elements(1, 2)
    before[1].process_elements(3)
    snapshot = snapshot_together(before)

    assert [[1, 2, 3]] * 2 == buffered(subtasks(2, snapshot, lambda: Buffers("union_list")))
    assert [[1, 2, 3]] * 3 == buffered(subtasks(3, snapshot, lambda: Buffers("union_list")))


def test_snapshots_of_subtasks_can_be_restored_one_by_one():
    before = subtasks(2)
    for number, harness in enumerate(before):
        harness.process_elements(number, number + 10)
    (after,) = subtasks(1)
    after.restore(*(harness.snapshot() for harness in before))

    assert [0, 10, 1, 11] == after._function.buffered


def test_a_snapshot_has_an_id_and_a_time_and_a_restore_knows_the_id():
    (harness,) = subtasks(1)
    harness.advance_processing_time(77)
    snapshots = [harness.snapshot() for _ in range(2)]
    taken = harness._function.taken
    harness.restore(snapshots[1])

    assert ((2, 77), 2) == (taken, harness._function.restored_from)


def test_a_state_that_nobody_asks_for_is_carried_on():
    (harness,) = subtasks(1)
    harness.process_elements(1, 2)
    other = ProcessHarness(Listed())
    other.restore(harness.snapshot())
    (again,) = subtasks(1, other.snapshot())

    assert [1, 2] == again._function.buffered


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_union_list_that_nobody_asks_for_does_not_grow(parallelism):
    before = subtasks(2, function=lambda: Buffers("union_list"))
    before[0].process_elements(1, 2)
    before[1].process_elements(3)
    snapshot = snapshot_together(before)
    for _ in range(3):
        snapshot = snapshot_together(subtasks(parallelism, snapshot, Listed))

    assert [[1, 2, 3]] == buffered(subtasks(1, snapshot, lambda: Buffers("union_list")))


class Listed(MapFunction, ListCheckpointed, CheckpointListener):
    state_type = str

    def __init__(self):
        self.seen, self.complete = [], []

    def map(self, value):
        self.seen.append(value)

    def snapshot_state(self, checkpoint_id, timestamp):
        return [*self.seen, f"{checkpoint_id} at {timestamp}"]

    def restore_state(self, state):
        self.seen = state

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete.append(checkpoint_id)


class TakesOver(MapFunction, CheckpointedRestoring):
    state_type = str

    def restore_state(self, state):
        self.seen = state

    def map(self, value):
        return self.seen


@pytest.mark.parametrize("base", [ListCheckpointed, CheckpointedRestoring])
def test_a_list_without_a_type_is_refused(base):
    class Untyped(MapFunction, base):
        def map(self, value):
            return value

        def snapshot_state(self, checkpoint_id, timestamp):
            return []

        def restore_state(self, state):
            pass

    with pytest.raises(DeclarationError, match="Untyped has no state_type"), ProcessHarness(Untyped()):
        pass


def test_a_list_checkpointed_function_gets_its_list_back():
    harness = ProcessHarness(Listed())
    harness.process_elements("a", "b")
    snapshot = harness.snapshot()
    harness.notify_checkpoint_complete()
    assert [1] == harness._function.complete
    harness.restore(snapshot, function=Listed())
    assert ["a", "b", "1 at 0"] == harness._function.seen
    harness.restore(snapshot, function=TakesOver())
    assert [["a", "b", "1 at 0"]] == harness.process_elements("x")
    harness.restore(harness.snapshot(), function=Listed())

    assert [] == harness._function.seen


class Seen(MapFunction, CheckpointedFunction):
    """Keeps what it has seen in a state of its own."""

    state_type = str

    def __init__(self):
        self.seen, self.calls = [], []

    def initialize_state(self, context):
        self.calls.append("initialize")
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", str))
        self.seen += self.state.get()

    def snapshot_state(self, context):
        self.state.update(self.seen)

    def map(self, value):
        self.seen.append(value)


class SeenBefore(Seen, CheckpointedRestoring):
    """The function after an upgrade from the older interface."""

    def restore_state(self, state):
        self.calls.append("restore")
        self.seen += state


class BothInterfaces(Seen, ListCheckpointed):
    """As in Flink 1.20 and 2.3, nobody calls its `restore_state`."""

    def restore_state(self, state):
        self.calls.append("restore")


def test_a_checkpointed_function_takes_over_the_list_of_the_older_interface_once():
    harness = ProcessHarness(Listed())
    harness.process_elements("a", "b")
    harness.restore(harness.snapshot(), function=SeenBefore())
    assert ["restore", "initialize"] == harness._function.calls
    assert ["a", "b", "1 at 0"] == harness._function.seen
    harness.process_elements("c")
    for _ in range(2):
        harness.restore(harness.snapshot(), function=SeenBefore())

        assert ["initialize"] == harness._function.calls
        assert ["a", "b", "1 at 0", "c"] == harness._function.seen


def test_a_new_function_has_no_state_of_the_older_interface(tmp_path):
    harness = ProcessHarness(SeenBefore())
    harness.process_elements("a")
    harness.snapshot(tmp_path / "savepoint")

    assert ["seen"] == [state.name for state in Savepoint.open(tmp_path / "savepoint").operator("harness").states]


@pytest.mark.parametrize("parallelism", [2, 3])
def test_each_subtask_takes_over_its_share_once(parallelism):
    one = ProcessHarness(Listed())
    one.process_elements("a", "b", "c")
    several = subtasks(parallelism, one.snapshot(), SeenBefore)
    assert ["1 at 0", "a", "b", "c"] == sorted(text for harness in several for text in harness._function.seen)
    again = subtasks(parallelism, snapshot_together(several), SeenBefore)

    assert [harness._function.seen for harness in several] == [harness._function.seen for harness in again]


def test_beside_a_checkpointed_function_list_checkpointed_has_no_effect():
    harness = ProcessHarness(Listed())
    harness.process_elements("a")
    starts_empty = MigrationOptions(policy=Policy(allow_empty=["harness/seen"]))
    harness.restore(harness.snapshot(), function=BothInterfaces(), options=starts_empty)
    harness.process_elements("b")
    assert (["initialize"], ["b"]) == (harness._function.calls, harness._function.seen)
    harness.restore(harness.snapshot(), function=BothInterfaces())
    assert (["initialize"], ["b"]) == (harness._function.calls, harness._function.seen)
    harness.restore(harness.snapshot(), function=Listed())

    assert ["a", "1 at 0"] == harness._function.seen  # nobody has asked for it


class Rules(BroadcastProcessFunction):
    descriptor = MapStateDescriptor("rules", str, int)

    def process_element(self, value, ctx: "BroadcastProcessFunction.ReadOnlyContext"):
        rules = ctx.get_broadcast_state(self.descriptor)
        assert not hasattr(rules, "put")
        yield rules.get(value), rules[value], value in rules, rules.is_empty(), sorted(rules), ctx.timestamp()

    def process_broadcast_element(self, value, ctx: "BroadcastProcessFunction.Context"):
        rules = ctx.get_broadcast_state(self.descriptor)
        if value is None:
            rules.clear()
        elif value[1] is None:
            del rules[value[0]]
        else:
            rules[value[0]] = value[1]
        yield sorted(rules.items()), list(rules.values()), ctx.current_watermark(), ctx.current_processing_time()


def test_broadcast_state_is_written_by_one_input_and_read_by_the_other():
    harness = BroadcastHarness(Rules())
    harness.advance_processing_time(3)
    harness.process_element("a", 5)
    harness.process_broadcast_element(("a", 1))
    harness.process_broadcast_element(("b", 2))
    harness.process_broadcast_element(("a", None))
    harness.process_element("b")

    least = -(1 << 63)
    assert [
        (None, None, False, True, [], 5),
        ([("a", 1)], [1], least, 3),
        ([("a", 1), ("b", 2)], [1, 2], least, 3),
        ([("b", 2)], [2], least, 3),
        (2, 2, True, False, ["b"], None),
    ] == harness.take()
    snapshot = harness.snapshot()
    harness.process_broadcast_element(None)
    harness.restore(snapshot)
    harness.take()
    harness.process_element("b")
    assert [(2, 2, True, False, ["b"], None)] == harness.take()


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_subtask_gets_the_broadcast_map(parallelism):
    tasks = [TaskInfo(index=index, parallelism=2) for index in range(2)]
    before = [BroadcastHarness(Rules(), task=task) for task in tasks]
    for harness in before:
        harness.process_broadcast_element(("a", 1))
    snapshot = snapshot_together(before)
    for index in range(parallelism):
        harness = BroadcastHarness(Rules(), task=TaskInfo(index=index, parallelism=parallelism))
        harness.restore(snapshot)
        harness.process_element("a")

        assert 1 == harness.output[0][0]


class KeyedRules(KeyedBroadcastProcessFunction):
    descriptor = MapStateDescriptor("rules", str, int)

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

    def process_element(self, value, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext"):
        self.count.update(self.count.value() + (ctx.get_broadcast_state(self.descriptor).get(value) or 0))
        ctx.timer_service().register_event_time_timer(10)
        yield ctx.get_current_key(), self.count.value()

    def process_broadcast_element(self, value, ctx: "KeyedBroadcastProcessFunction.Context"):
        if value is None:
            self.count.value()
        ctx.get_broadcast_state(self.descriptor).put_all(value)

    def on_timer(self, timestamp, ctx: "KeyedBroadcastProcessFunction.OnTimerContext"):
        rule = ctx.get_broadcast_state(self.descriptor)[ctx.get_current_key()]
        yield ctx.time_domain().name, timestamp, ctx.get_current_key(), rule, self.count.value()


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_keyed_and_broadcast_state_in_one_function(backend):
    harness = BroadcastHarness(KeyedRules(), lambda value: value, str, backend=backend)
    harness.process_broadcast_element({"a": 1, "b": 5})
    for value in "aab":
        harness.process_element(value)
    assert [("a", 1), ("a", 2), ("b", 5)] == harness.take()
    harness.restore(harness.snapshot())
    harness.process_watermark1(10)
    assert [] == harness.take()
    harness.process_watermark2(11)

    assert [("EVENT_TIME", 10, "a", 1, 2), ("EVENT_TIME", 10, "b", 5, 5)] == sorted(harness.take())


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_a_broadcast_element_has_no_key(backend):
    harness = BroadcastHarness(KeyedRules(), lambda value: value, str, backend=backend)
    harness.process_element("a")

    with pytest.raises(DeclarationError, match="without a current key"):
        harness.process_broadcast_element(None)


class KeyedWithInitialisation(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", int, 0))
        self.total = context.get_operator_state_store().get_list_state(ListStateDescriptor("total", int))

    def open(self, runtime_context):
        assert runtime_context.get_state(ValueStateDescriptor("count", int, 0)) is self.count

    def snapshot_state(self, context):
        pass

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        self.total.add(1)
        yield self.count.value(), sum(self.total)


@pytest.mark.parametrize("is_checkpoint", [False, True])
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_keyed_state_can_be_asked_for_in_initialize_state(backend, is_checkpoint, tmp_path):
    harness = KeyedProcessHarness(KeyedWithInitialisation(), lambda value: value, str, backend=backend, uid="both")
    harness.process_elements("a", "a", "b")
    place = tmp_path / "chk-1"
    harness.snapshot(place, is_checkpoint=is_checkpoint)
    savepoint = Savepoint.open(place)
    assert {"count", "total"} <= {state.name for state in savepoint.operator("both").states}
    harness.restore(HarnessSnapshot.of(savepoint, "both"))

    assert [(3, 4), (2, 5)] == harness.process_elements("a", "b")


class Raw(MapFunction, CheckpointedFunction):
    """Writes bytes of its own."""

    def __init__(self, keyed=None, parts=()):
        self.keyed, self.parts = keyed or {}, list(parts)

    def initialize_state(self, context):
        if context.is_restored():
            self.keyed = dict(context.get_raw_keyed_state_inputs())
            self.parts = list(context.get_raw_operator_state_inputs())

    def snapshot_state(self, context):
        for group, data in self.keyed.items():
            context.write_raw_keyed_state(group, data[:1])
            context.write_raw_keyed_state(group, data[1:])
        for part in self.parts:
            context.write_raw_operator_state(part)

    def map(self, value):
        return value


def test_raw_state_follows_the_key_groups_and_parts_are_dealt_out():
    keyed, parts = {0: b"zero", 63: b"", 64: b"sixty-four", 127: b"last"}, [b"one", b"", b"three"]
    one = ProcessHarness(Raw(keyed, parts))
    two = subtasks(2, one.snapshot(), Raw)
    assert [{0: b"zero", 63: b""}, {64: b"sixty-four", 127: b"last"}] == [part._function.keyed for part in two]
    assert [[b"one", b""], [b"three"]] == [part._function.parts for part in two]
    one.restore(snapshot_together(two))

    assert (keyed, parts) == (one._function.keyed, one._function.parts)


def test_raw_state_of_another_subtask_is_refused():
    harness = ProcessHarness(Raw({0: b"x"}), task=TaskInfo(index=1, parallelism=2))

    with pytest.raises(DeclarationError, match="raw state of key group 0 was written by the subtask of key groups 64"):
        harness.snapshot()


def ask(method, descriptor):
    return lambda store: getattr(store, method)(descriptor)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (ask("get_list_state", ListStateDescriptor("s", str)), r"is a list of long, and is asked for as a list of str"),
        (ask("get_union_list_state", ListStateDescriptor("s", int)), r"is a list of long.* a union list of long"),
        (ask("get_broadcast_state", MapStateDescriptor("s", int, int)), r"is a list of long.* a broadcast map of long"),
    ],
)
def test_another_type_under_a_name_is_an_error_that_names_both(other, words):
    store = OperatorStateBackend()
    one = store.get_list_state(ListStateDescriptor("s", int))
    assert one is store.get_list_state(ListStateDescriptor("s", int))

    with pytest.raises(DeclarationError, match=words):
        other(store)


def test_operator_state_has_no_ttl_and_no_namespaces_and_no_none():
    store = OperatorStateBackend()
    state = store.get_list_state(ListStateDescriptor("s", int))
    state.update([1])
    with pytest.raises(ValueNotConvertible, match="None"):
        state.add(None)
    with pytest.raises(ValueNotConvertible, match="None"):
        state.update([2, None])
    assert [1] == state.get()
    with pytest.raises(DeclarationError, match="has no namespaces"):
        state.set_current_namespace("x")
    with pytest.raises(DeclarationError, match="cannot have TTL"):
        store.get_list_state(ListStateDescriptor("t", int, time_to_live=True))
    state.clear()
    assert [] == list(state)


def test_an_element_that_does_not_fit_is_found_by_the_snapshot():
    (harness,) = subtasks(1)
    harness.process_elements("text")

    with pytest.raises(ValueNotConvertible, match="'text'") as caught:
        harness.snapshot()
    assert "buffered" == caught.value.where["state"]
