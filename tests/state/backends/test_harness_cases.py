"""The harness cases of sections G and K on running functions: each backend is restored with another serializer.

Keys 1, 2 and 3 are written and a savepoint is taken. A function with the new descriptor is restored from it, reads
every entry, and writes on; it is restored once more from a second savepoint. `tests/harness/test_state_migration.py`
and `test_runs.py` have the same cases for savepoints at rest.
"""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from harness.migrating import keyed_entries
from live_backends import BACKENDS

from stateshift import (
    BadValues,
    CheckpointedFunction,
    Decision,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    MigrationOptions,
    Policy,
    Repartition,
    RestoreRefused,
    Savepoint,
    StateShiftError,
    StateTransform,
    StateTtlConfig,
    Target,
    TimeDomain,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    migrate,
    verify,
)
from stateshift.compat.testing import V1, V2, NeedsReconfig, Refuses
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness, ProcessHarness, TaskInfo, snapshot_together

COPY = NeedsReconfig(reconfigured=True)
VALUES = {1: 10, 2: 20, 3: 30}
LISTS = {1: [1, 2], 2: [4, 3], 3: [5]}
MAPS = {1: {"a": 1, "b": 2}, 2: {"a": 3}, 3: {"c": 4}}


def value(serializer, **more):
    return ValueStateDescriptor("s", serializer, **more)


def elements(serializer, **more):
    return ListStateDescriptor("s", serializer, **more)


def by_text(serializer, **more):
    return MapStateDescriptor("s", str, serializer, **more)


def asked(context, descriptor):
    """The handle of a state."""
    kind = type(descriptor).__name__.removesuffix("StateDescriptor").lower()
    return getattr(context, "get_state" if kind == "value" else f"get_{kind}_state")(descriptor)


def held(state):
    """What a state has for the current key."""
    if hasattr(state, "value"):
        return state.value()
    return dict(state.items()) or None if hasattr(state, "items") else list(state.get()) or None


def hold(state, found):
    """Set what a state has for the current key."""
    if hasattr(state, "put_all"):
        state.clear()
        state.put_all(found)
    else:
        state.update(found)


class Keeps(KeyedProcessFunction):
    """Has some states; an element is (key, function of the states)."""

    def __init__(self, *descriptors, timers_in=None):
        self.descriptors, self.timers_in = descriptors, timers_in
        self.processed = 0

    def open(self, runtime_context):
        self.states = {one.name: asked(runtime_context, one) for one in self.descriptors}
        if self.timers_in is not None:
            backend = runtime_context._backend
            self.timers = backend.create_timer_queue("window-timers", TimeDomain.EVENT_TIME, self.timers_in)

    def process_element(self, value, ctx):
        self.processed += 1
        yield value[1](self.states)


@pytest.fixture(params=BACKENDS.values(), ids=BACKENDS)
def harness_of(request):
    made = []

    def make(*descriptors, key=int, backend=request.param, timers_in=None, **options):
        function = Keeps(*descriptors, timers_in=timers_in)
        made.append(KeyedProcessHarness(function, lambda one: one[0], key, backend=backend, uid="op", **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def put(harness, entries, name="s"):
    for key, found in entries.items():
        harness.process_element((key, lambda states, found=found: hold(states[name], found)))


def entries_of(harness, keys=(1, 2, 3, 4), name="s"):
    found = {key: harness.process_elements((key, lambda states: held(states[name])))[-1] for key in keys}
    return {key: one for key, one in found.items() if one is not None}


def written(harness_of, place, entries, *descriptors, **options):
    harness = harness_of(*descriptors, **options)
    harness.open()
    put(harness, entries)
    harness.take()
    return harness.snapshot(place)


def restored(harness, snapshot, **options):
    harness.restore(snapshot, **options)
    return harness


def refused(harness, snapshot, decision, **options):
    """The restore is refused before any element is processed."""
    with pytest.raises(RestoreRefused) as caught:
        harness.restore(snapshot, **options)
    assert decision is caught.value.report.decision
    assert 0 == harness._function.processed


def goes_on(harness_of, place, harness, make, before, going_on):
    """The function has all entries, and writes on; what it then stores is restored without a question."""
    assert before == entries_of(harness)
    put(harness, going_on)
    harness.take()
    again = restored(harness_of(make), harness.snapshot(place))
    assert {**before, **going_on} == entries_of(again)


def migrates(harness_of, tmp_path, make, before, going_on):
    snapshot = written(harness_of, tmp_path / "one", before, make(V1()))
    refused(harness_of(make(V2())), snapshot, Decision.MIGRATE)
    harness = restored(harness_of(make(V2())), snapshot, migrate=True)
    goes_on(harness_of, tmp_path / "two", harness, make(V2()), before, going_on)


def reconfigures(harness_of, tmp_path, make, before, going_on):
    """The original raises where it is used, so that the copy is in every place."""
    snapshot = written(harness_of, tmp_path / "one", before, make(V1()))
    harness = restored(harness_of(make(NeedsReconfig())), snapshot)
    goes_on(harness_of, tmp_path / "two", harness, make(COPY), before, going_on)


def refuses(harness_of, tmp_path, make, before):
    snapshot = written(harness_of, tmp_path / "one", before, make(V1()))
    refused(harness_of(make(Refuses())), snapshot, Decision.REFUSE, migrate=True)


def test_value_state_migrates(harness_of, tmp_path):
    """G01."""
    migrates(harness_of, tmp_path, value, VALUES, {2: 21, 4: 40})


def test_value_state_reconfigures(harness_of, tmp_path):
    """G02."""
    reconfigures(harness_of, tmp_path, value, VALUES, {2: 21, 4: 40})


def test_value_state_refuses(harness_of, tmp_path):
    """G03."""
    refuses(harness_of, tmp_path, value, VALUES)


def test_list_state_migrates(harness_of, tmp_path):
    """G04."""
    migrates(harness_of, tmp_path, elements, LISTS, {2: [4, 3, 9], 4: [0]})


def test_list_state_reconfigures(harness_of, tmp_path):
    """G05."""
    reconfigures(harness_of, tmp_path, elements, LISTS, {2: [4, 3, 9], 4: [0]})


def test_list_state_refuses(harness_of, tmp_path):
    """G06."""
    refuses(harness_of, tmp_path, elements, LISTS)


def test_map_state_unchanged(harness_of, tmp_path):
    """G07: nothing is written beside the snapshot, although a migration was allowed."""
    snapshot = written(harness_of, tmp_path / "one", MAPS, by_text(V1()))
    harness = restored(harness_of(by_text(V1())), snapshot, migrate=True)
    assert ["one"] == [path.name for path in tmp_path.iterdir()]
    goes_on(harness_of, tmp_path / "two", harness, by_text(V1()), MAPS, {2: {"z": 0}})


def test_map_state_migrates(harness_of, tmp_path):
    """G08."""
    migrates(harness_of, tmp_path, by_text, MAPS, {2: {"a": 4, "z": 0}, 4: {"": 1}})


def test_map_state_reconfigures(harness_of, tmp_path):
    """G09."""
    reconfigures(harness_of, tmp_path, by_text, MAPS, {2: {"a": 4, "z": 0}, 4: {"": 1}})


def test_map_state_refuses(harness_of, tmp_path):
    """G10."""
    refuses(harness_of, tmp_path, by_text, MAPS)


def test_map_state_user_key_migrates(harness_of, tmp_path):
    """G11: re-keyed; two user keys that become one abort (MAP-3)."""
    was, becomes = (MapStateDescriptor("s", hint, str) for hint in (int, float))
    snapshot = written(harness_of, tmp_path / "one", {1: {5: "a", 6: "b"}, 2: {5: "c"}}, was)
    near = written(harness_of, tmp_path / "near", {2: {2**53: "b", 2**53 + 1: "c"}}, was)

    harness = restored(harness_of(becomes), snapshot, migrate=True)
    goes_on(harness_of, tmp_path / "two", harness, becomes, {1: {5.0: "a", 6.0: "b"}, 2: {5.0: "c"}}, {2: {0.5: "e"}})
    with pytest.raises(ValuesCollide):
        harness_of(becomes).restore(near, migrate=True)


def test_timer_queue_refuses(harness_of, tmp_path):
    """G12: a timer of which the namespace is refused; the same namespace starts, and the timer is there."""
    before = harness_of(timers_in=V1())
    before.open()
    before._function.timers.add(1000, 1, 7)
    snapshot = before.snapshot(tmp_path / "one")

    same = restored(harness_of(timers_in=V1()), snapshot)
    assert [(1000, 1, 7)] == list(same._function.timers.timers())
    refused(harness_of(timers_in=Refuses()), snapshot, Decision.REFUSE, migrate=True)


@pytest.fixture
def by_v1(harness_of, tmp_path):
    """A snapshot in which keys are of V1."""
    return written(harness_of, tmp_path / "one", VALUES, value(int), key=V1())


def test_key_needing_migration_rejected(harness_of, by_v1):
    """G13, ROLE-2."""
    refused(harness_of(value(int), key=V2()), by_v1, Decision.REFUSE, migrate=True)


def test_key_reconfigured_accepted(harness_of, by_v1):
    """G14, ROLE-3: the old keys are found under the same bytes."""
    assert VALUES == entries_of(restored(harness_of(value(int), key=NeedsReconfig()), by_v1))


def test_key_incompatible_rejected(harness_of, by_v1):
    """G15, ROLE-2."""
    refused(harness_of(value(int), key=Refuses()), by_v1, Decision.REFUSE, migrate=True)


def test_key_repartition_explicit(harness_of, by_v1):
    """G16, ROLE-4: in the key groups of the new keys, none lost."""
    options = MigrationOptions(repartition=Repartition(), restore_target=Target.ANY)
    harness = restored(harness_of(value(int), key=V2()), by_v1, migrate=True, options=options)
    assert VALUES == entries_of(harness)


def within(namespace, run):
    def accessed(states):
        states["s"].set_current_namespace(namespace)
        return run(states["s"])

    return accessed


@pytest.fixture
def within_v1(harness_of, tmp_path):
    """A snapshot in which namespaces are of V1."""
    harness = harness_of(value(int, namespace=V1()))
    for space, key in itertools.product((7, 8), (1, 2)):
        harness.process_element((key, within(space, lambda state, found=space * key: state.update(found))))
    return harness.snapshot(tmp_path / "one")


def test_namespace_needing_migration_rejected(harness_of, within_v1):
    """G17, ROLE-5."""
    refused(harness_of(value(int, namespace=V2())), within_v1, Decision.REFUSE, migrate=True)


def test_namespace_reconfigured_accepted(harness_of, within_v1):
    """G18, ROLE-5."""
    harness = restored(harness_of(value(int, namespace=NeedsReconfig())), within_v1)
    places = list(itertools.product((1, 2), (7, 8)))
    found = harness.process_elements(*((key, within(space, lambda state: state.value())) for key, space in places))
    assert [key * space for key, space in places] == found


def test_namespace_incompatible_rejected(harness_of, within_v1):
    """G19, ROLE-5."""
    refused(harness_of(value(int, namespace=Refuses())), within_v1, Decision.REFUSE, migrate=True)


class Buffers(MapFunction, CheckpointedFunction):
    """Has one operator state, and holds what it had at the start."""

    def __init__(self, kind, descriptor):
        self.kind, self.descriptor = kind, descriptor
        self.processed = 0

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = getattr(store, f"get_{self.kind}_state")(self.descriptor)
        found = self.state.items() if self.kind == "broadcast" else self.state.get()
        self.found = list(found)

    def snapshot_state(self, context):
        pass

    def map(self, value):
        self.processed += 1
        self.state.put(*value) if self.kind == "broadcast" else self.state.add(value)


def goes_through(tmp_path, kind, make, answer, given, more):
    """One of the three answers, for an operator state, which is not in a keyed backend."""
    before = ProcessHarness(Buffers(kind, make(V1())), uid="op")
    before.process_elements(*given)
    snapshot = before.snapshot(tmp_path / "one")
    if answer == "refuses":
        refused(ProcessHarness(Buffers(kind, make(Refuses())), uid="op"), snapshot, Decision.REFUSE, migrate=True)
        return
    asked_for, used = {"migrates": (V2(), V2()), "reconfigures": (NeedsReconfig(), COPY)}[answer]
    harness = ProcessHarness(Buffers(kind, make(asked_for)), uid="op")
    if answer == "migrates":
        refused(harness, snapshot, Decision.MIGRATE)
    harness.restore(snapshot, migrate=answer == "migrates")
    assert sorted(given) == sorted(harness._function.found)
    harness.process_element(more)
    again = ProcessHarness(Buffers(kind, make(used)), uid="op")
    again.restore(harness.snapshot(tmp_path / "two"))
    assert sorted([*given, more]) == sorted(again._function.found)


every_answer = pytest.mark.parametrize("answer", ["migrates", "reconfigures", "refuses"])


@every_answer
def test_operator_list(tmp_path, answer):
    """G20."""
    goes_through(tmp_path, "list", elements, answer, [1, 2, 3], 4)


@every_answer
def test_union_list(tmp_path, answer):
    """G21."""
    goes_through(tmp_path, "union_list", elements, answer, [1, 2, 3], 4)


@every_answer
def test_broadcast_value(tmp_path, answer):
    """G22."""
    goes_through(tmp_path, "broadcast", by_text, answer, [("a", 1), ("b", 2)], ("c", 3))


@every_answer
def test_broadcast_key(tmp_path, answer):
    """G23: a broadcast key may migrate."""
    goes_through(
        tmp_path, "broadcast", lambda of: MapStateDescriptor("s", of, str), answer, [(1, "a"), (2, "b")], (3, "c")
    )


DAY_MS = 86_400_000


def lives(days):
    return {"time_to_live": StateTtlConfig.new_builder(timedelta(days=days)).build()}


def at(harness, time_ms):
    harness.advance_processing_time(time_ms)
    return harness


def test_ttl_length_changes(harness_of, tmp_path):
    """G24, STATE-6: stamps are kept, with another length and another layout."""
    before = harness_of(value(V1(), **lives(1)))
    put(at(before, 1000), VALUES)
    snapshot = before.snapshot(tmp_path / "one")

    for make, options in ((V1(), {}), (V2(), {"migrate": True})):
        harness = restored(at(harness_of(value(make, **lives(2))), 1000), snapshot, **options)
        assert VALUES == entries_of(at(harness, 999 + 2 * DAY_MS))
        assert {} == entries_of(at(harness, 1000 + 2 * DAY_MS))


def test_ttl_disabled(harness_of, tmp_path):
    """G25, STATE-5: values lose their stamps; the clock of the restore decides what has expired."""
    before = harness_of(value(V1(), **lives(1)))
    put(before, VALUES)
    snapshot = before.snapshot(tmp_path / "one")
    refused(harness_of(value(V1())), snapshot, Decision.MIGRATE)

    assert VALUES == entries_of(restored(harness_of(value(V1())), snapshot, migrate=True))
    expired = value(V1(), former_time_to_live=timedelta(days=1))
    assert {} == entries_of(restored(harness_of(expired), snapshot, migrate=True))


def test_ttl_enabled(harness_of, tmp_path):
    """G26, STATE-4: nothing expires at once."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    refused(harness_of(value(V1(), **lives(1))), snapshot, Decision.MIGRATE)

    assert VALUES == entries_of(restored(harness_of(value(V1(), **lives(1))), snapshot, migrate=True))


def test_state_kind_changed(harness_of, tmp_path):
    """G27: refused (STATE-1), and with a transform a migration (STATE-2)."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    refused(harness_of(elements(V1())), snapshot, Decision.REFUSE, migrate=True)

    transformed = elements(V1(), transform=StateTransform.from_value(lambda found: [found]))
    harness = restored(harness_of(transformed), snapshot, migrate=True)
    lists = {key: [found] for key, found in VALUES.items()}
    goes_on(harness_of, tmp_path / "two", harness, elements(V1()), lists, {2: [20, 21]})


def test_orphaned_and_new_states(harness_of, tmp_path):
    """G28: a state that only the snapshot has is kept, one of the program alone begins empty; both are reported."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    new = ValueStateDescriptor("new", V1())
    refused(harness_of(new), snapshot, Decision.REFUSE)  # of the same type: it might be the other one, renamed
    allowed = MigrationOptions(policy=Policy(allow_empty=["new"]), restore_target=Target.ANY)
    harness = restored(harness_of(new), snapshot, options=allowed)

    assert {} == entries_of(harness, name="new")
    is_gone = {state.name: state.becomes is None for _, state in harness._check.report().states()}
    assert {"s": True, "new": False}.items() <= is_gone.items()
    assert VALUES == entries_of(restored(harness_of(value(V1())), harness.snapshot(tmp_path / "two")))


def test_unregistered_state_survives(harness_of, tmp_path):
    """G29: a state that nobody asks for lies in the second savepoint under its old snapshot, entry for entry."""
    other = MapStateDescriptor("other", str, V1())
    before = harness_of(value(V1()), other)
    put(before, VALUES)
    put(before, MAPS, name="other")
    snapshot = before.snapshot(tmp_path / "one")
    harness = restored(harness_of(value(V2())), snapshot, migrate=True)
    harness.snapshot(tmp_path / "two")
    was, kept = (Savepoint.open(tmp_path / name).operator("op").state("other") for name in ("one", "two"))

    assert was.description == kept.description
    again = restored(harness_of(value(V2()), other), harness.snapshot(tmp_path / "three"))
    assert (VALUES, MAPS) == (entries_of(again), entries_of(again, name="other"))


@pytest.mark.parametrize("in_spark", [False, True], ids=["in process", "Spark"])
def test_backends_agree(tmp_path, in_spark):
    """G30: one savepoint through every backend, migrated in process or by Spark, comes to the same bytes."""

    def harness(backend, of, **options):
        states = [value(of), ListStateDescriptor("list", of), MapStateDescriptor("map", str, of)]
        function = Keeps(*states, **options)
        return KeyedProcessHarness(function, lambda one: one[0], int, backend=backend, uid="op")

    first = harness(BACKENDS["hashmap"], int)
    for key in range(50):
        first.process_element((key, lambda states, key=key: states["s"].update(key)))
        first.process_element((key, lambda states, key=key: states["list"].add_all([key, -key])))
        first.process_element((key, lambda states, key=key: states["map"].put_all({"a": key, "b": -key})))
    snapshot = first.snapshot(tmp_path / "one")
    migrated = []
    for name, backend in BACKENDS.items():
        other = harness(backend, float)
        other.restore(snapshot, migrate=migrate if in_spark else True)
        other.snapshot(tmp_path / name)
        found = keyed_entries(Savepoint.open(tmp_path / name))
        migrated.append({place: sorted(entries) for place, entries in found.items()})
        other.close()
    at_rest = keyed_entries(Savepoint.open(tmp_path / "one-migrated"))

    assert [{place: sorted(entries) for place, entries in at_rest.items()}] * len(BACKENDS) == migrated


VERDICTS = {
    "C": (V1(), Decision.START),
    "M": (V2(), Decision.MIGRATE),
    "R": (NeedsReconfig(), Decision.START),
    "I": (Refuses(), Decision.REFUSE),
}
every_verdict = pytest.mark.parametrize("verdict", VERDICTS)


@every_verdict
def test_restored_then_registered(harness_of, tmp_path, verdict):
    """G45: a state is judged when it is registered; after R the copy is used, after I (and M) nothing."""
    serializer, decision = VERDICTS[verdict]
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    harness = harness_of(value(serializer))
    if decision is not Decision.START:
        refused(harness, snapshot, decision)
        return
    assert VALUES == entries_of(restored(harness, snapshot))
    put(harness, {4: 40})
    stored = harness.snapshot(tmp_path / "two").savepoint.operator("op").state("s")
    assert (COPY if verdict == "R" else serializer).describe() in stored.description.describe()


@every_verdict
def test_registered_then_restored(harness_of, tmp_path, verdict):
    """G47: a running function is restored; it is opened anew, so that the answers are those of the other order.

    A backend itself is never restored under states that are in use.
    """
    serializer, decision = VERDICTS[verdict]
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    harness = harness_of(value(serializer))
    harness.open()
    with pytest.raises(DeclarationError, match="restore a backend before its states are used"):
        restore_keyed(harness._backend, snapshot.stored, snapshot.folder)
    if decision is Decision.START:
        assert VALUES == entries_of(restored(harness, snapshot))
    else:
        refused(harness, snapshot, decision)


def facts_of(folder):
    """The bytes and times of all files below a folder."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_source_untouched(harness_of, tmp_path):
    """K01: by a start, a refusal and a migration, eager or lazy, and by what the function then does."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    before = facts_of(tmp_path / "one")
    refused(harness_of(value(Refuses())), snapshot, Decision.REFUSE)
    for serializer, options in ((V1(), {}), (V2(), {"migrate": True}), (V2(), {"lazy": True})):
        harness = restored(harness_of(value(serializer)), snapshot, **options)
        put(harness, {1: 11, 4: 40})
        harness.migrate_some(10)
        harness.snapshot()

    assert before == facts_of(tmp_path / "one")


@pytest.mark.parametrize("is_checkpoint", [False, True], ids=["savepoint", "checkpoint"])
def test_counts_and_checksums(harness_of, tmp_path, is_checkpoint):
    """K03, K04: what a snapshot says it holds is what it holds, each entry in its key group."""
    harness = harness_of(value(V1()), MapStateDescriptor("map", str, V1()))
    put(harness, VALUES)
    put(harness, MAPS, name="map")
    harness.snapshot(tmp_path / "one", is_checkpoint=is_checkpoint)
    found = Savepoint.open(tmp_path / "one")
    counted = {count.state: count.written for count in found.lineage.states}

    assert verify(found).ok
    read = {name: found.operator("op").state(name).measure().entries for name in ("s", "map")}
    assert {"s": 3, "map": 4} == read
    assert not counted or read.items() <= counted.items()  # the files of a database are not counted


def test_key_groups_preserved(harness_of, tmp_path):
    """K04: a restore with a migration leaves each entry in its key group."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    restored(harness_of(value(V2())), snapshot, migrate=True).snapshot(tmp_path / "two")
    places = [
        {
            key: group
            for (_, group), entries in keyed_entries(Savepoint.open(tmp_path / name)).items()
            for key, _ in entries
        }
        for name in ("one", "two")
    ]

    assert 3 == len(places[0])
    assert places[0] == places[1]


BYTES = {1: b"a", 2: b"\xff", 3: b"c"}


def test_bad_value_aborts_with_key(harness_of, tmp_path):
    """K06: a value that does not fit ends the restore; the error has its key, path and rule."""
    snapshot = written(harness_of, tmp_path / "one", BYTES, value(bytes))
    harness = harness_of(value(str))
    with pytest.raises(ValueNotConvertible) as caught:
        harness.restore(snapshot, migrate=True)

    where = {"operator": "op", "state": "s", "key": "2", "path": "$", "rule": "TEXT-2"}
    assert where.items() <= caught.value.where.items()
    assert 0 == harness._function.processed


def test_bad_value_quarantined(harness_of, tmp_path):
    """K06: where it is asked for, it is set aside and counted, and the function starts with the others."""
    snapshot = written(harness_of, tmp_path / "one", BYTES, value(bytes))
    options = MigrationOptions(bad_values=BadValues.QUARANTINE, restore_target=Target.ANY)
    harness = restored(harness_of(value(str)), snapshot, migrate=True, options=options)
    (count,) = (one for one in Savepoint.open(tmp_path / "one-migrated").lineage.states if one.state == "s")

    assert {1: "a", 3: "c"} == entries_of(harness)
    assert (3, 2, 1) == (count.read, count.written, count.quarantined)


def test_lineage_chain(harness_of, tmp_path):
    """K09, RUN-6: the history of a snapshot shows both migrations that restores have done."""
    snapshot = written(harness_of, tmp_path / "0", VALUES, value(int))
    for step, hint in enumerate((float, str), 1):
        converted = value(hint, converter=str) if hint is str else value(hint)
        harness = restored(harness_of(converted), snapshot, migrate=True)
        snapshot = harness.snapshot(tmp_path / str(step))
    history = Savepoint.open(tmp_path / "2").lineage.history

    migrated = [past["source"]["place"] for past in history if past["plan"]]
    assert [str(tmp_path / "0"), str(tmp_path / "1")] == migrated


def test_migrate_then_check(harness_of, tmp_path):
    """K10: what a restore has migrated starts with the same types, the migrated savepoint and the next snapshot."""
    snapshot = written(harness_of, tmp_path / "one", VALUES, value(V1()))
    harness = restored(harness_of(value(V2())), snapshot, migrate=True)
    harness.snapshot(tmp_path / "two")

    for name in ("one-migrated", "two"):
        found = HarnessSnapshot.of(Savepoint.open(tmp_path / name), "op")
        assert VALUES == entries_of(restored(harness_of(value(V2())), found))


def test_parallelism_free(harness_of, tmp_path):
    """K08: a snapshot of one, two or three subtasks, restored into three, two or one, has the same entries."""
    entries = {key: key * 10 for key in range(40)}

    def subtasks(count):
        return [harness_of(value(int), task=TaskInfo(index=index, parallelism=count)) for index in range(count)]

    def each(harnesses, run):
        found = {}
        for harness, key in itertools.product(harnesses, entries):
            try:
                found[key] = harness.process_elements((key, lambda states, key=key: run(states["s"], key)))[-1]
            except StateShiftError:
                continue  # a key of another subtask
        return found

    for before, after in itertools.product((1, 2, 3), repeat=2):
        old, new = subtasks(before), subtasks(after)
        each(old, lambda state, key: state.update(entries[key]))
        snapshot = snapshot_together(old, tmp_path / f"{before}-{after}")
        for harness in new:
            harness.restore(snapshot)
        assert entries == each(new, lambda state, _: state.value())
