"""One state is written from rows: alone, or into a savepoint whose other state stays byte for byte."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from writing import FLINKS, JOB, NUMBERS, bytes_of, ordered, others, refused, values, write

from stateshift import (
    CorruptSavepoint,
    Int32,
    Job,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
)
from stateshift.compat.description import StateKind
from stateshift.state.columnar import row_files
from stateshift.state.columnar.table import StateTable
from stateshift.state.savepoint.verify import verify

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


def test_a_job_declares_types_and_its_other_states_start_empty(tmp_path):
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


# Next to what there is


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


def test_the_lineage_shows_where_state_comes_from_and_how_many_rows_and_entries_there_were(tmp_path, flinks):
    rows = pa.table({"key": [1, 2, 3], "value": [1, 2, 3]})
    found = write(tmp_path / "new", rows, operator="keyed-op", state="count", base=flinks.place, overwrite=True)

    counts = {count.state: (count.action, count.read, count.dropped, count.written) for count in found.lineage.states}
    assert ("write", 15, 12, 3) == counts["count"]
    assert ("copy", 36, 0, 36) == counts["labels"]
    assert flinks.place == found.lineage.source["place"]
    actions = {s["name"]: s["action"] for o in found.lineage.plan["operators"] for s in o["states"]}
    assert {"count"} == {name for name, action in actions.items() if action == "write"}


def test_rows_are_appended_to_a_state_next_to_the_entries_that_it_has(tmp_path, flinks):
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


# There and back


NANOSECONDS = {"instant", "localdatetime", "localtime", "sqltimestamp"}
UNLIKE = NANOSECONDS | {"bigint"}
"""What Spark's columns do not hold."""


@pytest.mark.parametrize("name", ["hashmap-zoo-p1-m128", "rocksdb-tuple-p2-m128", "hashmap-windows-p2-m128"])
def test_what_is_read_as_columns_and_written_again_has_the_bytes_that_flink_wrote(tmp_path, savepoint_of, name):
    base = Savepoint.open(savepoint_of(name))
    expected, unlike = ordered(base), set()
    for operator in base.operators:
        for state in operator.states:
            if not state.kind.is_keyed or state.kind is StateKind.TIMERS:
                continue
            try:
                table = StateTable.of(operator, state.name)
                batches = [batch for piece in table.slices(2) for batch in table.read(piece)]
            except ValueNotConvertible:
                unlike.add(state.name)
                continue
            rows = pa.Table.from_batches(batches, table.schema)
            to = {"operator": operator.uid, "state": state.name, "base": base.place, "overwrite": True}
            if expected != ordered(write(tmp_path / operator.uid / state.name, rows, tasks=1, **to)):
                unlike.add(state.name)

    kinds_of_rows = {"row"} if "tuple" in name else set()
    assert (UNLIKE if "zoo" in name else kinds_of_rows) == unlike


def test_a_base_that_is_not_what_its_digests_say_is_refused(tmp_path):
    job = Job([Operator("o", key=int, states=[MapStateDescriptor("m", str, str), MapStateDescriptor("s", str, int)])])
    with SavepointWriter(tmp_path / "old", job, max_parallelism=4) as writer:
        for number in range(2000):
            writer.put("o", "m", number, {"a": "some text", "b": "another"})
            writer.put("o", "s", number, {"a": number})
    rows = pa.table({"key": [1], "user_key": ["a"], "value": [7]})
    file = next(file for file in (tmp_path / "old").iterdir() if b"some text" in file.read_bytes())
    arguments = {"base": tmp_path / "old", "overwrite": True}
    assert {1: {"a": 7}} == values(write(tmp_path / "sound", rows, **arguments))
    file.write_bytes(file.read_bytes().replace(b"some text", b"sOme text", 1))

    with pytest.raises(CorruptSavepoint, match="digest differs") as caught:
        write(tmp_path / "new", rows, **arguments)
    assert file.name == caught.value.where["file"]
    assert not (tmp_path / "new" / "_metadata").exists()
