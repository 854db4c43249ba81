"""Restore with the check in its middle, through the harness, on every backend: start, migrate, refuse."""

from __future__ import annotations

import enum
from datetime import timedelta

import attrs
import pytest
from live_backends import BACKENDS

from stateshift import (
    BigInt,
    CheckpointedFunction,
    Decision,
    DeclarationError,
    IncompatibleState,
    Job,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Policy,
    Repartition,
    RestoreRefused,
    Row,
    Savepoint,
    StateTtlConfig,
    Target,
    ValueStateDescriptor,
    parse_edits,
    record,
    restorable,
)
from stateshift.state import key_groups
from stateshift.state.backends import key_bytes
from stateshift.state.backends.heap import tables
from stateshift.state.entry_keys import encode
from stateshift.state.testing import (
    HarnessSnapshot,
    KeyedProcessHarness,
    ProcessHarness,
    TaskInfo,
    migrate_in_process,
    snapshot_together,
)


@attrs.frozen
class Account:
    name: str
    visits: int


@record(aliases=[f"{__name__}.Account"])
@attrs.frozen
class Customer:
    """The same under another name, with another field."""

    name: str
    visits: int
    city: str = "?"


@record(aliases=[f"{__name__}.Account"])
@attrs.frozen
class Texts:
    """Fields that cannot be converted."""

    name: int
    visits: int


class Shop(KeyedProcessFunction):
    """Keeps values of one type in states of three kinds; an element is (key, what to put) or (key, None) to read."""

    def __init__(self, of, name="account", **options):
        self.of, self.name, self.options = of, name, options
        self.opened = 0

    def open(self, runtime_context):
        self.opened += 1
        self.value = runtime_context.get_state(ValueStateDescriptor(self.name, self.of, **self.options))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", self.of, **self.options))
        self.by = runtime_context.get_map_state(MapStateDescriptor("by", str, self.of, **self.options))

    def process_element(self, value, ctx):
        given = value[1]
        if given is None:
            yield self.value.value(), list(self.all.get()), dict(self.by.items())
        else:
            self.value.update(given)
            self.all.add(given)
            self.by.put("x", given)
            ctx.timer_service().register_event_time_timer(7)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def first(value):
    return value[0]


@pytest.fixture(params=BACKENDS.values(), ids=BACKENDS)
def harness_of(request):
    made = []

    def make(function, key=str, **options):
        made.append(KeyedProcessHarness(function, first, key, backend=request.param, uid="shop", **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


ADA, BOB = Account("ada", 3), Account("bob", 1)


def accounts(harness_of, place, *, is_checkpoint=False, of=Account, given=(ADA, BOB)):
    harness = harness_of(Shop(of))
    harness.process_elements(("a", given[0]), ("b", given[1]))
    return harness.snapshot(place, is_checkpoint=is_checkpoint)


def all_of(value):
    return value, [value], {"x": value}


@pytest.mark.parametrize("is_checkpoint", [False, True], ids=["savepoint", "checkpoint"])
def test_the_same_types_start(harness_of, tmp_path, is_checkpoint):
    snapshot = accounts(harness_of, tmp_path / "one", is_checkpoint=is_checkpoint)
    function = Shop(Account)
    harness = harness_of(function)
    harness.restore(snapshot, migrate=True)

    assert [all_of(ADA), all_of(BOB)] == harness.process_elements(("a", None), ("b", None))
    assert 1 == function.opened
    assert ["one"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("is_checkpoint", [False, True], ids=["savepoint", "checkpoint"])
def test_a_renamed_class_with_an_added_field_is_refused_first_and_then_migrated(harness_of, tmp_path, is_checkpoint):
    snapshot = accounts(harness_of, tmp_path / "one", is_checkpoint=is_checkpoint)
    harness = harness_of(Shop(Customer))
    with pytest.raises(RestoreRefused, match="before that is migrated") as refused:
        harness.restore(snapshot)
    assert Decision.MIGRATE is refused.value.report.decision
    for state in ("account", "all", "by"):  # all of them, not only the first
        assert f"  {state}  " in str(refused.value)
    assert "restore with migrate=True" in str(refused.value)

    harness.restore(snapshot, migrate=True)
    ada, bob = Customer("ada", 3), Customer("bob", 1)
    assert [all_of(ada), all_of(bob)] == harness.process_elements(("a", None), ("b", None))
    harness.process_watermark(10)
    assert [("a", 7), ("b", 7)] == sorted(harness.take())
    assert {"one", "one-migrated"} == {path.name for path in tmp_path.iterdir()}


def test_what_a_restore_did_is_in_the_lineage_of_later_snapshots(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one")
    harness = harness_of(Shop(Customer))
    harness.restore(snapshot, migrate=True)
    harness.snapshot(tmp_path / "two")
    lineage = Savepoint.open(tmp_path / "two").lineage
    assert str(tmp_path / "one-migrated") == lineage.source["place"]
    assert [None, str(tmp_path / "one")] == [told["source"] and told["source"]["place"] for told in lineage.history]
    for number in range(3):
        harness.restore(harness.snapshot(tmp_path / f"again {number}"))
    harness.snapshot(tmp_path / "last")

    last = Savepoint.open(tmp_path / "last").lineage
    assert str(tmp_path / "again 2") == last.source["place"]
    assert lineage.history == last.history  # starts alone are not added


def test_a_converter_is_not_called_again_after_it_was_called(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one", of=str, given=("ada", "bob"))
    harness = harness_of(Shop(Account, converter=lambda name: Account(name, 0)))
    harness.restore(snapshot, migrate=True)
    harness.restore(harness.snapshot(tmp_path / "two"))

    assert [all_of(Account("ada", 0))] == harness.process_elements(("a", None))


def test_types_that_cannot_take_over_are_refused_with_the_report(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one")
    harness = harness_of(Shop(Texts))
    with pytest.raises(RestoreRefused, match="the program cannot go on from savepoint") as refused:
        harness.restore(snapshot, migrate=True)

    assert Decision.REFUSE is refused.value.report.decision
    assert "$.name" in str(refused.value)
    assert "Nothing was changed" in str(refused.value)
    assert ["one"] == [path.name for path in tmp_path.iterdir()]


def test_a_state_of_another_kind_is_refused_with_the_report(harness_of, tmp_path):
    class Other(KeyedProcessFunction):
        def open(self, runtime_context):
            self.all = runtime_context.get_state(ValueStateDescriptor("all", Account))

        def process_element(self, value, ctx):
            yield self.all.value()

    with pytest.raises(RestoreRefused, match="STATE-1"):
        harness_of(Other()).restore(accounts(harness_of, tmp_path / "one"))


def test_a_key_of_another_type_is_refused(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one")
    with pytest.raises(RestoreRefused, match="string -> long  a key's bytes decide its key group"):
        harness_of(Shop(Account), key=int).restore(snapshot, migrate=True)


def test_a_removed_state_is_kept_and_comes_back(harness_of, tmp_path):
    class Less(KeyedProcessFunction):
        def open(self, runtime_context):
            self.value = runtime_context.get_state(ValueStateDescriptor("account", Account))

        def process_element(self, value, ctx):
            yield self.value.value()

    harness = harness_of(Less())
    harness.restore(accounts(harness_of, tmp_path / "one"))
    assert [ADA] == harness.process_elements(("a", None))
    later = harness_of(Shop(Account))
    later.restore(harness.snapshot(tmp_path / "two"))

    assert [all_of(ADA)] == later.process_elements(("a", None))


def test_a_renamed_state_is_refused_until_it_is_said_what_it_is(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one")
    harness = harness_of(Shop(Account, name="customer"))
    with pytest.raises(RestoreRefused, match="STATE-7"):
        harness.restore(snapshot)
    renames = MigrationOptions(edits=parse_edits(rename_states=["shop/account=customer"]), restore_target=Target.ANY)
    harness.restore(snapshot, migrate=True, options=renames)
    assert [all_of(ADA)] == harness.process_elements(("a", None))
    begins = MigrationOptions(policy=Policy(allow_empty=["customer"]), restore_target=Target.ANY)
    harness.restore(snapshot, options=begins)

    assert [(None, [ADA], {"x": ADA})] == harness.process_elements(("a", None))


def test_a_widened_number_is_migrated(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one", of=int, given=(3, 1))
    harness = harness_of(Shop(float))
    with pytest.raises(RestoreRefused, match="long -> double"):
        harness.restore(snapshot)
    harness.restore(snapshot, migrate=True)

    assert [all_of(3.0), all_of(1.0)] == harness.process_elements(("a", None), ("b", None))


def test_ttl_that_is_switched_on_stamps_what_is_stored(harness_of, tmp_path):
    lives = StateTtlConfig.new_builder(timedelta(days=36500)).build()
    snapshot = accounts(harness_of, tmp_path / "one")
    harness = harness_of(Shop(Account, time_to_live=lives))
    with pytest.raises(RestoreRefused, match="STATE-4"):
        harness.restore(snapshot)
    harness.restore(snapshot, migrate=True)

    assert [all_of(ADA)] == harness.process_elements(("a", None))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Colors(enum.Enum):
    GREEN = 3
    BLUE = 2
    RED = 1


Color.__qualname__ = Colors.__qualname__ = Color.__name__ = Colors.__name__ = "Color"


def test_an_enum_in_another_order_starts_with_the_stored_order(harness_of, tmp_path):
    snapshot = accounts(harness_of, tmp_path / "one", of=Color, given=(Color.RED, Color.BLUE))
    harness = harness_of(Shop(Colors))
    harness.restore(snapshot)
    assert [all_of(Colors.RED)] == harness.process_elements(("a", None))
    harness.process_element(("c", Colors.GREEN))
    harness.restore(harness.snapshot(tmp_path / "two", is_checkpoint=True))

    assert [all_of(Colors.BLUE), all_of(Colors.GREEN)] == harness.process_elements(("b", None), ("c", None))


def test_a_state_that_is_first_used_by_an_element_is_judged_then(harness_of, tmp_path):
    class Late(KeyedProcessFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def process_element(self, value, ctx):
            yield self.context.get_state(ValueStateDescriptor("account", value[1])).value()

    harness = harness_of(Late())
    harness.restore(accounts(harness_of, tmp_path / "one"))
    with pytest.raises(RestoreRefused, match="before that is migrated"):
        harness.process_element(("a", Customer))

    harness.restore(accounts(harness_of, tmp_path / "two"))
    assert [ADA] == harness.process_elements(("a", Account))


class Buffers(MapFunction, CheckpointedFunction):
    def __init__(self, of):
        self.of = of

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffered", self.of))
        names = context.get_operator_state_store().get_broadcast_state(MapStateDescriptor("names", str, self.of))
        self.names, self.found = names, list(self.state.get())

    def snapshot_state(self, context):
        pass

    def map(self, value):
        self.state.add(value)
        self.names.put("last", value)


def test_operator_state_is_judged_too(tmp_path):
    harness = ProcessHarness(Buffers(Account), uid="sink")
    harness.process_elements(ADA, BOB)
    snapshot = harness.snapshot(tmp_path / "one")
    changed = Buffers(Customer)
    with pytest.raises(RestoreRefused, match="names"):
        harness.restore(snapshot, function=changed)
    assert [] == changed.found
    harness.restore(snapshot, function=changed, migrate=True)

    assert [Customer("ada", 3), Customer("bob", 1)] == changed.found
    assert Customer("bob", 1) == changed.names.get("last")


def test_a_migration_needs_a_snapshot_of_all_subtasks(harness_of, tmp_path):
    parts = [harness_of(Shop(Account), task=TaskInfo(index=index, parallelism=2)) for index in range(2)]
    parts[0].process_element(("b", BOB))
    harness = harness_of(Shop(Customer))
    with pytest.raises(DeclarationError, match="one snapshot of all subtasks"):
        harness.restore(*(part.snapshot() for part in parts), migrate=True)
    harness.restore(snapshot_together(parts, tmp_path / "one"), migrate=True)

    assert [all_of(Customer("bob", 1))] == harness.process_elements(("b", None))


def test_a_migration_may_be_done_by_another_function(harness_of, tmp_path):
    from stateshift import migrate

    called = []

    def recorded(*arguments):
        called.append(arguments[:2])
        return migrate(*arguments)

    harness = harness_of(Shop(Customer))
    harness.restore(accounts(harness_of, tmp_path / "one"), migrate=recorded)

    assert [all_of(Customer("ada", 3))] == harness.process_elements(("a", None))
    assert [(str(tmp_path / "one"), str(tmp_path / "one-migrated"))] == called


def test_a_driver_that_knows_the_job_asks_before(harness_of, tmp_path):
    accounts(harness_of, tmp_path / "one")
    savepoint = Savepoint.open(tmp_path / "one")

    def job(of):
        return Job([Operator("shop", key=str, states=[ValueStateDescriptor("account", of)])])

    assert savepoint is restorable(savepoint, job(Account))
    with pytest.raises(RestoreRefused, match="before that is migrated"):
        restorable(savepoint, job(Customer))
    with pytest.raises(RestoreRefused, match="cannot go on"):
        restorable(savepoint, job(Texts), migrate=True)
    first_one = restorable(savepoint, job(Customer), migrate=True)
    second = restorable(savepoint, job(Customer), migrate=True)
    assert [str(tmp_path / "one-migrated"), str(tmp_path / "one-migrated-2")] == [first_one.place, second.place]
    assert first_one is restorable(first_one, job(Customer))
    harness = harness_of(Shop(Customer))
    with pytest.raises(RestoreRefused, match="all"):
        harness.restore(HarnessSnapshot.of(first_one, "shop"))


SWITCHES = [(one, other) for one in BACKENDS for other in BACKENDS if one != other]


@pytest.mark.parametrize(("one", "other"), SWITCHES, ids=[f"{one} to {other}" for one, other in SWITCHES])
def test_backends_are_switched_by_savepoint_with_a_migration_and_another_parallelism(one, other, tmp_path):
    keys = [f"key {number}" for number in range(60)]

    def subtasks(backend, count, of):
        tasks = [TaskInfo(index=index, parallelism=count) for index in range(count)]
        options = {"backend": BACKENDS[backend], "uid": "shop"}
        return [KeyedProcessHarness(Shop(of), first, str, task=task, **options) for task in tasks]

    def each(harnesses, value):
        found = {}
        for key in keys:
            for harness in harnesses:
                if key in owned(harness):
                    found[key] = harness.process_elements((key, value(key)))
        return found

    def owned(harness):
        from stateshift import serializer_for
        from stateshift.state.key_groups import key_group, key_hasher

        hasher = key_hasher(serializer_for(str))
        return [key for key in keys if key_group(hasher(key), 128) in harness.key_groups]

    before, after = subtasks(one, 2, Account), subtasks(other, 3, Customer)
    each(before, lambda key: Account(key, 1))
    moved = restorable_at(snapshot_together(before, tmp_path / "one"), Customer)
    for harness in after:
        harness.restore(moved)
    found = each(after, lambda _: None)
    for harness in (*before, *after):
        harness.close()

    assert {key: [all_of(Customer(key, 1))] for key in keys} == found


def restorable_at(snapshot, of):
    states = [ValueStateDescriptor("account", of), ListStateDescriptor("all", of), MapStateDescriptor("by", str, of)]
    job = Job([Operator("shop", key=str, states=states)])
    return HarnessSnapshot.of(restorable(snapshot.savepoint, job, migrate=True), "shop")


@pytest.mark.parametrize("is_checkpoint", [False, True], ids=["savepoint", "checkpoint"])
@pytest.mark.parametrize("key", [Row[int, bytes], BigInt])
def test_keys_that_an_earlier_release_placed_by_its_own_rule_are_not_lost(
    harness_of, tmp_path, monkeypatch, is_checkpoint, key
):
    """They would be looked for where Flink places them, and a restore refuses that; a migration places them anew."""
    name = Row(1, b"a") if key is not BigInt else 1

    def by_own_rule(serializer):
        return lambda value: key_groups.own_hash(encode(serializer, value))

    with monkeypatch.context() as earlier:
        for module in (tables, key_bytes):
            earlier.setattr(module, "key_hasher", by_own_rule)
        harness = harness_of(Shop(Account), key)
        harness.process_elements((name, ADA))
        snapshot = harness.snapshot(tmp_path / "one", is_checkpoint=is_checkpoint)
    with pytest.raises(IncompatibleState, match="in other key groups than those of their hashes"):
        harness_of(Shop(Account), key).restore(snapshot)

    migrate_in_process(
        Savepoint.open(tmp_path / "one"), tmp_path / "two", None,
        MigrationOptions(repartition=Repartition(max_parallelism=64)),
    )  # fmt: skip
    harness = harness_of(Shop(Account), key, task=TaskInfo(max_parallelism=64))
    harness.restore(HarnessSnapshot.of(Savepoint.open(tmp_path / "two"), "shop"))
    assert [all_of(ADA)] == harness.process_elements((name, None))


def test_rows_are_keys_that_go_on(harness_of, tmp_path):
    harness = harness_of(Shop(Account), Row[int, str])
    harness.process_elements((Row(1, "a"), ADA))
    snapshot = harness.snapshot(tmp_path / "one")
    harness = harness_of(Shop(Account), Row[int, str])
    harness.restore(snapshot)

    assert [all_of(ADA)] == harness.process_elements((Row(1, "a"), None))
