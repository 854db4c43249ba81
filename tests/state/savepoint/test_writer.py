"""A savepoint written from entries is read back equal, in every shape, and nothing half-done is left."""

import enum
import shutil
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateshift import (
    AggregatingStateDescriptor,
    BigInt,
    DeclarationError,
    Int8,
    Int16,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Record,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    StateShiftError,
    TargetExists,
    TimeWindow,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    record,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.state.key_groups import key_group_range
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.publication.publish import INLINE_BYTES
from stateshift.state.savepoint.verify import Outcome, verify


@record(java_class="fx.Account")
@attrs.frozen
class Account:
    id: int
    name: str
    note: str | None = None


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def account(value):
    return Record("fx.Account", {"id": value.id, "name": value.name, "note": value.note})


EVERY_KIND = Job(
    [
        Operator(
            "keyed",
            key=int,
            states=[
                ValueStateDescriptor("value", Account),
                ListStateDescriptor("list", Account),
                MapStateDescriptor("map", str, Account, nullable_values=True),
                ReducingStateDescriptor("reducing", None, int),
                AggregatingStateDescriptor("aggregating", None, tuple[int, float]),
                ValueStateDescriptor("never", str),
            ],
        ),
        Operator(
            "other",
            list_states=[ListStateDescriptor("split", str)],
            union_list_states=[ListStateDescriptor("union", Account)],
            broadcast_states=[MapStateDescriptor("rules", str, int)],
        ),
    ]
)
ACCOUNTS = [Account(i, f"acc{i}", None if i % 2 else "é😀") for i in range(40)]


def write_every_kind(folder, **options):
    with SavepointWriter(folder, EVERY_KIND, **options) as writer:
        for one in ACCOUNTS:
            writer.put("keyed", "value", one.id, one)
            writer.put("keyed", "list", one.id, [one] * (one.id % 3))
            writer.put("keyed", "map", one.id, {one.name: one, "": None})
            writer.put("keyed", "reducing", one.id, -one.id)
            writer.put("keyed", "aggregating", one.id, (one.id, one.id / 2))
        for subtask in range(options.get("parallelism", 1)):
            writer.add("other", "split", f"s{subtask}", subtask=subtask)
            writer.add("other", "union", ACCOUNTS[subtask], subtask=subtask)
        writer.put_broadcast("other", "rules", "a", 1)
        writer.put_broadcast("other", "rules", "b", 2)
    return Savepoint.open(folder)


def entries(savepoint, operator, state):
    return {entry.key: entry.value for entry in savepoint.operator(operator).state(state).read_entries()}


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism"), [(1, 128), (2, 128), (3, 129), (7, 200), (16, 16), (5, 32768)]
)
def test_every_kind_of_state_is_read_back(tmp_path, parallelism, max_parallelism):
    savepoint = write_every_kind(tmp_path / "sp", parallelism=parallelism, max_parallelism=max_parallelism)

    assert {a.id: account(a) for a in ACCOUNTS} == entries(savepoint, "keyed", "value")
    assert {a.id: [account(a)] * (a.id % 3) for a in ACCOUNTS if a.id % 3} == entries(savepoint, "keyed", "list")
    assert {a.id: {a.name: account(a), "": None} for a in ACCOUNTS} == entries(savepoint, "keyed", "map")
    assert {a.id: -a.id for a in ACCOUNTS} == entries(savepoint, "keyed", "reducing")
    assert {a.id: (a.id, a.id / 2) for a in ACCOUNTS} == entries(savepoint, "keyed", "aggregating")
    assert {} == entries(savepoint, "keyed", "never")
    other = savepoint.operator("other")
    assert [[f"s{i}"] for i in range(parallelism)] == other.state("split").read_elements()
    assert [[account(ACCOUNTS[i])] for i in range(parallelism)] == other.state("union").read_elements()
    assert [[{"a": 1, "b": 2}]] * parallelism == other.state("rules").read_elements()
    kinds = {state.name: state.kind for operator in savepoint.operators for state in operator.states}
    assert kinds["union"] is StateKind.UNION_LIST
    assert kinds["split"] is StateKind.SPLIT_LIST
    report = verify(savepoint)
    assert [] == [check for check in report.checks if check.status is not Outcome.OK]


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(1, 128), (3, 129), (16, 20)])
def test_each_subtask_has_exactly_its_key_groups(tmp_path, parallelism, max_parallelism):
    savepoint = write_every_kind(tmp_path / "sp", parallelism=parallelism, max_parallelism=max_parallelism)

    subtasks = savepoint.operator("keyed").stored.subtasks
    assert [key_group_range(i, parallelism, max_parallelism) for i in range(parallelism)] == [
        subtask.managed_keyed.key_groups for subtask in subtasks
    ]


def test_namespaces_of_variable_and_of_fixed_length_are_read_back(tmp_path):
    job = Job(
        [
            Operator(
                "named",
                key=str,
                states=[
                    ValueStateDescriptor("text", int, namespace=str),
                    MapStateDescriptor("map", str, int, namespace=str),
                    ListStateDescriptor("windows", int, namespace=TimeWindow),
                    ValueStateDescriptor("plain", int),
                ],
            )
        ]
    )
    keys, spaces = ["", "a", "é" * 100, "k" * 300], ["", "n", "日" * 90]
    with SavepointWriter(tmp_path / "sp", job, parallelism=2, max_parallelism=300) as writer:
        for key in keys:
            writer.put("named", "plain", key, len(key))
            writer.put("named", "windows", key, [1, 2], namespace=TimeWindow(-5, 5))
            for space in spaces:
                writer.put("named", "text", key, len(space), namespace=space)
                writer.put("named", "map", key, {"u": 1, "": 2}, namespace=space)
    savepoint = Savepoint.open(tmp_path / "sp")

    def rows(state):
        return {(e.key, e.namespace): e.value for e in savepoint.operator("named").state(state).read_entries()}

    assert {(key, space): len(space) for key in keys for space in spaces} == rows("text")
    assert {(key, space): {"u": 1, "": 2} for key in keys for space in spaces} == rows("map")
    assert {(key, TimeWindow(-5, 5)): [1, 2] for key in keys} == rows("windows")
    assert {(key, None): len(key) for key in keys} == rows("plain")
    assert verify(savepoint).ok


def test_values_with_ttl_are_read_back_with_their_stamps(tmp_path):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("v", str, time_to_live=True)])])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "v", 1, TtlValue(1700000000000, "a"))

    assert {1: TtlValue(1700000000000, "a")} == entries(Savepoint.open(tmp_path / "sp"), "op", "v")


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    Int32: st.integers(-(2**31), 2**31 - 1),
    str: st.text(max_size=6),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    bytes: st.binary(max_size=5),
}
HASHED: dict[Any, st.SearchStrategy[Any]] = {
    int: SCALARS[int],
    Int8: st.integers(-128, 127),
    Int16: st.integers(-(2**15), 2**15 - 1),
    str: SCALARS[str],
    bool: SCALARS[bool],
    tuple[str, int]: st.tuples(SCALARS[str], SCALARS[int]),
}


@st.composite
def states(draw, name):
    hint = draw(st.sampled_from(list(SCALARS)))
    values = SCALARS[hint]
    kind = draw(st.sampled_from(["value", "list", "map", "reducing"]))
    if kind == "list":
        return ListStateDescriptor(name, hint), st.lists(values, min_size=1, max_size=4)
    if kind == "map":
        keys = SCALARS[user := draw(st.sampled_from([int, str, bool]))]
        return MapStateDescriptor(name, user, hint), st.dictionaries(keys, values, min_size=1, max_size=4)
    if kind == "reducing":
        return ReducingStateDescriptor(name, None, hint), values
    return ValueStateDescriptor(name, hint), values


@st.composite
def jobs(draw):
    """A job of one to three operators, the entries of each state, and a parallelism."""
    operators, content = [], {}
    for number in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(list(HASHED)))
        drawn = [draw(states(f"s{i}")) for i in range(draw(st.integers(1, 3)))]
        operators.append(Operator(f"op{number}", key=key, states=[descriptor for descriptor, _ in drawn]))
        for descriptor, values in drawn:
            found = draw(st.dictionaries(HASHED[key], values, max_size=5))
            content[f"op{number}", descriptor.name] = found
    max_parallelism = draw(st.sampled_from([1, 2, 127, 128, 129, 1000, 32768]))
    parallelism = draw(st.integers(1, min(max_parallelism, 4)))
    return Job(operators), content, parallelism, max_parallelism


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs())
def test_any_job_is_read_back_and_verified(tmp_path, drawn):
    job, content, parallelism, max_parallelism = drawn
    folder = tmp_path / "sp"
    shutil.rmtree(folder, ignore_errors=True)
    with SavepointWriter(folder, job, parallelism=parallelism, max_parallelism=max_parallelism) as writer:
        for (operator, state), found in content.items():
            for key, value in found.items():
                writer.put(operator, state, key, value)
    savepoint = Savepoint.open(folder)

    for (operator, state), expected in content.items():
        assert expected == entries(savepoint, operator, state)
    assert verify(savepoint).ok


def test_a_key_that_has_a_value_is_refused(tmp_path):
    writer = SavepointWriter(tmp_path / "sp", EVERY_KIND)
    writer.put("keyed", "value", 1, ACCOUNTS[1])
    writer.put("keyed", "map", 1, {"a": None})
    writer.put_broadcast("other", "rules", "a", 1)

    with pytest.raises(ValueNotConvertible, match="has a value in this state already"):
        writer.put("keyed", "value", 1, ACCOUNTS[1])
    with pytest.raises(ValueNotConvertible, match="has a value in this state already"):
        writer.put("keyed", "map", 1, {"b": None})
    with pytest.raises(ValueNotConvertible, match="has a value in this state already"):
        writer.put_broadcast("other", "rules", "a", 2)


def test_nothing_is_no_entry(tmp_path):
    with SavepointWriter(tmp_path / "sp", EVERY_KIND) as writer:
        writer.put("keyed", "value", 1, None)
        writer.put("keyed", "list", 1, [])
        writer.put("keyed", "map", 1, {})
        writer.put("keyed", "list", 1, [ACCOUNTS[0]])
    savepoint = Savepoint.open(tmp_path / "sp")

    assert [0, 1, 0] == [savepoint.operator("keyed").state(s).measure().entries for s in ("value", "list", "map")]


@pytest.mark.parametrize(
    ("state", "key", "value", "path"),
    [
        ("value", 1, Account("x", "n"), "$.id"),
        ("value", 1, Account(1, None), "$.name"),
        ("value", 1, 5, "$"),
        ("list", 1, [ACCOUNTS[0], Account(1, None)], "$[].name"),
        ("list", 1, 5, "$"),
        ("list", 1, "text", "$"),
        ("map", 1, {"a": Account(2**63, "n")}, "${}.id"),
        ("map", 1, {5: ACCOUNTS[0]}, "$<key>"),
        ("map", 1, [1], "$"),
        ("reducing", 1, 2**63, "$"),
        ("reducing", 1, object(), "$"),
        ("aggregating", 1, (1, "x"), "$(1)"),
        ("reducing", "text", 1, "$<key>"),
        ("reducing", 2**63, 1, "$<key>"),
        ("reducing", None, 1, "$<key>"),
    ],
)
def test_what_does_not_fit_is_reported_with_operator_state_key_and_path(tmp_path, state, key, value, path):
    writer = SavepointWriter(tmp_path / "sp", EVERY_KIND)

    with pytest.raises(ValueNotConvertible) as caught:
        writer.put("keyed", state, key, value)
    where = caught.value.where
    assert ("keyed", state, repr(key), path) == tuple(where[n] for n in ("operator", "state", "key", "path"))
    # and nothing of it is kept
    writer.put("keyed", "map", 1, {"a": None})
    writer.finish()
    counts = {s.name: s.measure().entries for s in Savepoint.open(tmp_path / "sp").operator("keyed").states}
    assert {"map": 1} == {name: count for name, count in counts.items() if count}


def test_elements_that_do_not_fit_are_reported_with_their_place(tmp_path):
    writer = SavepointWriter(tmp_path / "sp", EVERY_KIND)

    with pytest.raises(ValueNotConvertible) as caught:
        writer.add("other", "union", Account(1, None))
    assert {"operator": "other", "state": "union", "path": "$.name"} == caught.value.where
    with pytest.raises(ValueNotConvertible) as caught:
        writer.put_broadcast("other", "rules", "a", "b")
    assert {"operator": "other", "state": "rules", "key": "'a'", "path": "${}"} == caught.value.where


@pytest.mark.parametrize(
    "call",
    [
        lambda writer: writer.put("lost", "value", 1, 1),
        lambda writer: writer.put("keyed", "lost", 1, 1),
        lambda writer: writer.put("other", "split", 1, 1),
        lambda writer: writer.add("other", "split", "a", subtask=1),
        lambda writer: writer.add("other", "rules", "a"),
        lambda writer: writer.add("keyed", "value", "a"),
        lambda writer: writer.put_broadcast("other", "split", "a", 1),
    ],
)
def test_what_the_job_does_not_have_is_refused(tmp_path, call):
    with pytest.raises(StateNotFound):
        call(SavepointWriter(tmp_path / "sp", EVERY_KIND))


@pytest.mark.parametrize("key", [Account, tuple[int, Account]])
def test_keys_that_flink_would_not_find_are_refused(tmp_path, key):
    with pytest.raises(DeclarationError, match="no hash that is the same in every JVM"):
        SavepointWriter(tmp_path / "sp", Job([Operator("op", key=key, states=[ValueStateDescriptor("v", int)])]))
    assert not (tmp_path / "sp").exists()


@attrs.frozen
class Ours:
    """A record without a Java class: Flink cannot restore an operator that has it."""

    number: int


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (Ours, [Ours(1), Ours(2)]),
        (BigInt, [10**30, -1]),
    ],
)
def test_keys_without_a_stable_hash_are_written_where_flink_does_not_restore(tmp_path, key, keys):
    job = Job([Operator("op", key=key, states=[ValueStateDescriptor("v", Ours)])])
    with SavepointWriter(tmp_path / "sp", job, parallelism=3) as writer:
        for index, one in enumerate(keys):
            writer.put("op", "v", one, Ours(index))
    savepoint = Savepoint.open(tmp_path / "sp")

    assert savepoint.operator("op").description.is_flink_restorable is False
    found = {entry.value.number: entry.key for entry in savepoint.operator("op").state("v").read_entries()}
    read = serializer_for(key).snapshot_configuration().restore_serializer()
    assert len(found) == len(keys)
    assert read is not None
    report = verify(savepoint)
    assert report.ok
    assert ["key groups"] == [check.name for check in report.checks if check.status is Outcome.UNPROVEN]


def test_a_taken_target_is_refused_and_stays(tmp_path):
    write_every_kind(tmp_path / "sp")
    before = (tmp_path / "sp" / "_metadata").read_bytes()

    with pytest.raises(TargetExists, match="there is a savepoint"):
        SavepointWriter(tmp_path / "sp", EVERY_KIND)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(TargetExists, match=r"notes\.txt"):
        SavepointWriter(tmp_path / "mine", EVERY_KIND)
    assert before == (tmp_path / "sp" / "_metadata").read_bytes()
    assert "mine" == (tmp_path / "mine" / "notes.txt").read_text()


def test_nothing_is_published_if_the_block_raises(tmp_path):
    class MyError(Exception):
        pass

    def fail():
        with SavepointWriter(tmp_path / "sp", EVERY_KIND) as writer:
            writer.put("keyed", "value", 1, ACCOUNTS[1])
            raise MyError

    with pytest.raises(MyError):
        fail()
    assert not (tmp_path / "sp").exists()
    write_every_kind(tmp_path / "sp")


def test_nothing_is_left_if_writing_fails(tmp_path, monkeypatch):
    writer = SavepointWriter(tmp_path / "sp", EVERY_KIND)
    writer.put("keyed", "list", 1, [Account(1, "x" * 50)] * 1000)

    def full(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("stateshift.state.publication.publish.write_metadata", full)
    with pytest.raises(OSError, match="full"):
        writer.finish()
    assert not (tmp_path / "sp").exists()


def test_large_streams_are_files_and_small_ones_inline(tmp_path):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("v", bytes)])])
    with SavepointWriter(tmp_path / "large", job, parallelism=2) as writer:
        for i in range(20):
            writer.put("op", "v", i, bytes(INLINE_BYTES // 5))
    with SavepointWriter(tmp_path / "small", job, parallelism=2) as writer:
        writer.put("op", "v", 1, b"")

    operator_id = job.operators[0].id
    names = [f"{operator_id}-keyed-0", f"{operator_id}-keyed-1"]
    assert sorted([*names, "_metadata", LINEAGE]) == sorted(f.name for f in (tmp_path / "large").iterdir())
    assert ["_metadata", LINEAGE] == sorted(f.name for f in (tmp_path / "small").iterdir())
    savepoint = Savepoint.open(tmp_path / "large")
    assert {*names, "_metadata"} == savepoint.lineage.files.keys()
    assert verify(savepoint).ok


def test_the_same_entries_in_any_order_give_the_same_files(tmp_path):
    one, other = (SavepointWriter(tmp_path / name, EVERY_KIND, parallelism=2) for name in ("one", "other"))
    for writer, accounts in ((one, ACCOUNTS), (other, reversed(ACCOUNTS))):
        for account in accounts:
            writer.put("keyed", "value", account.id, account)
        writer.finish()

    assert (tmp_path / "one" / "_metadata").read_bytes() == (tmp_path / "other" / "_metadata").read_bytes()


def test_counts_of_the_lineage_are_those_of_the_state(tmp_path):
    savepoint = write_every_kind(tmp_path / "sp", parallelism=2)

    counts = {(count.operator, count.state): count.written for count in savepoint.lineage.states}
    assert counts == {
        (operator.uid, state.name): state.measure().entries
        for operator in savepoint.operators
        for state in operator.states
    }


def test_a_keyed_and_a_list_state_of_one_name_are_distinguished(tmp_path):
    job = Job(
        [
            Operator(
                "op",
                key=int,
                states=[ValueStateDescriptor("same", int)],
                list_states=[ListStateDescriptor("same", str)],
            )
        ]
    )
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "same", 1, 2)
        writer.put("op", "same", 3, 4)
        writer.add("op", "same", "a")
    savepoint = Savepoint.open(tmp_path / "sp")

    assert {"value": 2, "split_list": 1} == {count.kind: count.written for count in savepoint.lineage.states}
    assert {"value": 2, "split_list": 1} == {
        str(state.kind): state.measure().entries for state in savepoint.operator("op").states
    }
    assert [] == [check for check in verify(savepoint).checks if check.status is not Outcome.OK]


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(0, 128), (129, 128), (1, 32769), (-1, 128)])
def test_an_impossible_parallelism_is_refused(tmp_path, parallelism, max_parallelism):
    with pytest.raises(DeclarationError, match="not possible"):
        SavepointWriter(tmp_path / "sp", EVERY_KIND, parallelism=parallelism, max_parallelism=max_parallelism)


def test_whatever_is_put_an_error_is_one_of_ours(tmp_path):
    writer = SavepointWriter(tmp_path / "sp", EVERY_KIND)

    for value in (object(), [1], {"a": 1}, "text", b"bytes", 1.5, True, (1,), Level.LOW, 10**40):
        for state in ("value", "list", "map", "reducing", "aggregating"):
            with suppress(StateShiftError):
                writer.put("keyed", state, 7, value)
