"""`stateshift diff` and `stateshift snapshot`: what they print, and the status they leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import attrs
import pytest

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
)
from stateshift.cli.render.difference import text_lines
from stateshift.compat.difference import compare
from stateshift.compat.type_difference import Kind
from stateshift.state.savepoint import value_difference
from stateshift.state.testing import migrate_in_process

HERE = Path(__file__).parent


def test_a_finding_stands_under_its_own_field_and_not_under_one_whose_name_it_begins_with():
    def job(of):
        row = attrs.make_class("Row", {name: attrs.field(type=of) for name in ("page", "pages", "page_2")})
        return Job([Operator("o", key=int, states=[ValueStateDescriptor("s", row)])]).describe()

    lines = ["".join(text for text, _ in line) for line in text_lines(compare(job(Int32), job(int)))]

    assert ["$.page", "$.page_2", "$.pages"] == sorted(line.split()[1] for line in lines if line.startswith("    ~"))
    assert not [line for line in lines if line.startswith(" " * 8)]


@pytest.mark.usefixtures("example_jobs")
class TestDiff:
    """Any two of savepoint, job and recorded snapshot."""

    def test_a_savepoint_and_the_job_that_wrote_it_are_equal(self, run, savepoint_of):
        ran = run("diff", savepoint_of("rocksdb-account-v1"), "accounts_v1:job")

        assert (0, "") == (ran.status, ran.stderr)
        assert "equal: 2 operators with 5 states" == ran.stdout.splitlines()[0]

    def test_every_change_is_one_line_and_both_directions_are_judged(self, run, savepoint_of):
        ran = run("diff", savepoint_of("rocksdb-account-v1"), "accounts_v3:job")

        lines = ran.stdout.splitlines()
        account = lines[lines.index("  account  value  fx.evo.Account") :][1:8]
        assert (1, "") == (ran.status, ran.stderr)
        assert "different: 4 of 5 states" == lines[0]
        assert [
            "    - $.obsolete  string",
            "    + $.email     string",
            "    + $.score     double",
            "    ~ $.visits    int -> long",
            "    A -> B: migrate  drops:$.obsolete possible_rename:obsolete->email",
            "    B -> A: refuse",
            "      $.visits  long -> int  a stored long may not fit an int  [PRIM-3]",
        ] == account

    def test_json_holds_the_same(self, run):
        ran = run("diff", "accounts_v1:job", "accounts_v4:job", "--json")

        states = {state["name"]: state for operator in ran.data["operators"] for state in operator["states"]}
        assert (1, 1) == (ran.status, ran.data["exit_status"])
        assert ("job accounts_v1:job", "migrate", "refuse") == (
            ran.data["a"], ran.data["forwards"], ran.data["backwards"],
        )  # fmt: skip
        assert [{"path": "$.title", "kind": "renamed", "a": "name", "b": "title", "what": None}] == states["account"][
            "changes"
        ]
        assert states["version-free"]["equal"]

    def test_a_recorded_snapshot_stands_for_what_it_was_taken_of(self, run, savepoint_of, tmp_path):
        savepoint, file = savepoint_of("rocksdb-account-v1"), tmp_path / "state.json"
        run("snapshot", savepoint, "-o", file)

        same, other = run("diff", file, savepoint), run("diff", file, "accounts_v3:job")
        direct = run("diff", savepoint, "accounts_v3:job")

        assert (0, 1) == (same.status, other.status)
        assert f"  A  {file}, recorded from savepoint {savepoint}" in other.stdout.splitlines()
        assert direct.stdout.splitlines()[3:] == other.stdout.splitlines()[3:]

    def test_two_savepoints_need_no_classes(self, run, savepoint_of):
        ran = run("diff", savepoint_of("hashmap-account-v1"), savepoint_of("hashmap-account-v2"))

        assert 1 == ran.status
        assert "    + $.score     double" in ran.stdout.splitlines()

    def test_another_max_parallelism_is_reported(self, run, savepoint_of):
        ran = run("diff", savepoint_of("hashmap-zoo-p1-m128"), savepoint_of("rocksdb-zoo-p1-m200"))

        lines = ran.stdout.splitlines()
        assert (1, "different: 41 states are equal, their operators are not") == (ran.status, lines[0])
        assert "  max parallelism  128 -> 200" in lines

    def test_sides_without_a_common_state_say_so(self, run, savepoint_of):
        ran = run("diff", savepoint_of("hashmap-zoo-p1-m128"), "accounts_v1:job")

        assert 1 == ran.status
        assert "  A and B have no state in common" in ran.stdout.splitlines()

    def test_what_cannot_be_read_is_neither_equal_nor_different(self, run, savepoint_copy, damage):
        folder = savepoint_copy("hashmap-windows-p2-m128")
        damage(folder / "_metadata", replace=(b"TimeWindow$Serializer", b"TimeWindow$Serializex"))

        ran, recorded = run("diff", folder, folder), run("snapshot", folder, "-o", "state.json")

        assert (1, "unclear: states of 2 operators cannot be read") == (ran.status, ran.stdout.splitlines()[0])
        assert "  what to do: import the module that registers the class (--import MODULE)" in ran.stdout.splitlines()
        assert 2 == recorded.stderr.count("not all of its state can be read and recorded: the snapshot class")

    @pytest.mark.parametrize(
        ("side", "status", "message"),
        [
            (
                "nothing",
                2,
                "'nothing' does not exist; give a savepoint's folder or URI, a job as MODULE:ATTRIBUTE, or a",
            ),
            ("", 2, "a side is empty"),
            ("nothing:job", 2, "the module 'nothing' cannot be imported"),
            (".", 3, "there is no savepoint in"),
            ("accounts_v1.py", 3, "not valid JSON"),
            ("file:/nowhere/state.json", 3, "there is no file state.json"),
        ],
    )
    def test_a_side_that_is_none_of_the_three_is_reported(self, run, side, status, message):
        ran = run("diff", side, "accounts_v1:job")

        assert status == ran.status
        assert message in ran.stderr
        assert "Traceback" not in ran.stderr


def test_diff_reads_well(run, job_folder):
    """K16: one change of each kind; STATESHIFT_RECORD=1 rewrites the text, for a person to read."""
    text = HERE / "differing" / "diff.txt"
    for name in ("shop_1.py", "shop_2.py"):
        shutil.copy(HERE / "differing" / name, job_folder / name)
    ran, data = run("diff", "shop_1:job", "shop_2:job"), run("diff", "shop_1:job", "shop_2:job", "--json").data
    if os.environ.get("STATESHIFT_RECORD"):
        text.write_text(ran.stdout, encoding="utf-8")

    states = [state for operator in data["operators"] for state in operator["states"]]
    of_sql = {Kind.VALUES}  # tests/cli/test_sql_plans.py
    assert set(Kind) - of_sql == {change["kind"] for state in states for change in state["changes"]}
    assert (1, text.read_text(encoding="utf-8")) == (ran.status, ran.stdout)


def test_a_savepoint_and_its_migration_show_values_before_and_after(run, savepoint_of, tmp_path):
    job = tmp_path / "accounts_of_two.py"
    job.write_text(
        "import attrs\n"
        "from stateshift import Job, MapStateDescriptor, Operator, ValueStateDescriptor, record\n"
        "@record(java_class='fx.evo.Account')\n"
        "@attrs.frozen\n"
        "class Account:\n    id: int\n    name: str\n    visits: int\n"
        "states = [ValueStateDescriptor('account', Account), MapStateDescriptor('account-by-name', str, Account)]\n"
        "job = Job([Operator('account-state', key=int, states=states)])\n",
        encoding="utf-8",
    )
    before, after = savepoint_of("rocksdb-account-v1"), tmp_path / "after"
    assert 0 == run("migrate", before, after, "--job", f"{job}:job").status

    ran = run("diff", before, after, "--json")
    told, redacted = run("diff", before, after), run("diff", before, after, "--redact")

    values = {one["state"]: one for one in ran.data["values"]}
    one, by_name = values["account"], values["account-by-name"]
    assert (1, 10, 10, "") == (ran.status, one["entries"], one["changed"], one["not_compared"])
    assert (20, 20, 0, 0) == (by_name["entries"], by_name["changed"], by_name["added"], by_name["removed"])
    assert {
        "what": "changed",
        "key": "-23",
        "a": "Account(id=1, name='acc1', obsolete='old1', visits=3)",
        "b": "Account(id=1, name='acc1', visits=3)",
    } in one["first"]
    assert "~ -23  Account(id=1, name='acc1', obsolete='old1', visits=3) -> Account(id=1, " in told.stdout
    assert "acc1" not in redacted.stdout


def test_a_map_whose_keys_changed_their_type_is_compared_only_through_its_migration(run, savepoint_builder, tmp_path):
    def job(key):
        return Job([Operator("o", key=int, states=[MapStateDescriptor("m", key, str)])])

    old = savepoint_builder(job(Int32), {"o/m": {1: {2: "a"}}})
    new = migrate_in_process(old, tmp_path / "new", job(int))
    other = savepoint_builder(job(int), {"o/m": {1: {2: "a"}}})

    told = run("diff", old.place, new.place, "--json").data
    (values,) = told["values"]
    assert (told["equal"], told["converted_by"]) == (False, f"the types of {new.place}")
    assert ("", 0, 1) == (values["not_compared"], values["changed"], values["entries"])
    told = run("diff", old.place, other.place, "--json").data
    (values,) = told["values"]
    assert ("the types differ", 0, None) == (values["not_compared"], values["changed"], told["converted_by"])


def test_a_recorded_snapshot_is_the_same_for_the_same_types(run, savepoint_of, tmp_path):
    for file in ("one.json", "two.json"):
        assert 0 == run("snapshot", savepoint_of("hashmap-windows-p2-m128"), "-o", tmp_path / file).status

    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_snapshot_without_a_file_goes_to_stdout(run, savepoint_of):
    ran = run("snapshot", savepoint_of("rocksdb-account-v1"))

    assert "stateshift snapshot" == json.loads(ran.stdout)["format"]


@pytest.mark.usefixtures("example_jobs")
def test_what_was_recorded_is_reported(run, tmp_path):
    file = tmp_path / "state.json"

    text = run("snapshot", "--job", "accounts_v3:job", "-o", file)
    data = run("snapshot", "--job", "accounts_v3:job", "-o", file, "--json").data

    assert f"written: {file}: 2 operators with 5 states, of job accounts_v3:job\n" == text.stdout
    assert (str(file), "job accounts_v3:job", 2, 5) == (
        data["file"], data["origin"], data["operators"], data["states"],
    )  # fmt: skip
    assert json.loads(file.read_text(encoding="utf-8"))["sha256"] == data["sha256"]


@pytest.mark.parametrize("arguments", [[], ["sp", "--job", "a:b"]])
def test_one_thing_is_recorded(run, arguments):
    ran = run("snapshot", *arguments)

    assert 2 == ran.status
    assert "either SAVEPOINT or --job MODULE:ATTRIBUTE" in ran.stderr


def test_a_huge_file_is_not_read(run, tmp_path):
    file = tmp_path / "state.json"
    with file.open("wb") as stream:
        stream.truncate(65 << 20)

    ran = run("diff", file, file)

    assert 3 == ran.status
    assert "but files of its kind have at most" in ran.stderr


def test_diff_loads_no_spark(savepoint_of, root):
    program = (
        "import atexit, sys\n"
        "from stateshift.cli import main\n"
        "heavy = ('pyspark', 'py4j', 'pandas', 'rich', 'fastavro')\n"
        "atexit.register(lambda: print('loaded', [name for name in heavy if name in sys.modules]))\n"
        f"main(['diff', {str(savepoint_of('rocksdb-account-v1'))!r}, 'accounts_v3:job'])\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "examples", capture_output=True, text=True, check=False
    )

    assert 1 == ran.returncode
    assert "loaded []" == ran.stdout.splitlines()[-1]


STATES = [ValueStateDescriptor("s", str), MapStateDescriptor("m", str, set[str]), ListStateDescriptor("l", int)]
DECLARED = Job([
    Operator("o", key=int, states=STATES, list_states=[ListStateDescriptor("e", int)]),
    Operator("empty", key=str, states=[ValueStateDescriptor("s", int)]),
])  # fmt: skip


def written(place, count=300, parallelism=1, max_parallelism=16, change=lambda number: f"v{number}", elements=(1, 2)):
    with SavepointWriter(place, DECLARED, parallelism=parallelism, max_parallelism=max_parallelism) as writer:
        for number in range(count):
            writer.put("o", "s", number, change(number))
            writer.put("o", "m", number, {"a": {"x", "y"}, "b": set()})
            writer.put("o", "l", number, [number, 1])
        for element in elements:
            writer.add("o", "e", element)
    return place


class TestValues:
    """Of two savepoints the values are compared, too."""

    @pytest.mark.parametrize("held", [64 << 20, 300])
    def test_equal_means_equal_whatever_the_parallelism(self, run, tmp_path, monkeypatch, held):
        monkeypatch.setattr(value_difference, "HELD_BYTES", held)
        one, other = written(tmp_path / "a"), written(tmp_path / "b", parallelism=3, elements=(2, 1))

        ran = run("diff", one, other)

        assert (0, "equal: 2 operators with 5 states") == (ran.status, ran.stdout.splitlines()[0])
        assert "values: equal in 5 states, with 1,202 entries" == ran.stdout.splitlines()[-1]

    def test_entries_of_broadcast_maps_are_compared_one_by_one(self, run, tmp_path):
        job = Job([Operator("o", broadcast_states=[MapStateDescriptor("b", str, int)])])
        for name, value in (("a", 2), ("b", 3)):
            with SavepointWriter(tmp_path / name, job, parallelism=2) as writer:
                writer.put_broadcast("o", "b", "x", 1)
                writer.put_broadcast("o", "b", "y", value)

        lines = run("diff", tmp_path / "a", tmp_path / "b").stdout.splitlines()
        equal = run("diff", tmp_path / "a", tmp_path / "a").stdout.splitlines()

        assert ["values of o/b: 0 changed, 1 added, 1 removed", "  - ['y', 2]", "  + ['y', 3]"] == lines[-3:]
        assert "values: equal in 1 state, with 2 entries" == equal[-1]

    @pytest.mark.parametrize("held", [64 << 20, 300])
    def test_what_was_changed_added_and_removed_is_counted_and_the_first_are_shown(
        self, run, tmp_path, monkeypatch, held
    ):
        monkeypatch.setattr(value_difference, "HELD_BYTES", held)
        one = written(tmp_path / "a", count=301)
        other = written(
            tmp_path / "b", change=lambda number: "new" if number % 60 == 7 else f"v{number}", elements=(1, 5)
        )

        ran, told = run("diff", one, other), run("diff", one, other, "--json")

        lines = ran.stdout.splitlines()
        assert (1, "different: the types are equal, values of 4 states are not") == (ran.status, lines[0])
        assert "values of o/s: 5 changed, 0 added, 1 removed" in lines
        assert "  … and 3 more" in lines
        assert "values of o/m: 0 changed, 0 added, 2 removed" in lines
        assert "  - 300, 'a'  frozenset({'x', 'y'})" in [line.replace("{'y', 'x'}", "{'x', 'y'}") for line in lines]
        assert {"  + 5", "  - 2"} < set(lines)
        states = {(one["uid"], one["state"]): one for one in told.data["values"]}
        assert not told.data["equal"]
        assert (301, 5, 0, 1) == tuple(states["o", "s"][name] for name in ("entries", "changed", "added", "removed"))
        assert {"'v7' -> 'new'"} >= {f"{c['a']} -> {c['b']}" for c in states["o", "s"]["first"] if c["key"] == "7"}
        assert states["empty", "s"]["equal"]

    def test_types_only_reads_no_entries(self, run, tmp_path):
        one, other = written(tmp_path / "a"), written(tmp_path / "b", change=str)

        ran = run("diff", one, other, "--types-only", "--json")

        assert (0, True, None) == (ran.status, ran.data["equal"], ran.data["values"])

    def test_what_cannot_be_compared_is_said_and_is_not_equal(self, run, tmp_path):
        ran = run("diff", written(tmp_path / "a"), written(tmp_path / "b", max_parallelism=32))

        assert 1 == ran.status
        names = "empty/s, o/l, o/m, o/s"
        assert f"values of {names}: not compared, since the numbers of key groups differ" in ran.stdout.splitlines()

    @pytest.mark.parametrize("name", ["hashmap-zoo-p1-m128", "hashmap-windows-p2-m128", "hashmap-long-p2-m128-snappy"])
    def test_what_flink_wrote_is_equal_to_itself_and_to_what_a_migration_copies(
        self, run, savepoint_of, tmp_path, name
    ):
        place = savepoint_of(name)
        migrate_in_process(Savepoint.open(place), tmp_path / "new", None, MigrationOptions(parallelism=3))

        assert (0, 0) == (run("diff", place, place).status, run("diff", place, tmp_path / "new").status)

    def test_values_that_python_takes_for_equal_are_two(self, run, tmp_path):
        job = Job(
            [Operator("o", key=int, states=[ValueStateDescriptor("d", Decimal), ValueStateDescriptor("f", float)])]
        )
        for name, amount, zero in (("a", "1.5", 0.0), ("b", "1.50", -0.0)):
            with SavepointWriter(tmp_path / name, job) as writer:
                writer.put("o", "d", 1, Decimal(amount))
                writer.put("o", "f", 1, zero)

        lines = run("diff", tmp_path / "a", tmp_path / "b").stdout.splitlines()

        assert {"  ~ 1  Decimal('1.5') -> Decimal('1.50')", "  ~ 1  0.0 -> -0.0"} < set(lines)

    def test_a_damaged_side_is_reported_as_such(self, run, tmp_path, damage):
        written(tmp_path / "a", count=3000)
        other = written(tmp_path / "b", count=3000)
        file = next(file for file in sorted(other.iterdir()) if "keyed" in file.name)
        damage(file, cut=40)

        assert 3 == run("diff", tmp_path / "a", other).status
