"""Real Flink restores checkpoints of live backends: incremental ones of RocksDB, with its default options; heap ones.

What Flink then checkpoints itself is read here again.
"""

from __future__ import annotations

import random

import attrs
import pytest
from checkpointing import OPERATOR, contents, restore, take

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Configuration,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    TimeDomain,
    TimeWindow,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.state.backends.rocksdb import store
from stateshift.state.key_groups import key_group, key_group_range, key_hasher, subtask_of
from stateshift.state.storage.files import Folder

GROUPS = 128
KEYS = range(-500, 500)


class Mean(AggregateFunction):
    """A sum and a count."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Subtask:
    """A backend with all kinds of state."""

    def __init__(self, index, parallelism, *, backend="rocksdb", key_ranges=1, **options):
        place = serializer_for(int), GROUPS, key_group_range(index, parallelism, GROUPS)
        if backend == "hashmap":
            self.backend = HashMapStateBackend(*place)
            return
        values = {"execution.checkpointing.incremental": True, **options}
        configuration = Configuration.of(values, environment={})
        self.backend = EmbeddedRocksDBStateBackend(*place, configuration=configuration, key_ranges=key_ranges)

    def register(self):
        made = self.backend.get_or_create_keyed_state
        self.value = made(ValueStateDescriptor("value", str))
        self.several = made(ListStateDescriptor("several", int))
        self.mapped = made(MapStateDescriptor("mapped", str, int))
        self.total = made(ReducingStateDescriptor("total", lambda one, other: one + other, int))
        self.mean = made(AggregatingStateDescriptor("mean", Mean(), tuple[int, int]))
        self.windows = made(ListStateDescriptor("windows", str, namespace=TimeWindowSerializer()))
        self.timers = self.backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
        return self


class Model:
    """The same in dicts, as `expected.json` has it."""

    def __init__(self):
        names = ("value", "several", "mapped", "total", "mean", "windows")
        self.states = {name: {} for name in names}
        self.timers = set()

    def expected(self):
        states = dict(self.states)
        rows = {name: [[key, value] for key, value in states[name].items()] for name in ("value", "several", "total")}
        rows["mapped"] = [
            [key, {"$map": [list(item) for item in found.items()]}] for key, found in states["mapped"].items()
        ]
        rows["mean"] = [[key, {"$tuple": list(found)}] for key, found in states["mean"].items()]
        rows["windows"] = [[key, {"$window": list(span)}, found] for (key, span), found in states["windows"].items()]
        timers = [[key, {"$void": True}, time] for time, key in self.timers]
        keyed = {name: {"entries": found} for name, found in rows.items()}
        operator = {"operator_id": OPERATOR.id, "keyed": keyed, "timers": {"event": timers}}
        return {"operators": [operator]}


def work(subtasks, model, rng, count):
    """Change keys in the backends and in the model: many are cleared."""
    hashed, states = key_hasher(serializer_for(int)), model.states
    for key in (rng.choice(KEYS) for _ in range(count)):
        one = subtasks[subtask_of(key_group(hashed(key), GROUPS), len(subtasks), GROUPS)]
        one.backend.set_current_key(key)
        if rng.random() < 0.4:
            for name in ("value", "several", "mapped", "total", "mean"):
                getattr(one, name).clear()
                states[name].pop(key, None)
            for time, other in [timer for timer in model.timers if timer[1] == key]:
                one.timers.remove(time, key, None)
                model.timers.discard((time, other))
            continue
        number = rng.randrange(1 << 40)
        states["value"][key] = str(number)
        states["several"].setdefault(key, []).append(number)
        states["mapped"].setdefault(key, {})[str(number % 5)] = number
        states["total"][key] = states["total"].get(key, 0) + number
        states["mean"][key] = Mean().add(number, states["mean"].get(key, (0, 0)))
        span = (number % 3 * 1000, number % 3 * 1000 + 1000)
        states["windows"].setdefault((key, span), []).append(str(number))
        model.timers.add((number, key))
        one.value.update(str(number))
        one.several.add(number)
        one.mapped.put(str(number % 5), number)
        one.total.add(number)
        one.mean.add(number)
        one.windows.set_current_namespace(TimeWindow(*span))
        one.windows.add(str(number))
        one.timers.add(number, key, None)


def disposed(subtasks):
    for one in subtasks:
        one.backend.dispose()


@pytest.mark.parametrize(
    ("parallelism", "options"),
    [
        (1, {}),
        (2, {}),
        (2, {"state.backend.rocksdb.compaction.style": "LEVEL"}),
        (2, {"state.backend.rocksdb.timer-service.factory": "HEAP"}),
    ],
    ids=["one", "two", "level", "heap-timers"],
)
def test_flink_restores_an_incremental_checkpoint_after_five_generations(
    flink_restore, same_contents, restorations, tmp_path, parallelism, options
):
    rng, model = random.Random(1), Model()  # noqa: S311 - no secret
    subtasks = [Subtask(index, parallelism, **options).register() for index in range(parallelism)]
    with open_checkpoints(Folder.at(tmp_path)) as storage:
        for generation in range(5):
            work(subtasks, model, rng, 3000 if generation == 0 else 300)
            folder, handles = take(storage, [one.backend for one in subtasks])
    disposed(subtasks)
    assert all(len(handle.shared) > 1 for handle in handles)
    for restored_at in (parallelism, 3):
        restored = flink_restore(folder.place, backend="rocksdb", parallelism=restored_at)

        assert same_contents(model.expected(), restored) == []
        restorations.append(("live checkpoint, 5 generations", "2.3", "2.3", "rocksdb", restored_at))


@pytest.mark.parametrize("parallelism", [2, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_next_checkpoint_of_flink_is_read_here_again(
    flink_restore, same_contents, restorations, tmp_path, backend, parallelism
):
    rng, model = random.Random(3), Model()  # noqa: S311 - no secret
    subtasks = [Subtask(index, 2, backend=backend).register() for index in range(2)]
    with open_checkpoints(Folder.at(tmp_path / "ours")) as storage:
        for _ in range(3):
            work(subtasks, model, rng, 1000)
            folder, _ = take(storage, [one.backend for one in subtasks])
    flink = tmp_path / "flink"
    restored = flink_restore(folder.place, backend=backend, parallelism=parallelism, following=flink)
    assert same_contents(model.expected(), restored) == []
    (place,) = flink.glob("*/chk-*")
    roots = tuple(str(path) for path in tmp_path.glob("ours/*/shared"))
    again = Subtask(0, 1, backend=backend)
    restore(attrs.evolve(Folder.at(place), roots=roots), again.backend)

    assert contents(*(one.backend for one in subtasks)) == contents(again.backend)
    restorations.append(("live checkpoint, and Flink's next one read here", "2.3", "2.3", backend, parallelism))
    disposed([*subtasks, again])


def test_flink_restores_what_was_rescaled_here(flink_restore, same_contents, tmp_path, monkeypatch):
    """Databases that were clipped by range deletes, and got what others had as ingested files."""
    monkeypatch.setattr(store, "_FEW_ENTRIES", 0)  # else only key groups with many entries become files
    rng, model, root = random.Random(2), Model(), Folder.at(tmp_path)  # noqa: S311 - no secret
    parallelism = 2
    subtasks = [Subtask(index, parallelism).register() for index in range(parallelism)]
    with open_checkpoints(root) as storage:
        work(subtasks, model, rng, 3000)
        folder, _ = take(storage, [one.backend for one in subtasks])
    for after in (3, 1, 2):
        rescaled = [Subtask(index, after) for index in range(after)]
        restore(folder, *(one.backend for one in rescaled))
        disposed(subtasks)
        subtasks = [one.register() for one in rescaled]
        with open_checkpoints(root) as storage:
            work(subtasks, model, rng, 500)
            take(storage, [one.backend for one in subtasks])
            work(subtasks, model, rng, 500)
            folder, _ = take(storage, [one.backend for one in subtasks])
        for restored_at in (after, 4):
            restored = flink_restore(folder.place, backend="rocksdb", parallelism=restored_at)

            assert same_contents(model.expected(), restored) == []
    disposed(subtasks)


def test_flink_refuses_divided_states_and_restores_them_when_they_are_whole_again(
    flink_restore, same_contents, restorations, tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "_LARGE_BYTES", 1)
    rng, model = random.Random(4), Model()  # noqa: S311 - no secret
    divided, root = Subtask(0, 1, key_ranges=4).register(), Folder.at(tmp_path)
    with open_checkpoints(root) as storage:
        work([divided], model, rng, 1000)
        folder, _ = take(storage, [divided.backend])
    refused = flink_restore(folder.place, backend="rocksdb", parallelism=1)
    assert refused["status"] == "failed"
    assert "stateshift/range-0-31/" in str(refused["causes"])
    whole = Subtask(0, 1)
    restore(folder, whole.backend)
    whole.register()
    with open_checkpoints(root) as storage:
        work([whole], model, rng, 300)
        folder, _ = take(storage, [whole.backend])
    disposed([divided, whole])
    for restored_at in (1, 2):
        restored = flink_restore(folder.place, backend="rocksdb", parallelism=restored_at)

        assert same_contents(model.expected(), restored) == []
    restorations.append(("live checkpoint, made whole again", "2.3", "2.3", "rocksdb", "1, 2"))
