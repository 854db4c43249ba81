"""Lazy migration: what is in an old form is read and written as the new one, and each entry is in one table."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Annotated

import attrs
import pytest
from a_few import a_few
from live_backends import BACKENDS

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DeclarationError,
    Field,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RestoreRefused,
    Savepoint,
    StateTtlConfig,
    ValueStateDescriptor,
    record,
    serializer_for,
)
from stateshift.cli.app import main
from stateshift.compat.lazy_tables import free_table, state_in, tables_of
from stateshift.serializers.containers.wrappers import LazyMigrationSnapshot
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness, TaskInfo, snapshot_together


@attrs.frozen
class V1:
    name: str
    total: int = 0


@record(aliases=[f"{__name__}.V1"])
@attrs.frozen
class V2:
    name: str
    total: int = 0
    city: str = "two"


@record(aliases=[f"{__name__}.V1", f"{__name__}.V2"])
@attrs.frozen
class V3:
    name: str
    total: float = 0
    street: Annotated[str, Field(aliases=["city"])] = "three"


class Sum(AggregateFunction):
    def __init__(self, of):
        self.of = of

    def create_accumulator(self):
        return self.of("sum")

    def add(self, value, accumulator):
        return attrs.evolve(accumulator, total=accumulator.total + value.total)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return self.add(acc_b, acc_a)


STATES = ("value", "list", "map", "reducing", "aggregating")


class Keeps(KeyedProcessFunction):
    """Has a state of each kind, of one type; an element is (key, function of the states)."""

    def __init__(self, of, **options):
        self.of, self.options = of, options

    def open(self, runtime_context):
        of, options, get = self.of, self.options, runtime_context
        self.states = {
            "value": get.get_state(ValueStateDescriptor("value", of, **options)),
            "list": get.get_list_state(ListStateDescriptor("list", of, **options)),
            "map": get.get_map_state(MapStateDescriptor("map", str, of, **options)),
            "reducing": get.get_reducing_state(ReducingStateDescriptor("reducing", Sum(of).merge, of, **options)),
            "aggregating": get.get_aggregating_state(AggregatingStateDescriptor("aggregating", Sum(of), of, **options)),
        }

    def process_element(self, value, ctx):
        result = value[1](self.states)
        if result is not None:
            yield result


def first(value):
    return value[0]


LAZY = {name: backend for name, backend in BACKENDS.items() if name != "hashmap"}


@pytest.fixture(params=LAZY.values(), ids=LAZY)
def harness_of(request):
    made = []

    def make(of, backend=request.param, **options):
        function = of if isinstance(of, KeyedProcessFunction) else Keeps(of)
        made.append(KeyedProcessHarness(function, first, str, backend=backend, uid="shop", **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def put(of, total=1):
    def run(states):
        states["value"].update(of("v", total))
        states["list"].add(of("l", total))
        states["map"].put("x", of("m", total))
        states["map"].put("y", of("m", total))
        states["reducing"].add(of("r", total))
        states["aggregating"].add(of("a", total))

    return run


def read(states):
    found = {name: states[name].get() for name in ("list", "reducing", "aggregating")}
    return found | {"value": states["value"].value(), "map": dict(states["map"].items())}


def written(of, total=1):
    return {
        "value": of("v", total),
        "list": [of("l", total)],
        "map": {"x": of("m", total), "y": of("m", total)},
        "reducing": of("r", total),
        "aggregating": of("sum", total),
    }


def contents(harness, *keys):
    return [harness.process_elements((key, read))[0] for key in keys]


def started(harness_of, place, of=V1, keys="abc", *, is_checkpoint=True):
    harness = harness_of(of)
    for key in keys:
        harness.process_element((key, put(of)))
    return harness.snapshot(place, is_checkpoint=is_checkpoint)


def lazily(harness_of, of, snapshot, *, migrate=False, **options):
    harness = harness_of(of, **options)
    harness.restore(snapshot, lazy=True, migrate=migrate)
    return harness


def backend(harness):
    return harness._backend


def tables(harness, state):
    return tables_of(state, (info.name for info in backend(harness).table_header.states))


def test_old_values_are_read_as_new_ones_and_stay_until_they_are_written(harness_of, tmp_path):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    assert [written(V2)] * 3 == contents(harness, *"abc")
    assert {"value": 3, "list": 3, "map": 6, "reducing": 3, "aggregating": 3} == harness.left_to_migrate()
    harness.process_element(("a", put(V2)))
    [found] = contents(harness, "a")

    assert {"value": 2, "list": 2, "map": 4, "reducing": 2, "aggregating": 2} == harness.left_to_migrate()
    assert [V2("l", 1), V2("l", 1)] == found["list"]
    assert (V2("r", 2), V2("sum", 2)) == (found["reducing"], found["aggregating"])
    assert [written(V2)] * 2 == contents(harness, *"bc")


def test_an_old_copy_is_hidden_by_what_removes_or_replaces_it(harness_of, tmp_path):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    for state in STATES:
        harness.process_element(("a", lambda states, name=state: states[name].clear()))
    harness.process_element(("b", lambda states: states["map"].remove("x")))
    harness.process_element(("b", lambda states: states["list"].update([V2("new")])))
    nothing = {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}
    a, b = contents(harness, "a", "b")

    assert nothing == a
    assert {"y": V2("m", 1)} == b["map"]
    assert [V2("new")] == b["list"]
    assert {"value": 2, "list": 1, "map": 3, "reducing": 2, "aggregating": 2} == harness.left_to_migrate()
    again = harness_of(V2)
    again.restore(harness.snapshot(tmp_path / "two"))
    assert [a, b, written(V2)] == contents(again, *"abc")


@pytest.mark.parametrize("is_checkpoint", [False, True], ids=["savepoint", "checkpoint"])
def test_a_snapshot_in_the_middle_is_restored(harness_of, tmp_path, is_checkpoint):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    harness.process_element(("a", lambda states: states["value"].update(V2("new"))))
    harness.process_element(("d", put(V2)))
    snapshot = harness.snapshot(tmp_path / "two", is_checkpoint=is_checkpoint)
    again = lazily(harness_of, V2, snapshot)

    expected = [written(V2) | {"value": V2("new")}, *[written(V2)] * 3]
    assert expected == contents(again, *"abcd")
    assert expected == contents(harness, *"abcd")


def test_a_savepoint_in_the_middle_is_wholly_in_the_new_form(harness_of, tmp_path):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    harness.process_element(("a", put(V2)))
    expected = contents(harness, *"abc")
    snapshot = harness.snapshot(tmp_path / "two")
    assert set(STATES) <= {info.name for info in Savepoint.open(tmp_path / "two").operator("shop").states}
    for of_backend in BACKENDS.values():
        other = harness_of(V2, backend=of_backend)
        other.restore(snapshot)
        assert expected == contents(other, *"abc")
        assert {} == other.left_to_migrate()


class Numbers(KeyedProcessFunction):
    def __init__(self, of):
        self.of = of

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("number", self.of))

    def process_element(self, value, ctx):
        if value[1] is None:
            yield self.state.value()
        else:
            self.state.update(value[1])


def restorable_by_flink(place):
    return Savepoint.open(place).operator("shop").description.is_flink_restorable


def numbers(harness_of, place):
    harness = harness_of(Numbers(int))
    harness.process_elements(*((str(key), key) for key in range(100)))
    return harness.snapshot(place, is_checkpoint=True)


def test_flink_refuses_checkpoints_until_the_migration_is_over_but_no_savepoint(tmp_path):
    def of_rocksdb(of):
        return KeyedProcessHarness(of, first, str, backend=BACKENDS["rocksdb"], uid="shop")

    harness = of_rocksdb(Numbers(float))
    harness.restore(numbers(of_rocksdb, tmp_path / "one"), lazy=["number"])
    harness.snapshot(tmp_path / "begun", is_checkpoint=True)
    harness.snapshot(tmp_path / "savepoint")
    assert 60 == harness.migrate_some(60)
    harness.snapshot(tmp_path / "half", is_checkpoint=True)
    assert {"number": 40} == harness.left_to_migrate()
    assert 60 == harness.migrate_some(60)
    harness.snapshot(tmp_path / "moving on", is_checkpoint=True)
    assert 80 == harness.migrate_some(1000)
    harness.snapshot(tmp_path / "over", is_checkpoint=True)
    places = ["one", "begun", "savepoint", "half", "moving on", "over"]

    assert [True, False, True, False, False, True] == [restorable_by_flink(tmp_path / place) for place in places]
    assert ["number"] == tables(harness, "number")
    assert {} == harness.left_to_migrate()
    for place in places[1:]:
        again = of_rocksdb(Numbers(float))
        again.restore(HarnessSnapshot.of(Savepoint.open(tmp_path / place), "shop"), lazy=True)
        assert [float(key) for key in range(100)] == again.process_elements(*((str(key), None) for key in range(100)))
        again.close()
    again = of_rocksdb(Numbers(float))
    again.restore(HarnessSnapshot.of(Savepoint.open(tmp_path / "over"), "shop"))
    again.close()
    harness.close()


def twice(name, total):
    """A value that had the second class before the third, touched or not: it keeps the default of the second."""
    return V3(name, total, "two")


def test_three_versions_are_read_right(harness_of, tmp_path):
    two = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    two.process_elements(("b", put(V2, 5)), ("d", put(V2, 5)))
    half = two.snapshot(tmp_path / "two", is_checkpoint=True)
    three = lazily(harness_of, V3, half, migrate=True)
    assert ["two"] * 4 == [one["value"].street for one in contents(three, *"abcd")]
    three.process_elements(("c", put(V3, 7.5)), ("e", put(V3, 7.5)))
    again = lazily(harness_of, V3, three.snapshot(tmp_path / "three", is_checkpoint=True))
    for harness in (three, again):
        found = [one["value"] for one in contents(harness, *"abcde")]
        assert [twice("v", 1.0), twice("v", 5.0), V3("v", 7.5), twice("v", 5.0), V3("v", 7.5)] == found
        [c] = contents(harness, "c")
        assert [twice("l", 1.0), V3("l", 7.5)] == c["list"]
        assert {"x": V3("m", 7.5), "y": V3("m", 7.5)} == c["map"]
        assert twice("r", 8.5) == c["reducing"]
    expected = contents(again, *"abcde")
    while again.migrate_some(3):
        assert expected == contents(again, *"abcde")

    assert all([state] == tables(again, state) for state in STATES)
    last = harness_of(V3)
    last.restore(again.snapshot(tmp_path / "four", is_checkpoint=True))
    assert expected == contents(last, *"abcde")


def inspected(capsys, place):
    with pytest.raises(SystemExit):
        main(["inspect", str(place)])
    return capsys.readouterr().out


def of_rocksdb(of):
    return KeyedProcessHarness(Keeps(of), first, str, backend=BACKENDS["rocksdb"], uid="shop")


@pytest.fixture
def half(tmp_path):
    """A checkpoint with two versions: of three keys, one has been touched."""
    return half_of(tmp_path)


def half_of(tmp_path):
    two = lazily(of_rocksdb, V2, started(of_rocksdb, tmp_path / "one"))
    two.process_element(("b", put(V2, 5)))
    snapshot = two.snapshot(tmp_path / "half", is_checkpoint=True)
    two.close()
    return snapshot


def test_a_checkpoint_with_two_versions_has_a_table_for_each(half, capsys):
    found = half.savepoint.operator("shop")
    sizes = {one.name: one.measure().entries for one in found.states if "value" in one.name}
    assert {"value": 2, "stateshift/lazy-2/value": 1} == sizes
    assert "  value is migrated lazily: 2 entries are left in an old form\n" in inspected(capsys, half.folder.place)
    for name in STATES:
        state = found.state(name)
        read_back = {entry.key: entry.value for entry in state.read_entries()}
        assert (name, ["a", "b", "c"]) == (state.name, sorted(read_back))
    assert ["x", "y"] == sorted({entry.key: entry.value for entry in found.state("map").read_entries()}["b"])
    assert 6 == found.state("map").measure().entries
    assert [True] == [one.value.city == "two" for one in found.state("stateshift/lazy-2/value").read_entries()]
    assert verify(half.savepoint).ok


@pytest.mark.parametrize("of_backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("lazy", [True, False])
def test_a_second_upgrade_does_not_depend_on_touch(half, of_backend, lazy):
    harness = KeyedProcessHarness(Keeps(V3), first, str, backend=of_backend, uid="shop")
    with pytest.raises(RestoreRefused, match="restore with migrate=True: what is left first gets the types"):
        harness.restore(half, lazy=lazy)
    harness.restore(half, lazy=lazy, migrate=True)
    a, b, c = contents(harness, *"abc")

    assert [twice("v", 1.0), twice("v", 5.0), twice("v", 1.0)] == [one["value"] for one in (a, b, c)]
    assert [[twice("l", 1.0)], [twice("l", 1.0), twice("l", 5.0)]] == [a["list"], b["list"]]
    assert [{"x": twice("m", number), "y": twice("m", number)} for number in (1.0, 5.0)] == [a["map"], b["map"]]
    assert [twice("r", 1.0), twice("r", 6.0)] == [a["reducing"], b["reducing"]]
    harness.close()


def test_a_default_that_changes_is_a_second_upgrade(half):
    """The types are the same in bytes: only the note of what the code declared tells them apart."""
    changed = attrs.make_class(
        "V2", {"name": attrs.field(type=str), "total": attrs.field(type=int, default=0),
               "city": attrs.field(type=str, default="another")}, frozen=True,
    )  # fmt: skip
    changed.__module__ = __name__
    record(aliases=[f"{__name__}.V1"])(changed)
    harness = of_rocksdb(changed)
    with pytest.raises(RestoreRefused, match="would skip the types"):
        harness.restore(half, lazy=True)
    harness.restore(half, lazy=True, migrate=True)
    assert {"two"} == {one["value"].city for one in contents(harness, *"abc")}
    harness.close()


def test_what_an_older_release_wrote_without_the_note_goes_on_and_has_it_then(tmp_path, monkeypatch):
    monkeypatch.setattr("stateshift.state.backends.restore_check.declared_text", lambda _: "")
    half = half_of(tmp_path)
    monkeypatch.undo()
    snapshots = [one.description.value.snapshot for one in half.savepoint.operator("shop").states]
    assert {1} == {one.get_read_version() for one in snapshots if isinstance(one, LazyMigrationSnapshot)}
    harness = of_rocksdb(V3)
    with pytest.raises(RestoreRefused, match="restore once with the types of that migration"):
        harness.restore(half, lazy=True, migrate=True)
    harness = lazily(of_rocksdb, V2, half)
    assert [written(V2)] == contents(harness, "a")
    again = harness.snapshot(tmp_path / "again", is_checkpoint=True)
    harness.close()
    harness = lazily(of_rocksdb, V3, again, migrate=True)
    assert {"two"} == {one["value"].street for one in contents(harness, *"abc")}
    harness.close()


def test_subtasks_that_are_at_different_points_agree_on_the_tables(harness_of, tmp_path):
    keys = [f"key {number}" for number in range(40)]
    tasks = [TaskInfo(index=index, parallelism=3) for index in range(3)]
    snapshot = started(harness_of, tmp_path / "one", keys=keys)
    expected = [written(V2)] * len(keys)
    for turn in range(4):  # the first subtask is always done, the second never, the third now and then
        parts = [lazily(harness_of, V2, snapshot, task=task) for task in tasks]
        parts[0].migrate_some(10_000)
        parts[2].migrate_some(10_000 if turn else 7)
        snapshot = snapshot_together(parts, tmp_path / f"turn {turn}", is_checkpoint=True)
        whole = lazily(harness_of, V2, snapshot)
        assert expected == contents(whole, *keys)
    for turn in range(2):
        parts = [lazily(harness_of, V2, snapshot, task=task) for task in tasks]
        for part in parts:
            part.migrate_some(10_000)
        snapshot = snapshot_together(parts, tmp_path / f"all {turn}", is_checkpoint=True)
    whole = harness_of(V2)
    whole.restore(snapshot)

    assert expected == contents(whole, *keys)
    assert all([state] == tables(whole, state) for state in STATES)


def frozen_contents(frozen):
    names = [info.name for info in frozen.header.states]
    return sorted((names[block.state_id], entry) for block in frozen.blocks() for entry in block.items())


def test_a_frozen_state_is_what_it_was_while_the_migration_comes_to_its_end(harness_of, tmp_path):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one"))
    harness.process_element(("a", put(V2)))
    frozen, again = backend(harness).freeze(), backend(harness).freeze()
    keys = backend(harness).get_keys("value", None)
    some = next(keys)
    before = frozen_contents(again)
    again.release()
    while harness.migrate_some(2):
        pass
    assert set("abc") == {some, *keys}
    for state in STATES:
        harness.process_element(("a", lambda states, name=state: states[name].clear()))
    backend(harness).flush()

    assert before == frozen_contents(frozen)
    frozen.release()
    while harness.migrate_some(1000):
        pass
    assert {} == harness.left_to_migrate()
    assert all([state] == tables(harness, state) for state in STATES)
    assert [written(V2)] * 2 == contents(harness, "b", "c")


def test_keys_are_found_once(harness_of, tmp_path):
    harness = lazily(harness_of, V2, started(harness_of, tmp_path / "one", keys="abcd"))
    harness.process_elements(("b", put(V2)), ("e", put(V2)))
    harness.migrate_some(3)
    for state in STATES:
        assert list("abcde") == sorted(backend(harness).get_keys(state, None))


def test_a_migration_at_another_parallelism(harness_of, tmp_path):
    keys = [f"key {number}" for number in range(50)]
    tasks = [TaskInfo(index=index, parallelism=2) for index in range(2)]
    one = lazily(harness_of, V2, started(harness_of, tmp_path / "one", keys=keys))
    for key in keys[::2]:
        one.process_element((key, put(V2, 2)))
    one.migrate_some(7)
    expected = dict(zip(keys, contents(one, *keys), strict=True))
    snapshot = one.snapshot(tmp_path / "two", is_checkpoint=True)
    parts = [lazily(harness_of, V2, snapshot, task=task) for task in tasks]
    found = {}
    for part in parts:
        for key in keys:
            try:
                found[key] = contents(part, key)[0]
            except ValueError:  # of another subtask
                continue
    assert expected == found
    whole = lazily(harness_of, V2, snapshot_together(parts, tmp_path / "three", is_checkpoint=True))

    assert list(expected.values()) == contents(whole, *keys)


def test_ttl_is_switched_on(harness_of, tmp_path):
    lives = StateTtlConfig.new_builder(timedelta(days=36500)).build()
    harness = harness_of(Keeps(V1, time_to_live=lives))
    harness.restore(started(harness_of, tmp_path / "one"), lazy=True)
    harness.process_element(("a", put(V1)))
    found = contents(harness, *"bc")

    assert [written(V1)] * 2 == found
    again = harness_of(Keeps(V1, time_to_live=lives))
    again.restore(harness.snapshot(tmp_path / "two"))
    assert found == contents(again, *"bc")


def test_ttl_of_stored_values_still_counts(harness_of, tmp_path):
    lives = StateTtlConfig.new_builder(timedelta(milliseconds=100)).cleanup_incrementally(5, True).build()
    before = harness_of(Keeps(V1, time_to_live=lives))
    before.process_element(("a", put(V1)))
    before.advance_processing_time(60)
    before.process_element(("b", put(V1)))
    harness = harness_of(Keeps(V2, time_to_live=lives))
    harness.restore(before.snapshot(tmp_path / "one"), lazy=True)
    harness.advance_processing_time(120)
    a, b = contents(harness, "a", "b")

    assert (None, []) == (a["value"], a["list"])
    assert written(V2) == b
    assert 1 == harness.left_to_migrate()["value"]  # an expired value is removed, and so is its old copy


class Maps(KeyedProcessFunction):
    def __init__(self, key, of=int, **options):
        self.key, self.of, self.options = key, of, options

    def open(self, runtime_context):
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", self.key, self.of, **self.options))

    def process_element(self, value, ctx):
        self.map.put(value[1], 1)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Maps(float), "map cannot be migrated lazily: its map keys change, so an entry would not be found"),
        (Maps(int, str, converter=str), "map cannot be migrated lazily: the converter builtins.str would have to be"),
    ],
    ids=["map key", "converter"],
)
def test_what_cannot_be_lazy_is_refused_with_the_way_out(harness_of, tmp_path, function, reason):
    harness = harness_of(Maps(int))
    harness.process_element(("a", 1))
    snapshot = harness.snapshot(tmp_path / "one")
    other = harness_of(function)
    with pytest.raises(RestoreRefused) as refused:
        other.restore(snapshot, lazy=["map"])

    assert reason in str(refused.value)
    assert "restore with migrate=True" in str(refused.value)
    other.restore(snapshot, lazy=["map"], migrate=True)


def test_only_the_named_states_are_lazy(harness_of, tmp_path):
    snapshot = started(harness_of, tmp_path / "one")
    with pytest.raises(RestoreRefused, match="before that is migrated"):
        harness_of(V2).restore(snapshot, lazy=["value"])


def test_a_backend_without_a_check_does_not_guess(tmp_path):
    make = BACKENDS["rocksdb"]
    first_one = KeyedProcessHarness(Numbers(int), first, str, backend=make, uid="shop")
    first_one.process_element(("a", 1))
    harness = KeyedProcessHarness(Numbers(float), first, str, backend=make, uid="shop")
    harness.restore(first_one.snapshot(tmp_path / "one"), lazy=True)
    snapshot = harness.snapshot(tmp_path / "two", is_checkpoint=True)
    for of_backend in BACKENDS.values():
        bare = of_backend(serializer_for(str), 128, range(128))
        restore_keyed(bare, snapshot.stored, snapshot.folder)
        with pytest.raises(DeclarationError, match="is migrated lazily"):
            bare.get_or_create_keyed_state(ValueStateDescriptor("number", float))
        bare.dispose()
    first_one.close()
    harness.close()


def test_the_lineage_names_what_is_lazy(harness_of, tmp_path):
    harness = harness_of(V2)
    harness.restore(started(harness_of, tmp_path / "one"), lazy=True)
    harness.snapshot(tmp_path / "two")

    said = "a running job, which migrates lazily: aggregating, list, map, reducing, value"
    assert said == Savepoint.open(tmp_path / "two").lineage.job


@pytest.mark.parametrize("seed", a_few(range(8), of=4))
def test_random_writes_moves_and_restores_come_to_what_a_dict_has(harness_of, tmp_path, seed):
    chance, keys = random.Random(seed), "abcdefgh"  # noqa: S311 - drawn again by seed
    versions = [V1, V2, V3]
    model = {key: {"value": None, "list": [], "map": {}} for key in keys}
    of, harness = V1, harness_of(V1)

    def newer(value):
        if value is None:
            return None
        return V3(value.name, value.total, value.city) if type(value) is V2 and of is V3 else of(*attrs.astuple(value))

    def step(key):
        value = of("n", chance.randrange(100))
        held = model[key]
        kind, field = chance.choice(["put", "clear", "move", "read"]), chance.choice(["value", "list", "map"])
        if kind == "clear":
            held[field] = {"value": None, "list": [], "map": {}}[field]
            harness.process_element((key, lambda states: states[field].clear()))
        elif kind == "move":
            harness.migrate_some(chance.randrange(4))
        elif kind == "put" and field == "value":
            held["value"] = value
            harness.process_element((key, lambda states: states["value"].update(value)))
        elif kind == "put" and field == "list":
            held["list"] = [*held["list"], value]
            harness.process_element((key, lambda states: states["list"].add(value)))
        elif kind == "put":
            name = chance.choice("xyz")
            held["map"] = {**held["map"], name: value}
            harness.process_element((key, lambda states: states["map"].put(name, value)))
        else:
            [found] = contents(harness, key)
            assert held == {name: found[name] for name in held}

    for turn in range(7):
        for _ in range(40):
            step(chance.choice(keys))
        snapshot = harness.snapshot(tmp_path / str(turn), is_checkpoint=chance.random() < 0.7)
        of = versions[min(turn, 2)] if turn < 3 else V3
        for held in model.values():
            held["value"] = newer(held["value"])
            held["list"] = list(map(newer, held["list"]))
            held["map"] = {name: newer(value) for name, value in held["map"].items()}
        harness = lazily(harness_of, of, snapshot, migrate=True)
    for key in keys:
        [found] = contents(harness, key)
        assert model[key] == {name: found[name] for name in model[key]}


def test_inspect_says_how_many_entries_are_left_until_the_end(tmp_path, capsys):
    def of_rocksdb(of):
        return KeyedProcessHarness(of, first, str, backend=BACKENDS["rocksdb"], uid="shop")

    harness = of_rocksdb(Numbers(float))
    harness.restore(numbers(of_rocksdb, tmp_path / "one"), lazy=True)
    shown = []
    for moved in (0, 60, 50, 89, 1):
        assert moved == harness.migrate_some(moved)
        harness.snapshot(tmp_path / str(len(shown)), is_checkpoint=True)
        output = inspected(capsys, tmp_path / str(len(shown)))
        shown.append([line for line in output.splitlines() if "lazily" in line])
    harness.close()

    said = "  number is migrated lazily: {} left in an old form"
    numbers_left = ["100 entries are", "40 entries are", "0 entries are", "0 entries are"]
    assert [*([said.format(left)] for left in numbers_left), []] == shown


def test_what_is_left_in_an_old_form_only_falls(harness_of, tmp_path):
    harness = lazily(harness_of, Numbers(float), numbers(harness_of, tmp_path / "one"))
    left = [harness.left_to_migrate()]
    while moved := harness.migrate_some(30):
        left.append(harness.left_to_migrate())
        assert moved <= 30

    assert [*[{"number": number} for number in (100, 70, 40, 10, 0, 0, 0)], {}] == left


def test_names_of_tables():
    assert "stateshift/lazy-2/a" == free_table("a", ["a", "stateshift/lazy-7/b"])
    assert "stateshift/lazy-8/a" == free_table("a", ["a", "stateshift/lazy-7/a"])
    assert "a/b" == state_in("stateshift/lazy-12/a/b")
    assert "stateshift/lazy-x/a" == state_in("stateshift/lazy-x/a")
    assert ["a", "stateshift/lazy-2/a"] == tables_of("a", ["stateshift/lazy-2/a", "b", "a", "stateshift/lazy-2/b"])
