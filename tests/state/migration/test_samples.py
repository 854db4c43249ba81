"""Entries before and after: what is shown of them is what a migration then writes, and little is read for it."""

from __future__ import annotations

import json
import operator
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated

import attrs
import half_lazy
import pytest
from later_types import later_version

from stateshift import (
    BadValues,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    OldReaderUnavailable,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateTransform,
    TimerServiceDescriptor,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    parse_edits,
    record,
)
from stateshift.compat.description import StateKind
from stateshift.compat.reference_time import milliseconds
from stateshift.compat.value_changes import ValueRules, value_changes
from stateshift.state.migration.migration import migrate_savepoint
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.samples import SampleChoice, sample_entries
from stateshift.state.savepoint.json_encoding import tagged_elements, tagged_rows, tagged_timers

EVERY = SampleChoice(first=1_000_000)
FEW = [
    "flink-2.3/hashmap-account-v1/savepoint",
    "flink-2.3/hashmap-operator-only-p2-m128/savepoint",
    "flink-2.3/hashmap-native-string-snappy/savepoint",
    "flink-2.3/rocksdb-namespaced-p2-m200/savepoint",
    "flink-2.3/rocksdb-windows-p1-m200/savepoint",
    "flink-2.3/rocksdb-zoo-p1-m200/savepoint",
    "flink-2.3-native/rocksdb-heap-timers-native-p1/savepoint",
]


def text(form):
    return json.dumps(form, sort_keys=True)


def shown(state, old=False):
    """What is shown of a state on one side, entry by entry, as `stored` has it."""
    found = Counter()
    kind = state.kind if old else state.new_kind
    for entry in state.entries:
        if not old and entry.fate not in {"same", "changed"}:
            continue
        assert not entry.not_shown
        key, user_key, value = (
            (entry.key, entry.user_key, entry.old) if old else (entry.new_key, entry.new_user_key, entry.new)
        )
        if kind == StateKind.TIMERS:
            found[text([key, entry.namespace, entry.timestamp_ms])] += 1
            continue
        pairs = value["$map"] if kind == "map" and user_key is None and value else [[user_key, value]]
        for name, item in pairs:
            found[text([key, entry.namespace, name, item])] += 1
    return found


def stored(savepoint, operator_id, name, kind):
    """What is stored in a state, entry by entry: an entry of a map counts."""
    operator = savepoint.operator(operator_id)
    state = next(one for one in operator.states if one.name == name and one.kind == kind)
    if state.kind is StateKind.TIMERS:
        return Counter(
            text([key, None if "$void" in (space or ()) else space, at]) for key, space, at in tagged_timers(state)
        )
    if not state.kind.is_keyed:
        parts = tagged_elements(state)
        if state.kind is StateKind.BROADCAST:
            return Counter(text([None, None, name, item]) for one in parts[:1] for name, item in one[0]["$map"])
        return Counter(text([None, None, None, one]) for part in parts for one in part)
    found = Counter()
    for key, *space, value in tagged_rows(operator, state):
        pairs = value["$map"] if state.kind is StateKind.MAP else [[None, value]]
        for one, item in pairs:
            found[text([key, space[0] if space else None, one, item])] += 1
    return found


DEFAULTS = MigrationOptions()


def require_as_migrated(source, target, job, options=DEFAULTS):
    """Migrate, and compare all that was shown before with all that was read and written; return the states."""
    savepoint = Savepoint.open(source)
    samples = sample_entries(savepoint, prepare(savepoint, job, options).plan, EVERY)
    migrate_savepoint(savepoint, target, job, options)
    migrated = Savepoint.open(target)
    for state in samples.states:
        assert state.is_all, state.title
        assert shown(state, old=True) == stored(savepoint, state.operator_id, state.state, state.kind), state.title
        if state.new_state:
            assert shown(state) == stored(migrated, state.operator_id, state.new_state, state.new_kind), state.title
    return {state.state: state for state in samples.states}


@pytest.mark.parametrize("name", FEW)
def test_what_is_shown_is_what_a_migration_writes(root, tmp_path, name):
    source = root / "tests" / "fixtures" / name

    states = require_as_migrated(source, tmp_path / "new", later_version(Savepoint.open(source).describe()))

    assert any(one.entries for one in states.values())


@record(java_class="shop.Account")
@attrs.frozen
class V1:
    number: Int32
    owner: str
    legacy: str
    note: str | None = None


@record(java_class="shop.Account")
@attrs.frozen
class V2:
    number: int
    name: Annotated[str, Field(aliases=["owner"])]
    note: Annotated[str, Field(on_none="")]
    currency: str = "EUR"


def states_of(kind):
    return [
        ValueStateDescriptor("account", kind),
        ListStateDescriptor("several", kind),
        MapStateDescriptor("by_city", str, kind),
        MapStateDescriptor("numbered", Int32 if kind is V1 else int, str),
    ]


def job_of(kind, *states, lists=True):
    given = {}
    if lists:
        given = {
            "list_states": [ListStateDescriptor("pending", kind)],
            "broadcast_states": [MapStateDescriptor("rules", str, kind)],
        }
    operator = Operator("shop", key=int, states=[*states_of(kind), *states], **given)
    return Job([operator])


SOME = {1: V1(1, "ann", "x", "hi"), 2: V1(2, "bob", "y"), 77: V1(-7, "eve", "", "")}


def written(folder, job, fill=lambda _: None):
    with SavepointWriter(folder, job, parallelism=2) as writer:
        for at, (key, one) in enumerate(SOME.items()):
            writer.put("shop", "account", key, one)
            writer.put("shop", "several", key, [one, attrs.evolve(one, note=None)])
            writer.put("shop", "by_city", key, {"paris": one, "rome": SOME[2]})
            writer.put("shop", "numbered", key, {7: "a", key: "b"})
            if job.operators[0].list_states:
                writer.add("shop", "pending", one, subtask=at % 2)
        if job.operators[0].broadcast_states:
            writer.put_broadcast("shop", "rules", "first", SOME[1])
            writer.put_broadcast("shop", "rules", "second", SOME[2])
        fill(writer)
    return folder


def dids(entry):
    return {(str(one.path), str(one.did)): (one.old, one.new, one.count, one.rule) for one in entry.changes}


def test_a_record_shows_what_was_renamed_widened_filled_in_and_dropped(tmp_path):
    source = written(tmp_path / "old", job_of(V1))

    states = require_as_migrated(source, tmp_path / "new", job_of(V2))

    bob = next(one for one in states["account"].entries if one.key == 2)
    assert dids(bob) == {
        ("$.name", "renamed"): ("bob", "bob", 1, "REC-6"),
        ("$.number", "widened"): (2, 2, 1, "PRIM-2"),
        ("$.note", "defaulted"): (None, "", 1, "REC-10"),
        ("$.currency", "defaulted"): (None, "EUR", 1, "REC-2"),
        ("$.legacy", "dropped"): ("y", None, 1, "REC-4"),
    }
    assert next(one for one in bob.changes if one.did == "renamed").old_path == "$.owner"
    several = next(one for one in states["several"].entries if one.key == 2)
    assert dids(several)["$[].currency", "defaulted"] == (None, "EUR", 2, "REC-2")
    assert ("${}.name", "renamed") in dids(states["by_city"].entries[0])
    numbered = next(one for one in states["numbered"].entries if one.key == 2)
    assert dids(numbered) == {("$<key>", "widened"): (2, 2, 2, "PRIM-2")}
    assert {one.subtask for one in states["pending"].entries} == {0, 1}
    assert [one.user_key for one in states["rules"].entries] == ["first", "second"]
    assert ("${}.legacy", "dropped") in dids(states["rules"].entries[0])
    assert ("$[].legacy", "dropped") in dids(states["pending"].entries[0])


def doubled(value):
    return f"{value}{value}"


def summed(values):
    return None if "b" in values.values() and 2 in values else ", ".join(values.values())


def test_converters_transforms_dropped_and_renamed_states(tmp_path):
    more = [ValueStateDescriptor("text", int), ValueStateDescriptor("gone", str), ValueStateDescriptor("moved", Int32)]
    later = [
        ValueStateDescriptor("text", str, converter=doubled),
        ValueStateDescriptor("now", int),
    ]

    def fill(writer):
        for key in SOME:
            writer.put("shop", "text", key, key)
            writer.put("shop", "gone", key, "x")
            writer.put("shop", "moved", key, key)

    source = written(tmp_path / "old", job_of(V1, *more), fill)
    new = job_of(V2, *later)
    options = MigrationOptions(edits=parse_edits(drop=["gone"], rename_states=["moved=now"]))
    states = require_as_migrated(source, tmp_path / "new", new, options)

    (change,) = next(one for one in states["text"].entries if one.key == 2).changes
    assert (str(change.did), change.old, change.new) == ("converted", 2, "22")
    assert change.by.endswith(".doubled")
    gone = states["gone"]
    assert {(one.fate, one.dropped, one.old, one.new) for one in gone.entries} == {("dropped", "state", "x", None)}
    assert (gone.new_state, gone.action, states["moved"].new_state) == ("", "drop", "now")


def test_a_state_that_becomes_another_kind_is_shown_key_by_key(tmp_path):
    source = written(tmp_path / "old", job_of(V1))
    new = job_of(V1)
    transform = StateTransform.from_map(summed)
    to = ValueStateDescriptor("numbered", str, transform=transform)
    operator = new.operators[0]
    kept = [one for one in operator.states if one.name != "numbered"]
    new = attrs.evolve(new, operators=[attrs.evolve(operator, states=[*kept, to])])

    states = require_as_migrated(source, tmp_path / "new", new)

    found = {one.key: one for one in states["numbered"].entries}
    assert (found[2].fate, found[2].dropped) == ("dropped", "empty")
    assert found[1].new == "b, a"
    assert found[1].old == {"$map": [[1, "b"], [7, "a"]]}
    assert {one.by.rpartition(".")[2] for one in found[1].changes} == {"summed"}
    assert (states["numbered"].kind, states["numbered"].new_kind) == ("map", "value")


def test_all_keys_rewritten_with_lists_maps_and_timers(tmp_path):
    def job(key):
        states = [
            ValueStateDescriptor("total", Int32 if key is Int32 else int),
            MapStateDescriptor("stock", str, int),
            ValueStateDescriptor("same", str),
        ]
        return Job([Operator("op", key=key, states=states, timers=[TimerServiceDescriptor()])])

    with SavepointWriter(tmp_path / "old", job(Int32), parallelism=2) as writer:
        for key in range(9):
            writer.put("op", "total", key, key)
            writer.put("op", "stock", key, {"a": 1, "b": key})
            writer.put("op", "same", key, "x")
            writer.register_event_time_timer("op", 1000 + key, key)

    options = MigrationOptions(repartition=Repartition(), parallelism=3)
    states = require_as_migrated(tmp_path / "old", tmp_path / "new", job(int), options)

    assert {str(one.fate) for state in states.values() for one in state.entries} == {"changed", "same"}

    savepoint = Savepoint.open(tmp_path / "old")
    merging = MigrationOptions(repartition=Repartition(merge={"total": operator.add}))
    samples = sample_entries(savepoint, prepare(savepoint, job(int), merging).plan)
    assert {one.state for one in samples.states if one.may_be_merged} == {"total"}


AT = datetime(2026, 6, 15, 12, tzinfo=UTC)


def test_time_to_live_switched_off_and_on(tmp_path):
    def job(**options):
        states = [ValueStateDescriptor("seen", str, **options), ListStateDescriptor("all", str, **options)]
        return Job([Operator("op", key=int, states=[*states, MapStateDescriptor("by", str, str, **options)])])

    day, now = timedelta(days=1), milliseconds(AT)
    with SavepointWriter(tmp_path / "on", job(time_to_live=True)) as writer:
        for key, stamp in ((1, now - 5), (2, now - 2 * milliseconds_of(day))):
            writer.put("op", "seen", key, TtlValue(stamp, "x"))
            writer.put("op", "all", key, [TtlValue(0, "old"), TtlValue(stamp, "y")])
            writer.put("op", "by", key, {"a": TtlValue(stamp, "z"), "b": TtlValue(now, "w")})
    options = MigrationOptions(reference_time=AT)

    off = require_as_migrated(tmp_path / "on", tmp_path / "off", job(former_time_to_live=day), options)
    on = require_as_migrated(tmp_path / "off", tmp_path / "again", job(time_to_live=True), options)

    first, second = sorted(off["seen"].entries, key=lambda one: one.key)
    assert (first.old_stamp_ms, first.new_stamp_ms, second.fate, second.dropped) == (
        now - 5,
        None,
        "dropped",
        "expired",
    )
    assert dids(first) == {("$", "unstamped"): (None, None, 1, "STATE-5")}
    (kept,) = (one for one in off["all"].entries if one.key == 1)
    assert dids(kept)["$[]", "dropped"][:3] == ("old", None, 1)
    assert [one.fate for one in off["all"].entries if one.key == 2] == ["dropped"]
    (seen,) = on["seen"].entries
    assert (seen.old_stamp_ms, seen.new_stamp_ms) == (None, now)
    assert list(dids(seen)) == [("$", "stamped")]


def milliseconds_of(length):
    return int(length.total_seconds() * 1000)


@record(java_class="shop.Account")
@attrs.frozen
class Needed:
    number: int
    owner: str
    note: str


@pytest.mark.parametrize("bad_values", BadValues)
def test_a_value_that_does_not_fit_shows_what_the_migration_reports(tmp_path, bad_values):
    source = Savepoint.open(written(tmp_path / "old", job_of(V1)))
    options = MigrationOptions(bad_values=bad_values)

    samples = sample_entries(source, prepare(source, job_of(Needed), options).plan, EVERY)

    failing = {one.state: [entry for entry in one.entries if entry.failure is not None] for one in samples.states}
    fate = "failed" if bad_values is BadValues.ABORT else "quarantined"
    assert {(one.fate, one.new) for some in failing.values() for one in some} == {(fate, None)}
    (account,) = failing["account"]
    assert (account.key, account.failure.path, account.failure.rule) == (2, "$.note", "REC-17")
    with pytest.raises(ValueNotConvertible) as error:
        migrate_savepoint(source, tmp_path / "new", job_of(Needed))
    assert error.value.what in {one.failure.reason for some in failing.values() for one in some}
    if bad_values is BadValues.QUARANTINE:
        migrate_savepoint(source, tmp_path / "aside", job_of(Needed), options)
        counts = {one.state: one.quarantined for one in Savepoint.open(tmp_path / "aside").lineage.states}
        shown = {one.state: len(failing[one.state]) for one in samples.states}
        assert counts == shown | {"rules": 2 * shown["rules"]}  # both subtasks have the map


def test_a_dropped_state_that_nothing_reads_is_told_with_its_reason(root, monkeypatch):
    """As one of a class that this release does not know, within a header that it can read."""
    source = Savepoint.open(root / "tests" / "fixtures" / "flink-2.3" / "hashmap-account-v1" / "savepoint")
    options = MigrationOptions(edits=parse_edits(drop=["account", "pending"]))

    def refuse(*_):
        raise OldReaderUnavailable("there is no reader")

    monkeypatch.setattr("stateshift.state.migration.entry_sides.Values.of", refuse)
    samples = sample_entries(source, prepare(source, None, options).plan, EVERY)

    found = {one.state: one for one in samples.states}
    unread = found["account"], found["pending"]
    assert {one.action for one in unread} == {"drop"}
    assert [(one.not_shown, one.entries) for one in unread] == [("there is no reader", ())] * 2


def test_columns_whose_places_may_have_changed_are_compared_as_a_whole():
    old, new = ({"$sqlrow": {"kind": "+I", "fields": fields}} for fields in ([1, 2, 3], [1, 3]))

    (change,) = value_changes(old, new, ValueRules())

    assert (str(change.path), str(change.did), change.old, change.new) == ("$", "converted", old, new)


def test_of_a_state_that_is_half_migrated_the_latest_value_is_shown_as_the_one_that_stays(tmp_path):
    keys = 20
    half_lazy.half_lazy(tmp_path, keys)
    source = Savepoint.open(tmp_path / "half")

    samples = sample_entries(source, prepare(source, half_lazy.second, DEFAULTS).plan, EVERY)
    migrate_savepoint(source, tmp_path / "new", half_lazy.second)

    new = Savepoint.open(tmp_path / "new")
    for name, kind in (("v", "value"), ("by name", "map")):
        kept = sum((shown(one) for one in samples.states if one.new_state == name), Counter())
        assert kept == stored(new, new.operators[0].operator_id, name, kind)


def test_a_value_that_another_table_has_later_is_shown_as_left_out(tmp_path):
    lazy = ValueStateDescriptor("stateshift/lazy-2/v", half_lazy.Second)
    written = Job([Operator("f", key=str, states=[ValueStateDescriptor("v", half_lazy.First), lazy])])
    with SavepointWriter(tmp_path / "old", written) as writer:
        for key in "ab":
            writer.put("f", "v", key, half_lazy.First(1))
        writer.put("f", "stateshift/lazy-2/v", "b", half_lazy.Second(2))
    source = Savepoint.open(tmp_path / "old")
    later = Job([Operator("f", key=str, states=[ValueStateDescriptor("v", half_lazy.Second)])])

    samples = sample_entries(source, prepare(source, later, DEFAULTS).plan, EVERY)
    migrate_savepoint(source, tmp_path / "new", later)

    found = {(state.state, one.key): (str(one.fate), one.dropped) for state in samples.states for one in state.entries}
    assert found["v", "a"] == ("changed", None)
    assert found["v", "b"] == ("dropped", "superseded")
    assert Savepoint.open(tmp_path / "new").operator("f").state("v").get("b").amount == 2
