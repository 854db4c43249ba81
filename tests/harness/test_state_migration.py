"""State of every kind under serializers of every answer (harness cases, section G).

A savepoint with keys 1, 2 and 3 is migrated and every entry read; what a job goes on to write is a second savepoint,
on which the same job starts.
"""

from __future__ import annotations

import datetime as dt

import pytest
from harness.migrating import entries_of, job_of, migrated, stored_bytes, written

from stateshift import (
    IncompatibleState,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateTransform,
    TimerServiceDescriptor,
    TtlValue,
    ValuesCollide,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.testing import V1, V2, NeedsReconfig, Refuses
from stateshift.state.key_groups import key_group, key_hasher

COPY = NeedsReconfig(reconfigured=True)
VALUES = {1: 10, 2: 20, 3: 30}
LISTS = {1: [1, 2], 2: [4, 3], 3: [5]}
MAPS = {1: {"a": 1, "b": 2}, 2: {"a": 3}, 3: {"c": 4}}
AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
NOW = int(AT.timestamp() * 1000)
DAY = dt.timedelta(days=1)


def value(serializer, **more):
    return ValueStateDescriptor("s", serializer, **more)


def elements(serializer, **more):
    return ListStateDescriptor("s", serializer, **more)


def by_text(serializer, **more):
    return MapStateDescriptor("s", str, serializer, **more)


def decision(savepoint, job):
    return str(check(savepoint.describe(), job.describe()).decision)


def types_of(savepoint):
    return savepoint.operator("op").state("s").description.describe()


def start_and_go_on(tmp_path, job, found, going_on):
    """The job starts on what was found, and on the second savepoint that it takes."""
    assert "start" == decision(found, job)
    second = written(tmp_path / "second", job, "s", going_on)

    assert going_on == entries_of(second, "s")
    assert "start" == decision(second, job)


def migrates(tmp_path, make, before, going_on):
    old = written(tmp_path / "old", job_of(make(V1())), "s", before)
    assert "migrate" == decision(old, job_of(make(V2())))

    found = migrated(tmp_path / "old", tmp_path / "new", job_of(make(V2())))

    assert before == entries_of(found, "s")
    assert types_of(old).replace("V1", "V2") == types_of(found)
    start_and_go_on(tmp_path, job_of(make(V2())), found, going_on)


def reconfigures(tmp_path, make, before, going_on):
    """The original raises where it is used, so that the copy is in every place."""
    old = written(tmp_path / "old", job_of(make(V1())), "s", before)
    report = check(old.describe(), job_of(make(NeedsReconfig())).describe())
    ((_, state),) = report.states()
    assert make(COPY).describe().value.new_side() == state.values.reconfigured_serializer

    found = migrated(tmp_path / "old", tmp_path / "new", job_of(make(NeedsReconfig())))

    assert stored_bytes(old) == stored_bytes(found)
    assert before == entries_of(found, "s")
    assert types_of(old).replace("V1", "NeedsReconfig, reconfigured") == types_of(found)
    start_and_go_on(tmp_path, job_of(make(COPY)), found, going_on)


def refuses(tmp_path, old, job, path=r"\$"):
    """Refused before anything is written."""
    with pytest.raises(IncompatibleState, match=path):
        migrated(old.place, tmp_path / "new", job)
    assert not (tmp_path / "new").exists()


def test_value_state_migrates(tmp_path):
    """G01."""
    migrates(tmp_path, value, VALUES, {**VALUES, 2: 21, 4: 40})


def test_value_state_reconfigures(tmp_path):
    """G02."""
    reconfigures(tmp_path, value, VALUES, {**VALUES, 2: 21, 4: 40})


def test_value_state_refuses(tmp_path):
    """G03."""
    refuses(tmp_path, written(tmp_path / "old", job_of(value(V1())), "s", VALUES), job_of(value(Refuses())))


def test_list_state_migrates(tmp_path):
    """G04."""
    migrates(tmp_path, elements, LISTS, {**LISTS, 2: [4, 3, 9], 4: [0]})


def test_list_state_reconfigures(tmp_path):
    """G05."""
    reconfigures(tmp_path, elements, LISTS, {**LISTS, 2: [4, 3, 9], 4: [0]})


def test_list_state_refuses(tmp_path):
    """G06."""
    refuses(tmp_path, written(tmp_path / "old", job_of(elements(V1())), "s", LISTS), job_of(elements(Refuses())))


def test_map_state_unchanged(tmp_path):
    """G07: a check says start, and a migration copies."""
    job = job_of(by_text(V1()))
    old = written(tmp_path / "old", job, "s", MAPS)
    found = migrated(tmp_path / "old", tmp_path / "new", job)

    assert ("start", ()) == (decision(old, job), found.lineage.states)
    assert (tmp_path / "old" / "_metadata").read_bytes() == (tmp_path / "new" / "_metadata").read_bytes()
    start_and_go_on(tmp_path, job, found, {**MAPS, 2: {"a": 4, "z": 0}})


def test_map_state_migrates(tmp_path):
    """G08."""
    migrates(tmp_path, by_text, MAPS, {**MAPS, 2: {"a": 4, "z": 0}, 4: {"": 1}})


def test_map_state_reconfigures(tmp_path):
    """G09."""
    reconfigures(tmp_path, by_text, MAPS, {**MAPS, 2: {"a": 4, "z": 0}, 4: {"": 1}})


def test_map_state_refuses(tmp_path):
    """G10."""
    refuses(tmp_path, written(tmp_path / "old", job_of(by_text(V1())), "s", MAPS), job_of(by_text(Refuses())))


def test_map_state_user_key_migrates(tmp_path):
    """G11: re-keyed; two user keys that become one abort (MAP-3)."""
    was, becomes = (job_of(MapStateDescriptor("s", hint, str)) for hint in (int, float))
    maps = {1: {5: "a", 6: "b"}, 2: {5: "c"}, 3: {7: "d"}}
    written(tmp_path / "old", was, "s", maps)
    written(tmp_path / "near", was, "s", {1: {5: "a"}, 2: {2**53: "b", 2**53 + 1: "c"}})

    found = migrated(tmp_path / "old", tmp_path / "new", becomes)

    as_floats = {key: {float(user_key): text for user_key, text in entries.items()} for key, entries in maps.items()}
    assert as_floats == entries_of(found, "s")
    assert ["5.0", "6.0", "5.0", "7.0"] == [str(u) for _, m in sorted(entries_of(found, "s").items()) for u in m]
    start_and_go_on(tmp_path, becomes, found, {**as_floats, 2: {5.0: "c", 0.5: "e"}})
    with pytest.raises(ValuesCollide) as caught:
        migrated(tmp_path / "near", tmp_path / "none", becomes)
    assert ("2", "$<key>", "MAP-3") == tuple(caught.value.where[name] for name in ("key", "path", "rule"))


def timers_in(namespace):
    return job_of(timers=[TimerServiceDescriptor(namespace=namespace)])


def test_timer_queue_refuses(tmp_path):
    """G12: a timer of which the namespace is refused."""
    with SavepointWriter(tmp_path / "old", timers_in(V1())) as writer:
        for key in (1, 2, 3):
            writer.register_event_time_timer("op", key * 1000, key, namespace=key)

    assert "start" == decision(Savepoint.open(tmp_path / "old"), timers_in(V1()))
    refuses(tmp_path, Savepoint.open(tmp_path / "old"), timers_in(Refuses()), path="_timer_state/event_user-timers")


@pytest.fixture
def by_v1(tmp_path):
    """A savepoint in which keys are of V1."""
    return written(tmp_path / "old", job_of(value(int), key=V1()), "s", VALUES)


def test_key_needing_migration_rejected(tmp_path, by_v1):
    """G13, ROLE-2."""
    refuses(tmp_path, by_v1, job_of(value(int), key=V2()), path=r"\$<key>")


def test_key_reconfigured_accepted(tmp_path, by_v1):
    """G14, ROLE-3: the old keys are found under the same bytes."""
    found = migrated(by_v1.place, tmp_path / "new", job_of(value(int), key=NeedsReconfig()))

    assert stored_bytes(by_v1) == stored_bytes(found)
    assert VALUES == entries_of(found, "s")
    assert COPY.snapshot_configuration() == found.operator("op").key
    start_and_go_on(tmp_path, job_of(value(int), key=COPY), found, {**VALUES, 4: 40})


def test_key_incompatible_rejected(tmp_path, by_v1):
    """G15, ROLE-2."""
    refuses(tmp_path, by_v1, job_of(value(int), key=Refuses()), path=r"\$<key>")


def test_key_repartition_explicit(tmp_path, by_v1):
    """G16, ROLE-4: in the key groups of the new keys, none lost; keys that become one abort."""
    job, allowed = job_of(value(int), key=V2()), MigrationOptions(repartition=Repartition())
    found = migrated(by_v1.place, tmp_path / "new", job, allowed)

    assert VALUES == entries_of(found, "s")
    hash_of = key_hasher(V2())
    assert {key_group(hash_of(key), 128) for key in VALUES} == {group for _, group in stored_bytes(found)}
    assert {group for _, group in stored_bytes(by_v1)} != {group for _, group in stored_bytes(found)}
    start_and_go_on(tmp_path, job, found, {**VALUES, 4: 40})

    written(tmp_path / "ints", job_of(value(int)), "s", VALUES)
    as_text = job_of(value(int), key=str, key_converter=lambda key: str(key % 2))
    with pytest.raises(ValuesCollide, match=r"1 and 3"):
        migrated(tmp_path / "ints", tmp_path / "none", as_text, allowed)


NAMESPACED = {(7, 1): 10, (8, 1): 11, (7, 2): 20, (7, 3): 30}


@pytest.fixture
def within_v1(tmp_path):
    """A savepoint in which namespaces are of V1."""
    return written(tmp_path / "old", job_of(value(int, namespace=V1())), "s", NAMESPACED)


def test_namespace_needing_migration_rejected(tmp_path, within_v1):
    """G17, ROLE-5: other key groups would not help either."""
    refuses(tmp_path, within_v1, job_of(value(int, namespace=V2())), path=r"\$<namespace>")


def test_namespace_reconfigured_accepted(tmp_path, within_v1):
    """G18, ROLE-5."""
    found = migrated(within_v1.place, tmp_path / "new", job_of(value(int, namespace=NeedsReconfig())))

    assert stored_bytes(within_v1) == stored_bytes(found)
    assert NAMESPACED == entries_of(found, "s")
    start_and_go_on(tmp_path, job_of(value(int, namespace=COPY)), found, {**NAMESPACED, (9, 4): 40})


def test_namespace_incompatible_rejected(tmp_path, within_v1):
    """G19, ROLE-5."""
    refuses(tmp_path, within_v1, job_of(value(int, namespace=Refuses())), path=r"\$<namespace>")


ROOMS = {
    "operator_list": ("list_states", elements),
    "union_list": ("union_list_states", elements),
    "broadcast_value": ("broadcast_states", by_text),
    "broadcast_key": ("broadcast_states", lambda serializer: MapStateDescriptor("s", serializer, str)),
}
HELD = {  # before, and what a job goes on to hold: elements of two subtasks, or a map that both have
    "operator_list": ([[1, 2], [3]], [[1, 2, 9], []]),
    "union_list": ([[1, 2], [3]], [[1, 2, 9], []]),
    "broadcast_value": ({"a": 1, "b": 2, "c": 3}, {"a": 9, "b": 2, "d": 4}),
    "broadcast_key": ({1: "a", 2: "b", 3: "c"}, {1: "z", 2: "b", 4: "d"}),
}


def operator_job(name, serializer):
    room, make = ROOMS[name]
    return job_of(**{room: [make(serializer)]})


def operator_savepoint(folder, name, serializer, held):
    with SavepointWriter(folder, operator_job(name, serializer), parallelism=2) as writer:
        if isinstance(held, dict):
            for key, found in held.items():
                writer.put_broadcast("op", "s", key, found)
        else:
            for subtask, found in enumerate(held):
                for element in found:
                    writer.add("op", "s", element, subtask=subtask)
    return Savepoint.open(folder)


def held_by(savepoint, name):
    subtasks = savepoint.operator("op").state("s").read_elements()
    if "broadcast" not in name:
        return subtasks
    (first,), second = subtasks
    assert [first] == second, "every subtask has the same map"
    return first


def goes_through(tmp_path, name, answer):
    """One of the three answers, for one of the states of an operator."""
    before, going_on = HELD[name]
    old = operator_savepoint(tmp_path / "old", name, V1(), before)
    if answer == "refuses":
        refuses(tmp_path, old, operator_job(name, Refuses()))
        return
    asked, used = {"migrates": (V2(), V2()), "reconfigures": (NeedsReconfig(), COPY)}[answer]

    found = migrated(old.place, tmp_path / "new", operator_job(name, asked))

    assert before == held_by(found, name)
    assert (answer == "reconfigures") == (stored_bytes(old) == stored_bytes(found))
    assert used.describe() in types_of(found)
    assert "start" == decision(found, operator_job(name, used))
    second = operator_savepoint(tmp_path / "second", name, used, going_on)
    assert going_on == held_by(second, name)
    assert "start" == decision(second, operator_job(name, used))


every_answer = pytest.mark.parametrize("answer", ["migrates", "reconfigures", "refuses"])


@every_answer
def test_operator_list(tmp_path, answer):
    """G20."""
    goes_through(tmp_path, "operator_list", answer)


@every_answer
def test_union_list(tmp_path, answer):
    """G21."""
    goes_through(tmp_path, "union_list", answer)


@every_answer
def test_broadcast_value(tmp_path, answer):
    """G22."""
    goes_through(tmp_path, "broadcast_value", answer)


@every_answer
def test_broadcast_key(tmp_path, answer):
    """G23: unlike the key of an operator it may migrate, since no key group hangs on it (MAP-3)."""
    goes_through(tmp_path, "broadcast_key", answer)


def stamped(at):
    return {key: TtlValue(at, found) for key, found in VALUES.items()}


def test_ttl_length_changes(tmp_path):
    """G24, STATE-6: no length is stored, so that another alone changes nothing; a new type keeps the stamps."""
    was, becomes = (job_of(value(serializer, time_to_live=True)) for serializer in (V1(), V2()))
    old = written(tmp_path / "old", was, "s", stamped(NOW - 5))
    assert ("start", "migrate") == (decision(old, was), decision(old, becomes))

    found = migrated(old.place, tmp_path / "new", becomes, MigrationOptions(reference_time=AT))

    assert stamped(NOW - 5) == entries_of(found, "s")
    start_and_go_on(tmp_path, becomes, found, {**stamped(NOW - 5), 4: TtlValue(NOW, 40)})


def test_ttl_disabled(tmp_path):
    """G25, STATE-5: what had expired by the reference time is dropped and counted."""
    entries = {**stamped(NOW - 5), 2: TtlValue(NOW - 2 * 86_400_000, 20)}
    old = written(tmp_path / "old", job_of(value(V1(), time_to_live=True)), "s", entries)
    bare = job_of(value(V1(), former_time_to_live=DAY))
    assert "migrate" == decision(old, bare)

    found = migrated(old.place, tmp_path / "new", bare, MigrationOptions(reference_time=AT))

    (count,) = found.lineage.states
    assert {1: 10, 3: 30} == entries_of(found, "s")
    assert (3, 2, 1) == (count.read, count.written, count.dropped)
    start_and_go_on(tmp_path, job_of(value(V1())), found, {1: 10, 3: 30, 4: 40})


def test_ttl_enabled(tmp_path):
    """G26, STATE-4: every value gets the reference time, so that none expires because of the migration."""
    old = written(tmp_path / "old", job_of(value(V1())), "s", VALUES)
    with_ttl = job_of(value(V1(), time_to_live=True))
    assert "migrate" == decision(old, with_ttl)

    found = migrated(old.place, tmp_path / "new", with_ttl, MigrationOptions(reference_time=AT))

    assert stamped(NOW) == entries_of(found, "s")
    start_and_go_on(tmp_path, with_ttl, found, {**stamped(NOW), 4: TtlValue(NOW, 40)})


def alone(found):
    return [found]


def test_state_kind_changed(tmp_path):
    """G27: refused (STATE-1), and with a transform a migration (STATE-2)."""
    old = written(tmp_path / "old", job_of(value(V1())), "s", VALUES)
    refuses(tmp_path, old, job_of(elements(V1())), path=r"\$<state>")
    transformed = job_of(elements(V1(), transform=StateTransform.from_value(alone)))
    assert "migrate" == decision(old, transformed)

    found = migrated(old.place, tmp_path / "new", transformed)

    lists = {key: [one] for key, one in VALUES.items()}
    assert lists == entries_of(found, "s")
    start_and_go_on(tmp_path, job_of(elements(V1())), found, {**lists, 2: [20, 21]})


def test_unregistered_state_survives(tmp_path):
    """G29: a state that the new job does not declare lies in the result under its old snapshot, entry for entry."""
    other = MapStateDescriptor("other", str, V1())
    with SavepointWriter(tmp_path / "old", job_of(value(V1()), other)) as writer:
        for key, found in VALUES.items():
            writer.put("op", "s", key, found)
            writer.put("op", "other", key, MAPS[key])
    found = migrated(tmp_path / "old", tmp_path / "new", job_of(value(V2())))

    was, kept = (Savepoint.open(tmp_path / name).operator("op").state("other") for name in ("old", "new"))
    assert was.description == kept.description
    assert (VALUES, MAPS) == (entries_of(found, "s"), entries_of(found, "other"))
    assert "start" == decision(found, job_of(value(V2()), other))
