"""One state is written from rows: alone, or beside all that a savepoint has, which stays byte for byte."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    Target,
    ValueStateDescriptor,
)
from stateshift.compat.description import StateKind
from stateshift.serializers.errors import (
    CorruptSavepoint,
    DeclarationError,
    IncompatibleState,
    MigrationFailed,
    StateNotFound,
    TargetExists,
    ValueNotConvertible,
)
from stateshift.state.bootstrap import row_files
from stateshift.state.bootstrap.state_types import Wanted
from stateshift.state.bootstrap.state_write import settle
from stateshift.state.savepoint.files import Folder
from stateshift.state.savepoint.keyed_readers import open_keyed
from stateshift.state.savepoint.publish import clean
from stateshift.state.savepoint.sources import open_stream
from stateshift.state.savepoint.verify import verify

FLINKS = "hashmap-long-p2-m128-snappy"


def write(
    target, rows, *, operator="o", state="s", base=None, overwrite=False, job=None, kind=None, tasks=3, **numbers
):
    """Write as the data source does, in this process."""
    wanted = Wanted(operator=operator, state=state, overwrite=overwrite, job=job, kind=kind)
    begun = Savepoint.open(base) if base else None
    work = settle(wanted, rows.schema, Folder.at(target), begun, **numbers)
    work.prepare()
    size = -(-rows.num_rows // tasks) or 1
    files = [work.encode(rows.slice(at * size, size).to_batches(max_chunksize=7), at) for at in range(tasks)]
    work.publish(files)
    return Savepoint.open(target)


def values(savepoint, operator="o", state="s"):
    return {entry.key: entry.value for entry in savepoint.operator(operator).state(state).read_entries()}


def bytes_of(savepoint):
    """All entries, and the bytes of all other streams, by operator, key group and state."""
    found = {}
    for operator in savepoint.operators:
        for subtask in operator.stored.subtasks:
            if subtask.managed_keyed is not None:
                with open_keyed(subtask.managed_keyed, savepoint.folder, operator.max_parallelism) as reader:
                    for block in reader.blocks():
                        place = operator.title, block.key_group, reader.header.states[block.state_id].name
                        found.setdefault(place, []).extend(block.items())
            if subtask.managed_operator is not None:
                with open_stream(subtask.managed_operator.stream, savepoint.folder) as stream:
                    found[operator.title, "lists", subtask.index] = stream.read_at(0, stream.size)
    return found


def ordered(savepoint):
    """The same, entries in the order of their keys: Flink's heap backend has none."""
    return {place: sorted(items) for place, items in bytes_of(savepoint).items()}


def others(found, state):
    return {place: content for place, content in found.items() if place[2] != state}


NUMBERS = pa.table({"key": pa.array(range(500), pa.int64()), "value": [f"v{n}" for n in range(500)]})


# What is new


def test_a_new_savepoint_has_the_types_of_the_columns(tmp_path):
    found = write(tmp_path / "new", NUMBERS)

    assert {n: f"v{n}" for n in range(500)} == values(found)
    [operator] = found.operators
    assert ("o", "long", 128) == (operator.uid, operator.key.describe(), operator.max_parallelism)
    assert ["value of string"] == [f"{state.kind} of {state.description.describe()}" for state in operator.states]
    assert operator.description.is_flink_restorable
    assert verify(found).ok


COLUMNS = {
    "int": pa.array([1, -2], pa.int32()),
    "short": pa.array([1, -2], pa.int16()),
    "byte": pa.array([1, -2], pa.int8()),
    "float": pa.array([0.5, 2], pa.float32()),
    "double": pa.array([0.5, 2], pa.float64()),
    "boolean": pa.array([True, False]),
    "bytes": pa.array([b"\0", b""]),
    "decimal": pa.array(["1.50", "2.00"]).cast(pa.decimal128(5, 2)),
    "date": pa.array([1, 2], pa.date32()),
    "instant": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "local datetime": pa.array([1, 2], pa.timestamp("us")),
    "time": pa.array([1, 2], pa.time64("us")),
    "list<string>": pa.array([["a", "b"], []]),
    "map<string, long>": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "row<long, string>": pa.array([{"a": 1, "b": None}, {"a": None, "b": "x"}]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_of_column_has_a_type_of_flinks(tmp_path, name):
    column = COLUMNS[name]
    found = write(tmp_path / "new", pa.table({"key": ["a", "ż"], "value": column}))

    assert {"a", "ż"} == values(found).keys()
    assert name == found.operator("o").state("s").description.describe()
    assert found.operator("o").description.is_flink_restorable
    assert verify(found).ok


def test_list_and_map_state_and_keys_of_several_parts(tmp_path):
    keys = pa.array([{"a": "x", "b": 1}, {"a": "y", "b": 2}])
    lists = write(tmp_path / "l", pa.table({"key": keys, "value": [["a", "b"], []]}), kind=StateKind.LIST)
    maps = write(tmp_path / "m", pa.table({"key": ["k", "k", "z"], "user_key": [1, 2, 1], "value": [0.5, 1.5, 2.5]}))

    assert {("x", 1): ["a", "b"]} == values(lists)
    assert {"k": {1: 0.5, 2: 1.5}, "z": {1: 2.5}} == values(maps)
    assert ("list of list<string>", "map of map<long, double>") == tuple(
        f"{state.kind} of {state.description.describe()}"
        for state in (lists.operator("o").state("s"), maps.operator("o").state("s"))
    )
    assert verify(lists).ok
    assert verify(maps).ok


@attrs.frozen
class Visit:
    page: str
    seconds: Int32 = 0


JOB = Job(
    [
        Operator("o", key=str, states=[ValueStateDescriptor("s", Visit), ListStateDescriptor("l", Visit)]),
        Operator("lists", list_states=[ListStateDescriptor("offsets", int)]),
    ]
)


def test_a_job_declares_types_and_what_it_has_beside_starts_empty(tmp_path):
    visits = pa.array([{"page": "a", "seconds": 5}, {"page": "b", "seconds": 6}])
    found = write(tmp_path / "new", pa.table({"key": ["x", "y"], "value": visits}), job=JOB, parallelism=2)

    assert {"x": "a", "y": "b"} == {key: value.page for key, value in values(found).items()}
    assert {} == values(found, state="l")
    assert ["lists", "o"] == [operator.uid for operator in found.operators]
    assert verify(found).ok


def test_runs_of_many_tasks_are_merged_and_the_same_rows_give_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "HELD_BYTES", 1500)
    many = write(tmp_path / "many", NUMBERS, tasks=9, parallelism=4)
    once = write(tmp_path / "once", NUMBERS.take(list(range(499, -1, -1))), tasks=1, parallelism=4)

    assert bytes_of(many) == bytes_of(once)
    assert (tmp_path / "many" / "_metadata").read_bytes() == (tmp_path / "once" / "_metadata").read_bytes()
    assert ["_metadata", "_stateshift.json"] == sorted(file.name for file in (tmp_path / "many").iterdir())


# Beside what there is


@pytest.fixture
def flinks(savepoint_of):
    return Savepoint.open(savepoint_of(FLINKS))


def test_what_a_state_of_flinks_had_is_replaced_and_all_else_stays_byte_for_byte(tmp_path, flinks):
    counts = values(flinks, "keyed-op", "count")
    rows = pa.table({"key": [*counts, 1 << 40], "value": [count + 1 for count in counts.values()] + [7]})

    found = write(tmp_path / "new", rows, operator="keyed-op", state="count", base=flinks.place, overwrite=True)

    assert {key: count + 1 for key, count in counts.items()} | {1 << 40: 7} == values(found, "keyed-op", "count")
    assert others(bytes_of(flinks), "count") == others(bytes_of(found), "count")
    assert [(o.uid, o.parallelism) for o in flinks.operators] == [(o.uid, o.parallelism) for o in found.operators]
    assert verify(found).ok


def test_the_same_rows_give_the_bytes_that_flink_wrote(tmp_path, flinks):
    for state, column in (("count", pa.int64()), ("note", pa.string()), ("total", pa.int64())):
        stored = values(flinks, "keyed-op", state)
        rows = pa.table({"key": [*stored], "value": pa.array(stored.values(), column)})
        found = write(tmp_path / state, rows, operator="keyed-op", state=state, base=flinks.place, overwrite=True)
        assert ordered(flinks) == ordered(found)
        described = [operator.description for operator in flinks.operators]
        assert described == [operator.description for operator in found.operators]


def test_values_with_the_time_of_their_last_access_keep_it(tmp_path, flinks):
    stored = values(flinks, "keyed-op", "session")
    rows = pa.table({"key": [*stored], "value": [attrs.asdict(value) for value in stored.values()]})

    found = write(tmp_path / "new", rows, operator="keyed-op", state="session", base=flinks.place, overwrite=True)

    assert stored == values(found, "keyed-op", "session")
    assert ordered(flinks) == ordered(found)


WINDOW = pa.struct([("start", "int64"), ("end", "int64")])


def as_columns(value):
    """Values as Arrow takes them: tuples and objects as structs."""
    if isinstance(value, list):
        return [as_columns(item) for item in value]
    if isinstance(value, tuple):
        return {f"f{at}": item for at, item in enumerate(value)}
    return attrs.asdict(value) if attrs.has(type(value)) else value


@pytest.mark.parametrize(
    ("name", "operator", "state", "column"),
    [
        (
            "hashmap-windows-p2-m128",
            "window-list",
            "window-contents",
            pa.struct([("start", "int64"), ("end", "int64")]),
        ),
        ("rocksdb-namespaced-p2-m200", "ns-op", "ns-value", pa.string()),
        ("hashmap-namespaced-p1-m128", "ns-op", "ns-map", pa.string()),
    ],
)
def test_namespaces_of_flinks_are_written_as_flink_wrote_them(tmp_path, savepoint_of, name, operator, state, column):
    base = Savepoint.open(savepoint_of(name))
    entries = [
        (entry.key, as_columns(entry.namespace), *item)
        for entry in base.operator(operator).state(state).read_entries()
        for item in (entry.value.items() if isinstance(entry.value, dict) else [(as_columns(entry.value),)])
    ]
    names = ["key", "namespace", *(["user_key"] if len(entries[0]) > 3 else []), "value"]
    rows = pa.table(dict(zip(names, map(list, zip(*entries, strict=True)), strict=True)))
    rows = rows.set_column(1, "namespace", rows["namespace"].cast(column))

    found = write(tmp_path / "new", rows, operator=operator, state=state, base=base.place, overwrite=True)

    assert ordered(base) == ordered(found)
    doubled = pa.concat_tables([rows, rows.slice(0, 1)])
    error = refused(ValueNotConvertible, "two rows for one key", target=tmp_path / "twice", rows=doubled,
                    operator=operator, state=state, base=base.place, overwrite=True)  # fmt: skip
    assert ", namespace " in error.where["key"]


def test_the_lineage_tells_where_state_comes_from_and_how_many_rows_and_entries_there_were(tmp_path, flinks):
    rows = pa.table({"key": [1, 2, 3], "value": [1, 2, 3]})
    found = write(tmp_path / "new", rows, operator="keyed-op", state="count", base=flinks.place, overwrite=True)

    counts = {count.state: (count.action, count.read, count.dropped, count.written) for count in found.lineage.states}
    assert ("write", 15, 12, 3) == counts["count"]
    assert ("copy", 36, 0, 36) == counts["labels"]
    assert flinks.place == found.lineage.source["place"]
    actions = {s["name"]: s["action"] for o in found.lineage.plan["operators"] for s in o["states"]}
    assert {"count"} == {name for name, action in actions.items() if action == "write"}


def test_rows_are_appended_to_a_state_beside_the_entries_that_it_has(tmp_path, flinks):
    stored = values(flinks, "keyed-op", "labels")
    rows = pa.table(
        {"key": [*stored, 77, 78], "user_key": ["new"] * (len(stored) + 2), "value": ["x"] * (len(stored) + 2)}
    )

    found = write(tmp_path / "new", rows, operator="keyed-op", state="labels", base=flinks.place)

    expected = {key: {**labels, "new": "x"} for key, labels in stored.items()} | {77: {"new": "x"}, 78: {"new": "x"}}
    assert expected == values(found, "keyed-op", "labels")
    assert others(bytes_of(flinks), "labels") == others(bytes_of(found), "labels")
    assert verify(found).ok


def test_a_state_and_an_operator_are_added_where_a_kind_or_a_job_says_so(tmp_path, flinks):
    rows = pa.table({"key": [1, 2], "value": [[1], [2, 3]]})
    lists = write(tmp_path / "l", rows, operator="keyed-op", state="new", base=flinks.place, kind=StateKind.LIST)
    visits = pa.array([{"page": "a", "seconds": 5}])
    both = write(tmp_path / "o", pa.table({"key": ["x"], "value": visits}), base=lists.place, job=JOB, parallelism=2)

    assert {1: [1], 2: [2, 3]} == values(both, "keyed-op", "new")
    assert {"x": 5} == {key: value.seconds for key, value in values(both).items()}
    assert {"s"} == {state.name for state in both.operator("o").states}
    assert bytes_of(flinks).items() <= bytes_of(both).items()
    assert verify(both).ok


def test_a_state_may_get_another_type_and_another_kind_when_all_of_it_goes(tmp_path, flinks):
    job = Job([Operator("keyed-op", key=int, states=[MapStateDescriptor("count", str, Int32)])])
    rows = pa.table({"key": [1, 1], "user_key": ["a", "b"], "value": [1, 2]})

    found = write(
        tmp_path / "new", rows, operator="keyed-op", state="count", base=flinks.place, overwrite=True, job=job
    )

    assert {1: {"a": 1, "b": 2}} == values(found, "keyed-op", "count")
    assert others(bytes_of(flinks), "count") == others(bytes_of(found), "count")
    assert verify(found).ok


@pytest.mark.parametrize("name", ["hashmap-native-long-p2-m128", "rocksdb-tuple-p2-m128", "hashmap-long-p1-m128"])
def test_bases_of_other_formats_and_keys(tmp_path, savepoint_of, name):
    base = Savepoint.open(savepoint_of(name))
    stored = values(base, "keyed-op", "count")
    keys = [{"f0": key[0], "f1": key[1]} if isinstance(key, tuple) else key for key in stored]
    rows = pa.table({"key": keys, "value": [*stored.values()]})

    found = write(tmp_path / "new", rows, operator="keyed-op", state="count", base=base.place, overwrite=True)

    assert stored == values(found, "keyed-op", "count")
    for state in base.operator("keyed-op").states:
        assert state.measure().entries == found.operator("keyed-op").state(state.name).measure().entries
    assert verify(found).ok


# What is refused


def refused(error, words, **arguments):
    with pytest.raises(error) as caught:
        write(**arguments)
    assert words in str(caught.value)
    assert caught.value.advice
    return caught.value


PERSON = pa.array(
    [{"active": True, "age": 1, "id": 1, "level": "LOW", "name": "x", "score": 0.5, "tags": ["a"],
      "address": {"number": 1, "street": "s", "planet": "p"}}]
)  # fmt: skip
EARLY = {
    "no key": ({"rows": pa.table({"k": [1], "value": [1]})}, DeclarationError, "there is no column 'key'; the columns"),
    "no value": ({"rows": pa.table({"key": [1]})}, DeclarationError, "there is no column 'value'"),
    "a column too many": ({"rows": pa.table({"key": [1], "value": [1], "valeu": [1]})}, DeclarationError,
                          "the column 'valeu' is no part of the state: the columns of this value state are key, value"),
    "a user key of no map": ({"rows": pa.table({"key": [1], "value": [1], "user_key": [1]}), "state": "count"},
                             DeclarationError, "the column 'user_key' is no part"),
    "a map without": ({"state": "labels", "rows": pa.table({"key": [1], "value": ["x"]})}, DeclarationError,
                      "there is no column 'user_key'"),
    "a value of another type": ({"state": "count", "rows": pa.table({"key": [1], "value": ["x"]})}, DeclarationError,
                                "the column 'value' is a string, and long is declared"),
    "a key of another type": ({"state": "count", "rows": pa.table({"key": ["x"], "value": [1]})}, DeclarationError,
                              "the column 'key' is a string, and long is declared"),
    "a kind that is another": ({"state": "count", "kind": StateKind.LIST}, DeclarationError, "the state is a value"),
    "no such state": ({"state": "cuont"}, StateNotFound, "the base has no state 'cuont'; the keyed states of the"),
    "no such operator": ({"operator": "kyed-op"}, StateNotFound, "the base has no operator 'kyed-op'"),
    "no keyed state": ({"operator": "list-op"}, StateNotFound, "no keyed state in the operator 'list-op'"),
    "operator state": ({"state": "rules"}, StateNotFound, "'rules' is operator state"),
    "timers": ({"state": "_timer_state/event_user-timers"}, DeclarationError, "holds timers"),
    "ttl without its time": ({"state": "session"}, DeclarationError, "has no time of last access, as a struct"),
    "a namespace that is none": ({"state": "count", "rows": pa.table({"key": [1], "namespace": [1], "value": [1]})},
                                 DeclarationError, "the column 'namespace' is no part"),
    "a field that no record has": (
        {"state": "person", "rows": pa.table({"key": [1], "value": PERSON})}, DeclarationError,
        "the field value.address.planet would be lost"),
    "a field that is not there": (
        {"state": "person", "rows": pa.table({"key": [1], "value": pa.array([{"id": 1, "name": "x"}])})},
        DeclarationError, "there is no value.active, which"),
    "a kind of no rows": ({"state": "new", "kind": StateKind.BROADCAST}, DeclarationError, "not made from rows"),
    "a list of no arrays": ({"state": "new", "kind": StateKind.LIST}, DeclarationError, "holds no arrays"),
    "other key groups": ({"state": "count", "max_parallelism": 64}, DeclarationError, "has 128 key groups already"),
    "other subtasks": ({"state": "count", "parallelism": 1}, DeclarationError, "has 2 subtasks already"),
    "a job of another key": (
        {"state": "count", "job": Job([Operator("keyed-op", key=str, states=[ValueStateDescriptor("count", int)])])},
        IncompatibleState, "the keys are of type long, and the job declares string"),
    "a job of another type": (
        {"state": "count", "job": Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", Int32)])])},
        IncompatibleState, "the state is value of long, and the job declares value of int"),
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


def test_a_savepoint_is_never_changed_where_it_lies(tmp_path):
    found = write(tmp_path / "new", NUMBERS)
    before = (tmp_path / "new" / "_metadata").read_bytes()

    error = refused(TargetExists, "none is ever changed where it lies", target=tmp_path / "new", rows=NUMBERS)
    assert f'.option("base", "{found.place}").save("…")' in error.advice
    refused(TargetExists, "", target=tmp_path / "new", rows=NUMBERS, base=found.place, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused(TargetExists, "'notes.txt' is in it", target=tmp_path / "mine", rows=NUMBERS)
    assert before == (tmp_path / "new" / "_metadata").read_bytes()


LATE = {
    "two rows for a key": ({"rows": pa.table({"key": [1, 2, 1], "value": [1, 2, 3]})}, "two rows for one key", "1"),
    "two lists for a key": ({"rows": pa.table({"key": [1, 2, 1], "value": [["a"], ["b"], ["c"]]}), "state": "events"},
                            "two rows for one key, and each row is the whole list of its key", "1"),
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
    assert not (tmp_path / "new" / "_metadata").exists()
    clean(Folder.at(tmp_path / "new"))
    assert [] == list((tmp_path / "new").iterdir())


def test_a_row_whose_key_has_an_entry_is_refused_with_it(tmp_path, flinks):
    taken = next(iter(values(flinks, "keyed-op", "count")))
    rows = pa.table({"key": [1 << 40, taken], "value": [1, 2]})

    error = refused(
        ValueNotConvertible, "the key has an entry in the state already", target=tmp_path / "new", rows=rows,
        operator="keyed-op", state="count", base=flinks.place,
    )  # fmt: skip

    assert str(taken) == error.where["key"]
    assert "left_anti" in error.advice


def test_rows_that_are_lost_on_their_way_are_found_out(tmp_path):
    wanted = Wanted(operator="o", state="s", overwrite=False)
    work = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None)
    work.prepare()
    whole = work.encode(NUMBERS.to_batches(), 0)

    with pytest.raises(MigrationFailed, match="the rows that were written are not those that were encoded"):
        work.publish([attrs.evolve(whole, pieces=whole.pieces[1:])])
    assert not (tmp_path / "new" / "_metadata").exists()


def test_what_a_killed_task_has_left_goes_with_the_next_write(tmp_path):
    wanted = Wanted(operator="o", state="s", overwrite=False)
    work = settle(wanted, NUMBERS.schema, Folder.at(tmp_path / "new"), None)
    work.prepare()
    work.encode(NUMBERS.to_batches(), 0)
    assert 1 == len(list((tmp_path / "new").iterdir()))

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
