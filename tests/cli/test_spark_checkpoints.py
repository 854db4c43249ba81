"""`spark:PLACE`: the checkpoint of a query of Spark's own operators, on the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import fastavro
import pytest
from spark_checkpoints import place


def spark(name):
    return f"spark:{place(name)}"


def test_inspect_shows_batches_sources_operators_and_types(run):
    ran = run("inspect", spark("two"))

    assert ran.status == 0
    for line in (
        "  after batch 5, the last committed one",
        "  watermark 2026-01-01 00:36:00+00:00",
        '    0: {"logOffset":2}',
        "operator 0: aggregation (stateStoreSave)",
        "    key   struct<window: struct<start: timestamp, end: timestamp>, l: string>",
        "operator 1: dropDuplicates (dedupe)",
    ):
        assert line in ran.stdout.splitlines()


def test_inspect_shows_one_operator_one_store_and_partitions(run):
    ran = run("inspect", spark("join-outer"), "--state", "left-keyWithIndexToValue", "--skew")

    assert "right-keyToNumValues" not in ran.stdout
    assert re.search(r"partition  entries  bytes  share\n +0 +1 ", ran.stdout)
    assert run("inspect", spark("two"), "--operator", "1").stdout.count("operator ") == 1


def test_inspect_as_json_has_the_documented_keys_only(run, root):
    page = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([^`\s]+)`", page.split("## stateshift inspect")[1].split("\n## ")[0]))

    data = run("inspect", spark("aggregation"), "--json").data

    assert set(data) <= told
    assert set(data["operators"][0]) <= told
    assert set(data["operators"][0]["states"][0]) <= told
    assert set(data["sources"][0]) <= told
    assert data["settings"]["spark.sql.shuffle.partitions"] == "2"


def test_export_prints_a_line_for_each_entry(run, tmp_path):
    printed = run("export", spark("aggregation")).stdout.splitlines()
    assert json.loads(printed[0]) == {
        "operator": "0", "state": "default", "kind": "value", "key": {"k": "x", "l": "a"},
        "value": {"sum": 9, "max": 10.5, "count": 3, "sum#2": 9.0, "count#2": 3},
    }  # fmt: skip

    file = tmp_path / "entries.jsonl"
    for _ in range(2):  # an earlier output is replaced
        ran = run("export", spark("aggregation"), "-o", file, "--json")
    assert file.read_text().splitlines() == printed
    assert ran.data["states"] == [{"operator": "0 (aggregation)", "state": "default", "exported": 4}]


@pytest.fixture
def of_another_provider(tmp_path):
    """A checkpoint whose state stores are of a class that is not Spark's."""
    copy = shutil.copytree(place("rocksdb"), tmp_path / "checkpoint")
    for file in (copy / "offsets").iterdir():
        file.write_text(file.read_text().replace("RocksDBStateStoreProvider", "MyProvider"))
    return f"spark:{copy}"


def test_export_of_what_is_not_read_says_so_and_ends_with_7(run, of_another_provider):
    ran = run("export", of_another_provider)
    assert (ran.status, ran.stdout) == (7, "")
    assert "left out: state 'default' of operator 0 (aggregation): entries of MyProvider are not read" in ran.stderr

    ran = run("export", of_another_provider, "--state", "default")
    assert ran.status == 3
    assert ran.stderr.startswith("UnsupportedFormat: ")


def test_variables_of_transform_with_state_are_states(run):
    shown = run("inspect", spark("transform")).stdout
    assert re.search(r"^  by_name +map ", shown, re.MULTILINE)
    assert re.search(r"^  last +value .*\n.*\n    value struct<.*> \(TTL\)$", shown, re.MULTILINE)
    assert "    value struct<value: struct<l: string>, ttlExpirationMs: bigint> (TTL)" in shown.splitlines()

    lines = [json.loads(line) for line in run("export", spark("transform")).stdout.splitlines()]
    assert {(line["state"], line["kind"]) for line in lines} == {
        ("total", "value"), ("last", "value"), ("names", "list"), ("recent", "list"), ("by_name", "map"),
        ("seen", "map"), ("$procTimers_keyToTimestamp", "timers"),
    }  # fmt: skip
    index = run("export", spark("transform"), "--state", "$procTimers_timestampToKey").stdout.splitlines()
    assert {json.loads(line)["kind"] for line in index} == {"index"}


def test_diff_of_variables(run):
    assert run("diff", spark("transform"), spark("transform-avro")).stdout.startswith("equal: 1 operator with 7 states")

    ran = run("diff", spark("transform-avro"), spark("transform-evolved"))
    assert ran.status == 1
    assert "$.value[].note  (none) -> string  the field is new" in ran.stdout  # of a list
    assert "$.value{}.value.note  (none) -> string  the field is new" in ran.stdout  # of a map with a time to live
    assert "refuse" not in ran.stdout


def test_each_format_has_the_same_entries(run, tmp_path):
    lines = [json.loads(line) for line in run("export", spark("two")).stdout.splitlines()]

    tagged = run("export", spark("two"), "--format", "tagged").data
    assert run("export", spark("two"), "--json").data == tagged
    assert ["aggregation 0", "dropDuplicates 1"] == [one["uid"] for one in tagged["operators"]]
    entries = [entry for one in tagged["operators"] for entry in one["keyed"]["default"]["entries"]]
    assert sorted(map(json.dumps, entries)) == sorted(json.dumps([line["key"], line["value"]]) for line in lines)

    file = tmp_path / "entries.avro"
    assert run("export", spark("two"), "--operator", "0", "--format", "avro", "-o", file).status == 0
    with file.open("rb") as stream:
        rows = list(fastavro.reader(stream))
    assert sorted(line["value"]["min"] for line in lines[:3]) == sorted(row["value"]["min"] for row in rows)
    assert run("export", spark("two"), "--format", "avro", "-o", file).status == 2  # it holds one state


def test_an_option_that_does_not_apply_is_refused(run):
    assert run("inspect", spark("aggregation"), "--keys", "3").status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["init"],
        ["quarantine"],
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.usefixtures("example_jobs")
def test_other_commands_refuse_it_by_name(run, arguments):
    command, *rest = arguments

    ran = run(command, spark("aggregation"), *rest)

    assert ran.status == 3
    assert f"stateshift {command} does not take checkpoints of Spark queries yet" in ran.stderr


def test_diff_compares_the_types_of_two_checkpoints_and_says_what_does_not_show(run):
    ran = run("diff", spark("aggregation"), spark("aggregation-v1"))

    assert ran.status == 1
    assert "$.value.count  bigint -> (gone)" in ran.stdout
    assert "[SPK-4] drops:$.value.count" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("of checkpoints of Spark only types are compared")

    same = run("diff", spark("two"), spark("two"))
    assert (same.status, same.stdout.splitlines()[0]) == (0, "equal: 2 operators with 2 states")


def test_diff_of_what_is_not_read_is_never_equal(run, tmp_path):
    copy = shutil.copytree(place("aggregation"), tmp_path / "checkpoint")
    (copy / "state" / "0" / "0" / "_metadata" / "schema").unlink()

    ran = run("diff", f"spark:{copy}", f"spark:{copy}")

    assert ran.status == 1
    assert ran.stdout.startswith("unclear: states of 1 operator cannot be read")


def test_a_snapshot_of_a_checkpoint_is_a_side_of_a_diff(run, tmp_path):
    file = tmp_path / "types.json"
    assert run("snapshot", spark("session"), "-o", file).status == 0

    assert run("diff", file, spark("session")).stdout.startswith("equal: 1 operator with 1 state")
    assert run("diff", file, spark("window")).status == 1
    assert run("snapshot", spark("session"), "-m", "first").status == 2  # a history is one of jobs


def test_an_unfinished_batch_and_damage_are_shown(run, tmp_path):
    copy = tmp_path / "checkpoint"
    shutil.copytree(place("aggregation"), copy)
    (copy / "offsets" / "3").write_bytes((copy / "offsets" / "2").read_bytes())
    (copy / "state" / "0" / "0" / "2.delta").write_bytes(b"LZ4Block")

    ran = run("inspect", f"spark:{copy}")

    assert ran.status == 3
    assert "batch 3 is planned and not committed" in ran.stdout
    assert "(damaged)" in ran.stdout
    assert "2.delta" in ran.stderr


def test_what_is_no_checkpoint_is_an_error(run, tmp_path):
    ran = run("inspect", f"spark:{tmp_path}")

    assert ran.status == 3
    assert "checkpointLocation" in ran.stderr
    assert f"  where: checkpoint {tmp_path}\n" in ran.stderr


def test_neither_spark_nor_java_is_loaded():
    code = (
        "import sys; from stateshift.cli import main\n"
        f"try: main(['export', {spark('types')!r}])\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


CHANGES = ["--rename-field", "0:value.sum=value.sum", "--fill", "0:value.max=null", "--fill", "0:value.count=0",
           "--fill", "0:value.sum#2=0.0", "--fill", "0:value.count#2=0"]  # fmt: skip


def test_migrate_writes_a_copy_and_says_what_it_did(run, root, tmp_path):
    page = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([^`\s]+)`", page.split("## stateshift migrate")[1].split("\n## ")[0]))
    given = [spark("checksums"), f"spark:{tmp_path / 'new'}", "--like", spark("aggregation"), *CHANGES]

    planned = run("migrate", *given, "--dry-run")
    assert planned.status == 0
    assert not (tmp_path / "new").exists()
    ran = run("migrate", *given, "--json")

    assert set(ran.data) <= told
    assert set(ran.data["query"]) <= told
    assert set(ran.data["states"][0]) <= told
    assert ran.data["states"][0]["written"] == 4
    assert "$.value.count  (none) -> bigint  it is new: 0  [SPK-3]" in planned.stdout
    assert run("export", f"spark:{tmp_path / 'new'}").stdout.count('"count": 0, "sum#2": 0.0') == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "--like", spark("aggregation")], "write spark:new"),
        (["spark:new"], "--like spark:PROBE"),
        (["spark:new", "--like", spark("aggregation"), "--parallelism", "3"], "does not take --parallelism"),
        (["spark:new", "--job", "accounts_v1:job"], "does not take --job"),
        (["spark:new", "--like", spark("aggregation"), "--fill", "0:value.x=y"], "is no JSON"),
        (["spark:new", "--like", spark("aggregation"), "--fill", "value.x=1"], "OPERATOR:PATH"),
    ],
)
def test_a_migration_that_is_called_wrongly_says_how(run, arguments, said):
    ran = run("migrate", spark("aggregation"), *arguments)

    assert ran.status == 2
    assert said in ran.stderr


def test_a_plan_is_followed_as_it_stands_and_refused_where_it_would_do_something_else(run, tmp_path):
    plan, new = tmp_path / "plan.json", f"spark:{tmp_path / 'new'}"
    checkpoint = shutil.copytree(place("checksums"), tmp_path / "old")
    likewise = ["--like", spark("aggregation"), *CHANGES]

    planned = run("plan", f"spark:{checkpoint}", *likewise, "-o", plan)
    again = run("plan", f"spark:{checkpoint}", *likewise, "-o", "-").data
    text = plan.read_text()
    refused = run("migrate", f"spark:{checkpoint}", new, "--plan", plan, "--fill", "0:value.count=1")
    plan.write_text(text.replace('"0:value.count=0"', '"0:value.count=1"'))
    edited = run("migrate", f"spark:{checkpoint}", new, "--plan", plan)
    plan.write_text(text)
    elsewhere = run("migrate", spark("checksums"), new, "--plan", plan)
    for_savepoints = run("migrate", "savepoint", "new", "--plan", plan)

    assert (planned.status, refused.status, edited.status) == (0, 2, 1), edited.stderr
    assert f"next: have it reviewed; then stateshift migrate spark:{checkpoint} spark:NEW --plan {plan}" in (
        " ".join(planned.stdout.split())
    )
    assert again == json.loads(text)
    assert "--fill differs from the plan" in refused.stderr
    assert "options: they were edited after the plan was made" in " ".join(edited.stderr.split())
    assert "source: " in elsewhere.stderr
    assert (for_savepoints.status, "is the plan for spark:" in for_savepoints.stderr) == (2, True)
    assert not (tmp_path / "new").exists()
    assert (
        run("migrate", f"spark:{checkpoint}", new, "--plan", plan, "--json").data["query"]["content_sha256"]
        == again["summary"]["query"]["content_sha256"]
    )
    assert run("export", new).stdout.count('"count": 0, "sum#2": 0.0') == 4
    assert run("verify", new).status == 0


def test_a_plan_file_of_the_first_shape_is_followed_and_compared_as_it_was(run, tmp_path):
    plan, likewise = tmp_path / "plan.json", ["--like", spark("aggregation"), *CHANGES]
    now = run("plan", spark("checksums"), *likewise, "--json").data
    summary = {name: of for name, of in now["summary"]["query"].items() if name not in {"operators", "warnings"}}
    former = now | {
        "summary": summary | {"decision": "migrate", "dropped_operators": []},
        "rollback": {"source": "until the new query has committed a batch"},
        "operators": [
            {
                "operator_id": "0",
                "uid": "0 (aggregation)",
                "states": [{"name": "default", "kind": "value", "action": "convert", "notes": ["value.max is new"]}],
            }
        ],
    }

    plan.write_text(json.dumps(former).replace('"convert"', '"copy"'))
    edited = run("migrate", spark("checksums"), f"spark:{tmp_path / 'new'}", "--plan", plan)
    plan.write_text(json.dumps(former))
    followed = run("migrate", spark("checksums"), f"spark:{tmp_path / 'new'}", "--plan", plan)

    assert (edited.status, followed.status) == (1, 0), followed.stderr
    assert "operator 0 (aggregation), state default: action: copy in the plan, convert here" in (
        " ".join(edited.stderr.split())
    )
