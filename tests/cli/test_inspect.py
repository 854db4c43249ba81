"""`stateshift inspect` shows all there is, whatever it can read of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import attrs
import pytest

from stateshift import CheckpointedFunction, Job, KeyedProcessFunction, Operator, SavepointWriter, ValueStateDescriptor
from stateshift.state.testing import KeyedProcessHarness

UNKNOWN = (b"StringSerializer$StringSerializerSnapshot", b"StrungSerializer$StringSerializerSnapshot")


@attrs.frozen
class Account:
    number: int


def operator_of(ran, uid):
    return next(operator for operator in ran.data["operators"] if operator["uid"] == uid)


def state_of(ran, uid, name):
    return next(state for state in operator_of(ran, uid)["states"] if state["name"] == name)


def test_it_lists_operators_states_types_and_sizes(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"))

    assert (ran.status, ran.stderr) == (0, "")
    assert "operator account-state (bdab0fa58a5abd3de224d7421ec2edc6)" in ran.stdout
    assert "key long, parallelism 2, max parallelism 200" in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert ["account", "value", "10", "435", "19%"] in rows
    assert ["pending", "split_list", "10", "245", "100%"] in rows
    assert "    pojo fx.evo.Account{id: long, name: string, obsolete: string, visits: int}" in ran.stdout.splitlines()


def test_json_holds_the_same_and_the_fields_of_records(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--json")

    assert (ran.status, ran.stderr) == (0, "")
    assert (ran.data["version"], ran.data["checkpoint_id"], ran.data["written_by"]) == (6, 1, "flink")
    account = state_of(ran, "account-state", "account-by-name")
    assert (account["kind"], account["type"], account["entries"]) == ("map", "map<string, fx.evo.Account>", 20)
    assert account["records"] == [
        {
            "name": "fx.evo.Account",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "name", "type": "string"},
                {"name": "obsolete", "type": "string"},
                {"name": "visits", "type": "int"},
            ],
        }
    ]


def test_entries_agree_with_what_flink_read(run, savepoint_of, expected_of):
    ran = run("inspect", savepoint_of("hashmap-zoo-p1-m128"), "--json")

    operator = next(operator for operator in expected_of("hashmap-zoo-p1-m128")["operators"] if "keyed" in operator)
    expected = {
        name: sum(len(entry[-1]["$map"]) for entry in state["entries"])
        if state["kind"] == "MAP"
        else len(state["entries"])
        for name, state in operator["keyed"].items()
    }
    counted = {state["name"]: state["entries"] for state in operator_of(ran, operator["uid"])["states"]}
    assert {name: counted[name] for name in expected} == expected


FOREIGN = """
import attrs
from stateshift import Int32, Job, ListStateDescriptor, Operator, SavepointWriter, TypeSerializer, ValueStateDescriptor
from stateshift import TypeSerializerConfigSnapshot, register_snapshot

@attrs.frozen
class Order:
    number: int
    visits: Int32

@attrs.frozen
class OwnSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return OwnSnapshot()

@register_snapshot
@attrs.define
class OwnSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "stateshift/acme-own"
    version = 4

    def write(self, target):
        target.write_long(7)

    def read(self, source):
        source.read_long()

    def restore_serializer(self):
        return OwnSerializer()

def write(folder):
    states = [ValueStateDescriptor("order", Order), ListStateDescriptor("own", OwnSerializer())]
    with SavepointWriter(folder, Job([Operator("orders", key=int, states=states)])) as writer:
        for key in range(5):
            writer.put("orders", "order", key, Order(key, 1))
            writer.put("orders", "own", key, [1, 2])
"""


def test_inspect_without_user_code(run, tmp_path):
    """K15: a savepoint from elsewhere, whose classes are not here: states, kinds, snapshots and sizes are shown."""
    (tmp_path / "acme.py").write_text(FOREIGN, encoding="utf-8")
    code = f"import acme; acme.write({str(tmp_path / 'savepoint')!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)

    ran, words = run("inspect", tmp_path / "savepoint", "--json"), run("inspect", tmp_path / "savepoint")

    order, own = (state_of(ran, "orders", name) for name in ("order", "own"))
    assert ("value", "acme.Order", 5) == (order["kind"], order["type"], order["entries"])
    assert [["number", "long"], ["visits", "int"]] == [[f["name"], f["type"]] for f in order["records"][0]["fields"]]
    assert "list" == own["kind"]
    assert order["bytes"] > 0 < own["bytes"]
    assert "stateshift/acme-own" in own["type"]
    why = "the snapshot stateshift/acme-own (version 4, 8 bytes) is not registered, at $[] (own)"
    assert f"  unsupported: {why}" in words.stdout.splitlines()
    assert (0, False) == (words.status, "acme" in sys.modules)


def test_operators_without_state_are_shown(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"))

    assert "  src-rules (2c37da802981fc3916b13689938bc630), Source: rules: parallelism 1" in ran.stdout


def test_a_state_that_cannot_be_read_is_one_line_with_its_class(run, kryo_in_pojo):
    ran = run("inspect", kryo_in_pojo)

    lines = ran.stdout.splitlines()
    below = lines[next(index for index, line in enumerate(lines) if line.strip().startswith("thing")) + 1]
    assert ran.status == 0
    assert below.endswith("(unsupported)")
    (why,) = (line for line in ran.stdout.splitlines() if line.strip().startswith("unsupported: "))
    assert "values of kryo<fx.Scenarios$Thing>" in why
    assert why.endswith("at $.inner (thing)")


def test_an_unknown_class_hides_its_operator_and_nothing_else(run, savepoint_copy, damage):
    savepoint = savepoint_copy("hashmap-windows-p2-m128")
    damage(savepoint / "_metadata", replace=(b"TimeWindow$Serializer$", b"TameWindow$Serializer$"))

    text = run("inspect", savepoint)
    ran = run("inspect", savepoint, "--json")

    assert (text.status, ran.status) == (0, 0)
    unsupported = [operator for operator in ran.data["operators"] if operator["unsupported"]]
    assert unsupported
    assert "TameWindow$Serializer$TimeWindowSerializerSnapshot" in unsupported[0]["unsupported"]
    assert "unsupported: the snapshot class 'org.apache.flink." in text.stdout
    assert unsupported[0]["parallelism"] == 2


def test_a_native_savepoint_shows_what_it_would_have_in_canonical_entries(run, savepoint_of):
    ran = run("inspect", savepoint_of("hashmap-native-string-snappy"), "--json")

    count, counts = state_of(ran, "keyed-op", "count"), state_of(ran, "keyed-op", "counts")
    assert ran.status == 0
    assert ("long", 12) == (count["type"], count["entries"])
    assert counts["entries"] == 36
    assert state_of(ran, "keyed-op", "rules")["entries"] == 5


def test_a_missing_file_hides_its_operator_and_ends_with_3(run, savepoint_copy):
    savepoint = savepoint_copy("hashmap-string-p2-m128-files")
    largest = max((file for file in savepoint.iterdir() if file.name != "_metadata"), key=lambda f: f.stat().st_size)
    largest.unlink()

    ran = run("inspect", savepoint)
    as_json = run("inspect", savepoint, "--json")

    assert (ran.status, as_json.status) == (3, 3)
    assert "damaged: see below" in ran.stdout
    assert "offsets" in ran.stdout
    assert f"the file {largest.name} is missing in " in ran.stderr
    assert operator_of(as_json, "keyed-op")["error"]["type"] == "SavepointNotFound"
    assert as_json.stderr == ""


@pytest.mark.parametrize("name", ["hashmap-account-v1", "hashmap-string-p2-m128-snappy", "rocksdb-tuple-p2-m200-files"])
def test_savepoints_of_flink_1_20_are_read(run, savepoint_of, name):
    ran = run("inspect", savepoint_of(name, version="1.20"), "--json")

    assert ran.status == 0
    assert sum(len(operator["states"]) for operator in ran.data["operators"]) > 0


def test_a_path_that_ends_in_metadata_names_the_same_savepoint(run, savepoint_of):
    folder = savepoint_of("hashmap-account-v1")

    assert run("inspect", folder / "_metadata").stdout == run("inspect", folder).stdout


def test_control_characters_in_names_do_not_reach_the_terminal(run, savepoint_copy, damage):
    savepoint = savepoint_copy("hashmap-account-v1")
    damage(savepoint / "_metadata", replace=(b"version-free", b"version\x1b[2J!"))

    ran = run("inspect", savepoint)

    assert ran.status == 0
    assert "\x1b" not in ran.stdout
    assert r"version\x1b[2J!" in ran.stdout


def test_whole_types_stand_on_several_lines_that_fit(run, savepoint_of):
    ran = run("inspect", savepoint_of("hashmap-native-string-snappy"), "--operator", "keyed-op", "--full")

    lines = ran.stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("  person "))
    text = " ".join(line.strip() for line in lines[at + 1 : at + 4])
    assert text.startswith("pojo fx.Scenarios$Person{active: boolean, address: pojo fx.Scenarios$Address{number: int,")
    assert "level: enum fx.Scenarios$Level{LOW, MIDDLE, HIGH}, name: string" in text
    assert max(len(line) for line in lines[at : at + 4]) <= 80


def test_one_state_is_shown_whole_and_alone(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--state", "account", "--json")

    (operator,) = ran.data["operators"]
    (account,) = operator["states"]
    expected = "pojo fx.evo.Account{id: long, name: string, obsolete: string, visits: int}"
    assert (0, expected) == (ran.status, account["expression"])
    assert (1.0, None) == (account["share"], account["largest_keys"])
    assert 0 < operator["share"] < 1


@pytest.mark.parametrize("option", ["--state", "--operator"])
def test_a_name_that_is_not_there_is_reported_with_those_that_are(run, savepoint_of, option):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), option, "acount")

    assert (2, "") == (ran.status, ran.stdout)
    assert "'acount'" in ran.stderr
    assert "account" in ran.stderr.replace("acount", "")


def test_keys_are_shown_only_when_asked_for(run, savepoint_of):
    folder = savepoint_of("hashmap-string-p2-m128-files")

    assert "key-1" not in run("inspect", folder, "--skew").stdout
    ran = run("inspect", folder, "--keys", "2")

    rows = [line.split() for line in ran.stdout.splitlines()]
    assert ["events", '"key-9"', "59", "1", "4,761", "31%"] in rows
    largest = state_of(run("inspect", folder, "--keys", "2", "--json"), "keyed-op", "events")["largest_keys"]
    assert (True, None, 2) == (largest["exact"], largest["unknown"], len(largest["keys"]))
    assert {"key": "key-9", "key_group": 59, "entries": 1, "bytes": 4761} == largest["keys"][0]


def test_redacted_keys_leave_their_sizes(run, savepoint_of):
    folder = savepoint_of("hashmap-string-p2-m128-files")

    ran = run("inspect", folder, "--keys", "2", "--redact")
    as_json = run("inspect", folder, "--keys", "2", "--redact", "--json")

    assert "key-9" not in ran.stdout + as_json.stdout
    assert ["events", "<redacted>", "59", "1", "4,761", "31%"] in [line.split() for line in ran.stdout.splitlines()]
    first = state_of(as_json, "keyed-op", "events")["largest_keys"]["keys"][0]
    assert {"key": None, "key_group": 59, "entries": 1, "bytes": 4761} == first


def test_keys_of_windows_and_timers_are_summed_up(run, savepoint_of):
    ran = run("inspect", savepoint_of("hashmap-windows-p2-m128"), "--keys", "1")

    rows = [line.split() for line in ran.stdout.splitlines()]
    assert ["window-contents", '"w4"', "92", "3", "135", "20%"] in rows
    assert ["_timer_state/event_window-timers", '"w4"', "92", "3", "108", "20%"] in rows


def test_keys_that_cannot_be_distinguished_are_a_note(run, tmp_path, damage):
    job = Job([Operator("op", key=Account, states=[ValueStateDescriptor("s", int)])])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "s", Account(1), 2)
    for file in (tmp_path / "sp").iterdir():
        if b"stateshift/record" in file.read_bytes():
            damage(file, replace=(b"stateshift/record", b"stateshift/recall"))

    text = run("inspect", tmp_path / "sp", "--keys", "1")
    largest = state_of(run("inspect", tmp_path / "sp", "--keys", "1", "--json"), "op", "s")["largest_keys"]

    note = "keys cannot be distinguished: the snapshot stateshift/recall"
    assert ([], note) == (largest["keys"], largest["unknown"][: len(note)])
    assert note in text.stdout


def test_skew_is_a_bar_for_each_range_and_subtask(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--operator", "account-state", "--skew")

    lines = ran.stdout.splitlines()
    assert "  200 key groups of 0 B to 247 B, median 0 B, largest 21.1 x the average" in lines
    assert ["87-99", "10", "469", "20%", "#" * 24] in [line.split() for line in lines]
    assert ["1", "100-199", "25", "1,160", "49%", "#" * 24] in [line.split() for line in lines]


def test_skew_in_json_is_numbers(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--skew", "--json")

    skew = operator_of(ran, "account-state")["skew"]
    assert {"smallest": 0, "median": 0.0, "largest": 247, "average": 11.725} == {
        name: value for name, value in skew["key_groups"].items() if name != "ranges"
    }
    assert (16, 2) == (len(skew["key_groups"]["ranges"]), len(skew["subtasks"]["ranges"]))
    assert {"first": 0, "last": 99, "entries": 25, "bytes": 1185} == skew["subtasks"]["ranges"][0]
    assert operator_of(ran, "src-events")["skew"] is None


def test_lines_fit_80_columns_where_names_allow_it(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--operator", "account-state", "--skew", "--keys", "3")

    assert [] == [line for line in ran.stdout.splitlines()[1:] if len(line) > 80 and not line.startswith("operator ")]


def test_pyspark_is_not_loaded(savepoint_of):
    code = "import atexit, sys; atexit.register(lambda: print('pyspark' in sys.modules))"
    code += "; from stateshift.cli import main; main(sys.argv[1:])"
    place = str(savepoint_of("rocksdb-account-v1"))

    ran = subprocess.run(
        [sys.executable, "-c", code, "inspect", place, "--keys", "2", "--skew"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "False" == ran.stdout.splitlines()[-1]


def test_a_long_check_is_logged_now_and_then(run, savepoint_of, monkeypatch):
    monkeypatch.setattr("stateshift.cli.progress._LOG_EVERY_S", 0)

    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--operator", "account-state", "--json")

    assert "reading account-state\n" == ran.stderr
    assert 1 == len(ran.data["operators"])


def test_a_terminal_gets_bars_in_colour_that_keep_to_its_width(savepoint_of):
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        arguments = ["inspect", str(savepoint_of("rocksdb-account-v1")), "--operator", "account-state", "--skew"]
        subprocess.run(
            [sys.executable, "-m", "stateshift", *arguments],
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"},
            check=True,
        )
        os.set_blocking(ours, False)
        text = b"".join(iter(lambda: screen.read(1 << 16), None)).decode()

    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines()
    assert any(line.rstrip().endswith("█" * 24) for line in plain)
    assert [] == [line for line in plain if len(line) > 80]


def test_a_native_savepoint_without_timers_is_warned_of_by_every_command_that_goes_on_from_it(
    run, tmp_path, savepoint_of
):
    source = savepoint_of("rocksdb-heap-timers-native-p1", version="2.3-native")
    warning = "there are no timers: Flink leaves timers that a job keeps on the heap"
    job = "from stateshift import Job, Operator\njob = Job([Operator('timers', key=str)])"
    (tmp_path / "heap_job.py").write_text(job)

    assert warning in run("inspect", source).stdout
    assert warning in run("inspect", source, "--json").data["missing_timers"]
    assert warning in run("check", source, "--job", f"{tmp_path / 'heap_job.py'}:job").stderr
    assert warning in run("plan", source).stderr
    assert warning in run("migrate", source, tmp_path / "dry", "--dry-run").stdout
    assert warning in run("migrate", source, tmp_path / "after").stdout


class WritesRaw(KeyedProcessFunction, CheckpointedFunction):
    """Has raw keyed state, or does not."""

    def __init__(self, parts, name="count"):
        self.parts, self.name = parts, name

    def initialize_state(self, context):
        context.get_keyed_state_store().get_state(ValueStateDescriptor(self.name, int))

    def snapshot_state(self, context):
        for group, data in self.parts.items():
            context.write_raw_keyed_state(group, data)

    def process_element(self, value, ctx):
        pass


@pytest.mark.parametrize("parts", [{}, {3: b"of its own"}], ids=["without", "with"])
def test_raw_keyed_state_is_restored_by_operators_that_declare_it(run, tmp_path, parts):
    place = tmp_path / "savepoint"
    KeyedProcessHarness(WritesRaw(parts), lambda value: value, int, uid="raw").snapshot(place)
    shown = run("inspect", place).stdout
    operator = operator_of(run("inspect", place, "--json"), "raw")

    assert bool(parts) == ("Flink restores it only if the operator declares its raw keyed state" in shown)
    assert bool(parts) == ("Flink-restorable" not in shown)
    assert (True, bool(parts)) == (operator["flink_restorable"], operator["custom_raw_keyed_state"])


@pytest.mark.parametrize("parts", [{}, {3: b"of its own"}], ids=["without", "with"])
def test_no_command_says_without_a_condition_that_flink_restores_raw_keyed_state(run, tmp_path, parts):
    places = [tmp_path / name for name in "ab"]
    for place, name in zip(places, ("count", "other"), strict=True):
        KeyedProcessHarness(WritesRaw(parts, name), lambda value: value, int, uid="raw").snapshot(place)
    (tmp_path / "raw_job.py").write_text(
        "from stateshift import Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('raw', key=int, states=[ValueStateDescriptor('count', int)])])\n"
    )
    job = ("--job", tmp_path / "raw_job.py:job")

    told = {
        "check": run("check", places[0], *job),
        "plan": run("plan", places[0], *job),
        "diff": run("diff", *places),
        "migrate": run("migrate", places[0], tmp_path / "target", *job),
    }

    assert {name: bool(parts) for name in told} == {
        name: "declare" in ran.stdout for name, ran in told.items()
    }, told  # fmt: skip
    assert bool(parts) == ("Flink restores the result\n" not in told["plan"].stdout)


def test_timers_on_the_heap_need_no_declaration(run, root):
    fixture = root / "tests/fixtures/flink-2.3-native/rocksdb-heap-timers-p2"
    snapshot = json.loads((fixture / "expected.json").read_text(encoding="utf-8"))["snapshot"]
    shown = run("inspect", fixture / snapshot).stdout

    assert "raw keyed state (timers that the job kept on the heap)" in shown
    assert "only if the operator declares" not in shown


def test_a_type_that_has_code_of_java_says_that_it_is_kept(run, root):
    shown = run("inspect", root / "tests/fixtures/flink-sql-2.3/rank-retract/savepoint").stdout

    assert "SortedMap<RowData<INT>, long> in the order of kept Java code" in shown
