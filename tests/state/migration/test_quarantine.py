"""RUN-4: a value that does not fit ends the run, or lies in quarantine as it was stored, and all is counted (RUN-2)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import attrs
import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    Array,
    BadValues,
    CorruptSavepoint,
    Flag,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    MigrationReport,
    Operator,
    Policy,
    Row,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    record,
    redact_values,
    serializer_for,
)
from stateshift.state.entry_keys import encode
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.publication.publish import clean
from stateshift.state.publication.runs import final_name, names_of
from stateshift.state.savepoint.quarantine import quarantine_files
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

QUARANTINE = MigrationOptions(bad_values=BadValues.QUARANTINE)
BAD = b"\xff\xfe"


def bytes_and_text(make, **others):
    """Jobs whose state `s` holds bytes, and text: what is no UTF-8 does not fit (TEXT-2)."""
    return [Job([Operator("op", key=int, states=[make(hint)], **others)]) for hint in (bytes, str)]


def written(folder, job, values, *, parallelism=1):
    with SavepointWriter(folder, job, parallelism=parallelism) as writer:
        for key, value in values.items():
            writer.put("op", "s", key, value)
    return Savepoint.open(folder)


def migrate(source, target, job, options=QUARANTINE):
    """Give the savepoint, and what is in its quarantine."""
    prepared, folder = prepare(Savepoint.open(source), job, options), Folder.at(target)
    folder.create()
    tasks = cloudpickle.loads(cloudpickle.dumps(prepared.tasks))
    results = [perform(task, prepared.savepoint.folder, folder) for task in tasks]
    publish_result(prepared.savepoint, prepared.plan, tasks, results, folder)
    new = Savepoint.open(target)
    return new, list(new.quarantine())


def values_of(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("op").state("s").read_entries()}


def counts_of(savepoint):
    """Read, written, dropped and quarantined of the only state."""
    (count,) = savepoint.lineage.states
    return count.read, count.written, count.dropped, count.quarantined


def test_bad_value_quarantined(tmp_path):
    """K06, RUN-4: an entry lies aside as it was stored, with where it lay and what failed."""
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD, 3: b"good"})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: "fine", 3: "good"} == values_of(found)
    assert (3, 2, 0, 1) == counts_of(found)
    assert ("op", "s", "value", "2", "$", "TEXT-2") == (
        bad.operator, bad.state, bad.kind, bad.key, bad.path, bad.rule,
    )  # fmt: skip
    assert encode(serializer_for(bytes), BAD) == bad.value_bytes
    assert bad.key_bytes == bytes([bad.key_group]) + encode(serializer_for(int), 2) + bad.key_bytes[9:]
    assert "is not UTF-8" in bad.reason
    assert "UnicodeDecodeError" == bad.cause


def test_bad_value_aborts_with_key(tmp_path):
    """K06, RUN-4: without leave to put it aside, the first one ends the run."""
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD})

    with pytest.raises(ValueNotConvertible, match=r"key 2, path [$], rule TEXT-2"):
        migrate(tmp_path / "old", tmp_path / "new", new, MigrationOptions())


@record(java_class="acme.Visits")
@attrs.frozen
class Counted:
    visits: Int32 | None


@record(java_class="acme.Visits")
@attrs.frozen
class Required:
    visits: Int32


@pytest.mark.parametrize(
    ("nullable", "required", "fine", "bad", "path"),
    [
        (Counted, Required, Counted(1), Counted(None), "$.visits"),
        (dict[str, int | None], dict[str, int], {"a": 1}, {"a": None}, "${}"),
        (Row[int | None], Row[int], Row(1), Row(None), "$(0)"),
        (Array[str | None], Array[str], ("a",), ("a", None), "$[]"),
        (list[Counted], list[Required], [Counted(1)], [Counted(1), Counted(None)], "$[].visits"),
    ],
    ids=["field", "map value", "column", "array element", "field of an element"],
)
def test_a_null_that_may_be_none_is_found_where_no_byte_would_change(tmp_path, nullable, required, fine, bad, path):
    """REC-17, OPT-5: the bytes are the same, so nothing looks at them unless quarantine is asked for."""
    old, new = (
        Job([Operator("op", key=int, states=[ValueStateDescriptor("s", hint)])]) for hint in (nullable, required)
    )
    written(tmp_path / "old", old, {1: fine, 2: bad})

    assert prepare(Savepoint.open(tmp_path / "old"), new, MigrationOptions()).plan.is_empty
    found, (aside,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert [1] == list(values_of(found))
    assert ((2, 1, 0, 1), "2", path) == (counts_of(found), aside.key, aside.path)


def test_a_list_is_put_aside_whole_for_a_list_that_lacks_an_element_looks_whole(tmp_path):
    old, new = bytes_and_text(lambda hint: ListStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: [b"a", b"b"], 2: [b"c", BAD, b"d"]})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: ["a", "b"]} == values_of(found)
    assert ((2, 1, 0, 1), "$[]") == (counts_of(found), bad.path)
    assert b",".join(encode(serializer_for(bytes), each) for each in (b"c", BAD, b"d")) == bad.value_bytes


def test_of_a_map_one_user_key_is_put_aside(tmp_path):
    old, new = bytes_and_text(lambda hint: MapStateDescriptor("s", int, hint))
    written(tmp_path / "old", old, {1: {5: b"a", 6: BAD, 7: b"c"}, 2: {8: b"d"}})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: {5: "a", 7: "c"}, 2: {8: "d"}} == values_of(found)
    assert ((4, 3, 0, 1), "${}", "1", "6") == (counts_of(found), bad.path, bad.key, bad.user_key)
    assert bad.key_bytes.endswith(encode(serializer_for(int), 6))


def test_a_user_key_can_be_bad_itself(tmp_path):
    old, new = (Job([Operator("op", key=int, states=[MapStateDescriptor("s", hint, int)])]) for hint in (bytes, str))
    written(tmp_path / "old", old, {1: {b"a": 1, BAD: 2}})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: {"a": 1}} == values_of(found)
    assert ((2, 1, 0, 1), "$<key>", repr(BAD)) == (counts_of(found), bad.path, bad.user_key)


def test_of_an_operators_list_the_element_is_put_aside(tmp_path):
    old, new = (Job([Operator("op", list_states=[ListStateDescriptor("s", hint)])]) for hint in (bytes, str))
    with SavepointWriter(tmp_path / "old", old, parallelism=2) as writer:
        for element, subtask in ((b"a", 0), (BAD, 0), (b"b", 0), (b"c", 1)):
            writer.add("op", "s", element, subtask=subtask)

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert [["a", "b"], ["c"]] == found.operator("op").state("s").read_elements()
    assert (4, 3, 0, 1) == counts_of(found)
    assert (None, None, "$[]", b"") == (bad.key, bad.key_group, bad.path, bad.key_bytes)
    assert encode(serializer_for(bytes), BAD) == bad.value_bytes


def broadcast_jobs(*types):
    states = [MapStateDescriptor("s", key, value) for key, value in types]
    return [Job([Operator("op", broadcast_states=[state])]) for state in states]


def test_of_a_broadcast_map_the_entry_is_put_aside_in_each_subtask_that_has_it(tmp_path):
    old, new = broadcast_jobs((int, bytes), (int, str))
    with SavepointWriter(tmp_path / "old", old, parallelism=2) as writer:
        for key, value in {1: b"a", 2: BAD, 3: b"c"}.items():
            writer.put_broadcast("op", "s", key, value)

    found, aside = migrate(tmp_path / "old", tmp_path / "new", new)

    assert [[{1: "a", 3: "c"}]] * 2 == found.operator("op").state("s").read_elements()
    assert ((6, 4, 0, 2), ["2", "2"], ["${}"] * 2) == (
        counts_of(found),
        [bad.key for bad in aside],
        [bad.path for bad in aside],
    )
    assert encode(serializer_for(int), 2) == aside[0].key_bytes
    assert encode(serializer_for(bytes), BAD) == aside[0].value_bytes


def test_a_key_of_a_broadcast_map_can_be_bad_itself(tmp_path):
    old, new = broadcast_jobs((bytes, int), (str, int))
    with SavepointWriter(tmp_path / "old", old) as writer:
        for key, value in {b"a": 1, BAD: 2, b"c": 3}.items():
            writer.put_broadcast("op", "s", key, value)

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert [[{"a": 1, "c": 3}]] == found.operator("op").state("s").read_elements()
    assert ("$<key>", encode(serializer_for(int), 2)) == (bad.path, bad.value_bytes)


@pytest.mark.parametrize("fails", ["conversion", "writer"])
def test_what_a_converter_or_a_writer_refuses_is_a_bad_value(tmp_path, fails):
    converter = {"conversion": int, "writer": lambda text: text if text == "no" else int(text)}[fails]
    old, new = (
        Job([Operator("op", key=int, states=[descriptor])])
        for descriptor in (ValueStateDescriptor("s", str), ValueStateDescriptor("s", int, converter=converter))
    )
    written(tmp_path / "old", old, {1: "5", 2: "no"})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert ({1: 5}, encode(serializer_for(str), "no")) == (values_of(found), bad.value_bytes)
    assert {"conversion": "ValueError", "writer": "struct.error"}[fails] == bad.cause


def test_user_keys_that_become_one_end_the_run_for_no_value_is_wrong_map_3(tmp_path):
    old, new = (
        Job([Operator("op", key=int, states=[MapStateDescriptor("s", *types)])])
        for types in ((int, bytes), (float, str))
    )
    written(tmp_path / "old", old, {1: {1 << 60: b"fine", (1 << 60) + 1: b"good"}})

    with pytest.raises(ValuesCollide, match="two user keys of one key become the same"):
        migrate(tmp_path / "old", tmp_path / "new", new)


def test_broadcast_keys_that_become_one_end_the_run_too_map_3(tmp_path):
    old, new = broadcast_jobs((int, bytes), (float, str))
    with SavepointWriter(tmp_path / "old", old) as writer:
        for key, value in {1 << 60: b"good", (1 << 60) + 1: b"fine"}.items():
            writer.put_broadcast("op", "s", key, value)

    with pytest.raises(ValuesCollide, match="two keys of the broadcast map become the same"):
        migrate(tmp_path / "old", tmp_path / "new", new)


@pytest.mark.parametrize("bad_one", [0, 1])
def test_what_lies_aside_stands_in_the_way_of_no_other_key(tmp_path, bad_one):
    """It is not in the new state, so nothing is lost to it; whichever comes first."""
    values = [b"fine", b"fine"]
    values[bad_one] = BAD
    entries = dict(zip((1 << 60, (1 << 60) + 1), values, strict=True))
    old, new = (
        Job(
            [
                Operator(
                    "op",
                    key=int,
                    states=[MapStateDescriptor("s", *types)],
                    broadcast_states=[MapStateDescriptor("b", *types)],
                )
            ]
        )
        for types in ((int, bytes), (float, str))
    )
    with SavepointWriter(tmp_path / "old", old) as writer:
        writer.put("op", "s", 1, entries)
        for key, value in entries.items():
            writer.put_broadcast("op", "b", key, value)

    found, aside = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: {float(1 << 60): "fine"}} == values_of(found)
    assert [[{float(1 << 60): "fine"}]] == found.operator("op").state("b").read_elements()
    assert ["b", "s"] == sorted(bad.state for bad in aside)


def test_damaged_framing_is_no_bad_value(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine and long"})
    file = tmp_path / "old" / "_metadata"
    data = file.read_bytes()
    (tmp_path / "old" / LINEAGE).unlink()  # its digest would be looked at first
    place = data.index(encode(serializer_for(bytes), b"fine and long"))
    file.write_bytes(data[: place + 3] + bytes([5]) + data[place + 4 :])  # bytes are left after the value

    with pytest.raises(CorruptSavepoint, match="bytes follow the value"):
        migrate(tmp_path / "old", tmp_path / "new", new)


def test_with_more_bad_values_than_allowed_the_run_fails(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, dict.fromkeys(range(5), BAD))

    with pytest.raises(MigrationFailed, match=r"3 values do not fit .* 2 may go(.|\n)*max_bad_values"):
        migrate(tmp_path / "old", tmp_path / "few", new, attrs.evolve(QUARANTINE, max_bad_values=2))
    assert [] == Folder.at(tmp_path / "few").names() or not list((tmp_path / "few").glob("*quarantine*"))
    assert 5 == len(migrate(tmp_path / "old", tmp_path / "new", new, attrs.evolve(QUARANTINE, max_bad_values=5))[1])


def test_the_limit_is_that_of_all_tasks_together(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, dict.fromkeys(range(6), BAD), parallelism=4)
    limit = attrs.evolve(QUARANTINE, max_bad_values=5)
    prepared = prepare(Savepoint.open(tmp_path / "old"), new, limit)
    Folder.at(tmp_path / "new").create()

    results = [perform(task, prepared.savepoint.folder, Folder.at(tmp_path / "new")) for task in prepared.tasks]

    assert all(sum(count.quarantined for count in result.counts) < 5 for result in results)
    with pytest.raises(MigrationFailed, match="6 values do not fit their new types, but only 5 may go to quarantine"):
        publish_result(prepared.savepoint, prepared.plan, prepared.tasks, results, Folder.at(tmp_path / "new"))
    assert not (tmp_path / "new" / "_metadata").exists()


def test_the_files_are_named_by_their_streams_and_each_lies_in_the_lineage(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, dict.fromkeys(range(6), BAD) | {7: b"good"}, parallelism=2)

    found, aside = migrate(tmp_path / "old", tmp_path / "new", new)

    operator_id = found.operator("op").operator_id
    assert [f"{operator_id}-quarantine-keyed-{subtask}" for subtask in (0, 1)] == list(quarantine_files(found.lineage))
    assert sorted(map(str, range(6))) == sorted(bad.key for bad in aside)
    report = verify(found)
    assert report.ok
    assert "6 values are there" in next(check.detail for check in report.checks if check.name == "quarantine")


@pytest.mark.parametrize("damage", [lambda data: data[:0], lambda data: data[:-9] + b"\n", lambda data: data * 2])
def test_verify_notices_that_a_value_is_lost_or_damaged(tmp_path, damage):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: BAD})
    found, _ = migrate(tmp_path / "old", tmp_path / "new", new)
    file = tmp_path / "new" / quarantine_files(found.lineage)[0]

    file.write_bytes(damage(file.read_bytes()))

    failed = {check.name for check in verify(found).checks if check.status == "failed"}
    assert {"digests", "quarantine"} == failed


def test_two_runs_give_the_same_files_and_the_order_of_tasks_does_not_matter_run_5(tmp_path):
    old, new = bytes_and_text(lambda hint: MapStateDescriptor("s", int, hint))
    written(tmp_path / "old", old, {key: {1: b"a", 2: BAD} for key in range(20)}, parallelism=3)

    lines = []
    for target in ("one", "two"):
        found, _ = migrate(tmp_path / "old", tmp_path / target, new)
        lines.append({name: found.folder.read(name) for name in quarantine_files(found.lineage)})

    assert lines[0] == lines[1]
    assert 3 == len(lines[0])


def test_a_task_that_is_done_again_puts_nothing_aside_twice(tmp_path):
    """As Spark does it: each attempt has a file of its own, and only that of the result counts."""
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD})
    prepared, target = prepare(Savepoint.open(tmp_path / "old"), new, QUARANTINE), Folder.at(tmp_path / "new")
    target.create()

    (task,) = prepared.tasks
    perform(task, prepared.savepoint.folder, target)  # killed, or lost, after it had written
    result = perform(task, prepared.savepoint.folder, target)
    publish_result(prepared.savepoint, prepared.plan, prepared.tasks, [result], target)

    assert ["2"] == [bad.key for bad in Savepoint.open(target.place).quarantine()]


def test_a_resumed_run_keeps_what_a_finished_task_has_put_aside(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, dict.fromkeys(range(8), BAD) | {9: b"fine"}, parallelism=2)
    prepared, target = prepare(Savepoint.open(tmp_path / "old"), new, QUARANTINE), Folder.at(tmp_path / "new")
    target.create()
    journal = prepared.journal(target)
    done, left = prepared.tasks
    first = perform(done, prepared.savepoint.folder, target)
    journal.record(first)

    finished = journal.finished()
    results = [*finished.values(), perform(left, prepared.savepoint.folder, target)]
    publish_result(prepared.savepoint, prepared.plan, prepared.tasks, results, target)

    assert [first] == list(finished.values())
    assert 8 == len(list(Savepoint.open(target.place).quarantine()))


@pytest.mark.parametrize("renamed", [False, True])
def test_a_result_whose_quarantine_is_gone_does_not_count_and_one_that_is_renamed_does(tmp_path, renamed):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: BAD})
    prepared, target = prepare(Savepoint.open(tmp_path / "old"), new, QUARANTINE), Folder.at(tmp_path / "new")
    target.create()
    journal = prepared.journal(target)
    result = perform(prepared.tasks[0], prepared.savepoint.folder, target)
    journal.record(result)

    if renamed:
        target.rename(result.quarantine.attempt, final_name(result.quarantine.name, journal.generation))
    else:
        target.delete(result.quarantine.attempt)

    assert ([""] if renamed else []) == [found.quarantine.attempt for found in journal.finished().values()]


def test_a_run_that_aborts_does_not_go_on_with_one_that_quarantines(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    source, target = written(tmp_path / "old", old, {1: BAD}), Folder.at(tmp_path / "new")
    target.create()
    lenient, strict, other_limit = (
        prepare(source, new, options)
        for options in (QUARANTINE, MigrationOptions(), attrs.evolve(QUARANTINE, max_bad_values=7))
    )
    lenient.journal(target).record(perform(lenient.tasks[0], source.folder, target))

    assert {} == strict.journal(target).finished()
    assert 1 == len(other_limit.journal(target).finished())


def test_what_a_dead_run_has_left_is_cleared_with_its_quarantine(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    source, target = written(tmp_path / "old", old, {1: BAD, 2: BAD}), Folder.at(tmp_path / "new")
    target.create()
    result = perform(prepare(source, new, QUARANTINE).tasks[0], source.folder, target)
    target.rename(result.quarantine.attempt, result.quarantine.name)
    operators = [operator.operator_id for operator in source.operators]
    target.write("_run-0123456789ab", json.dumps({"names": names_of(operators)}).encode())

    assert {result.quarantine.name, "_run-0123456789ab"} == set(clean(target))
    assert () == target.names()


def test_a_later_migration_leaves_the_quarantine_where_it_is_and_tells(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD})
    found, _ = migrate(tmp_path / "old", tmp_path / "new", new)

    later = MigrationReport.planned(found, prepare(found, new, QUARANTINE).plan, "", ())
    after, aside = migrate(tmp_path / "new", tmp_path / "later", new)

    assert (1, [], 1) == (later.source_quarantined, aside, len(list(found.quarantine())))
    assert {1: "fine"} == values_of(after)
    assert [1] == [state["quarantined"] for state in after.lineage.history[-1]["states"]]


def test_redacted_the_file_holds_the_bytes_and_no_text_of_them(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {4711: b"\xffsecret"})

    redact_values()
    try:
        _, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)
    finally:
        redact_values(False)

    assert ("<redacted>", encode(serializer_for(bytes), b"\xffsecret")) == (bad.key, bad.value_bytes)
    assert "secret" not in bad.reason
    assert bad.reason.startswith("<redacted> is not UTF-8")


def test_a_dry_run_goes_on_where_the_run_would(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    source = written(tmp_path / "some", old, dict.fromkeys(range(9), BAD) | {10: b"fine"})

    assert [True] == list(try_out(source, prepare(source, new, QUARANTINE).plan).values())

    source = written(tmp_path / "none", old, {1: BAD})

    assert [False] == list(try_out(source, prepare(source, new, QUARANTINE).plan).values())
    with pytest.raises(ValueNotConvertible):
        try_out(source, prepare(source, new, MigrationOptions()).plan)


@given(st.lists(st.lists(st.binary(max_size=4), max_size=4), min_size=1, max_size=6))
def test_what_fits_and_what_lies_aside_are_together_all_that_was_there_run_2(lists):
    """An independent model: Python's own decoder says which lists fit."""

    def fits(elements):
        return all(element.decode("utf-8", "ignore").encode() == element for element in elements)

    old, new = bytes_and_text(lambda hint: ListStateDescriptor("s", hint))
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder, "old"), old, dict(enumerate(lists)))
        found, aside = migrate(Path(folder, "old"), Path(folder, "new"), new)
        left = values_of(found)

    # a list without elements is no entry
    expected = {
        key: [e.decode() for e in elements] for key, elements in enumerate(lists) if elements and fits(elements)
    }
    assert expected == left
    assert {str(key) for key, elements in enumerate(lists) if not fits(elements)} == {bad.key for bad in aside}


def test_a_lineage_without_quarantine_is_one_that_earlier_releases_read(tmp_path):
    old, _ = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))

    assert b'"quarantined"' not in written(tmp_path / "old", old, {1: b"fine"}).lineage.to_json()


def test_flags_that_a_policy_forbids_refuse_a_run_and_accepted_ones_are_in_its_lineage_run_6(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    source = written(tmp_path / "old", old, {1: b"fine"})

    with pytest.raises(IncompatibleState, match="do not forbid may_fail_per_value"):
        prepare(source, new, MigrationOptions(policy=Policy({Flag.MAY_FAIL_PER_VALUE})))
    found, _ = migrate(tmp_path / "old", tmp_path / "new", new, MigrationOptions(policy=Policy({Flag.LOSSY})))

    (operator,) = found.lineage.plan["operators"]
    assert [{"path": "$", "flag": "may_fail_per_value"}] == operator["states"][0]["flags"]


def test_lists_within_list_state_are_read_again_one_after_the_other(tmp_path):
    """RUN-7: the list of a state has separators, and a list that is its element has a length."""
    old, new = (Job([Operator("op", key=int, states=[ListStateDescriptor("s", list[hint])])]) for hint in (Int32, int))
    written(tmp_path / "old", old, {1: [[], []], 2: [[1, 2], []]})

    found, _ = migrate(tmp_path / "old", tmp_path / "new", new, MigrationOptions())

    assert {1: [[], []], 2: [[1, 2], []]} == values_of(found)
