"""`stateshift get`, and an export of some keys: they show the full export, filtered, and read little of the state."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import half_lazy
import native_snapshots
import pytest
from object_store import s3  # noqa: F401 - a fixture
from spark_checkpoints import names, place
from streaming_batches import BACKENDS, Batches, close_slots, divided
from streaming_totals import SCHEMA, Visit

from stateshift import (
    Job,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ValueStateDescriptor,
    record,
)
from stateshift.compat.description import operator_id_of_uid
from stateshift.serializers.plain_forms import plain
from stateshift.state.formats.flink import database_files
from stateshift.state.formats.flink.database_files import FewOfDatabase
from stateshift.state.testing import write_savepoint

# One of each type of keys, format, compression, and kind of namespace.
FEW = [
    "flink-2.3/hashmap-long-p2-m128-snappy/savepoint",
    "flink-2.3/hashmap-native-string-snappy/savepoint",
    "flink-2.3/hashmap-windows-p2-m128/savepoint",
    "flink-2.3/rocksdb-account-v1/savepoint",
    "flink-2.3/rocksdb-namespaced-p2-m200/savepoint",
    "flink-2.3/rocksdb-tuple-p2-m128/savepoint",
    "flink-2.3-native/rocksdb-native-long-p2-m200/snapshot",
    "flink-2.3-native/rocksdb-incremental-string-p1-m128/snapshot",
    "flink-sql-2.3/join/savepoint",
    "flink-sql-2.3/join/native",
]
SPARK = ["aggregation", "join-inner", "join-v4", "rocksdb-session", "transform", "dedup", "limit"]
BESIDE_HASHED = {"index", "__event_time", "sessionStartTime"}
KEYED = 3
"""How many keys of each operator are asked for."""


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def found_by_key(run, place, named=lambda key: key):
    """The lines of the full export by operator and key, without those of operators' own state."""
    found = defaultdict(lambda: defaultdict(list))
    for line in lines_of(run("export", place).stdout):
        if "key" in line:
            found[line["operator"]][json.dumps(named(line["key"]))].append(line)
    return found


def got(run, place, key, operator, *options):
    data = run("get", place, key, "--operator", operator, "--json", *options).data
    (one,) = data["operators"]
    return one, [{"operator": operator, **entry} for entry in one["entries"]]


def in_any_order(lines):
    return sorted(json.dumps(line) for line in lines)


def require_equal_to_the_export(run, place, keys):
    for operator, by_key in found_by_key(run, place).items():
        for key in list(by_key)[:keys]:
            for written in (key, json.dumps(plain(json.loads(key)))):
                one, lines = got(run, place, written, operator)

                # Flink stores some nulls in rows in other bytes, so that such a key is looked for everywhere.
                groups = None if "null" in written else 1
                found = one["key_groups"] and len(one["key_groups"])
                assert (one["skipped"], found) == (None, groups), (place, operator, written, one["all_read"])
                assert lines == by_key[key], (operator, written)


@pytest.mark.parametrize("name", FEW)
def test_what_is_shown_of_a_key_is_what_an_export_has_of_it(run, root, name):
    require_equal_to_the_export(run, root / "tests" / "fixtures" / name, KEYED)


@pytest.mark.slow
def test_what_is_shown_of_keys_of_fixtures_is_what_an_export_has_of_them(run, root):
    """Of some of the fixtures; with STATESHIFT_EVERY_FIXTURE=1 of all, which takes minutes."""
    places = sorted({one.parent for one in (root / "tests" / "fixtures").glob("*flink*/**/_metadata")})
    assert len(places) > 100

    for one in places[:: 1 if os.environ.get("STATESHIFT_EVERY_FIXTURE") else 20]:
        if run("export", one).status == 0:
            require_equal_to_the_export(run, one, 2)


def grouping(key):
    inner = key["key"] if set(key) in ({"key", "userKey"}, {"key", "expiryTimestampMs"}) else key
    return {field: what for field, what in inner.items() if field not in BESIDE_HASHED}


def require_spark_equal_to_the_export(run, name, keys):
    source = f"spark:{place(name)}"
    for operator, by_key in found_by_key(run, source, grouping).items():
        for key, expected in [*by_key.items()][:keys]:
            for written in (key, json.dumps(plain(json.loads(key)))):
                one, lines = got(run, source, written, operator)

                read = one["partitions"] if one["all_read"] is None else [0]
                assert (one["skipped"], len(read)) == (None, 1), (name, operator, written)
                assert in_any_order(lines) == in_any_order(expected), (name, operator, written)


@pytest.mark.parametrize("name", SPARK)
def test_of_a_spark_query_the_partition_of_the_key_is_read(run, name):
    require_spark_equal_to_the_export(run, name, KEYED)


@pytest.mark.slow
def test_what_is_shown_of_keys_of_spark_queries_is_what_an_export_has_of_them(run):
    """Of some of the fixtures; with STATESHIFT_EVERY_FIXTURE=1 of all."""
    for name in names()[:: 1 if os.environ.get("STATESHIFT_EVERY_FIXTURE") else 5]:
        if run("export", f"spark:{place(name)}").status == 0:
            require_spark_equal_to_the_export(run, name, 2)


def test_of_a_spark_query_a_key_whose_hash_is_not_known_is_looked_for_in_all_partitions(run):
    source = f"spark:{place('types')}"

    for operator, by_key in found_by_key(run, source).items():
        for key, expected in by_key.items():
            one, lines = got(run, source, key, operator)

            assert (lines, one["partitions"]) == (expected, None)
            assert "is not known" in one["all_read"]


def test_of_a_spark_query_some_fields_are_enough_and_then_all_partitions_are_read(run):
    source = f"spark:{place('window')}"

    ran = run("get", source, '{"k": "z"}', "--json")

    (operator,) = ran.data["operators"]
    assert "does not say window" in operator["all_read"]
    assert {entry["key"]["k"] for entry in operator["entries"]} == {"z"}
    everything = lines_of(run("export", source).stdout)
    assert len(operator["entries"]) == sum(line["key"]["k"] == "z" for line in everything)


class Everything(KeyedProcessFunction):
    def open(self, context):
        self.value = context.get_state(ValueStateDescriptor("value", int))
        self.list = context.get_list_state(ListStateDescriptor("list", str))
        self.map = context.get_map_state(MapStateDescriptor("map", str, int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        self.value.update(value.amount)
        self.list.add(value.user)
        self.map.put(value.user, value.amount)
        ctx.timer_service().register_event_time_timer(1000 + value.amount)
        yield value.amount


@pytest.mark.parametrize("backend", [*sorted(BACKENDS), "divided"])
@pytest.mark.parametrize("key", [("user",), ("amount",), ("user", "amount")])
def test_of_a_state_directory_what_is_shown_of_a_key_is_what_an_export_has_of_it(
    run, tmp_path, monkeypatch, backend, key
):
    kind = divided(monkeypatch) if backend == "divided" else BACKENDS[backend]
    batches = Batches(tmp_path / "state", Everything(), kind, schema=SCHEMA, key=key, element=Visit, timestamp="amount")
    batches.batch([{"user": f"u{number % 7}", "amount": number % 5} for number in range(70)])
    batches.batch([{"user": "u3", "amount": 2}])
    batches.batch([{"user": "u3", "amount": 9}], commits=False)
    close_slots()

    require_equal_to_the_export(run, tmp_path / "state", KEYED)


def test_a_half_lazy_state_shows_which_version_each_entry_has(run, tmp_path):
    half_lazy.half_lazy(tmp_path, 20)

    require_equal_to_the_export(run, tmp_path / "half", 5)
    assert run("get", tmp_path / "half", "k10").stdout.splitlines()[2:] == [
        "  state    kind              value",
        '  by name  map, version 1    {"y": First{"total": 10}}',
        '  v        value, version 2  Second{"amount": 11, "city": "of the second"}',
        '  by name  map, version 2    {"x": Second{"amount": 11, "city": "of the second"}}',
        "",
    ]


def test_of_a_spark_query_a_person_sees_maps_times_and_timers(run):
    shown = run("get", f"spark:{place('transform')}", "x").stdout

    assert '  key {"k": "x"}\n' in shown
    assert '  by_name                     map     {"l": "a"}: {"n": 5, "part": "x"}\n' in shown
    assert '  last                        value   {"l": "a"}, expires at 2027-01-06T' in shown
    assert "  $procTimers_keyToTimestamp  timers  fires at 2096-10-02T07:06:40.004Z\n" in shown


def test_of_a_spark_query_times_are_written_in_iso_8601(run):
    window = {"start": "2026-01-01 00:40", "end": "2026-01-01T01:50:00+01:00"}

    (operator,) = run(
        "get", f"spark:{place('window')}", json.dumps({"k": "z", "window": window}), "--json"
    ).data["operators"]  # fmt: skip

    assert (len(operator["partitions"]), [one["value"] for one in operator["entries"]]) == (1, [{"sum": -8}])


@pytest.mark.parametrize(
    ("source", "key", "words"),
    [
        ("spark:{join-inner}", "[1, 2]", """keys are struct<field0: string>|a stored key is: '{"field0": "z"}'"""),
        ("spark:{session}", '{"zz": 1}', """keys are struct<k: string>|a stored key is: '{"k": "z"}'"""),
        ("spark:{types}", "x", """'{"k": "x", "_groupingexpression": {"day": "2026-01-01", "parts": ["a"]}}'"""),
        ("{aggregation}", "x", "is the checkpoint of a Spark query|spark:"),
        ("spark:{nothing}", "x", "there is no checkpoint of a Spark query|name the folder"),
    ],
)
def test_errors_show_how_it_is_written(run, source, key, words):
    ran = run("get", source.format_map({name: place(name) for name in (*names(), "nothing")}), key)

    assert ran.status in {2, 3}
    told = " ".join(ran.stderr.split())
    assert all(word in told for word in words.split("|")), told


def test_a_row_is_looked_for_everywhere_only_if_an_earlier_release_may_have_placed_it(run, root, tmp_path):
    of_flink = root / "tests" / "fixtures" / "pyflink-2.3" / "types" / "savepoint"
    run("migrate", of_flink, tmp_path / "ours", "--like", of_flink)

    ours, theirs = (
        run("get", one, "987654321", "--operator", "types", "--json").data["operators"][0]
        for one in (tmp_path / "ours", of_flink)
    )

    assert (len(theirs["key_groups"]), theirs["entries"]) == (1, [])
    assert (ours["key_groups"], ours["entries"], "another hash" in ours["all_read"]) == (None, [], True)


class Level(Enum):
    LOW = 1
    HIGH = 2


@record()
@attrs.frozen
class Customer:
    country: str
    number: int


@pytest.mark.parametrize(
    ("key", "values", "written"),
    [
        (Customer, [Customer("fr", 7), Customer("de", 7)], '{"country": "fr", "number": 7}'),
        (Level, [Level.LOW, Level.HIGH], "LOW"),
    ],
)
def test_keys_whose_hash_is_not_known_are_looked_for_everywhere_and_a_line_says_so(run, tmp_path, key, values, written):
    states = [ValueStateDescriptor("visits", int), MapStateDescriptor("names", int, str)]
    job = Job([Operator("o", key=key, states=states)])
    contents = {"o/visits": dict.fromkeys(values, 5), "o/names": {values[0]: {1: "a", 2: "b"}}}
    savepoint = write_savepoint(tmp_path / "sp", job, contents, parallelism=2).place

    one, lines = got(run, savepoint, written, "o")

    assert one["key_groups"] is None
    assert "is not known" in one["all_read"]
    assert [(line["state"], line["value"]) for line in lines] == [
        ("visits", 5), ("names", {"$map": [[1, "a"], [2, "b"]]}),
    ]  # fmt: skip
    assert "were read: the key group of a" in run("get", savepoint, written).stdout
    assert lines_of(run("export", savepoint, "--key", written).stdout) == lines


JOB = Job(
    [
        Operator("accounts", key=int, states=[ValueStateDescriptor("balance", float), ListStateDescriptor("log", str)]),
        Operator("names", key=str, states=[ValueStateDescriptor("seen", int)]),
    ]
)


ID = operator_id_of_uid("accounts").hex()


@pytest.fixture
def accounts(tmp_path):
    numbers = range(-500, 1500)
    contents = {
        "accounts/balance": {number: number / 4 for number in numbers},
        "accounts/log": {number: [f"entry {number}"] for number in numbers},
        "names/seen": {f"n{number}": number for number in numbers},
    }
    return write_savepoint(tmp_path / "sp", JOB, contents).place


def test_a_person_sees_the_states_of_a_key_and_which_operators_are_skipped(run, accounts):
    ran = run("get", accounts, 42)

    assert ran.status == 0
    assert ran.stdout.splitlines() == [
        f"operator accounts ({ID}), key group 29 of 128",
        "  key 42",
        "  state    kind   value",
        "  balance  value  10.5",
        '  log      list   ["entry 42"]',
        "",
        (
            "skipped: operator names: its keys are string; a text that reads as something else is written in quotes:"
            " '\"42\"'"
        ),
    ]
    assert "of state, and" in ran.stderr


def test_a_negative_number_is_a_key_and_a_word_is_a_text(run, accounts):
    assert "-10.5" in run("get", accounts, -42).stdout
    assert run("get", accounts, "n-42", "--json").data["operators"][1]["entries"] == [
        {"state": "seen", "kind": "value", "key": "n-42", "value": -42}
    ]


def test_a_key_that_is_not_there_has_no_entries(run, accounts):
    ran = run("get", accounts, 9999)

    assert (ran.status, "nothing is stored under 9999" in ran.stdout) == (0, True)


def test_where_no_operator_can_have_the_key_a_stored_one_is_shown(run, accounts):
    ran = run("get", accounts, "[1, 2]", "--json")

    assert ran.status == 2
    assert "its keys are long" in ran.data["error"]["what"]
    (advice,) = ran.data["error"]["advice"] if isinstance(ran.data["error"]["advice"], list) else [
        ran.data["error"]["advice"]
    ]  # fmt: skip
    key = advice.rpartition("write it as a stored key is: ")[2].strip("'")
    assert run("get", accounts, key, "--json").data["operators"][0]["entries"]


def test_little_more_is_read_than_the_key_group_however_many_states_there_are(run, accounts):
    whole = sum(one["bytes"] for one in run("inspect", accounts, "--json").data["operators"])

    read = run("get", accounts, 42, "--json").data["read"]

    assert 0 < read["state_bytes"] < 3 * whole / 128
    assert read["metadata_bytes"] > 0


def test_redacted_neither_keys_nor_values_are_shown(run, accounts):
    ran = run("get", accounts, 42, "--redact")

    assert "42" not in ran.stdout.replace(ID, "")
    assert "10.5" not in ran.stdout


def test_an_export_takes_several_keys_a_file_of_keys_key_groups_and_a_limit(run, accounts, tmp_path):
    full = lines_of(run("export", accounts).stdout)
    file = tmp_path / "keys.txt"
    file.write_text('7\n"n3"\n\n8\n')

    def exported(*options):
        return lines_of(run("export", accounts, *options).stdout)

    assert exported("--key", "42", "--key", "n42") == [one for one in full if one["key"] in {42, "n42"}]
    assert exported("--keys-from", file) == [one for one in full if one["key"] in {7, 8, "n3"}]
    groups = [exported("--key-group", group, "--state", "balance") for group in range(128)]
    assert [one for group in groups for one in group] == [one for one in full if one["state"] == "balance"]
    assert [one["state"] for one in exported("--limit", "2")] == ["balance"] * 2 + ["log"] * 2 + ["seen"] * 2
    assert run("export", accounts, "--limit", "2", "--format", "tagged").status == 2


def test_other_formats_have_the_chosen_keys_too(run, accounts, tmp_path):
    import fastavro

    run("export", accounts, "--state", "log", "--key", "42", "--format", "avro", "-o", tmp_path / "log.avro")
    with (tmp_path / "log.avro").open("rb") as file:
        assert list(fastavro.reader(file)) == [{"key": 42, "value": ["entry 42"]}]
    tagged = run("export", accounts, "--state", "log", "--key", "42", "--format", "tagged").data
    assert tagged["operators"][0]["keyed"]["log"]["entries"] == [[42, ["entry 42"]]]


@pytest.mark.slow
def test_a_savepoint_on_a_store_is_read_by_ranges(run, accounts, s3):  # noqa: F811 - the fixture
    for file in Path(accounts).iterdir():
        with s3.files.open_output_stream(f"savepoints/get/{file.name}") as stream:
            stream.write(file.read_bytes())

    local, remote = (run("get", one, 42, "--json").data for one in (accounts, s3.place("get")))

    assert remote["operators"] == local["operators"]
    assert remote["read"] == local["read"]


@pytest.mark.parametrize("name", ["rocksdb-native-long-p2-m200", "forst-incremental-long-p2-m128"])
def test_a_database_is_opened_once_for_all_its_states(run, monkeypatch, name):
    folder, opened = native_snapshots.snapshot(name), []
    states = {line["state"]: line["key"] for line in lines_of(run("export", folder).stdout) if "key" in line}
    key = json.dumps(next(iter(states.values())))
    singly = [run("get", folder, key, "--state", state, "--json").data["read"]["state_bytes"] for state in states]
    for read in ("read_manifest", "open_database"):
        original = getattr(database_files, read)
        monkeypatch.setattr(database_files, read, lambda *args, as_ever=original: opened.append(1) or as_ever(*args))

    together = run("get", folder, key, "--json").data

    assert (len(opened), len(states) > 9) == (1, True)
    assert {one["state"] for operator in together["operators"] for one in operator["entries"]} > {*list(states)[:3]}
    assert 5 * together["read"]["state_bytes"] < sum(singly)

    run("export", folder, "--key", key)
    assert len(opened) == 2

    run("export", folder)
    assert len(opened) == 4, "each of two subtasks has a database"

    rows = [f'select count(*) from "{state}"' for state in list(states)[:3]]  # noqa: S608 - names of states
    assert len(json.loads(run("sql", folder, " union all ".join(rows), "--json").stdout)["rows"]) == 3
    assert len(opened) == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rocksdb-native-long-p2-m200", "rocksdb-incremental-rescaled-3-to-2"])
def test_of_a_native_snapshot_on_a_store_no_file_is_downloaded(run, s3, monkeypatch, name):  # noqa: F811 - the fixture
    home, folder = native_snapshots.home(name), native_snapshots.snapshot(name)
    for file in filter(Path.is_file, home.rglob("*")):
        with s3.files.open_output_stream(f"savepoints/{name}/{file.relative_to(home)}") as stream:
            stream.write(file.read_bytes())
    lines = lines_of(run("export", folder, "--operator", "keyed-op", "--limit", "3").stdout)
    keys = {json.dumps(line["key"]) for line in lines if "key" in line}
    monkeypatch.setattr(FewOfDatabase, "_whole", property(lambda _: pytest.fail("RocksDB is not needed")))

    for key in keys:
        place = s3.place(f"{name}/{folder.relative_to(home)}")
        local, remote = (run("get", one, key, "--json").data for one in (folder, place))

        assert remote["operators"] == local["operators"]
        assert remote["operators"][0]["entries"]
