"""What cannot be state, or has no place to go, is refused with its key and a way out; nothing is published."""

from __future__ import annotations

import os

import attrs
import pyarrow as pa
import pytest
from writing import FLINKS, JOB, NUMBERS, Visit, refused, values, write

from stateshift import (
    CorruptSavepoint,
    DeclarationError,
    IncompatibleState,
    Int32,
    Job,
    MigrationFailed,
    Operator,
    PickleSerializer,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    Target,
    TargetExists,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.compat.description import StateKind
from stateshift.state.columnar.state_types import Wanted
from stateshift.state.columnar.state_write import settle
from stateshift.state.publication import target_lock as claim
from stateshift.state.publication.publish import clean
from stateshift.state.publication.target_lock import claimed
from stateshift.state.storage.files import Folder


@pytest.fixture
def flinks(savepoint_of):
    return Savepoint.open(savepoint_of(FLINKS))


PERSON = pa.array(
    [{"active": True, "age": 1, "id": 1, "level": "LOW", "name": "x", "score": 0.5, "tags": ["a"],
      "address": {"number": 1, "street": "s", "planet": "p"}}]
)  # fmt: skip
EARLY = {
    "no key": ({"rows": pa.table({"k": [1], "value": [1]})}, DeclarationError, "there is no column 'key'; the columns"),
    "no value": ({"rows": pa.table({"key": [1]})}, DeclarationError, "there is no column 'value'"),
    "a column too many": ({"rows": pa.table({"key": [1], "value": [1], "valeu": [1]})}, DeclarationError,
                          "'valeu' is not part of the state: the columns of this value state are key, value"),
    "a user key of no map": ({"rows": pa.table({"key": [1], "value": [1], "user_key": [1]}), "state": "count"},
                             DeclarationError, "the column 'user_key' is not part"),
    "a map without": ({"state": "labels", "rows": pa.table({"key": [1], "value": ["x"]})}, DeclarationError,
                      "there is no column 'user_key'"),
    "a value of another type": ({"state": "count", "rows": pa.table({"key": [1], "value": ["x"]})}, DeclarationError,
                                "the column 'value' is a string, and long is declared"),
    "a key of another type": ({"state": "count", "rows": pa.table({"key": ["x"], "value": [1]})}, DeclarationError,
                              "the column 'key' is a string, and long is declared"),
    "a kind that is another": ({"state": "count", "kind": StateKind.LIST}, DeclarationError, "the state is a value"),
    "no such state": ({"state": "cuont"}, StateNotFound, "the base has no state 'cuont'; the keyed states of the"),
    "a name that is nearly right": ({"state": "cuont"}, StateNotFound, "did you mean 'count'?"),
    "no such operator": ({"operator": "kyed-op"}, StateNotFound, "the base has no operator 'kyed-op'"),
    "no keyed state": ({"operator": "list-op"}, StateNotFound, "no keyed state in the operator 'list-op'"),
    "operator state": ({"state": "rules"}, StateNotFound, "'rules' is operator state"),
    "operator state of an operator without keys": ({"operator": "list-op", "state": "offsets"}, StateNotFound,
                                                   "'offsets' is operator state"),
    "timers": ({"state": "_timer_state/event_user-timers"}, DeclarationError, "holds timers"),
    "ttl without its time": ({"state": "session"}, DeclarationError, "has no time of last access: use a struct"),
    "a namespace that is none": ({"state": "count", "rows": pa.table({"key": [1], "namespace": [1], "value": [1]})},
                                 DeclarationError, "the column 'namespace' is not part"),
    "a field that no record has": (
        {"state": "person", "rows": pa.table({"key": [1], "value": PERSON})}, DeclarationError,
        "the field value.address.planet would be lost"),
    "a field that is not there": (
        {"state": "person", "rows": pa.table({"key": [1], "value": pa.array([{"id": 1, "name": "x"}])})},
        DeclarationError, "value.active is missing, which"),
    "a kind of no rows": ({"state": "new", "kind": StateKind.BROADCAST}, DeclarationError, "cannot be made from rows"),
    "a list of no arrays": ({"state": "new", "kind": StateKind.LIST}, DeclarationError, "does not hold arrays"),
    "other key groups": ({"state": "count", "max_parallelism": 64}, DeclarationError, "has 128 key groups already"),
    "other subtasks": ({"state": "count", "parallelism": 1}, DeclarationError, "has 2 subtasks already"),
    "a job of another key": (
        {"state": "count", "job": Job([Operator("keyed-op", key=str, states=[ValueStateDescriptor("count", int)])])},
        IncompatibleState, "the keys are of type long, but the job declares string"),
    "a job of another type": (
        {"state": "count", "job": Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", Int32)])])},
        IncompatibleState, "the state is value of long, but the job declares value of int"),
    "a job without it": ({"state": "count", "job": JOB}, StateNotFound, "the job has no operator 'keyed-op'"),
    "types that Flink does not know": (
        {"state": "new", "restore_target": Target.FLINK,
         "job": Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("new", Visit)])])},
        IncompatibleState, "it does not know the type"),
}  # fmt: skip


@pytest.mark.parametrize("name", EARLY)
def test_what_can_be_known_early_is_refused_before_anything_is_there(tmp_path, flinks, name):
    arguments, error, words = EARLY[name]
    rows = pa.table({"key": [1], "value": [1]})

    refused(error, words, **{"target": tmp_path / "new", "rows": rows, "operator": "keyed-op", "base": flinks.place,
                             "state": "count"} | arguments)  # fmt: skip
    assert not (tmp_path / "new").exists()


@attrs.frozen
class Basket:
    items: tuple[str, ...] = ()


@pytest.mark.parametrize("is_declared", [True, False])
def test_pickles_are_not_made_of_the_bytes_that_reading_gives(tmp_path, is_declared):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", list[PickleSerializer(Basket)])])])
    with SavepointWriter(tmp_path / "base", job) as writer:
        writer.put("o", "s", 1, [Basket(("a",))])

    refused(
        DeclarationError, "Basket> cannot be made from columns", target=tmp_path / "new", base=tmp_path / "base",
        rows=pa.table({"key": [1], "value": [[b"bytes"]]}), overwrite=True, job=job if is_declared else None,
    )  # fmt: skip


def test_a_savepoint_is_never_changed_where_it_lies(tmp_path):
    found = write(tmp_path / "new", NUMBERS)
    before = (tmp_path / "new" / "_metadata").read_bytes()

    error = refused(TargetExists, "savepoints are never changed in place", target=tmp_path / "new", rows=NUMBERS)
    assert f'.option("base", "{found.place}").save("…")' in error.advice
    refused(TargetExists, "", target=tmp_path / "new", rows=NUMBERS, base=found.place, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused(TargetExists, "it contains 'notes.txt'", target=tmp_path / "mine", rows=NUMBERS)
    assert before == (tmp_path / "new" / "_metadata").read_bytes()


LATE = {
    "two rows for a key": ({"rows": pa.table({"key": [1, 2, 1], "value": [1, 2, 3]})}, "two rows for one key", "1"),
    "two lists for a key": ({"rows": pa.table({"key": [1, 2, 1], "value": [["a"], ["b"], ["c"]]}), "state": "events"},
                            "two rows for one key, but each row is the whole list of its key", "1"),
    "two values of a user key": (
        {"state": "labels", "rows": pa.table({"key": [1, 1], "user_key": ["a", "a"], "value": ["x", "y"]})},
        "two rows for one key", "1, user key 'a'"),
    "a null key": ({"rows": pa.table({"key": pa.array([1, None]), "value": [1, 2]})}, "null in the key column", None),
    "a null value": ({"rows": pa.table({"key": [1, 2], "value": pa.array([1, None])})}, "there is a null", "2"),
    "a null in a value": (
        {"state": "pair", "rows": pa.table({"key": [3, 4], "value": [{"a": 1, "b": 2}, {"a": 1, "b": None}]})},
        "None does not fit a long", "4"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_rows_that_cannot_be_state_are_refused_with_their_key_and_nothing_is_published(tmp_path, flinks, name):
    arguments, words, key = LATE[name]
    base = {"operator": "keyed-op", "state": "count", "base": flinks.place, "overwrite": True}

    error = refused(ValueNotConvertible, words, target=tmp_path / "new", **base | arguments)

    assert key == error.where.get("key")
    assert "keyed-op" == error.where["operator"]
    assert "aggregate" not in error.advice
    assert "Nothing was published: the target has no _metadata." == error.written
    assert not (tmp_path / "new").exists()


def test_a_row_whose_key_has_an_entry_is_refused_with_it(tmp_path, flinks):
    taken = next(iter(values(flinks, "keyed-op", "count")))
    rows = pa.table({"key": [1 << 40, taken], "value": [1, 2]})

    error = refused(
        ValueNotConvertible, "the key already has an entry in the state", target=tmp_path / "new", rows=rows,
        operator="keyed-op", state="count", base=flinks.place,
    )  # fmt: skip

    assert str(taken) == error.where["key"]
    assert "left_anti" in error.advice


def test_rows_that_are_lost_on_their_way_are_found_out(tmp_path):
    wanted = Wanted(operator="o", state="s", overwrite=False)
    work = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None).prepare()
    whole = work.encode(NUMBERS.to_batches(), 0)

    with pytest.raises(MigrationFailed, match="the rows written differ from those encoded"):
        work.publish([attrs.evolve(whole, pieces=whole.pieces[1:])])
    assert not (tmp_path / "new" / "_metadata").exists()


def test_what_a_killed_task_has_left_goes_with_the_next_write(tmp_path):
    wanted = Wanted(operator="o", state="s", overwrite=False)
    work = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None).prepare()
    work.encode(NUMBERS.to_batches(), 0)
    (tmp_path / "new" / work.claim.name).write_text('{"host": "elsewhere"}')
    os.utime(tmp_path / "new" / work.claim.name, (0, 0))
    assert 3 == len(list((tmp_path / "new").iterdir()))

    write(tmp_path / "new", NUMBERS)

    assert {"_metadata", "_stateshift.json"} == {file.name for file in (tmp_path / "new").iterdir()}


def test_a_base_that_is_damaged_is_no_base(tmp_path, savepoint_copy):
    base = savepoint_copy(FLINKS)
    stored = Savepoint.open(base)
    subtask = stored.operator("keyed-op").stored.subtasks[0]
    file = base / subtask.managed_keyed.stream.path
    file.write_bytes(file.read_bytes()[:-200])

    refused(
        CorruptSavepoint, "", target=tmp_path / "new", rows=pa.table({"key": [1], "value": [1]}), operator="keyed-op",
        state="count", base=base, overwrite=True,
    )  # fmt: skip
    assert not (tmp_path / "new" / "_metadata").exists()


def test_a_target_in_which_another_run_is_at_work_is_refused_and_left_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(claim, "_SAME_TIME_S", -1.0)  # no claim is so young that it is worth waiting
    wanted = Wanted(operator="o", state="s", overwrite=False)
    settled = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None)

    with claimed(settled.target):
        before = set(settled.target.names())
        with pytest.raises(TargetExists, match="another run"):
            settled.prepare()
        assert before == set(settled.target.names())


def test_a_write_holds_its_target_from_planning_to_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(claim, "_SAME_TIME_S", -1.0)
    wanted = Wanted(operator="o", state="s", overwrite=False)
    settled = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None)
    work = settled.prepare()
    files = [work.encode(NUMBERS.to_batches(), 0)]
    before = set(work.target.names())

    for other in (settled.prepare, lambda: clean(work.target)):
        with pytest.raises(TargetExists, match="another run is in progress"):
            other()
    assert before == set(work.target.names())

    work.publish(files)
    work.give_up()
    assert 500 == len(values(Savepoint.open(tmp_path / "new")))
    assert ("_metadata", "_stateshift.json") == work.target.names()
    with pytest.raises(MigrationFailed, match="another run took the target over"):
        work.publish(files)


def test_a_write_that_lost_its_target_publishes_nothing_and_leaves_the_other_run_alone(tmp_path):
    wanted = Wanted(operator="o", state="s", overwrite=False)
    settled = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None)
    work = settled.prepare()
    files = [work.encode(NUMBERS.to_batches(), 0)]
    work.target.write(work.claim.name, b'{"host": "elsewhere"}')
    os.utime(tmp_path / "new" / work.claim.name, (0, 0))

    with claimed(work.target):
        with pytest.raises(MigrationFailed, match="another run took the target over"):
            work.publish(files)
        work.give_up()
        assert [] == [name for name in work.target.names() if work.target.run in name]
