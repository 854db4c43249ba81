"""`stateshift export` gives what Flink itself read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import fastavro
import pytest

from stateshift import Array, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor
from stateshift.compat.description import operator_id_of_uid
from stateshift.state.savepoint import long_texts
from stateshift.state.testing import write_savepoint
from stateshift.state.transcode.numba_executor import FUNCTIONS, load_compiled

ACCEPTED = [
    ("2.3", "hashmap-account-v1"),
    ("2.3", "hashmap-account-v2"),
    ("2.3", "hashmap-account-v3"),
    ("2.3", "rocksdb-account-v1"),
    ("1.20", "hashmap-account-v1"),
    ("2.3", "hashmap-collections"),
    ("2.3", "hashmap-operator-only-p2-m128"),
    ("2.3", "hashmap-namespaced-p1-m128"),
    ("2.3", "rocksdb-namespaced-p2-m200"),
    ("2.3", "hashmap-subclass-registered"),
    ("2.3", "rocksdb-subclass-unregistered"),
    ("2.3", "hashmap-zoo-p1-m128"),
    ("2.3", "rocksdb-zoo-p1-m200"),
    ("1.20", "hashmap-zoo-p1-m128"),
]
# Of these the timers are left out; everything else must be equal.
IN_PART = [
    ("2.3", "hashmap-long-p1-m128"),
    ("2.3", "hashmap-long-p2-m128-snappy"),
    ("2.3", "hashmap-native-long-p2-m128"),
    ("2.3", "hashmap-native-string-snappy"),
    ("2.3", "hashmap-string-p2-m128-files"),
    ("2.3", "hashmap-tuple-p2-m200"),
    ("2.3", "hashmap-windows-p2-m128"),
    ("2.3", "rocksdb-long-p2-m200-files"),
    ("2.3", "rocksdb-string-p1-m128"),
    ("2.3", "rocksdb-string-p1-m200-snappy"),
    ("2.3", "rocksdb-tuple-p2-m128"),
    ("2.3", "rocksdb-windows-p1-m200"),
    ("1.20", "hashmap-long-p1-m128"),
    ("1.20", "hashmap-string-p2-m128-snappy"),
    ("1.20", "rocksdb-tuple-p2-m200-files"),
]


def rooms_of_flink(expected):
    """The operators of expected.json as an export has them: without types, names and timers."""
    operators = {}
    for operator in expected["operators"]:
        keyed = {
            name: {part: state[part] for part in ("kind", "ttl", "entries")}
            for name, state in operator.get("keyed", {}).items()
        }
        lists = {
            name: {part: state[part] for part in ("mode", "subtasks")}
            for name, state in operator.get("operator", {}).items()
        }
        rooms = {"keyed": keyed, "operator": lists, "broadcast": operator.get("broadcast")}
        operators[operator["uid"]] = {room: content for room, content in rooms.items() if content}
    return operators


def rooms_of_export(data):
    return {
        operator["uid"]: {room: operator[room] for room in ("keyed", "operator", "broadcast") if operator.get(room)}
        for operator in data["operators"]
    }


def by_id(rooms):
    return {operator_id_of_uid(uid).hex(): content for uid, content in rooms.items()}


@pytest.mark.parametrize(("version", "name"), ACCEPTED)
def test_tagged_equals_what_flink_read(run, savepoint_of, expected_of, version, name):
    ran = run("export", savepoint_of(name, version=version), "--format", "tagged")

    exported = {
        operator["operator_id"]: {
            room: operator[room] for room in ("keyed", "operator", "broadcast") if operator.get(room)
        }
        for operator in ran.data["operators"]
    }
    assert (ran.status, ran.stderr, ran.data["unsupported"]) == (0, "", [])
    assert by_id(rooms_of_flink(expected_of(name, version=version))) == exported


@pytest.mark.parametrize(("version", "name"), ACCEPTED)
def test_the_comparison_of_the_interop_tests_agrees(root, tmp_path, run, savepoint_of, version, name):
    savepoint = savepoint_of(name, version=version)
    run("export", savepoint, "--format", "tagged", "-o", tmp_path / "export.json")
    compare = root / "tests" / "interop" / "flink-restore" / "compare_restore.py"

    command = [sys.executable, compare, "--export", savepoint.parent / "expected.json", tmp_path / "export.json"]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (compared.returncode, compared.stdout.split()) == (0, ["SAME"])


@pytest.mark.parametrize(("version", "name"), IN_PART)
def test_what_can_be_read_equals_what_flink_read(run, savepoint_of, expected_of, version, name):
    ran = run("export", savepoint_of(name, version=version), "--json")

    left_out = {state["state"] for state in ran.data["unsupported"]}
    expected = by_id(rooms_of_flink(expected_of(name, version=version)))
    for rooms in expected.values():
        for room in rooms.values():
            for state in left_out & room.keys():
                del room[state]
    exported = {
        operator["operator_id"]: {
            room: operator[room] for room in ("keyed", "operator", "broadcast") if operator.get(room)
        }
        for operator in ran.data["operators"]
    }
    assert {i: rooms for i, rooms in expected.items() if rooms} == exported


def test_jsonl_is_one_line_an_entry(run, savepoint_of, expected_of):
    ran = run("export", savepoint_of("rocksdb-account-v1"), "--operator", "account-state", "--state", "account")

    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    expected = rooms_of_flink(expected_of("rocksdb-account-v1"))["account-state"]["keyed"]["account"]["entries"]
    assert (ran.status, ran.stderr) == (0, "")
    assert {(line["operator"], line["state"], line["kind"]) for line in lines} == {
        ("account-state", "account", "value")
    }
    assert sorted(expected, key=json.dumps) == sorted(([line["key"], line["value"]] for line in lines), key=json.dumps)


def test_jsonl_names_namespaces_and_subtasks(run, savepoint_of):
    windows = run("export", savepoint_of("rocksdb-windows-p1-m200"), "--state", "window-contents")
    lists = run("export", savepoint_of("hashmap-operator-only-p2-m128"), "--state", "buffer")

    first = json.loads(windows.stdout.splitlines()[0])
    assert list(first) == ["operator", "state", "kind", "key", "namespace", "value"]
    assert "$window" in first["namespace"]
    subtasks = [json.loads(line)["subtask"] for line in lists.stdout.splitlines()]
    assert subtasks == [0] * 6 + [1] * 6


def test_jsonl_has_timers_with_their_window_if_they_have_one(run, savepoint_of):
    windows = run("export", savepoint_of("rocksdb-windows-p1-m200"), "--state", "_timer_state/event_window-timers")
    plain = run("export", savepoint_of("hashmap-long-p1-m128"), "--state", "_timer_state/processing_user-timers")

    first = json.loads(windows.stdout.splitlines()[0])
    assert list(first) == ["operator", "state", "kind", "key", "namespace", "timestamp"]
    assert first["namespace"]["$window"][1] == first["timestamp"] + 1
    timers = [json.loads(line) for line in plain.stdout.splitlines()]
    assert {("keyed-op", "timers")} == {(timer["operator"], timer["kind"]) for timer in timers}
    assert (0, 4102444800000) in {(timer["key"], timer["timestamp"]) for timer in timers}
    assert 4 == len(timers)
    assert "namespace" not in timers[0]


LETTERS = {"Zoë": "Grüße, 你好 😀\n\x1b\u200b"}
NAMED = Job(
    [Operator("o", key=str, states=[ValueStateDescriptor("s", str), MapStateDescriptor("m", str, str)],
              list_states=[ListStateDescriptor("l", str)])]
)  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "tagged"])
def test_letters_are_letters_on_stdout_and_in_a_file_and_escaped_where_stdout_has_none(tmp_path, run, form):
    values = {"o/s": LETTERS, "o/m": {"ключ": LETTERS}, "o/l": ["Zoë"]}
    savepoint = write_savepoint(tmp_path / "sp", NAMED, values).place
    command = ["export", savepoint, "--format", form]

    printed = run(*command).stdout
    run(*command, "-o", tmp_path / "out")
    ascii_only = subprocess.run(
        [sys.executable, "-m", "stateshift", *command],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True,
    ).stdout.decode("ascii")  # fmt: skip

    assert printed == (tmp_path / "out").read_text(encoding="utf-8")
    assert all(shown in printed for shown in ('"Zoë"', '"Grüße, 你好 😀\\n\\u001b\\u200b"', '"ключ"'))
    lines = {"jsonl": str.splitlines, "tagged": lambda text: [text]}[form]
    assert list(map(json.loads, lines(printed))) == list(map(json.loads, lines(ascii_only)))


def test_a_state_of_an_unread_type_is_left_out_with_a_notice(run, kryo_in_pojo):
    ran = run("export", kryo_in_pojo)

    assert ran.status == 7
    assert {json.loads(line)["state"] for line in ran.stdout.splitlines()} == {"plain"}
    assert "left out: state 'thing' of operator keyed-op: values of kryo<fx.Scenarios$Thing>" in ran.stderr
    assert "at $.inner" in ran.stderr


def test_a_state_of_an_unread_type_that_is_asked_for_is_an_error(run, kryo_in_pojo):
    ran = run("export", kryo_in_pojo, "--state", "thing")

    assert (ran.status, ran.stdout) == (3, "")
    assert ran.stderr.startswith("OldReaderUnavailable: ")
    assert "kryo<fx.Scenarios$Thing>" in ran.stderr


@pytest.mark.parametrize("option", ["--operator", "--state"])
def test_a_name_that_is_not_there_is_answered_with_those_that_are(run, savepoint_of, option):
    ran = run("export", savepoint_of("hashmap-operator-only-p2-m128"), option, "lost")

    assert ran.status == 2
    assert "'lost'" in ran.stderr
    assert {"--operator": "list-op", "--state": "buffer, names"}[option] in ran.stderr


def test_values_that_only_kryo_reads_are_there_as_bytes(run, savepoint_of, expected_of):
    ran = run("export", savepoint_of("hashmap-kryo"), "--format", "tagged")

    (operator,) = json.loads(ran.stdout)["operators"]
    (expected,) = expected_of("hashmap-kryo")["operators"]
    assert expected["keyed"]["plain"]["entries"] == operator["keyed"]["plain"]["entries"]
    found = dict(operator["keyed"]["thing"]["entries"])
    assert [key for key, _ in expected["keyed"]["thing"]["entries"]] == list(found)
    assert {"$opaque": "kryo<fx.Scenarios$Thing> 5701017468b204"} == found[2]


@pytest.mark.parametrize("form", ["jsonl", "tagged"])
def test_a_value_that_is_found_unreadable_ends_its_state_and_nothing_else(run, undescribed_subclass, tmp_path, form):
    file = tmp_path / "entries"
    ran = run("export", undescribed_subclass, "--format", form, "-o", file)
    summary = run("export", undescribed_subclass, "--format", form, "-o", file, "--json")

    assert (7, 7) == (ran.status, summary.status)
    for name, path in (("home", "$"), ("homes", "$[]")):
        (line,) = (line for line in ran.stderr.splitlines() if f"state {name!r} of operator keyed-op: a fx" in line)
        assert line.startswith(("left out: ", "incomplete, after "))
        assert "stored as its subclass fx.Scenarios$FancyAddress" in line
        assert f"path {path})" in line
    assert ["home", "homes"] == sorted(state["state"] for state in summary.data["unsupported"])
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = {state["state"]: state["exported"] for state in summary.data["states"]}
    assert (len(lines) if form == "jsonl" else 0) == sum(kept.values())


def test_json_with_a_file_prints_a_summary(run, tmp_path, kryo_in_pojo):
    ran = run("export", kryo_in_pojo, "--json", "-o", tmp_path / "entries.jsonl")

    assert (ran.status, ran.stderr) == (7, "")
    assert ran.data["states"] == [{"operator": "keyed-op", "state": "plain", "exported": 3}]
    assert [state["state"] for state in ran.data["unsupported"]] == ["thing"]
    assert len((tmp_path / "entries.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_json_and_lines_on_stdout_exclude_each_other(run, savepoint_of):
    ran = run("export", savepoint_of("hashmap-kryo"), "--json", "--format", "jsonl")

    assert ran.status == 2
    assert ran.data["error"]["type"] == "UsageError"


def test_a_file_appears_whole_or_not_at_all(run, tmp_path, savepoint_copy, damage):
    savepoint = savepoint_copy("hashmap-string-p2-m128-files")
    largest = max((file for file in savepoint.iterdir() if file.name != "_metadata"), key=lambda f: f.stat().st_size)
    damage(largest, blot=largest.stat().st_size - 200)

    ran = run("export", savepoint, "-o", tmp_path / "out" / "entries.jsonl")
    (tmp_path / "out").mkdir()
    again = run("export", savepoint, "-o", tmp_path / "out" / "entries.jsonl")

    assert (ran.status, again.status) == (2, 3)
    assert "cannot be written" in ran.stderr
    assert list((tmp_path / "out").iterdir()) == []


LARGE = {
    "map": (MapStateDescriptor("s", int, int), lambda: dict.fromkeys(range(80_000), 1)),
    "list": (ListStateDescriptor("s", int), lambda: list(range(300_000))),
    "array": (ValueStateDescriptor("s", Array[int]), lambda: list(range(300_000))),
    "map of texts": (MapStateDescriptor("s", str, str), lambda: {f"é{n}": "ü" for n in range(60_000)}),
    "list of strings": (ValueStateDescriptor("s", list[str]), lambda: ["x" * 1000] * 10_000),
}


def large(place, descriptor, value):
    write_savepoint(place, Job([Operator("o", key=int, states=[descriptor])]), {"o/s": {1: value}})
    return place


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_value_larger_than_what_is_held_is_written_in_pieces(run, tmp_path, monkeypatch, kind):
    """Of the pairs, the elements and their text no more than a few megabytes are in memory, however many there are."""
    monkeypatch.setattr(long_texts, "HELD_BYTES", 1 << 20)
    descriptor, make = LARGE[kind]
    savepoint, file = large(tmp_path / "sp", descriptor, make()), tmp_path / "entries.jsonl"
    run("export", large(tmp_path / "small", descriptor, make().__class__()), "-o", file)  # everything is imported now,
    load_compiled(FUNCTIONS)  # machine code, too

    tracemalloc.start()
    try:
        ran = run("export", savepoint, "-o", file)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    value = json.loads(file.read_text(encoding="utf-8"))["value"]
    assert 0 == ran.status
    assert make() == (dict(value["$map"]) if kind.startswith("map") else value)
    stored_bytes = sum(one.stat().st_size for one in savepoint.iterdir())
    assert peak_bytes < 2 * stored_bytes + (5 << 20)  # what is read of the stream, and of it the value


@pytest.mark.parametrize("kind", ["map", "list of strings"])
def test_damage_within_a_long_value_leaves_no_part_of_its_line(run, tmp_path, damage, kind):
    descriptor, make = LARGE[kind]
    savepoint = large(tmp_path / "sp", descriptor, make())
    stream = next(file for file in savepoint.iterdir() if file.name != "_metadata" and file.stat().st_size > 1 << 20)
    damage(stream, blot=stream.stat().st_size - 200)

    ran = run("export", savepoint)
    with_file = run("export", savepoint, "-o", tmp_path / "entries.jsonl")

    assert (3, "") == (ran.status, ran.stdout)
    assert "the printed output is incomplete" in ran.stderr
    assert 3 == with_file.status
    assert "Nothing was written" in with_file.stderr
    assert not (tmp_path / "entries.jsonl").exists()


def test_a_reader_that_goes_away_is_no_error(savepoint_of):
    savepoint = savepoint_of("hashmap-string-p2-m128-files")
    with subprocess.Popen(
        [sys.executable, "-m", "stateshift", "export", savepoint], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        told = process.stderr.read()

    assert (process.returncode, told) == (141, b"")


class TestAvro:
    """`--format avro`: the entries of one state as an Avro container file, which fastavro reads."""

    @pytest.fixture
    def read(self, run, tmp_path):
        """Export a state and return its rows, and the header of the file."""

        def read(savepoint, *options):
            ran = run("export", savepoint, *options, "--format", "avro", "-o", tmp_path / "state.avro", "--force")
            assert (ran.status, ran.stdout) == (0, "")
            with (tmp_path / "state.avro").open("rb") as file:
                reader = fastavro.reader(file)
                return list(reader), {k: v for k, v in reader.metadata.items() if k.startswith("stateshift")}

        return read

    def test_records_lists_maps_and_timers_are_rows(self, read, savepoint_of):
        savepoint = savepoint_of("hashmap-account-v1")

        accounts, header = read(savepoint, "--state", "account")
        lists, _ = read(savepoint, "--state", "accounts")
        maps, _ = read(savepoint, "--state", "account-by-name")
        windows, _ = read(
            savepoint_of("hashmap-windows-p2-m128"),
            "--operator",
            "window-list",
            "--state",
            "_timer_state/event_window-timers",
        )

        account = {"id": 1, "name": "acc1", "visits": 3, "obsolete": "old1"}
        assert {"key": -23, "value": account} in accounts
        assert {"key", "value"} == lists[0].keys()
        assert isinstance(lists[0]["value"], list)
        assert {"key", "user_key", "value"} == maps[0].keys()
        assert {"key", "namespace", "timestamp_ms"} == windows[0].keys()
        names = {"operator": "account-state", "state": "account", "kind": "value", "export": "1"}
        assert {f"stateshift.{name}": value for name, value in names.items()} == header

    @pytest.mark.parametrize("state", ["bigdec", "instant", "mapval", "nested", "either", "enum", "bytes"])
    def test_each_entry_of_the_lines_is_a_row(self, run, read, savepoint_of, state):
        savepoint = savepoint_of("rocksdb-zoo-p1-m200")
        lines = run("export", savepoint, "--state", state).stdout.splitlines()

        rows, _ = read(savepoint, "--state", state)

        assert sorted(json.loads(line)["key"] for line in lines) == sorted(row["key"] for row in rows)

    def test_big_numbers_and_times_are_texts_with_all_digits(self, read, savepoint_of):
        savepoint = savepoint_of("rocksdb-zoo-p1-m200")

        assert all(isinstance(row["value"], str) for row in read(savepoint, "--state", "bigdec")[0])
        assert all(row["value"].endswith("Z") for row in read(savepoint, "--state", "instant")[0])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--state", "account", "--format", "avro"], "add -o FILE"),
            (["--format", "avro", "-o", "all.avro"], "an Avro file has one schema, so it holds one state"),
            (["--state", "account", "--format", "avro", "-o", "all.avro", "--redact"], "which --redact hides"),
        ],
    )
    def test_what_it_does_not_do_is_wrong_usage(self, run, savepoint_of, tmp_path, monkeypatch, options, words):
        monkeypatch.chdir(tmp_path)

        ran = run("export", savepoint_of("hashmap-account-v1"), *options)

        assert 2 == ran.status
        assert words in ran.stderr
        assert not (tmp_path / "all.avro").exists()

    def test_a_file_of_its_own_is_replaced_and_another_one_is_not(self, run, savepoint_of, tmp_path):
        file = tmp_path / "state.avro"
        command = ("export", savepoint_of("hashmap-account-v1"), "--state", "account", "--format", "avro", "-o", file)
        assert [0, 0] == [run(*command).status, run(*command).status]
        with file.open("wb") as stream:
            fastavro.writer(stream, "long", [1])
        other = file.read_bytes()

        ran = run(*command)

        assert (2, other) == (ran.status, file.read_bytes())
        assert "not an earlier output" in ran.stderr

    def test_a_summary_says_what_was_written(self, run, savepoint_of, tmp_path):
        file = tmp_path / "state.avro"

        ran = run(
            "export", savepoint_of("hashmap-account-v1"), "--state", "account", "--format", "avro", "-o", file, "--json"
        )

        assert ("avro", [{"operator": "account-state", "state": "account", "exported": 10}]) == (
            ran.data["format"],
            ran.data["states"],
        )

    def test_damage_leaves_no_file(self, run, savepoint_copy, damage, tmp_path):
        (tmp_path / "out").mkdir()
        savepoint = savepoint_copy("hashmap-string-p2-m128-files")
        largest = max(
            (file for file in savepoint.iterdir() if file.name != "_metadata"), key=lambda f: f.stat().st_size
        )
        damage(largest, cut=100)
        options = ("--state", "events", "--format", "avro", "-o", tmp_path / "out" / "state.avro")

        ran = run("export", savepoint, *options)

        assert 3 == ran.status, ran.stderr
        assert list((tmp_path / "out").iterdir()) == []
