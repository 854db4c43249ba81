"""All keys of an operator rewritten: other key groups, other keys, and keys that become one (ROLE-4)."""

from __future__ import annotations

import operator as functions

import attrs
import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    BadValues,
    CorruptSavepoint,
    DeclarationError,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    Operator,
    PlanChanged,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateTransform,
    TimerServiceDescriptor,
    TimeWindow,
    TtlValue,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    parse_edits,
    redact_values,
)
from stateshift.compat.repartition import Merge
from stateshift.state.formats.flink.metadata import write_metadata
from stateshift.state.migration import new_keys as rekeying
from stateshift.state.migration import tasks
from stateshift.state.migration.plan_file import NewTypes, PlanFile
from stateshift.state.migration.planning import make_plan, prepare_as_planned
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.storage.files import Folder


def prepared(source, job=None, *, parallelism=None, **repartition):
    options = MigrationOptions(repartition=Repartition(**repartition), parallelism=parallelism)
    return prepare(Savepoint.open(source), job, options)


def carried_out(ready, target):
    """Carry out all tasks, as workers get them and in the wrong order; gives the results."""
    folder = Folder.at(target)
    folder.create()
    tasks = cloudpickle.loads(cloudpickle.dumps(ready.tasks))
    return [perform(task, ready.savepoint.folder, folder) for task in reversed(tasks)]


def migrated(source, target, job=None, **wanted):
    ready = prepared(source, job, **wanted)
    results = carried_out(ready, target)
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, Folder.at(target))
    new = Savepoint.open(target)
    assert [] == [check for check in verify(new).checks if check.status is Outcome.FAILED]
    return new


def files_of(savepoint):
    names = (name for name in savepoint.folder.names() if name != "_stateshift.json")
    return {name: savepoint.folder.read(name) for name in names}


STATES = [
    ValueStateDescriptor("total", int),
    ListStateDescriptor("lines", str),
    MapStateDescriptor("stock", str, int),
    ListStateDescriptor("windows", int, namespace=TimeWindow),
    ValueStateDescriptor("named", int, namespace=str),
    ValueStateDescriptor("seen", int, time_to_live=True),
]
TIMERS = [TimerServiceDescriptor(), TimerServiceDescriptor("window-timers", namespace=TimeWindow)]


def job_of(key, states=STATES, timers=TIMERS, **options):
    return Job([Operator("orders", key=key, states=states, timers=timers, **options)])


def write_orders(place, key, keys, **shape):
    """A savepoint with all states and timers of some keys."""
    with SavepointWriter(place, job_of(key), **shape) as writer:
        for at, name in enumerate(keys):
            window = TimeWindow(at, at + 10)
            writer.put("orders", "total", name, 5 * at)
            writer.put("orders", "lines", name, [f"{at}", ","])
            writer.put("orders", "stock", name, {"books": at, "": 7})
            writer.put("orders", "windows", name, [at], namespace=window)
            writer.put("orders", "named", name, at, namespace="é" * at)
            writer.put("orders", "seen", name, TtlValue(100 * at, at))
            writer.register_event_time_timer("orders", 1000 + at, name, service="user-timers")
            writer.register_processing_time_timer("orders", -at, name, service="window-timers", namespace=window)
    return place


def everything(savepoint, kept=lambda key: key):
    """All entries and timers of the operator, under keys as `kept` gives them."""
    found = Savepoint.open(savepoint).operator("orders")
    entries = {
        (state.name, kept(entry.key), str(entry.namespace)): entry.value
        for state in found.states
        if state.kind != "timers"
        for entry in state.read_entries()
    }
    timers = sorted(
        (state.name, timer.timestamp, str(kept(timer.key)), str(timer.namespace))
        for state in found.states
        if state.kind == "timers"
        for timer in state.read_timers()
    )
    return entries, timers


@pytest.mark.parametrize("groups", [1000, 5])
def test_contents_of_flinks_savepoints_are_the_same_in_any_number_of_key_groups(canonical, contents, tmp_path, groups):
    new = migrated(canonical, tmp_path / "new", max_parallelism=groups)

    assert contents(canonical) == contents(new)
    assert {groups} == {operator.max_parallelism for operator in new.operators}


KEYS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), unique=True, max_size=12)
GROUPS, SUBTASKS = st.integers(4, 1000), st.integers(1, 4)


@settings(max_examples=25)
@given(keys=KEYS, groups=GROUPS, others=GROUPS, parallelism=SUBTASKS, between=SUBTASKS)
def test_there_and_back_gives_the_same_bytes_role_4(tmp_path_factory, keys, groups, others, parallelism, between):
    """What `SavepointWriter` writes is sorted, and so is what a repartition writes."""
    folder = tmp_path_factory.mktemp("law")
    source = write_orders(folder / "source", int, keys, max_parallelism=groups, parallelism=parallelism)

    there = migrated(source, folder / "there", max_parallelism=others, parallelism=between)
    back = migrated(there.place, folder / "back", max_parallelism=groups, parallelism=parallelism)

    assert everything(source) == everything(there.place)
    assert files_of(Savepoint.open(source)) == files_of(back)


@settings(max_examples=15)
@given(keys=KEYS, groups=GROUPS, parallelism=SUBTASKS)
def test_keys_that_become_texts_and_numbers_again_give_the_same_bytes_role_4(
    tmp_path_factory, keys, groups, parallelism
):
    folder = tmp_path_factory.mktemp("law")
    source = write_orders(folder / "source", int, keys, parallelism=parallelism)

    there = migrated(source, folder / "there", job_of(str, key_converter=str), max_parallelism=groups, parallelism=1)
    wanted = {"max_parallelism": 128, "parallelism": parallelism}
    back = migrated(there.place, folder / "back", job_of(int, key_converter=int), **wanted)

    assert everything(source, kept=str) == everything(there.place)
    assert files_of(Savepoint.open(source)) == files_of(back)


def test_state_in_the_heap_backends_native_format_is_rekeyed_too(native_heap, contents, tmp_path):
    new = migrated(native_heap, tmp_path / "new", max_parallelism=1000)

    assert contents(native_heap) == contents(new)


def test_what_is_there_does_not_depend_on_how_it_is_read(tmp_path, monkeypatch):
    """RUN-5: streams of other lengths, and batches of other sizes, give the same bytes."""
    one, many = (
        write_orders(tmp_path / f"from-{subtasks}", int, range(-20, 20), parallelism=subtasks) for subtasks in (1, 4)
    )
    wanted = {"max_parallelism": 200, "parallelism": 3}
    first = migrated(one, tmp_path / "first", **wanted)
    monkeypatch.setattr(tasks, "READING_BYTES", 1000)
    monkeypatch.setattr(rekeying, "BATCH_BYTES", 50)
    monkeypatch.setattr(rekeying, "HELD_BYTES", 300)

    second = migrated(many, tmp_path / "second", **wanted)

    assert len(prepared(many, **wanted).tasks[0].readings) > 4
    assert files_of(first) == files_of(second)


def test_int_keys_become_texts_by_a_function_with_all_state_and_timers(tmp_path):
    source = write_orders(tmp_path / "source", int, range(-5, 30), parallelism=2)

    new = migrated(source, tmp_path / "new", job_of(str, key_converter=str), max_parallelism=1000)

    assert everything(source, kept=str) == everything(new.place)
    assert "string" == new.operator("orders").key.describe()
    found = {(count.action, count.read, count.written, count.dropped, count.merged) for count in new.lineage.states}
    assert {("rekey", 35, 35, 0, 0), ("rekey", 70, 70, 0, 0), ("rekey", 0, 0, 0, 0)} == found
    told = new.lineage.plan["operators"][0]["rekeying"]
    assert ("builtins.str", ["ROLE-4", "ROLE-4", "PRIM-4"]) == (
        told["converter"],
        [one["rule"] for one in told["findings"]],
    )
    assert [{"path": "$<key>", "flag": "collision_check"}] == told["flags"]


def test_a_key_with_a_rule_needs_no_function_role_4(tmp_path):
    source = write_orders(tmp_path / "source", Int32, range(-5, 5))

    new = migrated(source, tmp_path / "new", job_of(int))

    assert everything(source) == everything(new.place)
    assert ("long", 128) == (new.operator("orders").key.describe(), new.operator("orders").max_parallelism)


def test_rewritten_keys_are_where_a_writer_puts_them(tmp_path):
    """What a writer of the new job gives is what the repartition gives, to the byte."""
    old, expected = (
        write_orders(tmp_path / name, key, keys, parallelism=2)
        for name, key, keys in (("old", int, range(40)), ("expected", str, map(str, range(40))))
    )

    new = migrated(old, tmp_path / "new", job_of(str, key_converter=str))

    assert files_of(Savepoint.open(expected)) == files_of(new)


def test_values_are_converted_in_the_same_run(tmp_path):
    source = write_orders(tmp_path / "source", int, range(9))
    states = [ValueStateDescriptor("total", str, converter=hex), *STATES[1:]]

    new = migrated(source, tmp_path / "new", job_of(str, states, key_converter=str))

    totals = {entry.key: entry.value for entry in new.operator("orders").state("total").read_entries()}
    assert {str(at): hex(5 * at) for at in range(9)} == totals
    assert {"total": "convert", "lines": "rekey"} == {
        count.state: count.action for count in new.lineage.states if count.state in {"total", "lines"}
    }


def test_states_and_timers_that_the_job_does_not_declare_go_along(tmp_path):
    source = write_orders(tmp_path / "source", int, range(9))

    new = migrated(source, tmp_path / "new", job_of(str, STATES[:1], (), key_converter=str))

    assert everything(source, kept=str) == everything(new.place)


def test_keys_that_a_function_cannot_take_abort_and_are_reported_role_4(tmp_path):
    source = write_orders(tmp_path / "source", int, range(9))
    job = job_of(str, key_converter=lambda key: str(1 // (key - 7)))

    with pytest.raises(ValueNotConvertible, match=r"failed on 7: ZeroDivisionError") as caught:
        carried_out(prepared(source, job), tmp_path / "new")

    where = caught.value.where
    assert ("7", "$<key>", "ROLE-4", "orders") == tuple(where[name] for name in ("key", "path", "rule", "operator"))


def tens(key):
    return str(key // 10)


MERGES = {"total": functions.add, "lines": functions.add, "stock": functions.sub, "seen": max}


def test_two_keys_that_become_one_are_refused_with_both_and_the_way_out_role_4(tmp_path):
    source = write_orders(tmp_path / "source", int, [11, 25, 18])
    ready = prepared(source, job_of(str, key_converter=tens))

    with pytest.raises(ValuesCollide, match=r"^two keys become one: 11 and 18 both become '1'") as caught:
        carried_out(ready, tmp_path / "new")

    assert "merge their values" in caught.value.advice
    assert "(states without one: lines, named, seen, stock, total, windows)" in caught.value.advice
    assert ("$<key>", "ROLE-4") == (caught.value.where["path"], caught.value.where["rule"])


def test_keys_that_meet_in_no_state_are_refused_too(tmp_path):
    """One has a total and the other lines: under one key they would be those of one order."""
    with SavepointWriter(tmp_path / "source", job_of(int)) as writer:
        writer.put("orders", "total", 11, 5)
        writer.put("orders", "lines", 18, ["a"])

    with pytest.raises(ValuesCollide, match="11 and 18"):
        carried_out(prepared(tmp_path / "source", job_of(str, key_converter=tens)), tmp_path / "new")


def test_a_state_without_a_function_is_refused_next_to_those_that_have_one(tmp_path):
    source = write_orders(tmp_path / "source", int, [11, 18])
    ready = prepared(source, job_of(str, key_converter=tens), merge={"total": functions.add})

    with pytest.raises(ValuesCollide) as caught:
        carried_out(ready, tmp_path / "new")

    assert caught.value.where["state"] != "total"
    assert "(states without one: lines, named, seen, stock, windows)" in caught.value.advice


def test_values_of_keys_that_become_one_are_merged_in_the_order_of_the_stored_keys(tmp_path):
    """Lists are joined, maps united, timers kept once; with ttl the later stamp stays."""
    with SavepointWriter(tmp_path / "source", job_of(int)) as writer:
        for key in (18, 11, 25):
            writer.put("orders", "total", key, key)
            writer.put("orders", "lines", key, [f"of {key}"])
            writer.put("orders", "stock", key, {"books": key, f"only {key}": 1})
            writer.put("orders", "seen", key, TtlValue(1000 - key, key))
            writer.register_event_time_timer("orders", 7, key, service="user-timers")

    new = migrated(tmp_path / "source", tmp_path / "new", job_of(str, key_converter=tens), merge=MERGES)

    found, timers = everything(new.place)
    assert {
        ("total", "1", "None"): 29,
        ("lines", "1", "None"): ["of 11", "of 18"],
        ("stock", "1", "None"): {"books": -7, "only 11": 1, "only 18": 1},
        ("seen", "1", "None"): TtlValue(989, 18),
    } == {place: value for place, value in found.items() if place[1] == "1"}
    assert ["1", "2"] == [key for _, _, key, _ in timers]
    merged = {count.state: (count.read, count.written, count.merged) for count in new.lineage.states if count.merged}
    assert {
        "total": (3, 2, 1), "lines": (3, 2, 1), "stock": (6, 5, 1), "seen": (3, 2, 1),
        "_timer_state/event_user-timers": (3, 2, 1),
    } == merged  # fmt: skip


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        (lambda first, _: first / 0, "failed on 11 and 18: ZeroDivisionError"),
        (lambda *_: "x", "cannot be written as long|is not an integer|'x'"),
    ],
)
def test_a_merge_that_fails_is_named(tmp_path, merge, words):
    with SavepointWriter(tmp_path / "source", job_of(int)) as writer:
        for key in (11, 18):
            writer.put("orders", "total", key, key)
    ready = prepared(tmp_path / "source", job_of(str, key_converter=tens), merge={"total": merge})

    with pytest.raises(ValueNotConvertible, match=words) as caught:
        carried_out(ready, tmp_path / "new")

    assert "'1'" == caught.value.where["key"]


def test_a_list_that_a_merge_leaves_empty_is_no_entry(tmp_path):
    with SavepointWriter(tmp_path / "source", job_of(int)) as writer:
        for key in (11, 18):
            writer.put("orders", "lines", key, ["a"])

    new = migrated(
        tmp_path / "source", tmp_path / "new", job_of(str, key_converter=tens), merge={"lines": lambda *_: []}
    )

    assert ({}, []) == everything(new.place)


def test_a_dry_run_tries_a_key_of_each_state_read_5(tmp_path):
    source = write_orders(tmp_path / "source", int, [7])
    ready = prepared(source, job_of(str, key_converter=str))
    failing = prepared(source, job_of(str, key_converter=lambda key: key / 0))

    tried = try_out(ready.savepoint, ready.plan)

    assert {True, False} == set(tried.values())
    assert tried[ready.plan.operators[0].operator_id, "lines"]
    with pytest.raises(ValueNotConvertible, match="ZeroDivisionError"):
        try_out(failing.savepoint, failing.plan)


def test_an_entry_of_another_key_group_is_found_run_3(tmp_path):
    source = write_orders(tmp_path / "source", int, range(9))
    ready = prepared(source, max_parallelism=64)
    (task,) = ready.tasks
    moved = attrs.evolve(task.handles[0], first_key_group=1, offsets=task.handles[0].offsets[:-1])

    with pytest.raises(CorruptSavepoint, match="is stored as belonging to") as caught:
        perform(attrs.evolve(task, handles=(moved,)), ready.savepoint.folder, Folder.at(tmp_path / "new"))

    assert "RUN-3" == caught.value.where["rule"]


def test_entries_that_are_lost_on_the_way_are_missed_run_2(tmp_path):
    ready = prepared(write_orders(tmp_path / "source", int, range(9)), max_parallelism=64)
    (result,) = carried_out(ready, tmp_path / "new")
    first, *others = result.counts
    lost = attrs.evolve(result, counts=(attrs.evolve(first, read=first.read - 1), *others))

    with pytest.raises(MigrationFailed, match="9 entries were sent and 8 received"):
        publish_result(ready.savepoint, ready.plan, ready.tasks, [lost], Folder.at(tmp_path / "new"))


def test_a_repeated_repartition_plans_nothing_run_5(tmp_path):
    job = job_of(str, key_converter=str)
    new = migrated(write_orders(tmp_path / "source", int, range(9)), tmp_path / "new", job, max_parallelism=64)

    assert prepared(new.place, job, max_parallelism=64).plan.is_empty


def test_the_key_groups_of_operators_without_keyed_state_are_a_number(savepoint_of, tmp_path, contents):
    source = savepoint_of("hashmap-operator-only-p2-m128")

    new = migrated(source, tmp_path / "new", max_parallelism=1000)

    assert {1000} == {operator.max_parallelism for operator in new.metadata.operators}
    assert contents(source) == contents(new)


def test_one_operator_by_name_gets_other_key_groups_and_the_others_keep_theirs(tmp_path):
    job = Job([Operator(name, key=int, states=[ValueStateDescriptor("total", int)]) for name in ("a", "b")])
    with SavepointWriter(tmp_path / "source", job) as writer:
        writer.put("a", "total", 1, 1)
        writer.put("b", "total", 1, 1)

    new = migrated(tmp_path / "source", tmp_path / "new", max_parallelism={"a": 1000})

    assert {"a": 1000, "b": 128} == {operator.uid: operator.max_parallelism for operator in new.operators}


def words(hint):
    return Job([Operator("words", key=int, states=[ValueStateDescriptor("word", hint)])])


@pytest.mark.parametrize("parallelism", [1, 3])
def test_values_that_do_not_fit_are_set_aside_when_keys_are_rewritten_run_4(tmp_path, parallelism):
    with SavepointWriter(tmp_path / "old", words(bytes), parallelism=2) as writer:
        for key in range(20):
            writer.put("words", "word", key, b"\xff" if key % 4 else b"fine")
    options = MigrationOptions(
        repartition=Repartition(max_parallelism=64), parallelism=parallelism, bad_values=BadValues.QUARANTINE
    )

    ready = prepare(Savepoint.open(tmp_path / "old"), words(str), options)
    lineage = publish_result(
        ready.savepoint, ready.plan, ready.tasks, carried_out(ready, tmp_path / "new"), Folder.at(tmp_path / "new")
    )

    found = Savepoint.open(tmp_path / "new")
    (count,) = lineage.states
    assert (20, 5, 15) == (count.read, count.written, count.quarantined)
    assert {str(key) for key in range(20) if key % 4} == {bad.key for bad in found.quarantine()}
    assert 15 == len(list(found.quarantine()))
    assert dict.fromkeys(range(0, 20, 4), "fine") == {
        entry.key: entry.value for entry in found.operator("words").state("word").read_entries()
    }
    assert verify(found).ok


def test_more_bad_values_than_allowed_end_a_run_that_rewrites_keys(tmp_path):
    with SavepointWriter(tmp_path / "old", words(bytes)) as writer:
        for key in range(9):
            writer.put("words", "word", key, b"\xff")
    options = MigrationOptions(
        repartition=Repartition(max_parallelism=64), bad_values=BadValues.QUARANTINE, max_bad_values=8
    )

    with pytest.raises(MigrationFailed, match="9 values do not fit"):
        carried_out(prepare(Savepoint.open(tmp_path / "old"), words(str), options), tmp_path / "new")


def test_a_plan_file_describes_how_keys_are_rewritten_and_a_run_must_match_it(tmp_path):
    source = Savepoint.open(write_orders(tmp_path / "source", int, range(9)))
    job = job_of(str, key_converter=str)
    wanted = Repartition(max_parallelism={"orders": 64}, merge={"total": Merge("operator:add", functions.add)})
    made = make_plan(source, job, MigrationOptions(repartition=wanted), NewTypes())

    read = PlanFile.from_json(made.to_json())
    ready = prepare_as_planned(source, job, read.options, read)

    assert made.options == read.options
    assert [functions.add] == [merging.merge.function for _, merging in ready.plan.operators[0].rekeying.merges]
    assert {"old": 128, "new": 64} == read.operators[0]["max_parallelism"]
    told = read.operators[0]["key"]["rekeying"]
    assert ("string", "snapshot", "builtins.str") == tuple(told[name] for name in ("key", "reader", "converter"))
    assert ({"total": "operator:add"}, [{"path": "$<key>", "flag": "collision_check"}]) == (
        told["merges"], told["flags"],
    )  # fmt: skip
    with pytest.raises(PlanChanged, match="the run would not do what the plan describes"):
        prepare_as_planned(source, job_of(str, key_converter=hex), MigrationOptions(), read)


def test_a_merge_without_a_place_cannot_be_written_to_a_plan_file(tmp_path):
    source = Savepoint.open(write_orders(tmp_path / "source", int, range(2)))
    options = MigrationOptions(repartition=Repartition(max_parallelism=9, merge={"total": lambda *_: 0}))

    with pytest.raises(DeclarationError, match="cannot be written to a plan file"):
        make_plan(source, None, options, NewTypes(stay=True)).to_json()


@pytest.mark.parametrize("wanted", [{"max_parallelism": 2}, {"max_parallelism": 8, "parallelism": 9}])
def test_fewer_key_groups_than_subtasks_are_refused_with_both_numbers(tmp_path, wanted):
    source = write_orders(tmp_path / "source", int, range(9), parallelism=3)

    with pytest.raises(DeclarationError, match=r"max parallelism \d is less than the parallelism .* (3|9) subtasks"):
        prepared(source, **wanted)
    assert prepared(source, max_parallelism=2, parallelism=2).tasks


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda subtask: attrs.evolve(subtask, raw_keyed=subtask.managed_keyed), "raw keyed state"),
        (lambda subtask: attrs.evolve(subtask, finished=True, managed_keyed=None), "have finished"),
    ],
)
def test_raw_keyed_state_and_finished_subtasks_keep_their_keys(tmp_path, change, why):
    source = Savepoint.open(write_orders(tmp_path / "source", int, range(9), parallelism=2))
    (operator,) = source.metadata.operators
    first, *others = operator.subtasks
    changed = attrs.evolve(operator, subtasks=(change(first), *others))
    source.folder.write("_metadata", write_metadata(attrs.evolve(source.metadata, operators=(changed,))))

    with pytest.raises(IncompatibleState, match=f"its keys cannot be changed: .*{why}"):
        prepared(source.place, max_parallelism=64)


def test_keys_of_a_type_of_our_own_are_hashed_by_our_own_rule(tmp_path):
    """DESIGN, section 3: Flink is not going to restore the operator, which has other types of our own too."""

    @attrs.frozen
    class Place:
        town: str

    states = [ValueStateDescriptor("total", int)]
    with SavepointWriter(tmp_path / "source", job_of(str, states, ())) as writer:
        for at in range(50):
            writer.put("orders", "total", f"town {at}", at)

    new = migrated(tmp_path / "source", tmp_path / "new", job_of(Place, states, (), key_converter=Place))

    expected = {f"town {at}": at for at in range(50)}
    assert expected == {entry.key.town: entry.value for entry in new.operator("orders").state("total").read_entries()}
    again = migrated(new.place, tmp_path / "again", max_parallelism=1000)
    assert expected == {e.key.town: e.value for e in again.operator("orders").state("total").read_entries()}


def test_state_of_another_kind_moves_under_its_new_keys_state_2(tmp_path):
    """Its keys are counted, as in any migration that changes the kind, and entries where they are sent."""
    source = write_orders(tmp_path / "source", int, range(9))
    stock = ListStateDescriptor("stock", int, transform=StateTransform.from_map(lambda stock: sorted(stock.values())))

    new = migrated(source, tmp_path / "new", job_of(str, [stock], (), key_converter=str))

    found = {entry.key: entry.value for entry in new.operator("orders").state("stock").read_entries()}
    assert {str(at): sorted([7, at]) for at in range(9)} == found
    (count,) = (count for count in new.lineage.states if count.state == "stock")
    assert (9, 9, 9) == (count.read, count.written, count.entries)


def test_dropped_states_and_another_uid_go_with_new_keys(tmp_path):
    source = write_orders(tmp_path / "source", int, range(9))
    edits = parse_edits(drop=["lines"], rename_states=["total=sum"], rename_uids=["orders=sales"])
    options = MigrationOptions(repartition=Repartition(max_parallelism=64), edits=edits)
    ready = prepare(Savepoint.open(source), None, options)
    results = carried_out(ready, tmp_path / "new")
    lineage = publish_result(ready.savepoint, ready.plan, ready.tasks, results, Folder.at(tmp_path / "new"))

    found = Savepoint.open(tmp_path / "new").operator("sales")

    assert ({"stock", "sum"}, set()) == ({s.name for s in found.states} & {"stock", "sum"},
                                         {s.name for s in found.states} & {"lines", "total"})  # fmt: skip
    assert verify(Savepoint.open(tmp_path / "new")).ok
    assert {("lines", 9, 0, 9), ("sum", 9, 9, 0)} < {(c.state, c.read, c.written, c.dropped) for c in lineage.states}


def test_a_key_that_is_stored_twice_is_damage_and_no_collision(tmp_path):
    ready = prepared(write_orders(tmp_path / "source", int, range(9)), job_of(str, key_converter=str))
    (task,) = ready.tasks

    with pytest.raises(CorruptSavepoint, match="has two entries instead of one"):
        perform(attrs.evolve(task, handles=task.handles * 2), ready.savepoint.folder, Folder.at(tmp_path / "new"))


def test_redacted_messages_show_no_key(tmp_path):
    source = write_orders(tmp_path / "source", int, [98_765_431, 98_765_438])
    colliding = prepared(source, job_of(str, key_converter=tens))
    failing = prepared(source, job_of(str, key_converter=lambda key: f"{key}" / 0))
    redact_values(True)
    try:
        with pytest.raises(ValuesCollide) as collided:
            carried_out(colliding, tmp_path / "new")
        with pytest.raises(ValueNotConvertible) as failed:
            carried_out(failing, tmp_path / "newer")
    finally:
        redact_values(False)

    assert [] == [error for error in (collided, failed) if "9876543" in f"{error.value} {error.value.where}"]
